"""Our loss beside TRL's own: `GRPOTrainer._compute_loss` of the pinned TRL, called on a stand-in that holds only what it reads.

Where they are the same, in value and gradient (beta 0, kl_tau 0, drop threshold 1, so that neither has a KL term or drops a token):

- loss_type "dapo": always, as its normaliser is the trained tokens of the whole step, environment tokens left out, as ours is.
- loss_type "dr_grpo": where rows x max_completion_length x micro-batches is the trained tokens of the step; else by that constant.
- old log-probs: the sampler's, as long as TRL clips nothing. TRL never clips a ratio below 1 where the advantage is positive, nor one
  above 1 where it is negative. Without old log-probs TRL takes the trainer's own, so its ratio is 1; that is ours on the policy's own
  samples.

Where they are not, which is tested too:

- TRL clips by the ratio and by the sign of the advantage (no gradient past 1 +- epsilon); we drop by the distance of the two
  probabilities, whatever the sign. A rare token may double its probability and stay with us; a likely one that fell stays with TRL.
- kl_tau pulls towards the sampler, beta towards a reference model: two different terms.
- TRL has one row a rollout, its advantage divided by the group's spread as it is set by default; ours may have several, and are not
  divided. Advantages are given here.
"""

import random
from types import SimpleNamespace

import pytest
import torch
from support import VOCAB, bare_policy
from trl.trainer.grpo_trainer import GRPOTrainer

from rlmlib.config import Training
from rlmlib.models.conversation import TokenSequence
from rlmlib.training.loss import ipo_masked_loss
from rlmlib.training.step import TrainItem, accumulate

EPSILON = 0.2
NO_DROPS = 1.0  # two probabilities are never further apart


class OneProcess:
    """What the method asks of accelerate, with one process."""

    num_processes = 1

    def reduce(self, values, reduction):
        return values

    def gather(self, values):
        return values


def stand_in(logprobs_of, micro_batches: int, loss_type: str = "dapo", max_completion: int = 0) -> SimpleNamespace:
    """A trainer to call `_compute_loss` on. logprobs_of(model, input_ids, attention_mask, keep) gives [B, keep]."""

    def per_token(model, input_ids, attention_mask, keep, **_):
        logprobs = logprobs_of(model, input_ids, attention_mask, keep)
        return logprobs, torch.zeros_like(logprobs), None

    return SimpleNamespace(
        _get_per_token_logps_and_entropies=per_token,
        loss_type=loss_type,
        importance_sampling_level="token",
        beta=0.0,
        epsilon_low=EPSILON,
        epsilon_high=EPSILON,
        max_completion_length=max_completion,
        current_gradient_accumulation_steps=micro_batches,
        args=SimpleNamespace(delta=None, steps_per_generation=micro_batches),
        aux_loss_enabled=False,
        top_entropy_quantile=1.0,
        off_policy_mask_threshold=None,
        use_vllm=False,
        _entropy_bonus_enabled=False,
        accelerator=OneProcess(),
        model=SimpleNamespace(training=True),
        _metrics={"train": {name: [] for name in METRICS}},
    )


METRICS = ("entropy", *(f"clip_ratio/{name}" for name in ("low_mean", "high_mean", "region_mean", "low_min", "high_max")))


def step_of(rows: int = 12, columns: int = 9, spread: float = 0.15, full: bool = False, seed: int = 0) -> dict:
    """Log-probs [rows, columns] of trainer and sampler, at most `spread` apart, a mask with gaps and ragged ends, and advantages [rows]."""
    draw = torch.Generator().manual_seed(seed)
    uniform = lambda *shape: torch.rand(*shape, generator=draw, dtype=torch.float64)  # noqa: E731
    trainer = -4 * uniform(rows, columns) - 0.3
    sampler = trainer + spread * (2 * uniform(rows, columns) - 1)
    completion = torch.arange(columns) < torch.randint(2, columns + 1, (rows, 1), generator=draw)
    trained = uniform(rows, columns) < 0.7
    trained[:, 0] = True
    if full:
        completion, trained = torch.ones_like(completion), torch.ones_like(trained)
    return {
        "trainer": trainer.requires_grad_(),
        "sampler": sampler,
        "completion": completion.long(),
        "trained": trained.long(),
        "advantages": 2 * uniform(rows) - 1,
    }


