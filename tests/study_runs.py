"""A folder of runs of the tiny study, made by the real writers from the outcome that a test chooses for every rollout."""

import copy
import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

import yaml

from rlmlib import config, runs
from rlmlib.engine import Attempt, row
from rlmlib.harness.trajectory import Call, Rollout, Tokens, Turn
from rlmlib.measures import summarise
from rlmlib.notebook import ROOT
from rlmlib.runs import RunDir, append_jsonl, open_run, rewrite_jsonl, write_json
from rlmlib.sweep import grid, runner
from rlmlib.sweep.states import LABELS
from rlmlib.tasks.base import Example
from rlmlib.training.groups import Batch, Group
from rlmlib.training.metrics import metrics

QUESTIONS, ROLLOUTS, STEPS = 12, 4, 20  # of an evaluation, of a question, of training
FAMILIES = ("aggregation", "coding", "research")
CONTEXT = "x" * 4000  # 1000 tokens
SMALL = {
    "evaluation.seed": 42,
    "evaluation.hidden_labels": 0.5,
    "evaluation.rollouts_per_example": ROLLOUTS,
    "evaluation.bootstrap": 200,
    "training.steps": STEPS,
    "training.watch.window": 3,
}
LEARNED = {"entropy": 0.5, "skipped": 0, "mismatch_kl_kept": 0.0, "sample_seconds": 2.0, "train_seconds": 1.0, "lr": 1e-3}


@dataclass(frozen=True)
class Outcome:
    """What became of a rollout."""

    right: bool = True
    leaf: int = 100  # tokens of its one leaf call; 0: no call
    root: int = 100
    children: int = 0
    missing: bool = False
    forced: bool = False
    error: str | None = None


Told = Callable[[int, int, int], Outcome]  # of seed (or step), question and which of its rollouts


def even(right: float, leaf: int = 100, **others) -> Told:
    """The same share of right rollouts in every question, so that intervals have no width."""
    return lambda seed, question, index: Outcome(index < round(right * ROLLOUTS), leaf, **others)


