"""What claims are checked on: the runs of a study by group, and comparisons of groups by name."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ..runs import RunDir
from ..wording import interval, share
from . import seeds
from .frames import Run, by_group, phases, values_of
from .seeds import Triple, Values


@dataclass(frozen=True)
class Evidence:
    """Evaluated runs by group, and training runs that ended before their last step, with the reason.

    All methods raise KeyError, which names what is missing, where a group was not evaluated.
    """

    groups: dict[str, list[Run]]
    ended: list[tuple[Run, str]] = field(default_factory=list)

    @property
    def params(self):
        return next(iter(self.groups.values()))[0].params

    def runs(self, group: str) -> list[Run]:
        if group not in self.groups:
            raise KeyError(f"an evaluated run of {group}")
        return self.groups[group]

    def values(self, group: str, measure: str) -> list[Values]:
        return [values_of(run, measure) for run in self.runs(group)]

    def level(self, group: str, measure: str) -> Triple:
        """Mean of a measure over a group's seeds."""
        return seeds.interval_over_seeds(self.values(group, measure), self.params)

    def difference(self, first: str, second: str, measure: str) -> Triple:
        """first less second."""
        return seeds.difference(self.values(first, measure), self.values(second, measure), self.params)

    def ratio(self, first: str, second: str, measure: str) -> Triple:
        """first over second."""
        return seeds.ratio(self.values(first, measure), self.values(second, measure), self.params)

    def told(self, group: str, measure: str = "correct", form: Callable[[float], str] = share) -> str:
        return interval(self.level(group, measure), form)

    def by_seed(self, first: str, second: str, measure: str = "correct") -> dict[int, float]:
        """Differences of seeds that both groups have, first less second."""
        means = [{run.seed: values_of(run, measure).mean for run in self.runs(group)} for group in (first, second)]
        return {seed: means[0][seed] - means[1][seed] for seed in sorted(means[0].keys() & means[1].keys())}

    def names(self, *groups: str) -> list[str]:
        return [run.name for group in groups for run in self.runs(group)]

    # the grid

    @property
    def reference(self) -> Run:
        """The LoRA run of the headline, of its smallest seed."""
        return min(self.runs("lora"), key=lambda run: run.seed)

    @property
    def grid(self) -> dict[tuple[int, float], Run]:
        """{(rank, lr): run} of all runs, ended ones too, that differ from the reference by these alone."""
        known = [run for runs in self.groups.values() for run in runs] + [run for run, _ in self.ended]
        wanted = beside_rank_and_rate(self.reference)
        return {point(run): run for run in known if run.kind == "train" and beside_rank_and_rate(run) == wanted}

    @property
    def evaluated_grid(self) -> dict[tuple[int, float], Run]:
        return {key: run for key, run in sorted(self.grid.items()) if run.summary}

    def at(self, rank: int, lr: float) -> Run:
        """An evaluated run of the grid."""
        if (rank, lr) not in self.evaluated_grid:
            raise KeyError(f"an evaluated run of rank {rank} at lr {lr:g}")
        return self.evaluated_grid[rank, lr]


def evidence(runs: list[Run]) -> Evidence:
    """What claims are checked on."""
    trained = [run for run in runs if run.kind == "train"]
    ended = [(run, run.dir.status["reason"]) for run in trained if run.dir.status.get("state") in ("failed", "timeout")]
    return Evidence(by_group([run for run in runs if run.summary]), ended)


def point(run: Run) -> tuple[int, float]:
    return run.params.policy.lora.rank, run.params.training.lr


def beside_rank_and_rate(run: Run) -> dict:
    """A run's parameters without name, rank, alpha and rate."""
    values = run.params.model_copy(update={"name": ""}).model_dump()
    values["policy"]["lora"] |= {"rank": 0, "alpha": 0}
    values["training"]["lr"] = 0
    return values


def spread(means: np.ndarray, keys: list[tuple], axis: int) -> np.ndarray:
    """Largest less smallest mean over the levels of one axis (0: rank, 1: rate), a level's mean being over the other axis.

    means: [runs, ...], in the order of `keys`; gives [...].
    """
    levels = sorted({key[axis] for key in keys})
    by_level = [np.mean([means[i] for i, key in enumerate(keys) if key[axis] == level], axis=0) for level in levels]
    return np.max(by_level, axis=0) - np.min(by_level, axis=0)


def rollouts_of(run: RunDir, step: int) -> int:
    """Rollouts that a training step sampled."""
    return next(row["rollouts"] for row in phases(run) if row["step"] == step)


def wilson(hits: int, total: int, z: float = 1.96) -> Triple:
    """(share, low, high): Wilson's 95 % interval, for shares near 0, where a bootstrap of zeros has no width.

    Raises ValueError where the total is 0.
    """
    if not total:
        raise ValueError("a share of none has no interval")
    p, extra = hits / total, z * z / total
    centre = (p + extra / 2) / (1 + extra)
    half = z / (1 + extra) * float(np.sqrt(p * (1 - p) / total + extra / (4 * total)))
    return p, max(0.0, centre - half), min(1.0, centre + half)
