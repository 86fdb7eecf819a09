"""One optimiser step on a batch of token sequences: micro-batches, loss, clip, update."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ..config import Training
from ..models.conversation import TokenSequence
from .loss import LossStats, ipo_masked_loss
from .policy import Policy


@dataclass(frozen=True)
class TrainItem:
    """A sampled conversation and the advantage that each of its trained tokens carries."""

    sequence: TokenSequence
    advantage: float


def micro_batches(items: Sequence[TrainItem], max_tokens: int) -> list[list[TrainItem]]:
    """Items of like length together, each batch at most `max_tokens` padded tokens (or one item)."""
    batches: list[list[TrainItem]] = []
    for item in sorted(items, key=lambda i: -len(i.sequence.ids)):
        if batches and (len(batches[-1]) + 1) * len(batches[-1][0].sequence.ids) <= max_tokens:
            batches[-1].append(item)
        else:
            batches.append([item])
    return batches


def token_logprobs(policy: Policy, batch: Sequence[TokenSequence], temperature: float):
    """Trainer's view of the sampled tokens of a batch, flattened in row order.

    Returns (logprobs [T], sampler logprobs [T], row of each token [T], entropies [T]). The head
    runs on the trained positions only.
    """
    longest = max(len(s.ids) for s in batch)
    ids = torch.full((len(batch), longest), policy.chat.pad_id)
    mask = torch.zeros(len(batch), longest, dtype=torch.bool)
    sampled = torch.zeros(len(batch), longest)
    for row, sequence in enumerate(batch):
        length = len(sequence.ids)
        ids[row, :length] = torch.tensor(sequence.ids)
        mask[row, :length] = torch.tensor(sequence.mask, dtype=torch.bool)
        sampled[row, :length] = torch.tensor(sequence.logprobs)
    hidden = policy.hidden_states(ids)[:, :-1]
    predicted = mask[:, 1:]
    distribution = (policy.logits(hidden[predicted]).float() / temperature).log_softmax(-1)
    targets = ids[:, 1:][predicted]
    logprobs = distribution.gather(1, targets[:, None]).squeeze(1)
    with torch.no_grad():
        entropies = -(distribution.exp() * distribution).sum(-1)
    return logprobs, sampled[:, 1:][predicted], predicted.nonzero()[:, 0], entropies


def accumulate(policy: Policy, items: Sequence[TrainItem], config: Training, temperature: float) -> dict:
    """Add the gradient of the step's loss; returns its statistics. The split into micro-batches does not matter."""
    total = sum(sum(i.sequence.mask) for i in items)
    stats: list[LossStats] = []
    loss_sum = entropy_sum = 0.0
    for batch in micro_batches(items, config.micro_batch_tokens):
        logprobs, sampled, rows, entropies = token_logprobs(policy, [i.sequence for i in batch], temperature)
        advantage = torch.tensor([i.advantage for i in batch])[rows]
        loss, stat = ipo_masked_loss(logprobs, sampled, advantage, total, config.drop_threshold, config.kl_tau)
        loss.backward()
        stats.append(stat)
        loss_sum += loss.item()
        entropy_sum += float(entropies.sum())
    count = max(1, total)
    kept = max(1, sum(s.tokens - s.dropped_high - s.dropped_low for s in stats))
    dropped = sum(s.dropped_high + s.dropped_low for s in stats)
    return {
        "loss": loss_sum,
        "trained_tokens": total,
        "entropy": entropy_sum / count,
        "dropped_high": sum(s.dropped_high for s in stats) / count,
        "dropped_low": sum(s.dropped_low for s in stats) / count,
        "mismatch_kl_kept": sum(s.mismatch_kept for s in stats) / kept,
        "mismatch_kl_dropped": sum(s.mismatch_dropped for s in stats) / max(1, dropped),
        "max_logprob_gap": max((s.max_gap for s in stats), default=0.0),
    }


def update(policy: Policy, optimizer, items: Sequence[TrainItem], config: Training, temperature: float) -> dict:
    """One step. A non-finite gradient is not applied: `skipped` is 1 and the weights stay."""
    optimizer.zero_grad(set_to_none=True)
    stats = accumulate(policy, items, config, temperature)
    norm = torch.nn.utils.clip_grad_norm_(policy.trainable, config.grad_clip)
    finite = bool(torch.isfinite(norm))
    if finite:
        optimizer.step()
    return {**stats, "grad_norm": float(norm) if finite else None, "skipped": int(not finite)}
