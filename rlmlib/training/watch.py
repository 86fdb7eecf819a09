"""Notices a run that diverges, from its metrics alone."""

from collections.abc import Sequence
from itertools import takewhile

from ..config import Watch

MAX_SKIPPED = 5  # steps in a row without a finite gradient
NO_SIGNAL = "with a signal"  # in the reason of a run that ended as too few groups had one


def diverged(rows: Sequence[dict], watch: Watch) -> str | None:
    """Why a run with these metrics rows (oldest first) has to be stopped, or None.

    Each measure is a mean over the last `window` steps. Replies are compared with the first `window` steps, so a run is watched
    from twice that on. The study's rank 64 at lr 1e-4 diverged into ever longer rollouts; small policies lose their entropy or
    stop to answer.
    """
    if len(rows) < 2 * watch.window:
        return None
    first, last = rows[: watch.window], rows[-watch.window :]
    start, now = _mean(first, "reply_tokens"), _mean(last, "reply_tokens")
    if watch.reply_growth and start and now > watch.reply_growth * start:
        return f"replies grew from {start:.0f} to {now:.0f} tokens a rollout (watch.reply_growth {watch.reply_growth:g})"
    entropy = _mean(last, "entropy")
    if watch.min_entropy and entropy is not None and entropy < watch.min_entropy:
        return f"the entropy fell to {entropy:.2g} nats a token (watch.min_entropy {watch.min_entropy:g})"
    missing = _mean(last, "missing")
    if watch.missing and missing is not None and missing > watch.missing:
        return f"{missing:.0%} of the rollouts give no answer (watch.missing {watch.missing:g})"
    mismatch = _mean(last, "mismatch_kl_kept")
    if watch.mismatch and mismatch is not None and mismatch > watch.mismatch:
        return f"trainer and sampler disagree by {mismatch:.2g} nats a token (watch.mismatch {watch.mismatch:g})"
    return None


def skipped_last(rows: Sequence[dict]) -> int:
    """Steps without a finite gradient, counted from the last one back to one that had it."""
    return sum(1 for _ in takewhile(lambda row: row["skipped"], reversed(rows)))


def _mean(rows: Sequence[dict], name: str) -> float | None:
    values = [row[name] for row in rows if row.get(name) is not None]
    return sum(values) / len(values) if values else None


def best_checkpoint(rows: Sequence[dict], saved: Sequence[int], window: int) -> int | None:
    """The checkpoint (number of steps done) that answers best: by its short evaluation, where any has one, else by the mean
    `correct` of the `window` steps before it. Of equal ones the later. None where there is none."""
    by_step = {row["step"] + 1: row for row in rows}
    evaluated = {step: by_step[step].get("eval_correct") for step in saved if step in by_step}
    scores = {step: score for step, score in evaluated.items() if score is not None}
    if not scores:
        scores = {
            step: _mean([by_step[s] for s in range(max(1, step - window + 1), step + 1) if s in by_step], "correct") for step in evaluated
        }
    return max(scores, key=lambda step: (scores[step], step), default=None)
