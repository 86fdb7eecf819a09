"""The write-up's claims, one by one, beside what the runs of a folder say: figure, interval, verdict.

A verdict is a rule on an interval: `reproduced` where the whole 95 % interval meets the claim, `not reproduced` where none of it
does, else `unclear`; that a run diverged is a fact without an interval. Questions
that the write-up left open have an answer in place of a verdict, by the same kind of rule. Where a run is missing, the table says
which. Runs that ended early are in no mean, and are named beside it.

A group of one seed, as every run of the grid of ranks and rates is, is compared as if its training had the luck of the groups of
several: the spread of their seeds is in the interval. No interval knows that many verdicts are read at once, of which one may well be
chance.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ..errors import RunError
from ..wording import interval, share, signed, tokens
from .evidence import Evidence, Missing, crossing, evidence, hopeless, spread, without_final
from .frames import Run, values_of
from .open_questions import bonus, labels, penalty
from .seeds import difference
from .seeds import interval as interval_of
from .shares import clustered_share, design_effect, less
from .usage_shape import Shape, rule_of_phases
from .verdicts import NOT, NOT_RUN, REPRODUCED, UNCLEAR, Claim, above, all_of, below, times

if TYPE_CHECKING:
    import pandas as pd

FACTOR = 2.0  # more right answers, and
CUT = 4.0  # fewer leaf tokens: the write-up's "more than doubled" and "more than 4x"
ENDS = 5  # steps that "at the start" and "near the end" of training stand for
LEFT = 0.1  # of the rollouts without a final answer, if they nearly vanish
SAME = 0.02  # right answers that differ by a smaller share are called the same
TO_ITS_END, OTHERWISE = "ran to its end", "ended before it could tell"
MANY = 4  # groups of one seed that are not named
RARE = 0.01  # share of rollouts with children, below which depth 2 is called unused


def claims(runs: list[Run]) -> "pd.DataFrame":
    """A row a claim: claim, theirs, ours, rule, verdict, runs."""
    import pandas as pd

    found = evidence(runs)
    return pd.DataFrame([vars(checked(check, found)) for check in CHECKS])


def checked(check: Callable[[Evidence], Claim], found: Evidence) -> Claim:
    """A claim, also where a run that it needs is missing, with the runs that it could not count."""
    try:
        claim = check(found)
    except Missing as error:
        return Claim(check.__doc__, "", f"needs {error.args[0]}", "", NOT_RUN)
    except RunError as error:
        return Claim(check.__doc__, "", str(error), "", NOT_RUN)
    return replace(claim, ours="; ".join([claim.ours, *reserves(claim, found)]))


def reserves(claim: Claim, found: Evidence) -> list[str]:
    """What a claim's interval does not hold, in words."""
    trained = [run for run in found.known if run.name in claim.runs and run.kind == "train"]
    counts = Counter(run.group for run in trained)
    single = sorted(group for group, count in counts.items() if count == 1)
    whole = {group for group, count in counts.items() if count == len(found.groups.get(group, []))}
    lost = [run.name for run, _ in found.ended if run.group in whole and run not in trained]
    told = [f"one seed of {', '.join(single) if len(single) < MANY else 'each'}"] if single else []
    return told + ([f"without {', '.join(lost)}, which ended early"] if lost else [])


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
    metrics = run.dir.metrics
    if len(metrics) < 2 * ENDS:
        raise Missing(f"{2 * ENDS} training steps of {run.name}")
    first, last = without_final(run.dir, metrics[:ENDS]), without_final(run.dir, metrics[-ENDS:])
    effect = max(design_effect(first), design_effect(last))  # at the end there may be too few to tell it from
    start, end = clustered_share(first, effect), clustered_share(last, effect)
    ours = f"{interval(start, share)} in the first {ENDS} steps, {interval(end, share)} in the last {ENDS}"
    theirs, rule = "37 % at the start, 0.16 % near the end", "less than a tenth is left"
    return Claim(finals_appear.__doc__, theirs, ours, rule, below(less(end, start, LEFT), 0.0), [run.name])


def rate_matters_as_rank(found: Evidence) -> Claim:
    """The learning rate matters as much as the rank."""
    keys = crossing(found.evaluated_grid)
    runs = [found.at(*key) for key in keys]
    values = [[values_of(run, "correct")] for run in runs]
    means = np.array([value.mean for [value] in values])
    luck = [found.usual_luck("correct")] * len(runs)
    apart = interval_of(lambda drawn: spread(drawn, keys, 1) - spread(drawn, keys, 0), values, found.params, luck)
    others = len(found.grid) - len(keys)
    ours = (
        f"right answers spread over {100 * spread(means, keys, 1):.1f} points by rate and {100 * spread(means, keys, 0):.1f} by rank: "
        f"{signed(apart, share)} (ranks {listed(keys, 0)} at lr {listed(keys, 1)}"
        f"{f'; {others} left out, so that each rank has each rate)' if others else ')'}"
    )
    rule = "the spread by rate is at least that by rank"
    return Claim(rate_matters_as_rank.__doc__, "as important", ours, rule, above(apart, 0.0), [run.name for run in runs])


def listed(keys: list[tuple], axis: int) -> str:
    """The levels of an axis of the grid."""
    return ", ".join(f"{level:g}" for level in sorted({key[axis] for key in keys}))


