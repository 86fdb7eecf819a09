"""Means over runs of several seeds, and 95 % intervals that know of both sources of chance: the questions and the seeds.

Each of the bootstrap's resamples draws questions, stratified by family, and seeds, with replacement. All groups draw the same
questions in the same resample, so differences between groups are paired by question; seeds are drawn by each group for itself.
Of n seeds n - 1 are drawn: the variance of such a mean is that of a mean over n runs, where n draws would give (n - 1) / n of it
(McCarthy and Snowden 1985). With three seeds the interval is narrow all the same, as it ends at the best and the worst seed: where
the luck of training is all that differs, it holds the truth three times in four. So the values of the single seeds belong beside it.
One seed says nothing of that luck, and its interval is of the questions alone, unless the spread of seeds is given that groups of
several have: it is then drawn from a normal distribution.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..config import Params
from ..errors import RunError
from ..measures import seed_of
from ..scoring.passk import bootstrap_weights

Triple = tuple[float, float, float]  # value, low, high
ENDS = 2.5, 97.5  # percentiles of a 95 % interval


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


def difference(first: Sequence[Values], second: Sequence[Values], params: Params, luck: Sequence[float] = ()) -> Triple:
    """first minus second. luck: see `interval`."""
    return interval(lambda means: means[0] - means[1], [first, second], params, luck)


def ratio(first: Sequence[Values], second: Sequence[Values], params: Params, luck: Sequence[float] = ()) -> Triple:
    """first over second, of measures that are never negative; infinite where the second is 0, and not a number where both are.

    luck: as of `interval`, of logarithms.
    """

    def divided(means):
        with np.errstate(divide="ignore", invalid="ignore"):
            return means[0] / means[1]

    value, low, high = interval(divided, [first, second], params, luck, relative=True)
    return value, max(0.0, low), high


def interval(
    formula: Callable, groups: Sequence[Sequence[Values]], params: Params, luck: Sequence[float] = (), relative: bool = False
) -> Triple:
    """(value, low, high) of a formula over the means of groups of runs.

    formula: takes an array [groups, ...] and gives [...]; it is applied to the means and to those of every resample. Examples that
    are not in all runs are left out. Raises RunError where there are none. luck: standard deviation of a group's mean over trainings,
    beside what its own seeds show of it, for each group; relative: of its logarithm.
    """
    examples = shared_examples([run for group in groups for run in group])
    families = [groups[0][0].families[example] for example in examples]
    counts = bootstrap_weights(families, params.evaluation.bootstrap, seed_of(params))
    rng = np.random.default_rng([seed_of(params), 1])
    tables = [np.array([[run.by_example[e] for e in examples] for run in group]) for group in groups]  # [seeds, examples] each
    drawn = np.stack([resampled(table, counts, rng) for table in tables])  # [groups, resamples]
    if any(luck):
        shifts = np.array(luck)[:, None] * np.random.default_rng([seed_of(params), 2]).normal(size=drawn.shape)
        drawn = drawn * np.exp(shifts) if relative else drawn + shifts
    value = formula(np.array([table.mean() for table in tables]))
    return (float(value), *bounds(formula(drawn)))


def spread_of_seeds(groups: Sequence[Sequence[float]], relative: bool = False) -> float:
    """Standard deviation of means over trainings that differ by their seed alone, pooled over groups of them; 0 where none has two.

    relative: of logarithms; groups with a mean of 0 have none and are left out.
    """
    several = [np.array(group) for group in groups if len(group) > 1 and (min(group) > 0 or not relative)]
    if not several:
        return 0.0
    squares = sum(float(((v - v.mean()) ** 2).sum()) for v in (np.log(group) if relative else group for group in several))
    return (squares / sum(len(group) - 1 for group in several)) ** 0.5


def resampled(table: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Means [resamples] of a table [seeds, examples], both resampled."""
    seeds, chosen = len(table), max(1, len(table) - 1)
    weights = rng.multinomial(chosen, np.full(seeds, 1 / seeds), size=len(counts))  # [resamples, seeds]
    means = counts @ table.T / counts.sum(1, keepdims=True)  # [resamples, seeds]
    return (weights * means).sum(1) / chosen


def bounds(values: np.ndarray) -> tuple[float, float]:
    """Ends of the 95 % interval of resamples. Where they are not numbers, as 0 / 0 is, they count for the worst at either end."""
    low, high = (np.where(np.isnan(values), worst, values) for worst in (-np.inf, np.inf))
    return _percentile(low, ENDS[0], "lower"), _percentile(high, ENDS[1], "higher")


def _percentile(values: np.ndarray, at: float, otherwise: str) -> float:
    """A percentile between two of the values, or where these may be infinite, and have nothing between them, one of them."""
    return float(np.percentile(values, at, method="linear" if np.isfinite(values).all() else otherwise))


def shared_examples(runs: Sequence[Values]) -> list[str]:
    """Examples that every run was asked, in the order of the first one. Raises RunError where there is none."""
    found = [e for e in runs[0].by_example if all(e in run.by_example for run in runs)]
    if not found:
        raise RunError("runs that are compared were not asked the same questions; give all of them one evaluation.seed and hidden_labels")
    return found
