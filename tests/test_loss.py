"""The IPO-masked loss against a second implementation in float64, and its sum over micro-batches."""

import math
import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support import VOCAB, bare_policy

from rlmlib.config import Training
from rlmlib.models.conversation import TokenSequence
from rlmlib.training.loss import MAX_LOG_RATIO, ipo_masked_loss
from rlmlib.training.step import TrainItem, accumulate, micro_batches, update

logprob = st.floats(-12, -1e-3)
tokens = st.lists(st.tuples(logprob, logprob, st.floats(-1, 1)), min_size=1, max_size=20)


def columns(rows, dtype=torch.float64):
    trainer, sampler, advantage = (torch.tensor(column, dtype=dtype) for column in zip(*rows, strict=True))
    return trainer.requires_grad_(), sampler, advantage


def by_hand(rows, total, threshold, kl_tau):
    """(loss, d loss / d trainer log-prob) in plain Python, from the formula of the study."""
    loss, gradient = 0.0, []
    for a, b, advantage in rows:
        slope = 2 * kl_tau * (a - b)
        loss += kl_tau * (a - b) ** 2
        if abs(math.exp(a) - math.exp(b)) <= threshold:
            rho = math.exp(min(a - b, MAX_LOG_RATIO))
            loss -= advantage * rho
            slope -= advantage * rho if a - b <= MAX_LOG_RATIO else 0.0
        gradient.append(slope / total)
    return loss / total, gradient


@given(tokens, st.integers(0, 30), st.floats(0.01, 0.9), st.floats(0, 0.1))
def test_loss_is_that_of_the_formula(rows, more, threshold, kl_tau):
    total = len(rows) + more
    loss, _ = ipo_masked_loss(*columns(rows), total, threshold, kl_tau)
    assert loss.item() == pytest.approx(by_hand(rows, total, threshold, kl_tau)[0], rel=1e-9, abs=1e-12)


