"""Log-probs of chosen tokens from hidden states, without the logits of all positions at once.

A vocabulary of 150,000 makes one position's float32 logits 0.6 MB. So they are made for some rows at a time, and again in the
backward pass, where each chunk gives its share of the gradients and is gone.

    z = h @ W.T / temperature        logprob = z[target] - logsumexp(z)        entropy = logsumexp(z) - sum(softmax(z) * z)
"""

import torch
from torch.autograd.function import once_differentiable


def target_logprobs(hidden, head, targets, temperature: float, rows_at_once: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(log-probs [N], entropies [N] in nats) of target tokens [N], from hidden states [N, H] and head weights [V, H].

    Both are float32, or float64 where the hidden states are; sums run in that precision. Entropies carry no gradient.
    """
    return _TargetLogprobs.apply(hidden, head, targets, temperature, rows_at_once)


class _TargetLogprobs(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, head, targets, temperature, rows_at_once):
        parts = [slice(start, start + rows_at_once) for start in range(0, len(targets), rows_at_once)]
        exact = torch.promote_types(hidden.dtype, torch.float32)
        logprobs, entropies, normalisers = (hidden.new_empty(len(targets), dtype=exact) for _ in range(3))
        for part in parts:
            logits = _logits(hidden[part], head, temperature)
            highest = logits.amax(1, keepdim=True)
            shifted = logits.sub_(highest)
            chosen = shifted.gather(1, targets[part, None]).squeeze(1)
            weights = shifted.exp()
            total = weights.sum(1)
            mean = weights.mul_(shifted).sum(1).div_(total)
            logprobs[part] = chosen - total.log()
            entropies[part] = total.log() - mean
            normalisers[part] = total.log() + highest.squeeze(1)
        ctx.save_for_backward(hidden, head, targets, normalisers)
        ctx.temperature, ctx.parts = temperature, parts
        ctx.mark_non_differentiable(entropies)
        return logprobs, entropies

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient, _):
        hidden, head, targets, normalisers = ctx.saved_tensors
        wants_hidden, wants_head = ctx.needs_input_grad[:2]
        of_hidden = torch.empty_like(hidden) if wants_hidden else None
        of_head = torch.zeros_like(head, dtype=gradient.dtype) if wants_head else None
        for part in ctx.parts:
            scale = gradient[part, None] / -ctx.temperature
            # d logprob / d z = one-hot(target) - softmax(z); the difference is taken before it is rounded
            slope = _logits(hidden[part], head, ctx.temperature).sub_(normalisers[part, None]).exp_()
            slope.scatter_add_(1, targets[part, None], slope.new_full((len(slope), 1), -1.0))
            slope = slope.to(hidden.dtype)
            if wants_hidden:
                of_hidden[part] = _product(slope, head).mul_(scale)
            if wants_head:
                of_head += _product(slope.T, (hidden[part] * scale).to(hidden.dtype))
        return of_hidden, of_head.to(head.dtype) if wants_head else None, None, None, None


def _logits(hidden, head, temperature: float) -> torch.Tensor:
    if _sums_in_float32(hidden, head):
        return _product(hidden, head.T).div_(temperature)
    return _product(_exact(hidden) / temperature, head.T)  # H numbers a row are divided, and not V


def _product(a, b) -> torch.Tensor:
    """a @ b, summed and given in float32, or in float64 where both are: half-precision logits would be off by hundredths."""
    if _sums_in_float32(a, b):
        return torch.mm(a, b, out_dtype=torch.float32)
    return _exact(a) @ _exact(b)


def _sums_in_float32(a, b) -> bool:
    """Whether the device multiplies these half-precision matrices into a float32 one."""
    return a.is_cuda and a.dtype == b.dtype == torch.bfloat16


def _exact(tensor) -> torch.Tensor:
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))
