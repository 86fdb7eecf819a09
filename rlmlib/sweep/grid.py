"""A sweep file and the runs that it means. All of it is checked before anything starts.

name: lora
base: ../tiny.yaml                     # params file, from the sweep file's folder
set: {evaluation.seed: 42}             # dotted keys, for all runs
axes:                                  # every combination is a run
  policy.lora: [{rank: 4, alpha: 8}, {rank: 16, alpha: 32}]
  training.lr: [1.0e-4, 1.0e-3]
runs:                                  # more runs, by name
  full: {set: {policy.tuning: full}, seeds: [42, 43, 44]}
  base: {kind: untrained}
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from .. import config, params_file
from ..config import Params
from ..errors import ConfigError
from ..params_file import PositiveFloat, PositiveInt, Section, Seed
from ..runs import changed_keys

Kind = Literal["train", "untrained", "plain"]
SHARED = "each of the runs"
SHOWN = 3  # runs that a message names
FOLDER = re.compile(r"[A-Za-z0-9][\w.+-]*")
FOLDER_RULE = "is no name for a folder; use letters, digits, '.', '_', '+' and '-'"
LONGEST = 200  # characters of a run's name, which its folder has too
OWN = {"seed": "is given by `seeds`", "name": "is made from what sets a run apart"}  # parameters that a sweep sets itself
Seeds = Annotated[list[Seed], Field(min_length=1)]


class Extra(Section):
    """Runs beside the grid: one a seed."""

    set: dict[str, Any] = Field({}, description="dotted keys and their values, over those of the sweep")
    seeds: Seeds | None = Field(None, description="default: those of the sweep")
    kind: Kind = Field("train", description="train: train and evaluate; untrained: evaluate the base; plain: evaluate the leaf alone")
    limit_minutes: PositiveFloat | None = Field(None, description="default: that of the sweep")


class SweepFile(Section):
    """A whole sweep file."""

    name: str = Field(description="name of the sweep")
    base: str = Field(description="params file that the runs start from, from this file's folder")
    set: dict[str, Any] = Field({}, description="dotted keys and their values, for all runs")
    axes: dict[str, list[Any]] = Field({}, description="dotted key: its values; a value of a section is a mapping of some of its keys")
    seeds: Seeds = Field([42], description="each combination is run once a seed")
    runs: dict[str, Extra] = Field({}, description="runs beside the grid, by name")
    at_once: PositiveInt = Field(1, description="runs at a time, where no GPUs are named")
    limit_minutes: PositiveFloat = Field(240.0, description="wall clock of one run, all its stages; over it, it is ended as `timeout`")


@dataclass(frozen=True)
class Planned:
    """One run of a sweep. group: its name without the seed; runs of a group are repetitions. changes: what sets it apart.

    limit_s: wall clock of one attempt at it.
    """

    name: str
    group: str
    kind: Kind
    seed: int
    changes: dict[str, Any]
    params: Params
    limit_s: float


def load(path: str | Path) -> tuple[SweepFile, list[Planned]]:
    """The sweep of a file, resolved. Raises ConfigError that names every bad key and every run that is there twice."""
    path = Path(path)
    sweep = params_file.load(path, SweepFile)
    return sweep, resolve(sweep, path.parent)


def resolve(sweep: SweepFile, folder: Path) -> list[Planned]:
    """All runs of a sweep. folder: that `base` is relative to. Raises ConfigError."""
    runs, problems = [], []
    base = folder / sweep.base
    _refuse_own(sweep)
    config.load(base)  # a mistake of the base file is told once, not a run
    for name, group, kind, seed, changes, minutes in _drafts(sweep):
        try:
            params = config.load(base, {**flat(sweep.set), **flat(changes), "seed": seed, "name": name})
        except ConfigError as error:
            problems.append((name, str(error).removeprefix(f"{base}: ")))
        else:
            runs.append(Planned(name, group, kind, seed, changes, params, (minutes or sweep.limit_minutes) * 60))
    if problems:
        raise ConfigError(f"{sweep.name}: {'; '.join(told_once(problems, len(runs) + len(problems)))}")
    if not runs:
        raise ConfigError(f"{sweep.name}: has no runs; give axes or runs")
    _refuse_duplicates(sweep, runs)
    _refuse_other_questions(sweep, runs)
    return runs


def told_once(problems: Sequence[tuple[str, str]], runs: int) -> list[str]:
    """Each problem once, with the runs that have it. problems: (run, problem). runs: how many there are, those without included."""
    having: dict[str, list[str]] = {}
    for name, problem in problems:
        having.setdefault(problem, []).append(name)
    return [f"{_whose(names, runs)}: {problem}" for problem, names in having.items()]


def _whose(names: list[str], runs: int) -> str:
    if len(names) == 1:
        return f"run {names[0]}"
    if len(names) == runs:
        return SHARED
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"runs {', '.join(names[:SHOWN])}{more}"


def _refuse_own(sweep: SweepFile):
    """Raises ConfigError where the file sets what the sweep would set over it."""
    places = {"set": sweep.set, "axes": sweep.axes} | {f"runs.{name}.set": extra.set for name, extra in sweep.runs.items()}
    for place, changes in places.items():
        for key in OWN.keys() & changes.keys():
            raise ConfigError(f"{sweep.name}: {place}.{key}: {OWN[key]}; take it out")


def _drafts(sweep: SweepFile) -> Iterator[tuple[str, str, Kind, int, dict, float | None]]:
    """(name, group, kind, seed, changes, limit in minutes) of every run, unchecked."""
    if not FOLDER.fullmatch(sweep.name):
        raise ConfigError(f"name: '{sweep.name}' {FOLDER_RULE}")
    for key, values in sweep.axes.items():
        if not values:
            raise ConfigError(f"{sweep.name}: axes.{key}: has no values; give some or leave it out")
    for values in itertools.product(*sweep.axes.values()) if sweep.axes else ():
        changes = dict(zip(sweep.axes, values, strict=True))
        group = "-".join(label(key, value) for key, value in changes.items())
        for seed in sweep.seeds:
            yield f"{group}-s{seed}", group, "train", seed, changes, None
    for group, extra in sweep.runs.items():
        if not FOLDER.fullmatch(group):
            raise ConfigError(f"{sweep.name}: runs.{group}: {FOLDER_RULE}")
        for seed in sweep.seeds if extra.seeds is None else extra.seeds:
            yield f"{group}-s{seed}", group, extra.kind, seed, extra.set, extra.limit_minutes


def label(key: str, value) -> str:
    """A setting in a run's name: rank16 for policy.lora = {rank: 16, alpha: 32}, lr0.001 for training.lr = 0.001."""
    if isinstance(value, dict) and value:
        key, value = next(iter(value.items()))
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return f"{str(key).rpartition('.')[2]}{re.sub(r'[^A-Za-z0-9.+_-]+', '_', text)}"


