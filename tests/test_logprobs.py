"""Chunked log-probs against log_softmax in float64: values, gradients, and how many logits exist at once."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from rlmlib.training.logprobs import target_logprobs

ROWS, WIDTH, VOCAB, TEMPERATURE = 23, 6, 31, 0.7


def case(dtype=torch.float64, seed=0, rows=ROWS):
    """(hidden [N, H], head [V, H], targets [N]); some tokens are nearly certain."""
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(rows, WIDTH, generator=generator, dtype=torch.float64)
    hidden[::4] *= 8
    head = torch.randn(VOCAB, WIDTH, generator=generator, dtype=torch.float64)
    targets = torch.randint(VOCAB, (rows,), generator=generator)
    targets[::4] = (hidden @ head.T).argmax(1)[::4]
    return hidden.to(dtype).requires_grad_(), head.to(dtype).requires_grad_(), targets


def plain(hidden, head, targets, temperature=TEMPERATURE):
    """The same from all logits at once, in float64."""
    distribution = (hidden.double() @ head.double().T / temperature).log_softmax(-1)
    return distribution.gather(1, targets[:, None]).squeeze(1), -(distribution.exp() * distribution).sum(-1)


@pytest.mark.parametrize("chunk", [1, 7, 22, 23, 1000])
@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.0])
def test_values_are_those_of_log_softmax(chunk, temperature):
    found, wanted = target_logprobs(*case(), temperature, chunk), plain(*case(), temperature)
    assert all(torch.allclose(f, w, rtol=1e-12, atol=1e-12) for f, w in zip(found, wanted, strict=True))


@pytest.mark.parametrize("chunk", [5, 1000])
def test_gradients_are_those_of_finite_differences(chunk):
    hidden, head, targets = case(rows=7)
    assert torch.autograd.gradcheck(lambda h, w: target_logprobs(h, w, targets, TEMPERATURE, chunk)[0], (hidden, head))


def gradients(function, dtype):
    hidden, head, targets = case(dtype)
    weights = torch.linspace(-1, 1, len(targets))
    (function(hidden, head, targets)[0] * weights).sum().backward()
    return hidden.grad.double(), head.grad.double()


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_chunk_size_does_not_change_the_gradients(chunk):
    found = gradients(lambda *a: target_logprobs(*a, TEMPERATURE, chunk), torch.float64)
    assert all(torch.allclose(f, w, rtol=1e-10) for f, w in zip(found, gradients(plain, torch.float64), strict=True))


@pytest.mark.parametrize(("dtype", "value", "slope"), [(torch.float32, 1e-4, 1e-4), (torch.bfloat16, 1e-4, 2e-2)])
def test_lower_precision_stays_close_to_the_exact_result_of_its_inputs(dtype, value, slope):
    """bfloat16 weights and hidden states lose nothing but the rounding of the gradients themselves."""
    inputs = case(dtype)
    found, wanted = target_logprobs(*inputs, TEMPERATURE, 7), plain(*inputs)
    assert all(f.dtype == torch.float32 and (f - w).abs().max() < value for f, w in zip(found, wanted, strict=True))
    exact = gradients(plain, dtype)
    for ours, theirs in zip(gradients(lambda *a: target_logprobs(*a, TEMPERATURE, 7), dtype), exact, strict=True):
        assert (ours - theirs).norm() < slope * theirs.norm()


def test_gradient_of_a_nearly_certain_token_survives_bfloat16():
    """1 - p is taken in float32: in bfloat16 a p of 0.999 is 1, and the gradient would be 0 or twice as large."""
    hidden, head = torch.tensor([[7.0]]).bfloat16().requires_grad_(), torch.tensor([[1.0], [0.0]]).bfloat16()
    target_logprobs(hidden, head, torch.tensor([0]), 1.0, 8)[0].sum().backward()
    assert hidden.grad.item() == pytest.approx(1 - torch.tensor(7.0).sigmoid().item(), rel=5e-3)


def test_entropies_carry_no_gradient():
    assert not target_logprobs(*case(), TEMPERATURE, 7)[1].requires_grad


def test_frozen_head_gets_no_gradient():
    hidden, head, targets = case()
    target_logprobs(hidden, head.detach(), targets, TEMPERATURE, 7)[0].sum().backward()
    assert head.grad is None and hidden.grad is not None


def test_no_tokens_at_all():
    hidden, head, targets = case()
    logprobs, entropies = target_logprobs(hidden[:0], head, targets[:0], TEMPERATURE, 7)
    (logprobs.sum() + hidden.sum()).backward()
    assert len(logprobs) == len(entropies) == 0 and head.grad.abs().max() == 0


class LargestRows(TorchDispatchMode):
    """The most rows of any tensor that is as wide as the vocabulary, and how many of them were made."""

    def __init__(self):
        super().__init__()
        self.rows = self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(tensor, torch.Tensor) and tensor.dim() == 2 and tensor.shape[1] == VOCAB and tensor.shape[0] != WIDTH:
                self.rows, self.count = max(self.rows, tensor.shape[0]), self.count + 1
        return result


@pytest.mark.parametrize("chunk", [1, 8])
def test_no_more_logits_than_asked_for_exist_forward_or_backward(chunk):
    hidden, head, targets = case()
    with LargestRows() as forward:
        logprobs, _ = target_logprobs(hidden, head, targets, TEMPERATURE, chunk)
    with LargestRows() as backward:
        logprobs.sum().backward()
    assert forward.rows == backward.rows == chunk
    assert forward.count >= ROWS // chunk and backward.count >= ROWS // chunk  # of every chunk: they were seen
    with LargestRows() as whole:
        plain(hidden, head, targets)
    assert whole.rows == ROWS


def test_nothing_as_large_as_the_logits_is_kept_for_the_backward_pass():
    kept = []
    hidden, head, targets = case()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.numel()) or t, lambda t: t):
        target_logprobs(hidden, head, targets, TEMPERATURE, 8)
    assert kept and max(kept) == head.numel() < ROWS * VOCAB
