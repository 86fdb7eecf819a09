"""What the write-up left open, and what the runs of a folder say about it: an answer in place of a verdict."""

from ..wording import interval, share, signed
from .evidence import Evidence
from .shares import less
from .verdicts import Claim, effects, times


def penalty(found: Evidence) -> Claim:
    """Open: what does the cost penalty do? The same runs without it."""
    groups = "lora", "no-penalty"
    right = found.difference(*groups, "correct")
    leaf, whole = (found.ratio(*groups, measure) for measure in ("leaf_tokens_mean", "total_tokens_mean"))
    seeds = ", ".join(f"{100 * gap:+.1f}" for gap in found.by_seed(*groups).values()).replace("-", "\u2212")
    ours = (
        f"with it, less without: right answers {signed(right, share)} (by seed {seeds}); "
        f"leaf tokens {interval(leaf, times)}, all tokens {interval(whole, times)}"
    )
    answer = effects((leaf, 1.0, "leaf tokens"), (whole, 1.0, "tokens in all"), (right, 0.0, "right answers"))
    return Claim(penalty.__doc__, "no such baseline", ours, "intervals without 1, or 0", answer, found.names(*groups))


def labels(found: Evidence) -> Claim:
    """Open: do labels in the records keep the leaf idle? Trained on hidden labels alone, or on shown ones alone."""
    groups = "hidden", "shown"
    right, usage = (found.difference(*groups, measure) for measure in ("correct", "llm_usage"))
    ours = (
        f"hidden less shown, asked the same questions of both kinds: right answers {signed(right, share)}; "
        f"rollouts that ask the leaf {signed(usage, share)}"
    )
    answer = f"hidden labels: {effects((usage, 0.0, 'rollouts that ask the leaf'), (right, 0.0, 'right answers'))}"
    return Claim(labels.__doc__, "labels were always shown", ours, "intervals without 0", answer, found.names(*groups))


def bonus(found: Evidence) -> Claim:
    """Open: does an incentive make depth 2 be used? A bonus for a right answer whose rollout started a child."""
    groups = "depth2-bonus", "depth2-warm"
    right, level = found.difference(*groups, "correct"), found.with_children("depth2-bonus")
    used = less(level, found.with_children("depth2-warm"))
    params, (started, earned) = found.runs("depth2-bonus")[0].params, found.sampled_with_children("depth2-bonus")
    ours = (
        f"temperature {params.sampling.temperature:g}, bonus {params.reward.child_bonus:g}: children in {interval(level, share)} of the "
        f"rollouts, {signed(used, share)}; right answers {signed(right, share)}; in training {started} rollouts started a child, "
        f"{earned} of them right"
    )
    answer = effects((used, 0.0, "rollouts with children"), (right, 0.0, "right answers"))
    return Claim(bonus.__doc__, "no incentive was tried", ours, "intervals without 0", answer, found.names(*groups))
