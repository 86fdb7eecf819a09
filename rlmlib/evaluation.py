"""Evaluation of one checkpoint: n rollouts an example, unbiased pass@k, bootstrap intervals.

Resumes by batch. The splits are never mixed: `heldout` (names and templates never seen in
training) is the headline, `seen` is reported apart.
"""

import time
from collections.abc import Callable

import numpy as np

from .config import Params
from .engine import Engine, Job, row
from .progress import Progress
from .runs import RunDir, append_jsonl, read_jsonl, rewrite_jsonl, write_json
from .scoring.passk import bootstrap_weights, mean_interval, pass_at_k, quantile_interval
from .tasks.mixture import examples
from .training import checkpoint
from .training.policy import Policy
from .training.trainers import load_policy

EVALUATION_STREAM = 2
SPLITS = ("heldout", "seen")

# name -> value of one rollout; each is averaged over rollouts, then over examples
RATES = {
    "correct": lambda r: r["correct"],
    "leaf_tokens_mean": lambda r: r["leaf_tokens"],
    "total_tokens_mean": lambda r: r["total_tokens"],
    "leaf_calls": lambda r: r["leaf_calls"],
    "llm_usage": lambda r: r["leaf_calls"] > 0,
    "missing_final": lambda r: r["missing"],
    "forced_final": lambda r: r["forced"],
    "error_rate": lambda r: r["error"] is not None,
    "turns": lambda r: len(r["turns"]),
}
QUANTILES = {"leaf_tokens_median": 0.5, "leaf_tokens_p90": 0.9, "leaf_tokens_p95": 0.95, "leaf_tokens_p99": 0.99}


def evaluate(params: Params, run: RunDir, label: str, step: int | None, show: Callable[[str], None] | None = None) -> dict:
    """Measure the base (step None) or the checkpoint of a step into eval/LABEL; returns its summary.

    Raises CheckpointError on a corrupt checkpoint, RunError where the folder cannot be written.
    """
    folder = run / f"eval/{label}"
    with run.lock():
        jobs = plan(params)
        size = params.evaluation.batch
        path = folder / "rollouts.jsonl"
        rows = read_jsonl(path)
        rows = rows[: len(rows) if len(rows) == len(jobs) else len(rows) // size * size]  # whole batches only
        progress = Progress(run / "progress.json", f"evaluate {label}", len(jobs), len(rows), show)
        if len(rows) < len(jobs):
            rewrite_jsonl(path, rows)
            with Engine(params, policy_at(params, run, step)) as engine:
                while len(rows) < len(jobs):
                    began = time.monotonic()
                    attempts = engine.run(jobs[len(rows) : len(rows) + size])
                    share = (time.monotonic() - began) / len(attempts)
                    fresh = [row(a, run.store_context(a.example.context), wall_seconds=share) for a in attempts]
                    append_jsonl(path, fresh)
                    rows += fresh
                    progress.update(len(rows), f"correct {np.mean([r['correct'] for r in rows]):.2f}")
        seconds = round(sum(r["wall_seconds"] for r in rows), 1)
        summary = {"label": label, "step": step, "seconds": seconds, **summarise(rows, params)}
        write_json(folder / "summary.json", summary)
    return summary


def policy_at(params: Params, run: RunDir, step: int | None) -> Policy:
    """The base policy (None) or that of a checkpoint."""
    if step is None:
        return load_policy(params, adapter=False)
    policy = load_policy(params)
    checkpoint.load(run, step, policy)
    return policy


def plan(params: Params) -> list[Job]:
    """Every rollout of an evaluation, in a fixed order. The same for base and trained: differences are paired."""
    config = params.evaluation
    counts = {"heldout": config.heldout_examples, "seen": config.seen_examples}
    return [
        Job(example, index, (EVALUATION_STREAM, params.seed, SPLITS.index(split), number, index))
        for split in SPLITS
        for number, example in enumerate(examples(params.tasks, split, counts[split], params.seed))
        for index in range(config.rollouts_per_example)
    ]


def summarise(rows: list[dict], params: Params) -> dict:
    """{split: {metric: [value, low, high], ...}} with pass@k, by family too."""
    summary = {}
    for split in SPLITS:
        chosen = [r for r in rows if r["split"] == split]
        if chosen:
            summary[split] = _summarise_split(chosen, params)
    return summary


def by_example(rows: list[dict]) -> dict[str, list[dict]]:
    """Rollouts grouped by example, in order of first appearance; infrastructure failures left out."""
    grouped: dict[str, list[dict]] = {}
    for r in rows:
        if r["error"] is None:
            grouped.setdefault(r["example"], []).append(r)
    return grouped


def _summarise_split(rows: list[dict], params: Params) -> dict:
    grouped = list(by_example(rows).values())
    families = [g[0]["family"] for g in grouped]
    counts = bootstrap_weights(families, params.evaluation.bootstrap, params.seed)
    n = min(len(g) for g in grouped)
    result = {name: mean_interval([np.mean([rate(r) for r in g]) for g in grouped], counts) for name, rate in RATES.items()}
    for k in range(1, n + 1):
        result[f"pass_at_{k}"] = mean_interval([pass_at_k(len(g), sum(r["correct"] for r in g), k) for g in grouped], counts)
    tokens = [[r["leaf_tokens"] for r in g] for g in grouped]
    for name, q in QUANTILES.items():
        result[name] = quantile_interval(tokens, q, counts)
    result["leaf_tokens_max"] = max(max(t) for t in tokens)
    result["n_examples"], result["n_rollouts"] = len(grouped), sum(map(len, grouped))
    result["families"] = {f: _family([g for g, name in zip(grouped, families, strict=True) if name == f]) for f in sorted(set(families))}
    return result


def _family(groups: list[list[dict]]) -> dict:
    rows = [r for g in groups for r in g]
    return {
        "n_rollouts": len(rows),
        "pass_at_1": float(np.mean([np.mean([r["correct"] for r in g]) for g in groups])),
        "leaf_tokens_mean": float(np.mean([r["leaf_tokens"] for r in rows])),
        "missing_final": float(np.mean([r["missing"] for r in rows])),
    }


def paired_difference(base: list[dict], trained: list[dict], params: Params, metric: str) -> tuple[float, float, float]:
    """trained minus base of a metric in RATES, on the same resamples of the same examples."""
    before, after = by_example(base), by_example(trained)
    shared = [e for e in before if e in after]
    counts = bootstrap_weights([before[e][0]["family"] for e in shared], params.evaluation.bootstrap, params.seed)
    rate = RATES[metric]
    return mean_interval([np.mean([rate(r) for r in after[e]]) - np.mean([rate(r) for r in before[e]]) for e in shared], counts)