@given(tokens, st.floats(0.01, 0.9), st.floats(0, 0.1))
def test_gradient_is_that_of_the_formula(rows, threshold, kl_tau):
    trainer, sampler, advantage = columns(rows)
    ipo_masked_loss(trainer, sampler, advantage, len(rows), threshold, kl_tau)[0].backward()
    assert trainer.grad.tolist() == pytest.approx(by_hand(rows, len(rows), threshold, kl_tau)[1], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("advantage", [1.0, -1.0])
@pytest.mark.parametrize(("trainer", "sampler"), [(0.9, 0.5), (0.5, 0.9)], ids=["risen", "fallen"])
def test_moved_token_is_dropped_whatever_the_sign(advantage, trainer, sampler):
    a, b, adv = columns([(math.log(trainer), math.log(sampler), advantage)])
    ipo_masked_loss(a, b, adv, 1, 0.2, 0.0)[0].backward()
    assert a.grad.item() == 0.0


@pytest.mark.parametrize("advantage", [1.0, -1.0])
@pytest.mark.parametrize(("trainer", "sampler"), [(0.65, 0.5), (0.5, 0.65)], ids=["risen", "fallen"])
def test_token_within_the_threshold_is_kept_whatever_the_sign(advantage, trainer, sampler):
    a, b, adv = columns([(math.log(trainer), math.log(sampler), advantage)])
    ipo_masked_loss(a, b, adv, 1, 0.2, 0.0)[0].backward()
    assert a.grad.item() == pytest.approx(-advantage * trainer / sampler)


def test_dropped_tokens_still_pay_the_kl_term():
    a, b, adv = columns([(math.log(0.9), math.log(0.5), 1.0)])
    loss, _ = ipo_masked_loss(a, b, adv, 1, 0.2, 0.5)
    assert loss.item() == pytest.approx(0.5 * math.log(0.9 / 0.5) ** 2)


@given(tokens)
def test_without_advantage_only_the_kl_term_is_left(rows):
    rows = [(a, b, 0.0) for a, b, _ in rows]
    loss, _ = ipo_masked_loss(*columns(rows), len(rows), 0.2, 1e-3)
    assert loss.item() == pytest.approx(1e-3 * sum((a - b) ** 2 for a, b, _ in rows) / len(rows))


def test_at_equal_weights_the_gradient_is_minus_the_advantage():
    trainer, sampler, advantage = columns([(-1.0, -1.0, 0.5), (-2.0, -2.0, -0.25)])
    ipo_masked_loss(trainer, sampler, advantage, 2, 0.2, 1e-3)[0].backward()
    assert trainer.grad.tolist() == pytest.approx([-0.25, 0.125])


@pytest.mark.parametrize("advantage", [1.0, -1.0, 0.0])
@pytest.mark.parametrize("pair", [(-1e-6, -1e4), (-1e4, -1e-6), (-30.0, -1e4), (-1e4, -30.0), (-90.0, -5000.0)])
def test_extreme_log_ratios_give_finite_numbers(pair, advantage):
    trainer, sampler, adv = columns([(*pair, advantage)], torch.float32)
    loss, stats = ipo_masked_loss(trainer, sampler, adv, 1, 0.2, 1e-3)
    loss.backward()
    numbers = [loss.item(), trainer.grad.item(), stats.mismatch_kept, stats.mismatch_dropped, stats.max_gap]
    assert all(map(math.isfinite, numbers))


def test_rare_token_far_above_the_sampler_is_clamped():
    trainer, sampler, adv = columns([(-30.0, -80.0, 1.0)])
    assert ipo_masked_loss(trainer, sampler, adv, 1, 0.2, 0.0)[0].item() == pytest.approx(-math.exp(MAX_LOG_RATIO))


def test_dropped_tokens_count_in_the_normaliser():
    kept, dropped = (-1.0, -1.0, 1.0), (math.log(0.9), math.log(0.5), 1.0)
    loss, stats = ipo_masked_loss(*columns([kept, dropped]), 2, 0.2, 0.0)
    assert (loss.item(), stats.tokens) == (pytest.approx(-0.5), 2)


def test_dropped_tokens_are_counted_by_direction():
    risen, fallen, kept = (math.log(0.9), math.log(0.5), 1.0), (math.log(0.5), math.log(0.9), 1.0), (-1.0, -1.0, 1.0)
    _, stats = ipo_masked_loss(*columns([risen, risen, fallen, kept]), 4, 0.2, 0.0)
    assert (stats.dropped_high, stats.dropped_low) == (2, 1)


def test_mismatch_is_near_zero_at_equal_weights():
    _, stats = ipo_masked_loss(*columns([(-1.0, -1.0, 1.0)] * 5), 5, 0.2, 0.0)
    assert (stats.mismatch_kept, stats.mismatch_dropped, stats.max_gap) == (0.0, 0.0, 0.0)


def test_mismatch_is_kept_apart_for_dropped_tokens():
    a, b = math.log(0.9), math.log(0.5)
    _, stats = ipo_masked_loss(*columns([(a, b, 1.0), (-1.0, -1.1, 1.0)]), 2, 0.2, 0.0)
    wanted = (math.exp(0.1) - 0.1 - 1, math.exp(a - b) - (a - b) - 1)
    assert (stats.mismatch_kept, stats.mismatch_dropped) == pytest.approx(wanted)


def test_no_tokens_at_all_is_a_zero_loss():
    empty = torch.zeros(0)
    assert ipo_masked_loss(empty, empty, empty, 0, 0.2, 1e-3)[0].item() == 0.0


# --- the step, on a tiny model


def conversations(count: int = 7, seed: int = 3) -> list[TrainItem]:
    """Prompt, reply, prompt, reply; of differing lengths, with sampler log-probs that are a little off."""
    rng = random.Random(seed)
    items = []
    for _ in range(count):
        sequence = TokenSequence()
        for _ in range(2):
            sequence.extend([rng.randrange(4, VOCAB) for _ in range(rng.randint(2, 9))], 0)
            reply = [rng.randrange(4, VOCAB) for _ in range(rng.randint(1, 12))]
            sequence.extend(reply, 1, [rng.uniform(-8, -0.5) for _ in reply])
        items.append(TrainItem(sequence, rng.uniform(-1, 1)))
    return items


def step(policy, items, **settings):
    """(statistics, gradient) of one accumulation."""
    for parameter in policy.model.parameters():
        parameter.grad = None
    stats = accumulate(policy, items, Training(**settings), temperature=0.7)
    return stats, torch.cat([p.grad.flatten() for p in policy.trainable if p.grad is not None])


@pytest.fixture(scope="module")
def policy():
    return bare_policy(adapter=True)


@pytest.fixture(scope="module")
def whole(policy):
    return step(policy, conversations(), micro_batch_tokens=10**6)


@pytest.mark.parametrize("size", [1, 60, 100, 150])
def test_loss_is_the_same_however_the_step_is_split(policy, whole, size):
    assert step(policy, conversations(), micro_batch_tokens=size)[0]["loss"] == pytest.approx(whole[0]["loss"], rel=1e-5)


@pytest.mark.parametrize("size", [1, 60, 100, 150])
def test_gradient_is_the_same_however_the_step_is_split(policy, whole, size):
    gradient = step(policy, conversations(), micro_batch_tokens=size)[1]
    assert torch.allclose(gradient, whole[1], rtol=1e-4, atol=1e-6 * float(whole[1].abs().max()) + 1e-7)


def test_statistics_are_the_same_however_the_step_is_split(policy, whole):
    split = step(policy, conversations(), micro_batch_tokens=1)[0]
    assert {**split, **of_the_split(whole[0])} == pytest.approx(whole[0], rel=1e-4)


def of_the_split(stats):
    """Statistics that are about the micro-batches themselves."""
    return {key: stats[key] for key in ("micro_batches", "padding")}


def test_padding_is_the_share_of_positions_without_a_token(whole):
    lengths = [len(i.sequence.ids) for i in conversations()]
    assert of_the_split(whole[0]) == {"micro_batches": 1, "padding": pytest.approx(1 - sum(lengths) / (7 * max(lengths)))}


def test_single_sequences_have_no_padding(policy):
    assert of_the_split(step(policy, conversations(), micro_batch_tokens=1)[0]) == {"micro_batches": 7, "padding": 0}


def test_order_of_the_items_does_not_matter(policy, whole):
    items = conversations()[::-1]
    assert step(policy, items, micro_batch_tokens=10**6)[0]["loss"] == pytest.approx(whole[0]["loss"], rel=1e-5)


def test_step_loss_is_that_of_the_formula_on_the_models_own_log_probs(policy, whole):
    rows = []
    for item in conversations():
        with torch.no_grad():
            logits = policy.model(input_ids=torch.tensor([item.sequence.ids])).logits[0].double()
        chosen = (logits / 0.7).log_softmax(-1)
        for place in range(1, len(item.sequence.ids)):
            if item.sequence.mask[place]:
                a = chosen[place - 1, item.sequence.ids[place]].item()
                rows.append((a, item.sequence.logprobs[place], item.advantage))
    assert whole[0]["trained_tokens"] == len(rows)
    assert whole[0]["loss"] == pytest.approx(by_hand(rows, len(rows), 0.2, 1e-3)[0], rel=1e-4)


def test_some_tokens_of_the_test_step_are_dropped(whole):
    """Else the tests above would say nothing about dropped tokens."""
    assert whole[0]["dropped_low"] > 0


def test_prompt_tokens_are_not_trained(policy, whole):
    items = conversations()
    for item in items:
        item.sequence.logprobs = [lp if m else -3.0 for lp, m in zip(item.sequence.logprobs, item.sequence.mask, strict=True)]
    assert step(policy, items, micro_batch_tokens=10**6)[0]["loss"] == whole[0]["loss"]


def test_without_advantage_and_kl_there_is_no_gradient(policy):
    items = [TrainItem(i.sequence, 0.0) for i in conversations()]
    assert step(policy, items, kl_tau=0.0)[1].abs().max() == 0


@given(st.lists(st.integers(1, 300), min_size=1, max_size=30), st.integers(1, 1000))
@settings(max_examples=50)
def test_micro_batches_hold_every_item_once_and_respect_their_size(lengths, size):
    items = [TrainItem(TokenSequence([0] * n, [1] * n, [0.0] * n), float(i)) for i, n in enumerate(lengths)]
    batches = micro_batches(items, size)
    assert sorted(i.advantage for b in batches for i in b) == sorted(i.advantage for i in items)
    assert all(len(b) == 1 or len(b) * max(len(i.sequence.ids) for i in b) <= size for b in batches)


def test_update_moves_only_the_adapter():
    policy = bare_policy(seed=5, adapter=True)
    before = {n: p.detach().clone() for n, p in policy.model.named_parameters()}
    update(policy, torch.optim.AdamW(policy.trainable, lr=0.01), conversations(), Training(), 0.7)
    moved = {n for n, p in policy.model.named_parameters() if not torch.equal(p, before[n])}
    assert moved and all("lora_" in n for n in moved)


def test_gradient_that_is_not_finite_is_skipped_and_the_weights_stay():
    policy = bare_policy(seed=5, adapter=True)
    before = [p.detach().clone() for p in policy.trainable]
    items = conversations()
    items[0].sequence.logprobs = [float("-inf") if m else 0.0 for m in items[0].sequence.mask]
    stats = update(policy, torch.optim.AdamW(policy.trainable, lr=0.01), items, Training(), 0.7)
    assert stats["skipped"] == 1 and all(torch.equal(p, b) for p, b in zip(policy.trainable, before, strict=True))


def test_updates_raise_what_was_rewarded():
    """Twenty steps on one rewarded and one punished reply move their log-probs apart."""
    from rlmlib.training.step import token_logprobs

    policy = bare_policy(seed=6, adapter=True)
    optimizer = torch.optim.AdamW(policy.trainable, lr=0.01)
    items = [TrainItem(i.sequence, a) for i, a in zip(conversations(2), (0.5, -0.5), strict=True)]

    def gap():
        with torch.no_grad():
            sums = [token_logprobs(policy, [i.sequence], 0.7)[0] for i in items]
        return (sums[0].mean() - sums[1].mean()).item()

    for item in items:  # what the policy itself gives its tokens now
        with torch.no_grad():
            own = iter(token_logprobs(policy, [item.sequence], 0.7)[0].tolist())
        item.sequence.logprobs = [next(own) if m else 0.0 for m in item.sequence.mask]
    start = gap()
    for _ in range(20):
        update(policy, optimizer, items, Training(drop_threshold=0.9), 0.7)
    assert gap() > start + 0.5