def uneven(right: float, leaf: int = 100, shift: int = 0, **others) -> Told:
    """A share of the questions always right, the others never, and some dear, so that intervals are wide.

    shift: which questions they are. leaf: mean over the questions, a multiple of 5.
    """

    def told(seed, question, index):
        weight = 1 + 2 * ((question // 3 + shift) % 4 % 3)  # 1, 3, 5, 1 in every family
        return Outcome((question + shift) % QUESTIONS < round(right * QUESTIONS), leaf * 2 * weight // 5, **others)

    return told


def rollout_of(outcome: Outcome, question: str = "") -> Rollout:
    calls = [Call("leaf", "m", "ask", "told", Tokens(outcome.leaf - 10, 10), attempts=1)] if outcome.leaf else []
    for _ in range(outcome.children):
        calls.append(Call("child", "policy", "sub", "told", attempts=1, child=Rollout("x", "final", depth=1)))
    turn = Turn("root", "reply", ["print(1)"], ["1"], "policy", Tokens(outcome.root - 10, 10), calls)
    answer = None if outcome.missing else "answer"
    stop = "missing" if outcome.missing else "final"
    return Rollout(answer, stop, outcome.forced, [turn], error=outcome.error, question=question)


@functools.lru_cache(maxsize=10_000)
def attempt_of(outcome: Outcome, split: str, number: int, index: int, wording: str = "question") -> Attempt:
    example = Example(f"{split}-{number:05d}", FAMILIES[number % 3], f"task{number % 3}", split, f"{wording} {number}", CONTEXT, "gold")
    return Attempt(example, index, rollout_of(outcome), outcome.right and not outcome.missing and outcome.error is None)


GRID = {
    f"rank{rank}-lr{lr:g}": ("train", (42,), {"policy.lora": {"rank": rank, "alpha": 2 * rank}, "training.lr": lr})
    for rank in (4, 16, 64)
    for lr in (5e-5, 1e-3, 1e-2)
}
NAMED = {  # group: kind, seeds, changes
    group: (extra.get("kind", "train"), tuple(extra.get("seeds", (42,))), extra.get("set", {}))
    for group, extra in yaml.safe_load((ROOT / "params/sweeps/tiny.yaml").read_text())["runs"].items()
}


@functools.cache
def common() -> dict:
    """Values of the params file that all runs share."""
    return config.load(ROOT / "params/tiny.yaml", SMALL).model_dump()


@functools.cache
def planned(group: str, seed: int) -> grid.Planned:
    """A run of the sweep, small."""
    kind, _, changes = (GRID | NAMED)[group]
    values = copy.deepcopy(common()) | {"name": f"{group}-s{seed}", "seed": seed}
    for key, value in grid.flat(changes).items():
        *sections, last = key.split(".")
        functools.reduce(dict.__getitem__, sections, values)[last] = value
    return grid.Planned(values["name"], group, kind, seed, changes, config.validate(values), 3600.0)


@functools.lru_cache(maxsize=10_000)
def line_of(outcome: Outcome, split: str, number: int, index: int, wording: str = "question", context: str | None = None) -> dict:
    return row(attempt_of(outcome, split, number, index, wording), context)


def of_groups(*groups: str) -> list[grid.Planned]:
    """Runs of groups as the study knows them, in the order of a sweep; `lora` takes in the run of the grid that is one of its seeds."""
    of_grid = [planned(group, 42) for group in GRID if group in groups or group == "rank16-lr0.001" and "lora" in groups]
    return of_grid + [planned(group, seed) for group, (_, seeds, _) in NAMED.items() if group in groups for seed in seeds]


@dataclass(frozen=True)
class End:
    """How a run that was not evaluated ended. learned: over what its metrics say else."""

    state: str = "failed"
    reason: str = "train: a reason"
    steps: int = 8
    learned: dict = field(default_factory=dict)


def study(
    folder: Path,
    told: dict[str, Told],
    sampled: dict[str, Told] | None = None,
    ends: dict[str, End] | None = None,
    questions: int = QUESTIONS,
    prompts: int = 10,
) -> Path:
    """A folder of the runs of `told` (by group), evaluated on so many held-out questions.

    sampled: by group, what became of a rollout of training, by step, prompt and which of its rollouts; else none are kept.
    ends: by run, of those that were not evaluated. prompts: of a step.
    """
    chosen = of_groups(*told)
    write_json(folder / "sweep.json", runner.record(grid.SweepFile(name="tiny-study", base="../tiny.yaml"), chosen))
    with mock.patch.object(runs, "environment", lambda: {"python": "3.11"}):  # asks git each time
        for run in chosen:
            group = "lora" if run.group == "rank16-lr0.001" and "lora" in told else run.group
            directory = open_run(folder / run.name, run.params)
            end = (ends or {}).get(run.name, End("done", "", STEPS))
            if run.kind == "train":
                train(directory, range(end.steps), (sampled or {}).get(group), prompts, **end.learned)
            if end.state == "done":
                evaluate(directory, run, told[group], questions)
            directory.set_status(end.state, end.reason)
    return folder


def evaluate(directory: RunDir, run: grid.Planned, told: Told, questions: int = QUESTIONS, wording: str = "question"):
    """Its evaluation: held-out questions, and half as many seen ones, which are always right."""
    once, context = 1 if run.kind == "plain" else ROLLOUTS, directory.store_context(CONTEXT)
    rows = [
        line_of(told(run.seed, number, index) if split == "heldout" else Outcome(), split, number, index, wording, context)
        | {"wall_seconds": 0.25}
        for split, count in (("heldout", questions), ("seen", questions // 2))
        for number in range(count)
        for index in range(once)
    ]
    label = LABELS[run.kind]
    rewrite_jsonl(directory / f"eval/{label}/rollouts.jsonl", rows)
    summary = {"label": label, "step": None, "seconds": 0.25 * len(rows), **summarise(rows, run.params)}
    write_json(directory / f"eval/{label}/summary.json", summary)


def train(directory: RunDir, steps: Iterable[int], sampled: Told | None = None, prompts: int = 10, **learned):
    """Rows of metrics, and where `sampled` tells them the rollouts of every step."""
    told = sampled or (lambda step, prompt, index: Outcome(index < 2))
    rows = []
    for step in steps:
        found = [[told(step, prompt, index) for index in range(ROLLOUTS)] for prompt in range(prompts if sampled else 1)]
        attempts = [[attempt_of(o, "train", prompt, index) for index, o in enumerate(group)] for prompt, group in enumerate(found)]
        groups = [Group(prompt, group, [0.5] * ROLLOUTS, "kept") for prompt, group in enumerate(attempts)]
        if sampled:
            lines = [line_of(o, "train", prompt, index) for prompt, group in enumerate(found) for index, o in enumerate(group)]
            more = {"reward": 0.5, "advantage": 0.0, "verdict": "kept", "trained": True, "version": step}
            rewrite_jsonl(directory / f"rollouts/step_{step}.jsonl", [line | more for line in lines])
        rows.append({"step": step, **metrics(Batch(groups), step), **LEARNED, **learned})
    append_jsonl(directory / "metrics.jsonl", rows)
