"""One optimiser step on a batch of token sequences: micro-batches, loss, clip, update."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ..config import Training
from ..models.conversation import TokenSequence
from .logprobs import target_logprobs
from .loss import ipo_masked_loss
from .policy import Policy
from .ranks import ALONE, Ranks
from .sums import StepSums, of_micro_batch, statistics


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
    """Trainer's view of the sampled tokens of a batch, flattened in row order, on the policy's device.

    Returns (logprobs [T], sampler logprobs [T], row of each token [T], entropies [T]). The head
    runs on the trained positions only, some of them at a time.
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
    rows, places = (index.to(policy.device) for index in mask[:, 1:].nonzero(as_tuple=True))
    ids, sampled = ids.to(policy.device), sampled.to(policy.device)
    hidden = policy.hidden_states(ids)[rows, places]  # of the position before each token
    targets = ids[rows, places + 1]
    logprobs, entropies = target_logprobs(hidden, policy.head, targets, temperature, policy.logits_at_once)
    return logprobs, sampled[rows, places + 1], rows, entropies


@dataclass(frozen=True)
class Work:
    """What one rank does of a step. Picklable.

    tokens: trained tokens of the whole step, over all ranks.
    passes: forward passes of every rank where the policy is sharded; a rank with fewer micro-batches runs empty ones.
    lrs: learning rates of the optimiser's groups.
    """

    batches: list[list[TrainItem]]
    tokens: int
    passes: int
    config: Training
    temperature: float
    lrs: list[float]


def deal(batches: Sequence[list[TrainItem]], ranks: int) -> list[list[list[TrainItem]]]:
    """Micro-batches of each rank: like padded tokens, and numbers that differ by as little as can be. One rank has all, in order."""
    most = math.ceil(len(batches) / ranks)
    shares: list[list[list[TrainItem]]] = [[] for _ in range(ranks)]
    loads = [0] * ranks
    for batch in sorted(batches, key=_positions, reverse=True) if ranks > 1 else batches:
        rank = min((r for r in range(ranks) if len(shares[r]) < most), key=loads.__getitem__)
        shares[rank].append(batch)
        loads[rank] += _positions(batch)
    return shares


def _positions(batch: list[TrainItem]) -> int:
    """Tokens and padding of a micro-batch."""
    return len(batch) * max(len(item.sequence.ids) for item in batch)


def accumulate(policy: Policy, items: Sequence[TrainItem], config: Training, temperature: float) -> dict:
    """Add the gradient of the step's loss; returns its statistics. The split into micro-batches does not matter."""
    return statistics(_backward(policy, _works(items, config, temperature)[0], ALONE))


def _works(items: Sequence[TrainItem], config: Training, temperature: float, lrs: Sequence[float] = (), ranks: int = 1) -> list[Work]:
    tokens = sum(sum(i.sequence.mask) for i in items)
    shares = deal(micro_batches(items, config.micro_batch_tokens), ranks)
    passes = max(map(len, shares))
    return [Work(share, tokens, passes, config, temperature, list(lrs)) for share in shares]


def _backward(policy: Policy, work: Work, ranks: Ranks) -> StepSums:
    """Add the gradient of one rank's share of the loss."""
    sums = StepSums()
    for batch in work.batches:
        loss, entropies, stat = _micro_loss(policy, batch, work, ranks)
        loss.backward()
        lengths = [len(i.sequence.ids) for i in batch]
        sums += of_micro_batch(lengths, loss.item(), float(entropies.sum()), stat)
    for _ in range(work.passes - len(work.batches) if ranks.sharded else 0):
        pad = policy.chat.pad_id
        empty = TrainItem(TokenSequence([pad, pad], [0, 1], [0.0, 0.0]), 0.0)
        (0.0 * _micro_loss(policy, [empty], work, ranks)[0]).backward()
    return sums


def _micro_loss(policy: Policy, batch: Sequence[TrainItem], work: Work, ranks: Ranks):
    """(loss, entropies [T], LossStats) of a micro-batch."""
    config = work.config
    logprobs, sampled, rows, entropies = ranks.forward(
        lambda: token_logprobs(policy, [i.sequence for i in batch], work.temperature),
    )
    advantage = torch.tensor([i.advantage for i in batch], device=rows.device)[rows]
    loss, stat = ipo_masked_loss(logprobs, sampled, advantage, work.tokens, config.drop_threshold, config.kl_tau)
    return loss, entropies, stat


def make_optimizer(policy: Policy, config: Training) -> torch.optim.Optimizer:
    """AdamW over what is trained. On several ranks it is made after Ranks.prepare, which replaces the parameters."""
    return torch.optim.AdamW(policy.trainable, lr=config.lr, betas=(config.beta1, config.beta2), weight_decay=config.weight_decay)


def update(policy: Policy, optimizer, items: Sequence[TrainItem], config: Training, temperature: float, ranks: Ranks = ALONE) -> dict:
    """One step, on rank 0 for all ranks; returns its statistics, which are those of one process.

    A non-finite gradient is not applied: `skipped` is 1 and the weights stay.
    """
    works = _works(items, config, temperature, [group["lr"] for group in optimizer.param_groups], ranks.size)
    return take_step(policy, optimizer, ranks.order("step", works), ranks)


def take_step(policy: Policy, optimizer, work: Work, ranks: Ranks) -> dict:
    """This rank's share of a step."""
    for group, lr in zip(optimizer.param_groups, work.lrs, strict=True):
        group["lr"] = lr
    optimizer.zero_grad(set_to_none=True)
    sums = sum(ranks.gather(_backward(policy, work, ranks)), StepSums())
    ranks.sum_gradients(policy.trainable)
    norm = torch.nn.utils.get_total_norm([p.grad for p in policy.trainable if p.grad is not None])
    norm = norm.full_tensor() if ranks.sharded else norm
    torch.nn.utils.clip_grads_with_norm_(policy.trainable, work.config.grad_clip, norm)
    finite = bool(torch.isfinite(norm))
    if finite:
        optimizer.step()
    return {**statistics(sums), "grad_norm": float(norm) if finite else None, "skipped": int(not finite)}