def flat(changes: dict, prefix: str = "") -> dict:
    """Dotted keys of a mapping whose values may be mappings themselves."""
    found = {}
    for key, value in changes.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found


def _refuse_duplicates(sweep: SweepFile, runs: list[Planned]):
    by_name, by_content = {}, {}
    for run in runs:
        if len(run.name) > LONGEST:
            raise ConfigError(f"{sweep.name}: the name {run.name[:40]}... is over {LONGEST} characters; give such runs by name, under runs")
        if run.name in by_name:
            raise ConfigError(f"{sweep.name}: two runs are called {run.name}; rename one or take out a value")
        content = (run.kind, run.params.model_copy(update={"name": ""}).model_dump_json())
        if content in by_content:
            raise ConfigError(f"{sweep.name}: {by_content[content]} and {run.name} are the same run; take one out")
        by_name[run.name], by_content[content] = run, run.name


def _refuse_other_questions(sweep: SweepFile, runs: list[Planned]):
    """Raises ConfigError where runs of several seeds would be asked different questions: they could never be compared."""
    own = sorted({run.seed for run in runs if run.params.evaluation.seed is None})
    if len(own) > 1:
        raise ConfigError(f"{sweep.name}: runs of the seeds {', '.join(map(str, own))} would be asked other questions; set evaluation.seed")


def differing(planned: Planned, there: dict) -> list[str]:
    """Dotted keys in which a run directory's params.json differs from what is planned."""
    return sorted(changed_keys(there, planned.params.model_dump()))
