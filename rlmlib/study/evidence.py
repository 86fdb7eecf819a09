"""What claims are checked on: the runs of a study by group, and comparisons of groups by name."""

import itertools
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from ..runs import RunDir
from ..training.watch import MAX_SKIPPED, NO_SIGNAL, diverged, skipped_last
from ..wording import interval, share
from . import seeds
from .frames import Run, asked, by_group, pass_names, sampled, values_of
from .seeds import Triple, Values
from .shares import Cluster, clustered_share
from .verdicts import wider


class Missing(KeyError):
    """What a claim needs and the runs do not have."""


@dataclass(frozen=True)
class Evidence:
    """Evaluated runs by group, and training runs that failed or ran out of time, with the reason.

    All methods raise Missing, which names what is missing, where a group was not evaluated, and RunError where runs that are compared
    were not asked the same questions.
    """

    groups: dict[str, list[Run]]
    ended: list[tuple[Run, str]] = field(default_factory=list)

    @property
    def params(self):
        return next(iter(self.groups.values()))[0].params

    def runs(self, group: str) -> list[Run]:
        if group not in self.groups:
            raise Missing(f"an evaluated run of {group}")
        return self.groups[group]

    def values(self, group: str, measure: str) -> list[Values]:
        return [values_of(run, measure) for run in self.runs(group)]

    def level(self, group: str, measure: str) -> Triple:
        """Mean of a measure over a group's seeds."""
        return seeds.interval_over_seeds(self.values(group, measure), self.params)

    def difference(self, first: str, second: str, measure: str) -> Triple:
        """first less second."""
        luck = [self.luck(group, measure) for group in (first, second)]
        return seeds.difference(self.values(first, measure), self.values(second, measure), self.params, luck)

    def ratio(self, first: str, second: str, measure: str) -> Triple:
        """first over second."""
        luck = [self.luck(group, measure, relative=True) for group in (first, second)]
        return seeds.ratio(self.values(first, measure), self.values(second, measure), self.params, luck)

    def luck(self, group: str, measure: str, relative: bool = False) -> float:
        """Spread of a measure over trainings for a group of one: that of the trained groups of several seeds. Else 0, see seeds.py."""
        runs = self.runs(group)
        return self.usual_luck(measure, relative) if len(runs) == 1 and runs[0].kind == "train" else 0.0

    def usual_luck(self, measure: str, relative: bool = False) -> float:
        trained = [runs for runs in self.groups.values() if runs[0].kind == "train" and len(runs) > 1]
        return seeds.spread_of_seeds([[values_of(run, measure).mean for run in runs] for runs in trained], relative)

    def told(self, group: str, measure: str = "correct", form: Callable[[float], str] = share) -> str:
        return interval(self.level(group, measure), form)

    def by_seed(
        self, first: str, second: str, measure: str = "correct", form: Callable[[float, float], float] = operator.sub
    ) -> dict[int, float]:
        """What sets the groups apart, of each seed that both have; a policy that was not trained has one run for all seeds."""
        means = [{run.seed: values_of(run, measure).mean for run in self.runs(group)} for group in (first, second)]
        if self.runs(second)[0].kind != "train":
            means[1] = dict.fromkeys(means[0], next(iter(means[1].values())))
        return {seed: form(means[0][seed], means[1][seed]) for seed in sorted(means[0].keys() & means[1].keys())}

    def names(self, *groups: str) -> list[str]:
        return [run.name for group in groups for run in self.runs(group)]

    def attempts(self, *groups: str) -> int:
        """Largest k of the pass@k that all runs of the groups have."""
        return len(pass_names([run for group in groups for run in self.runs(group)]))

    def clusters(self, group: str, hit: Callable[[dict], bool]) -> list[Cluster]:
        """Held-out rollouts of a group with what `hit` tells, by question, all seeds together."""
        return clusters((asked(row), hit(row)) for run in self.runs(group) for row in run.heldout() if row["error"] is None)

    def with_children(self, group: str) -> Triple:
        """Share of held-out rollouts that started a child. Its interval has a width also where none did."""
        return wider(self.level(group, "child_usage"), clustered_share(self.clusters(group, lambda row: row["children"] > 0)))

    def sampled_with_children(self, group: str) -> tuple[int, int]:
        """(rollouts of training that started a child, those of them that were right)."""
        rows = [row for run in self.runs(group) for metric in run.dir.metrics for row in sampled(run.dir, metric["step"])]
        started = [row for row in rows if row["children"]]
        return len(started), sum(row["correct"] for row in started)

    def comparable(self, first: str, second: str) -> bool:
        """Whether both groups were evaluated, on questions of which all runs share some."""
        if not {first, second} <= self.groups.keys():
            return False
        questions = [set(values.by_example) for group in (first, second) for values in self.values(group, "correct")]
        return bool(set.intersection(*questions))

    @property
    def known(self) -> list[Run]:
        """All runs, ended ones first."""
        evaluated = [run for runs in self.groups.values() for run in runs]
        return [run for run, _ in self.ended if run not in evaluated] + evaluated

    # the grid

    @property
    def reference(self) -> Run:
        """The LoRA run of the headline, of its smallest seed."""
        return min(self.runs("lora"), key=lambda run: run.seed)

    @property
    def grid(self) -> dict[tuple[int, float], Run]:
        """{(rank, lr): run} of all runs, ended ones too, that differ from the reference by these alone."""
        wanted = beside_rank_and_rate(self.reference)
        return {point(run): run for run in self.known if run.kind == "train" and beside_rank_and_rate(run) == wanted}

    @property
    def evaluated_grid(self) -> dict[tuple[int, float], Run]:
        return {key: run for key, run in sorted(self.grid.items()) if run.evaluated}

    def at(self, rank: int, lr: float) -> Run:
        """An evaluated run of the grid."""
        if (rank, lr) not in self.evaluated_grid:
            raise Missing(f"an evaluated run of rank {rank} at lr {lr:g}")
        return self.evaluated_grid[rank, lr]