def by_trl(step: dict, micro_batches: int, old: bool = True, **settings) -> tuple[float, torch.Tensor]:
    """(loss, gradient by the trainer's log-probs) of TRL, summed over micro-batches of equal count."""
    total = (step["completion"] * step["trained"]).sum()
    loss = 0.0
    for rows in torch.arange(len(step["advantages"])).chunk(micro_batches):
        given = lambda *_, r=rows: step["trainer"][r]  # noqa: E731
        inputs = {
            "prompt_ids": torch.zeros(len(rows), 3, dtype=torch.long),
            "prompt_mask": torch.ones(len(rows), 3, dtype=torch.long),
            "completion_ids": torch.zeros_like(step["completion"][rows]),
            "completion_mask": step["completion"][rows],
            "tool_mask": step["trained"][rows],
            "advantages": step["advantages"][rows],
            "num_items_in_batch": total,
        }
        if old:
            inputs["old_per_token_logps"] = step["sampler"][rows]
        part = GRPOTrainer._compute_loss(stand_in(given, micro_batches, **settings), None, inputs)
        part.backward()
        loss += part.item()
    gradient, step["trainer"].grad = step["trainer"].grad, None
    return loss, gradient


def by_us(step: dict, micro_batches: int, threshold: float = NO_DROPS) -> tuple[float, torch.Tensor]:
    """As by_trl, by ipo_masked_loss on the flat trained tokens."""
    mask = (step["completion"] * step["trained"]).bool()
    loss = 0.0
    for rows in torch.arange(len(step["advantages"])).chunk(micro_batches):
        kept = mask[rows]
        advantage = step["advantages"][rows][:, None].expand(kept.shape)[kept]
        part, _ = ipo_masked_loss(step["trainer"][rows][kept], step["sampler"][rows][kept], advantage, int(mask.sum()), threshold, 0.0)
        part.backward()
        loss += part.item()
    gradient, step["trainer"].grad = step["trainer"].grad, None
    return loss, gradient


