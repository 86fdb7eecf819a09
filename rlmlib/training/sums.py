"""Statistics of a step as sums, so that micro-batches and ranks merge into what one pass would have said."""

from dataclasses import dataclass, fields

from .loss import LossStats


@dataclass(frozen=True)
class StepSums:
    """Sums over micro-batches. loss is a share of the step's loss; entropies in nats; tokens are those that carry a loss."""

    micro_batches: int = 0
    positions: int = 0  # tokens and padding that went through the model
    padding: int = 0
    loss: float = 0.0
    entropy: float = 0.0
    tokens: int = 0
    dropped_high: int = 0
    dropped_low: int = 0
    mismatch_kept: float = 0.0
    mismatch_dropped: float = 0.0
    max_gap: float = 0.0  # the largest, not a sum

    def __add__(self, other: "StepSums") -> "StepSums":
        added = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        return StepSums(**{**added, "max_gap": max(self.max_gap, other.max_gap)})


def of_micro_batch(lengths: list[int], loss: float, entropy: float, stats: LossStats) -> StepSums:
    """Of one forward pass over sequences of these lengths, padded to the longest."""
    positions = len(lengths) * max(lengths)
    return StepSums(1, positions, positions - sum(lengths), loss, entropy, **vars(stats))


def statistics(sums: StepSums) -> dict:
    """What a metrics row says of a whole step; shares and means are over its trained tokens."""
    count = max(1, sums.tokens)
    dropped = sums.dropped_high + sums.dropped_low
    return {
        "loss": sums.loss,
        "trained_tokens": sums.tokens,
        "entropy": sums.entropy / count,
        "dropped_high": sums.dropped_high / count,
        "dropped_low": sums.dropped_low / count,
        "mismatch_kl_kept": sums.mismatch_kept / max(1, sums.tokens - dropped),
        "mismatch_kl_dropped": sums.mismatch_dropped / max(1, dropped),
        "max_logprob_gap": sums.max_gap,
        "micro_batches": sums.micro_batches,
        "padding": sums.padding / max(1, sums.positions),
    }
