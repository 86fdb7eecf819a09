"""Evaluation of one checkpoint: n rollouts an example, and one of the likeliest tokens where params ask for it.

Resumes by batch. The splits are never mixed: `heldout` (names and templates never seen in
training) is the headline, `seen` is reported apart. What is measured: measures.py.
"""

import functools
import time
from collections.abc import Callable, Sequence

import numpy as np

from .config import Params
from .engine import Attempt, Engine, Job, row
from .measures import SPLITS, seed_of, summarise
from .plain import answer_plainly
from .progress import Progress
from .runs import RunDir, append_jsonl, read_jsonl, rewrite_jsonl, write_json
from .tasks.mixture import examples
from .training import checkpoint
from .training.policy import Policy
from .training.trainers import load_policy

EVALUATION_STREAM, GREEDY_STREAM = 2, 4  # first part of the sampling keys
GREEDY_TEMPERATURE = 1e-3  # so low that all samplers, also those that refuse 0, take the likeliest token

Show = Callable[[str], None] | None


def evaluate(params: Params, run: RunDir, label: str, step: int | None, show: Show = None) -> dict:
    """Measure the base (step None) or the checkpoint of a step into eval/LABEL; returns its summary.

    Raises CheckpointError on a corrupt checkpoint, RunError where the folder cannot be written.
    """
    with run.lock():
        policy = functools.cache(lambda: policy_at(params, run, step))  # an evaluation that is done already loads none
        rows = measure(run, f"{label}/rollouts.jsonl", plan(params), params, policy, Engine.run, show)
        summary = {"label": label, "step": step, "seconds": seconds(rows), **summarise(rows, params)}
        if params.evaluation.greedy:
            cold = params.model_copy(update={"sampling": params.sampling.model_copy(update={"temperature": GREEDY_TEMPERATURE})})
            jobs = plan(params, 1, GREEDY_STREAM)
            greedy = measure(run, f"{label}/greedy.jsonl", jobs, cold, policy, Engine.run, show)
            summary |= {"greedy": summarise(greedy, params), "seconds": seconds([*rows, *greedy])}
        write_json(run / f"eval/{label}/summary.json", summary)
    return summary


def evaluate_plain(params: Params, run: RunDir, show: Show = None) -> dict:
    """Measure the leaf alone, without harness or policy, into eval/plain: one answer a question from what its window holds."""
    with run.lock():
        rows = measure(run, "plain/rollouts.jsonl", plan(params, 1), params, lambda: None, answer_plainly, show)
        summary = {"label": "plain", "step": None, "seconds": seconds(rows), **summarise(rows, params)}
        write_json(run / "eval/plain/summary.json", summary)
    return summary


def measure(
    run: RunDir,
    name: str,
    jobs: Sequence[Job],
    params: Params,
    policy: Callable[[], Policy | None],
    answer: Callable[[Engine, Sequence[Job]], list[Attempt]],
    show: Show,
) -> list[dict]:
    """All rollouts of `jobs` as rows in eval/NAME; those that are there already are not run again."""
    path, size = run / f"eval/{name}", params.evaluation.batch
    rows = read_jsonl(path)
    rows = rows[: len(rows) if len(rows) == len(jobs) else len(rows) // size * size]  # whole batches only
    progress = Progress(run / "progress.json", f"evaluate {name.removesuffix('.jsonl')}", len(jobs), len(rows), show)
    if len(rows) < len(jobs):
        rewrite_jsonl(path, rows)
        with Engine(params, policy()) as engine:
            while len(rows) < len(jobs):
                began = time.monotonic()
                attempts = answer(engine, jobs[len(rows) : len(rows) + size])
                share = (time.monotonic() - began) / len(attempts)
                fresh = [row(a, run.store_context(a.example.context), wall_seconds=share) for a in attempts]
                append_jsonl(path, fresh)
                rows += fresh
                progress.update(len(rows), f"correct {np.mean([r['correct'] for r in rows]):.2f}")
    return rows


def seconds(rows: Sequence[dict]) -> float:
    """Wall clock of rollouts that were run in batches."""
    return round(sum(r["wall_seconds"] for r in rows), 1)


def policy_at(params: Params, run: RunDir, step: int | None) -> Policy:
    """The base policy (None) or that of a checkpoint."""
    if step is None:
        return load_policy(params, adapter=False)
    policy = load_policy(params)
    checkpoint.load(run, step, policy)
    return policy


def plan(params: Params, rollouts: int | None = None, stream: int = EVALUATION_STREAM) -> list[Job]:
    """Every rollout of an evaluation, in a fixed order. The same for all policies that share its seed: differences are paired.

    rollouts: of an example; default evaluation.rollouts_per_example.
    """
    config, seed = params.evaluation, seed_of(params)
    counts = {"heldout": config.heldout_examples, "seen": config.seen_examples}
    tasks = params.tasks
    if config.hidden_labels is not None:
        tasks = tasks.model_copy(update={"hidden_labels": config.hidden_labels})
    return [
        Job(example, index, (stream, seed, SPLITS.index(split), number, index))
        for split in SPLITS
        for number, example in enumerate(examples(tasks, split, counts[split], seed))
        for index in range(rollouts or config.rollouts_per_example)
    ]
