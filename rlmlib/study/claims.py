"""The write-up's claims, one by one, beside what the runs of a folder say: figure, interval, verdict.

A verdict is a rule on an interval: `reproduced` where the whole 95 % interval meets the claim, `not reproduced` where none of it
does, else `unclear`. Questions that the write-up left open have an answer in place of a verdict, by the same kind of rule. Where a
run is missing, the table says which.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ..wording import interval, share, signed, tokens
from .evidence import Evidence, evidence, rollouts_of, spread, wilson
from .frames import Run, phases, values_of
from .seeds import Triple
from .seeds import interval as interval_of

if TYPE_CHECKING:
    import pandas as pd

REPRODUCED, NOT, UNCLEAR, NOT_RUN = "reproduced", "not reproduced", "unclear", "not run"
FACTOR = 2.0  # more right answers, and
CUT = 4.0  # fewer leaf tokens: the write-up's "more than doubled" and "more than 4x"
ENDS = 5  # steps that "at the start" and "near the end" of training stand for
BUSY, QUIET, RETURN = 0.5, 0.25, 0.10  # shares of rollouts that ask the leaf: at first, in the middle phase, and how far it rises after
SAME = 0.02  # right answers that differ by a smaller share are called the same
RARE = 0.01  # share of rollouts with children, below which depth 2 is called unused


@dataclass(frozen=True)
class Claim:
    """A line of the table. theirs and ours: figures in words. rule: what the verdict asks. runs: where ours come from."""

    claim: str
    theirs: str
    ours: str
    rule: str
    verdict: str
    runs: list[str] = field(default_factory=list)


def claims(runs: list[Run]) -> "pd.DataFrame":
    """A row a claim: claim, theirs, ours, rule, verdict, runs."""
    import pandas as pd

    found = evidence(runs)
    return pd.DataFrame([vars(checked(check, found)) for check in CHECKS])


def checked(check: Callable[[Evidence], Claim], found: Evidence) -> Claim:
    """A claim, also where a run that it needs is missing."""
    try:
        return check(found)
    except KeyError as error:
        return Claim(check.__doc__, "", f"needs {error.args[0]}", "", NOT_RUN)


def above(triple: Triple, bound: float) -> str:
    """Whether an interval lies above a bound."""
    _, low, high = triple
    return REPRODUCED if low > bound else NOT if high <= bound else UNCLEAR


def below(triple: Triple, bound: float) -> str:
    """Whether it lies below."""
    _, low, high = triple
    return REPRODUCED if high < bound else NOT if low >= bound else UNCLEAR


def all_of(verdicts: list[str]) -> str:
    """The verdict on a claim that has to hold everywhere."""
    return next((v for v in (NOT, UNCLEAR) if v in verdicts), REPRODUCED)


def times(value: float) -> str:
    return f"{value:.2f}x" if value < 10 else f"{value:.0f}x"


def effect(triple: Triple, nothing: float, what: str) -> str:
    """In words, what an interval says against the value of no effect."""
    _, low, high = triple
    return f"more {what}" if low > nothing else f"fewer {what}" if high < nothing else f"no clear change in {what}"


# --- the write-up's claims ---------------------------------------------------------------------


def accuracy_doubles(found: Evidence) -> Claim:
    """Training more than doubles the share of right answers."""
    grown = found.ratio("lora", "base", "correct")
    ours = f"{found.told('base')} to {found.told('lora')}: {interval(grown, times)}"
    rule, verdict = f"over {FACTOR:g}x", above(grown, FACTOR)
    return Claim(accuracy_doubles.__doc__, "22.5 % to 55.3 % (LoRA)", ours, rule, verdict, found.names("base", "lora"))


def tokens_fall(found: Evidence) -> Claim:
    """It cuts the leaf tokens of a rollout to less than a quarter."""
    cut = found.ratio("base", "lora", "leaf_tokens_mean")
    before, after = (found.told(group, "leaf_tokens_mean", tokens) for group in ("base", "lora"))
    ours = f"{before} to {after}: {interval(cut, times)} fewer"
    return Claim(tokens_fall.__doc__, "139k to 19.3k: 7.2x fewer", ours, f"over {CUT:g}x", above(cut, CUT), found.names("base", "lora"))


def finals_appear(found: Evidence) -> Claim:
    """At rank 4, rollouts without a final answer nearly vanish."""
    run = found.at(4, found.reference.params.training.lr)
    first, last = run.dir.metrics[:ENDS], run.dir.metrics[-ENDS:]
    start = float(np.mean([row["missing"] for row in first]))
    counts = [rollouts_of(run.dir, row["step"]) for row in last]
    end = wilson(round(sum(row["missing"] * count for row, count in zip(last, counts, strict=True))), sum(counts))
    ours = f"{share(start)} in the first {ENDS} steps, {interval(end, share)} in the last {ENDS}"
    theirs, rule = "37 % at the start, 0.16 % near the end", "less than a tenth is left"
    return Claim(finals_appear.__doc__, theirs, ours, rule, below(end, start / 10), [run.name])


def rate_matters_as_rank(found: Evidence) -> Claim:
    """The learning rate matters as much as the rank."""
    table = found.evaluated_grid
    keys, values = list(table), [[values_of(run, "correct")] for run in table.values()]
    means = np.array([run[0].mean for run in values])
    apart = interval_of(lambda drawn: spread(drawn, keys, 1) - spread(drawn, keys, 0), values, found.params)
    ours = (
        f"right answers spread over {100 * spread(means, keys, 1):.1f} points by rate and {100 * spread(means, keys, 0):.1f} by rank "
        f"({len(keys)} runs that reached their end): {signed(apart, share)}"
    )
    rule = "the spread by rate is at least that by rank"
    return Claim(rate_matters_as_rank.__doc__, "as important", ours, rule, above(apart, -1e-9), [run.name for run in table.values()])


def low_rate_underfits(found: Evidence) -> Claim:
    """The smallest learning rate underfits at every rank."""
    lowest, middle = min(lr for _, lr in found.grid), found.reference.params.training.lr
    gaps, runs = {}, []
    for rank in sorted({rank for rank, _ in found.grid}):
        slow, quick = found.at(rank, lowest), found.at(rank, middle)
        gaps[rank] = interval_of(lambda m: m[0] - m[1], [[values_of(quick, "correct")], [values_of(slow, "correct")]], found.params)
        runs += [slow.name, quick.name]
    ours = f"right answers at lr {middle:g} less those at {lowest:g}: " + "; ".join(
        f"rank {rank} {signed(gap, share)}" for rank, gap in gaps.items()
    )
    verdict = all_of([above(gap, 0.0) for gap in gaps.values()])
    return Claim(low_rate_underfits.__doc__, "lr 5e-7, at every rank", ours, "over 0 at every rank", verdict, runs)


def high_rate_collapses(found: Evidence) -> Claim:
    """The largest rank at the largest learning rate diverges and has to be stopped."""
    highest, largest = (max(values) for values in (  # of all that was tried, stopped runs included
        [lr for _, lr in found.grid], [rank for rank, _ in found.grid],
    ))  # fmt: skip
    there = {rank: run for (rank, lr), run in sorted(found.grid.items()) if lr == highest}
    stopped = {run.name for run, _ in found.ended}
    ends = {
        rank: f"stopped after {len(run.dir.metrics)} of {run.params.training.steps} steps" if run.name in stopped else "ran to its end"
        for rank, run in there.items()
    }
    if largest not in there:
        raise KeyError(f"a run of rank {largest} at lr {highest:g}")
    ours = f"lr {highest:g}: " + "; ".join(f"rank {rank} {end}" for rank, end in ends.items())
    verdict = REPRODUCED if there[largest].name in stopped else NOT
    theirs, runs = "rank 64, lr 1e-4: stopped at step 72 of 150", [run.name for run in there.values()]
    return Claim(high_rate_collapses.__doc__, theirs, ours, "that run was stopped", verdict, runs)


def three_phases(found: Evidence) -> Claim:
    """The leaf is asked for almost everything, then almost never, then selectively."""
    seen, curves = [], []
    for run in found.runs("lora"):
        asked = np.array([row["broad"] + row["selective"] for row in phases(run.dir)])
        smooth = np.convolve(asked, np.ones(ENDS) / ENDS, mode="valid")
        low = int(smooth.argmin())
        rise = smooth[low:].max() - smooth[low]
        seen.append(bool(smooth[0] > BUSY and smooth[low] < QUIET and rise > RETURN))
        curves.append(f"{share(smooth[0])}, lowest {share(smooth[low])}, last {share(smooth[-1])}")
    verdict = REPRODUCED if all(seen) else UNCLEAR if any(seen) else NOT
    rule = f"over {BUSY:.0%} at first, under {QUIET:.0%} later, then up by {100 * RETURN:.0f} points, at every seed"
    ours = f"rollouts that ask the leaf, by seed: {'; '.join(curves)}"
    return Claim(three_phases.__doc__, "three phases", ours, rule, verdict, found.names("lora"))


def full_is_better(found: Evidence) -> Claim:
    """Full fine-tuning is right more often than the best LoRA."""
    gap = found.difference("full", "lora", "correct")
    ours = f"{found.told('full')} and {found.told('lora')}: {signed(gap, share)}"
    return Claim(full_is_better.__doc__, "64.8 % and 55.3 %", ours, "over 0", above(gap, 0.0), found.names("full", "lora"))


def full_is_cheaper(found: Evidence) -> Claim:
    """Full fine-tuning spends far fewer leaf tokens than the best LoRA."""
    cut = found.ratio("lora", "full", "leaf_tokens_mean")
    full, lora = (found.told(group, "leaf_tokens_mean", tokens) for group in ("full", "lora"))
    ours = f"{full} and {lora}: {interval(cut, times)} fewer"
    return Claim(
        full_is_cheaper.__doc__, "433 and 19.3k: 45x fewer", ours, f"over {FACTOR:g}x", above(cut, FACTOR), found.names("full", "lora")
    )


def full_is_narrower(found: Evidence) -> Claim:
    """At many attempts full fine-tuning falls behind LoRA."""
    k = min(run.params.evaluation.rollouts_per_example for group in ("full", "lora") for run in found.runs(group))
    gap = found.difference("lora", "full", f"pass_at_{k}")
    ours = f"pass@{k} of LoRA less that of full: {signed(gap, share)}"
    return Claim(full_is_narrower.__doc__, "worse at higher k", ours, "over 0", above(gap, 0.0), found.names("full", "lora"))


def depth_is_unused(found: Evidence) -> Claim:
    """At depth 2 children are hardly ever started."""
    used = found.level("depth2", "child_usage")
    ours, rule = f"{interval(used, share)} of the rollouts", f"under {RARE:.0%}"
    return Claim(depth_is_unused.__doc__, "about 0.1 % of the rollouts", ours, rule, below(used, RARE), found.names("depth2"))


def depth_gains_nothing(found: Evidence) -> Claim:
    """Depth 2 is no better trade-off of cost and accuracy."""
    right, cost = found.difference("depth2", "lora", "correct"), found.ratio("depth2", "lora", "total_tokens_mean")
    better = right[1] > 0 and cost[0] <= 1 or right[0] >= 0 and cost[2] < 1
    no_better = right[2] < SAME or cost[1] > 1
    verdict = NOT if better else REPRODUCED if no_better else UNCLEAR
    ours, rule = (
        f"right answers {signed(right, share)}; all tokens {interval(cost, times)}",
        f"not {100 * SAME:.0f} points better, or dearer",
    )
    return Claim(depth_gains_nothing.__doc__, "no better", ours, rule, verdict, found.names("depth2", "lora"))


# --- what the write-up left open -----------------------------------------------------------------


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
    answer = f"{effect(leaf, 1.0, 'leaf tokens')}, {effect(whole, 1.0, 'tokens in all')}, {effect(right, 0.0, 'right answers')}"
    return Claim(penalty.__doc__, "no such baseline", ours, "intervals without 1, or 0", answer, found.names(*groups))


def labels(found: Evidence) -> Claim:
    """Open: do labels in the records keep the leaf idle? Trained on hidden labels alone, or on shown ones alone."""
    groups = "hidden", "shown"
    right, usage = (found.difference(*groups, measure) for measure in ("correct", "llm_usage"))
    ours = (
        f"hidden less shown, asked the same questions of both kinds: right answers {signed(right, share)}; "
        f"rollouts that ask the leaf {signed(usage, share)}"
    )
    answer = f"hidden labels: {effect(usage, 0.0, 'rollouts that ask the leaf')}, {effect(right, 0.0, 'right answers')}"
    return Claim(labels.__doc__, "labels were always shown", ours, "intervals without 0", answer, found.names(*groups))


def bonus(found: Evidence) -> Claim:
    """Open: does an incentive make depth 2 be used? A bonus for a right answer whose rollout started a child."""
    groups = "depth2-bonus", "depth2"
    used, right = (found.difference(*groups, measure) for measure in ("child_usage", "correct"))
    size = found.runs("depth2-bonus")[0].params.reward.child_bonus
    ours = (
        f"bonus {size:g}: children in {found.told('depth2-bonus', 'child_usage')} of the rollouts, {signed(used, share)}; "
        f"right answers {signed(right, share)}"
    )
    answer = f"{effect(used, 0.0, 'rollouts with children')}, {effect(right, 0.0, 'right answers')}"
    return Claim(bonus.__doc__, "no incentive was tried", ours, "intervals without 0", answer, found.names(*groups))


CHECKS = (
    accuracy_doubles, tokens_fall, finals_appear, rate_matters_as_rank, low_rate_underfits, high_rate_collapses, three_phases,
    full_is_better, full_is_cheaper, full_is_narrower, depth_is_unused, depth_gains_nothing, penalty, labels, bonus,
)  # fmt: skip
