"""The IPO mask and its ratio worked out by hand, and the whole step's gradient against finite differences."""

import math
import random

import pytest
import torch
from support import VOCAB, bare_policy

from rlmlib.config import Training
from rlmlib.models.conversation import TokenSequence
from rlmlib.training.loss import ipo_masked_loss
from rlmlib.training.step import TrainItem, accumulate

THRESHOLD = 0.2
KEPT, HIGH, LOW = "kept", "dropped_high", "dropped_low"

# probability of the token with the trainer, with the sampler, advantage | fate, ratio, policy term -advantage * ratio
TABLE = [
    (0.50, 0.50, +1.0, KEPT, 1.00, -1.00),
    (0.50, 0.50, -1.0, KEPT, 1.00, +1.00),
    (0.60, 0.50, +1.0, KEPT, 1.20, -1.20),
    (0.60, 0.50, -1.0, KEPT, 1.20, +1.20),
    (0.40, 0.50, +0.5, KEPT, 0.80, -0.40),
    (0.31, 0.50, -0.5, KEPT, 0.62, +0.31),  # 0.19 apart
    (0.29, 0.50, -0.5, LOW, 0.58, 0.00),  # 0.21 apart
    (0.71, 0.50, +1.0, HIGH, 1.42, 0.00),
    (0.71, 0.50, -1.0, HIGH, 1.42, 0.00),  # the sign does not matter
    (0.90, 0.60, +1.0, HIGH, 1.50, 0.00),
    (0.60, 0.90, +1.0, LOW, 0.667, 0.00),  # nor that it fell although it was right
    (0.02, 0.01, +1.0, KEPT, 2.00, -2.00),  # a rare token may double,
    (0.15, 0.01, +0.1, KEPT, 15.0, -1.50),  # and more: its probability moved by 0.14 only
    (0.01, 0.15, -1.0, KEPT, 0.0667, +0.0667),
    (0.50, 0.50, 0.0, KEPT, 1.00, 0.00),
]


@pytest.mark.parametrize(("trainer", "sampler", "advantage", "fate", "ratio", "term"), TABLE)
def test_mask_ratio_and_term_are_those_of_the_table(trainer, sampler, advantage, fate, ratio, term):
    a = torch.tensor([math.log(trainer)], dtype=torch.float64, requires_grad=True)
    b, weight = torch.tensor([math.log(sampler)], dtype=torch.float64), torch.tensor([advantage], dtype=torch.float64)
    loss, stats = ipo_masked_loss(a, b, weight, 1, THRESHOLD, 0.0)
    loss.backward()
    assert trainer / sampler == pytest.approx(ratio, rel=1e-3)
    assert (stats.dropped_high, stats.dropped_low) == (int(fate == HIGH), int(fate == LOW))
    assert loss.item() == pytest.approx(term, rel=1e-3)
    assert a.grad.item() == pytest.approx(term, rel=1e-3)  # rho is its own derivative


def test_a_step_of_the_whole_table_is_the_mean_of_its_terms():
    a, b, weight = (torch.tensor([row[i] for row in TABLE], dtype=torch.float64) for i in range(3))
    loss, stats = ipo_masked_loss(a.log(), b.log(), weight, len(TABLE), THRESHOLD, 0.0)
    assert loss.item() == pytest.approx(sum(row[5] for row in TABLE) / len(TABLE), rel=1e-3)
    assert (stats.dropped_high, stats.dropped_low) == (3, 2)


# --- the gradient of accumulate() along directions in the space of the adapter

TEMPERATURE = 0.7
STEP = 0.005  # of a direction of unit length: the step's numbers are float32 from the logits on


def conversations(policy, count: int = 6, seed: int = 4) -> list[TrainItem]:
    """The sampler's log-probs are a little off the policy's own, and a fifth of its probabilities far over: those tokens are dropped."""
    rng, items = random.Random(seed), []
    for _ in range(count):
        sequence = TokenSequence()
        for _ in range(2):
            sequence.extend([rng.randrange(4, VOCAB) for _ in range(rng.randint(2, 6))], 0)
            sequence.extend([rng.randrange(4, VOCAB) for _ in range(rng.randint(2, 8))], 1)
        with torch.no_grad():
            logits = policy.model(input_ids=torch.tensor([sequence.ids])).logits[0]
        own = (logits / TEMPERATURE).log_softmax(-1)
        for place, on in enumerate(sequence.mask):
            if on:
                logprob = own[place - 1, sequence.ids[place]].item()
                moved = math.log(min(0.99, math.exp(logprob) + 0.5)) if rng.random() < 0.2 else logprob + rng.choice((-0.1, 0.1))
                sequence.logprobs[place] = moved
        items.append(TrainItem(sequence, rng.uniform(-1, 1)))
    return items


def unit(parts: list[torch.Tensor]) -> list[torch.Tensor]:
    length = math.sqrt(sum(float(part.square().sum()) for part in parts))
    return [part / length for part in parts]


@pytest.mark.parametrize("kl_tau", [0.0, 0.05])
def test_gradient_of_the_step_is_that_of_finite_differences(kl_tau):
    policy = bare_policy(adapter=True)
    policy.model.double()
    items = conversations(policy)
    config = Training(kl_tau=kl_tau, drop_threshold=THRESHOLD, micro_batch_tokens=60)

    def loss() -> float:
        return accumulate(policy, items, config, TEMPERATURE)["loss"]

    dropped = accumulate(policy, items, config, TEMPERATURE)
    gradients = [p.grad.clone() for p in policy.trainable]
    assert 0 < dropped["dropped_low"] < 0.5
    draw = torch.Generator().manual_seed(0)
    for _ in range(4):
        noise = [torch.randn(p.shape, generator=draw, dtype=torch.float64) for p in policy.trainable]
        # half along the gradient, half at random: a direction that the loss hardly feels would measure rounding
        direction = unit([n + g for n, g in zip(unit(noise), unit(gradients), strict=True)])
        wanted = sum(float((g * d).sum()) for g, d in zip(gradients, direction, strict=True))
        sides = []
        for sign in (1, -2, 1):  # forth, to the other side, back
            with torch.no_grad():
                for parameter, part in zip(policy.trainable, direction, strict=True):
                    parameter += sign * STEP * part
            sides.append(loss())
        assert (sides[0] - sides[1]) / (2 * STEP) == pytest.approx(wanted, rel=2e-3)