def same(ours, theirs, scale: float = 1.0) -> bool:
    return ours[0] == pytest.approx(scale * theirs[0], rel=1e-12) and torch.allclose(ours[1], scale * theirs[1], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("micro_batches", [1, 3, 12])
@pytest.mark.parametrize("seed", range(3))
def test_dapo_inside_the_clip_range_is_our_loss(seed, micro_batches):
    step = step_of(seed=seed)
    assert same(by_us(step, 1), by_trl(step, micro_batches))
    assert same(by_us(step, micro_batches), by_trl(step, 1))


@pytest.mark.parametrize("micro_batches", [1, 4])
def test_dapo_without_old_log_probs_is_our_loss_on_the_policys_own_samples(micro_batches):
    step = step_of()
    own = {**step, "sampler": step["trainer"].detach()}
    assert same(by_us(own, micro_batches), by_trl(step, micro_batches, old=False))


def test_a_ratio_that_moved_against_its_advantage_is_clipped_by_neither():
    """A fallen token that was right, a risen one that was wrong: the gradient is to bring them back."""
    step = step_of(spread=0.0)
    risen = step["advantages"] < 0
    step["sampler"] = step["trainer"].detach() + torch.where(risen, -0.25, 0.25)[:, None]
    assert same(by_us(step, 3), by_trl(step, 3))


@pytest.mark.parametrize("micro_batches", [1, 3])
def test_dr_grpo_is_our_loss_where_every_row_is_full(micro_batches):
    step = step_of(full=True)
    assert same(by_us(step, micro_batches), by_trl(step, micro_batches, loss_type="dr_grpo", max_completion=9))


def test_dr_grpo_is_our_loss_but_for_its_constant_where_rows_are_ragged():
    step = step_of()
    trained = int((step["completion"] * step["trained"]).sum())
    assert same(by_us(step, 3), by_trl(step, 3, loss_type="dr_grpo", max_completion=100), 12 * 100 / trained)


def one_token(trainer: float, sampler: float, advantage: float) -> dict:
    cell = lambda value: torch.tensor([[value]], dtype=torch.float64)  # noqa: E731
    ones = torch.ones(1, 1, dtype=torch.long)
    return {
        "trainer": cell(trainer).log().requires_grad_(),
        "sampler": cell(sampler).log(),
        "completion": ones,
        "trained": ones,
        "advantages": torch.tensor([advantage], dtype=torch.float64),
    }


@pytest.mark.parametrize(
    ("trainer", "sampler", "advantage", "ours", "theirs"),
    [
        (0.02, 0.01, 1.0, -2.0, 0.0),  # a rare token that doubled: we keep it, TRL clips it
        (0.01, 0.02, -1.0, 0.5, 0.0),  # one that halved and was wrong: likewise
        (0.50, 0.90, 1.0, 0.0, -5 / 9),  # a likely token that fell and was right: we drop it, TRL does not
        (0.90, 0.50, -1.0, 0.0, 1.8),  # one that rose and was wrong: likewise
        (0.90, 0.50, 1.0, 0.0, 0.0),  # both leave it out
        (0.55, 0.50, 1.0, -1.1, -1.1),  # both keep it
    ],
)
def test_where_one_clips_and_the_other_drops(trainer, sampler, advantage, ours, theirs):
    step = one_token(trainer, sampler, advantage)
    assert by_us(step, 1, threshold=0.2)[1].item() == pytest.approx(ours)
    assert by_trl(step, 1)[1].item() == pytest.approx(theirs)


# --- the whole step on a model: our accumulate() beside TRL's loss on padded rows of prompt and completion

TEMPERATURE = 0.7


def conversations(rows: int = 8, seed: int = 1) -> list[TrainItem]:
    """Prompt, reply, prompt, reply, as the harness makes them. Sampler log-probs are filled in by `sampled_by`."""
    rng = random.Random(seed)
    items = []
    for _ in range(rows):
        sequence = TokenSequence()
        for _ in range(2):
            sequence.extend([rng.randrange(4, VOCAB) for _ in range(rng.randint(2, 9))], 0)
            sequence.extend([rng.randrange(4, VOCAB) for _ in range(rng.randint(1, 12))], 1)
        items.append(TrainItem(sequence, rng.uniform(-1, 1)))
    return items


def completion_logprobs(model, input_ids, attention_mask, keep) -> torch.Tensor:
    """Log-probs [B, keep] of the last `keep` tokens at the sampling temperature, from plain transformers."""
    positions = (attention_mask.cumsum(1) - 1).clamp(min=0)
    logits = model(input_ids=input_ids, attention_mask=attention_mask, position_ids=positions).logits[:, -keep - 1 : -1]
    return (logits / TEMPERATURE).log_softmax(-1).gather(2, input_ids[:, -keep:, None]).squeeze(2)


def rows_of(items: list[TrainItem]) -> dict:
    """TRL's inputs: prompts padded on the left, all that follows them on the right, with a mask of what was sampled."""
    first = [item.sequence.mask.index(1) for item in items]
    prompts, completions = max(first), max(len(i.sequence.ids) - f for i, f in zip(items, first, strict=True))
    found = {name: torch.zeros(len(items), prompts, dtype=torch.long) for name in ("prompt_ids", "prompt_mask")}
    found |= {name: torch.zeros(len(items), completions, dtype=torch.long) for name in ("completion_ids", "completion_mask", "tool_mask")}
    old = torch.zeros(len(items), completions)
    for row, (item, start) in enumerate(zip(items, first, strict=True)):
        ids, length = torch.tensor(item.sequence.ids), len(item.sequence.ids) - start
        found["prompt_ids"][row, prompts - start :] = ids[:start]
        found["prompt_mask"][row, prompts - start :] = 1
        found["completion_ids"][row, :length] = ids[start:]
        found["completion_mask"][row, :length] = 1
        found["tool_mask"][row, :length] = torch.tensor(item.sequence.mask[start:])
        old[row, :length] = torch.tensor(item.sequence.logprobs[start:])
    total = torch.tensor(sum(sum(i.sequence.mask) for i in items))
    return {
        **found,
        "old_per_token_logps": old,
        "advantages": torch.tensor([i.advantage for i in items]),
        "num_items_in_batch": total,
    }


def sampled_by(policy, items: list[TrainItem], seed: int = 2):
    """Sampler log-probs within 0.1 of the policy's own: inside TRL's clip range, and not equal."""
    rng = random.Random(seed)
    for item in items:
        ids = torch.tensor([item.sequence.ids])
        with torch.no_grad():
            own = completion_logprobs(policy.model, ids, torch.ones_like(ids), ids.shape[1] - 1)[0].tolist()
        item.sequence.logprobs = [
            value + rng.uniform(-0.1, 0.1) if on else 0.0 for value, on in zip([0.0, *own], item.sequence.mask, strict=True)
        ]


def gradient_of(policy) -> torch.Tensor:
    gradient = torch.cat([p.grad.flatten() for p in policy.trainable])
    for parameter in policy.model.parameters():
        parameter.grad = None
    return gradient


@pytest.mark.parametrize("micro_batches", [1, 4])
def test_whole_step_has_the_loss_and_gradient_of_trl(micro_batches):
    policy, items = bare_policy(adapter=True), conversations()
    sampled_by(policy, items)
    stats = accumulate(policy, items, Training(drop_threshold=NO_DROPS, kl_tau=0.0, micro_batch_tokens=60), TEMPERATURE)
    ours = gradient_of(policy)
    inputs, loss = rows_of(items), 0.0
    for rows in torch.arange(len(items)).chunk(micro_batches):
        part = {name: value[rows] if value.dim() else value for name, value in inputs.items()}
        found = GRPOTrainer._compute_loss(stand_in(completion_logprobs, micro_batches), policy.model, part)
        found.backward()
        loss += found.item()
    theirs = gradient_of(policy)
    assert stats["trained_tokens"] == int(inputs["num_items_in_batch"])
    assert stats["loss"] == pytest.approx(loss, rel=1e-4, abs=1e-6)
    assert torch.allclose(ours, theirs, rtol=1e-3, atol=1e-5 * float(theirs.abs().max()))