def low_rate_underfits(found: Evidence) -> Claim:
    """The smallest learning rate underfits at every rank."""
    lowest, middle = min(lr for _, lr in found.grid), found.reference.params.training.lr
    if lowest >= middle:
        raise Missing(f"an evaluated run at an lr under {middle:g}")
    gaps, runs = {}, []
    for rank in sorted({rank for rank, _ in found.grid}):
        slow, quick = found.at(rank, lowest), found.at(rank, middle)
        values = [[values_of(run, "correct")] for run in (quick, slow)]
        gaps[rank] = difference(*values, found.params, [found.usual_luck("correct")] * 2)
        runs += [slow.name, quick.name]
    ours = f"right answers at lr {middle:g} less those at {lowest:g}: " + "; ".join(
        f"rank {rank} {signed(gap, share)}" for rank, gap in gaps.items()
    )
    verdict = all_of([above(gap, 0.0) for gap in gaps.values()])
    return Claim(low_rate_underfits.__doc__, "lr 5e-7, at every rank", ours, "over 0 at every rank", verdict, runs)


def high_rate_collapses(found: Evidence) -> Claim:
    """The largest rank at the largest learning rate diverges and has to be stopped."""
    grid, usual = found.grid, found.reference.params.training.lr
    highest, largest = max(lr for _, lr in grid), max(rank for rank, _ in grid)  # of all that was tried, stopped runs included
    if highest <= usual or (largest, highest) not in grid:
        raise Missing(f"a run of rank {largest} at {f'lr {highest:g}' if highest > usual else f'an lr over {usual:g}'}")
    there = {rank: run for (rank, lr), run in sorted(grid.items()) if lr == highest}
    ends = {rank: end_of(run) for rank, run in there.items()}
    if ends[largest] == OTHERWISE:
        raise Missing(f"a run of rank {largest} at lr {highest:g} that diverges or reaches its end")
    ours = f"lr {highest:g}: " + "; ".join(f"rank {rank} {end}" for rank, end in ends.items())
    verdict = NOT if ends[largest] == TO_ITS_END else REPRODUCED
    theirs, runs = "rank 64, lr 1e-4: stopped at step 72 of 150", [run.name for run in there.values()]
    return Claim(high_rate_collapses.__doc__, theirs, ours, "that run diverged", verdict, runs)


def end_of(run: Run) -> str:
    """How a run's training ended."""
    done, steps = len(run.dir.metrics), run.params.training.steps
    if not run.evaluated and hopeless(run):
        return f"diverged and was stopped after {done} of {steps} steps"
    return TO_ITS_END if run.evaluated or done >= steps else OTHERWISE


def three_phases(found: Evidence) -> Claim:
    """The leaf is asked for almost everything, then almost never, then selectively."""
    shapes = {run.seed: Shape(run) for run in found.runs("lora")}
    verdicts = [shape.verdict for shape in shapes.values()]
    verdict = verdicts[0] if len(set(verdicts)) == 1 else UNCLEAR
    ours = f"rollouts that ask the leaf, by seed: {'; '.join(str(shape) for shape in shapes.values())}"
    return Claim(three_phases.__doc__, "three phases", ours, rule_of_phases(), verdict, found.names("lora"))


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
    k = found.attempts("full", "lora")
    if k < 2:
        raise Missing("evaluated runs of full and lora with two rollouts of every question")
    gap = found.difference("lora", "full", f"pass_at_{k}")
    ours = f"pass@{k} of LoRA less that of full: {signed(gap, share)}"
    return Claim(full_is_narrower.__doc__, "worse at higher k", ours, "over 0", above(gap, 0.0), found.names("full", "lora"))


def depth_is_unused(found: Evidence) -> Claim:
    """At depth 2 children are hardly ever started."""
    used = found.with_children("depth2")
    ours, rule = f"{interval(used, share)} of the rollouts", f"under {RARE:.0%}"
    return Claim(depth_is_unused.__doc__, "about 0.1 % of the rollouts", ours, rule, below(used, RARE), found.names("depth2"))


def depth_gains_nothing(found: Evidence) -> Claim:
    """Depth 2 is no better trade-off of cost and accuracy."""
    right, cost = found.difference("depth2", "lora", "correct"), found.ratio("depth2", "lora", "total_tokens_mean")
    better = right[1] > 0 and cost[0] <= 1 or right[0] >= 0 and cost[2] < 1
    no_better = right[2] < SAME and cost[1] >= 1 or cost[1] > 1 and right[0] <= 0
    verdict = NOT if better else REPRODUCED if no_better else UNCLEAR
    ours = f"right answers {signed(right, share)}; all tokens {interval(cost, times)}"
    if not found.level("depth2", "child_usage")[0]:
        ours += "; no child was started, so depth 2 was not put to the test"
    rule = f"not {100 * SAME:.0f} points better and not cheaper, or dearer and no better"
    return Claim(depth_gains_nothing.__doc__, "no better", ours, rule, verdict, found.names("depth2", "lora"))


CHECKS = (
    accuracy_doubles, tokens_fall, finals_appear, rate_matters_as_rank, low_rate_underfits, high_rate_collapses, three_phases,
    full_is_better, full_is_cheaper, full_is_narrower, depth_is_unused, depth_gains_nothing, penalty, labels, bonus,
)  # fmt: skip
