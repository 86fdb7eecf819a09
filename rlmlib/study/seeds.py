"""Means over runs of several seeds, and 95 % intervals that know of both sources of chance: the questions and the seeds.

Each of the bootstrap's resamples draws questions, stratified by family, and seeds, with replacement. All groups draw the same
questions in the same resample, so differences between groups are paired by question; seeds are drawn by each group for itself.
With three seeds such an interval is narrow rather than wide: the values of the single seeds belong beside it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..config import Params
from ..measures import seed_of
from ..scoring.passk import bootstrap_weights

Triple = tuple[float, float, float]  # value, low, high


@dataclass(frozen=True)
class Values:
    """A measure of one run: a value for each example, and the example's family."""

    by_example: dict[str, float]
    families: dict[str, str]

    @property
    def mean(self) -> float:
        return float(np.mean(list(self.by_example.values())))


def interval_over_seeds(runs: Sequence[Values], params: Params) -> Triple:
    """(mean over the runs, low, high). The runs were asked the same examples."""
    return interval(lambda means: means[0], [runs], params)


def difference(first: Sequence[Values], second: Sequence[Values], params: Params) -> Triple:
    """first minus second."""
    return interval(lambda means: means[0] - means[1], [first, second], params)


def ratio(first: Sequence[Values], second: Sequence[Values], params: Params) -> Triple:
    """first over second; infinite where the second is 0."""

    def divided(means):
        with np.errstate(divide="ignore", invalid="ignore"):
            return means[0] / means[1]

    return interval(divided, [first, second], params)


def interval(formula: Callable, groups: Sequence[Sequence[Values]], params: Params) -> Triple:
    """(value, low, high) of a formula over the means of groups of runs.

    formula: takes an array [groups, ...] and gives [...]; it is applied to the means and to those of every resample. Examples that
    are not in all runs are left out. Raises ValueError where there are none.
    """
    examples = shared_examples([run for group in groups for run in group])
    families = [groups[0][0].families[example] for example in examples]
    counts = bootstrap_weights(families, params.evaluation.bootstrap, seed_of(params))
    rng = np.random.default_rng([seed_of(params), 1])
    tables = [np.array([[run.by_example[e] for e in examples] for run in group]) for group in groups]  # [seeds, examples] each
    drawn = np.stack([resampled(table, counts, rng) for table in tables])  # [groups, resamples]
    value = formula(np.array([table.mean() for table in tables]))
    low, high = np.percentile(formula(drawn), (2.5, 97.5))
    return float(value), float(low), float(high)


def resampled(table: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Means [resamples] of a table [seeds, examples], both resampled."""
    seeds = len(table)
    weights = rng.multinomial(seeds, np.full(seeds, 1 / seeds), size=len(counts)) if seeds > 1 else np.ones((len(counts), 1))
    means = counts @ table.T / counts.sum(1, keepdims=True)  # [resamples, seeds]
    return (weights * means).sum(1) / seeds


def shared_examples(runs: Sequence[Values]) -> list[str]:
    """Examples that every run was asked, in the order of the first one."""
    found = [e for e in runs[0].by_example if all(e in run.by_example for run in runs)]
    if not found:
        raise ValueError("the runs were not asked the same questions: give them one evaluation.seed")
    return found