def evidence(runs: list[Run]) -> Evidence:
    """What claims are checked on."""
    trained = [run for run in runs if run.kind == "train"]
    ended = [(run, run.dir.status.get("reason", "")) for run in trained if run.dir.status.get("state") in ("failed", "timeout")]
    return Evidence(by_group([run for run in runs if run.evaluated]), ended)


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


def crossing(keys: Iterable[tuple[int, float]]) -> list[tuple[int, float]]:
    """The most of these points of a grid, sorted, that have every one of their ranks at every one of their rates.

    On such points the means of ranks are over the same rates, and the reverse; else a rate at which only one rank reached its end
    would count for that rank. Raises Missing where there are not two of both.
    """
    keys = set(keys)
    ranks = sorted({rank for rank, _ in keys})
    found = []
    for chosen in itertools.chain.from_iterable(itertools.combinations(ranks, n) for n in range(2, len(ranks) + 1)):
        rates = {lr for _, lr in keys if all((rank, lr) in keys for rank in chosen)}
        found.append(sorted(itertools.product(chosen, rates)) if len(rates) > 1 else [])
    best = max(found, key=len, default=[])
    if not best:
        raise Missing("evaluated runs of two ranks, each at the same two learning rates")
    return best


def hopeless(run: Run) -> bool:
    """Whether a run's training diverges by its metrics or lost all signal after its first step, and was not ended by anything else."""
    rows = run.dir.metrics
    if rows and NO_SIGNAL in run.dir.status.get("reason", ""):
        return True
    if rows and skipped_last(rows):
        return skipped_last(rows) >= MAX_SKIPPED
    return diverged(rows, run.params.training.watch) is not None


def without_final(run: RunDir, rows: list[dict]) -> list[Cluster]:
    """Sampled rollouts without a final answer, by step and prompt. rows: of metrics.jsonl, of the steps that count."""
    return clusters(((row["step"], line["example"]), line["missing"]) for row in rows for line in sampled(run, row["step"]))


def clusters(found: Iterable[tuple[object, bool]]) -> list[Cluster]:
    """(hits, rollouts) of each cluster, from (cluster, hit) of each rollout. Raises Missing where there is none."""
    counts: dict[object, list[int]] = {}
    for name, hit in found:
        pair = counts.setdefault(name, [0, 0])
        pair[0] += bool(hit)
        pair[1] += 1
    if not counts:
        raise Missing("the rollouts that were sampled")
    return [(hits, total) for hits, total in counts.values()]
