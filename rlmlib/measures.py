"""What an evaluation measures: pass@k, correctness and cost of rollouts, with 95 % bootstrap intervals. Rows in, numbers out.

The resamples are of the examples, stratified by family, and the same for every measure and every policy that was asked the same
questions: so differences are paired. Rollouts that failed for the machinery count in `error_rate` alone.
"""

from collections.abc import Callable, Sequence

import numpy as np

from .config import Params
from .errors import RunError
from .scoring.passk import bootstrap_weights, mean_interval, pass_at_k_all, quantile, quantile_intervals

SPLITS = ("heldout", "seen")

# name -> value of one rollout; each is averaged over rollouts, then over examples
RATES: dict[str, Callable[[dict], float]] = {
    "correct": lambda r: r["correct"],
    "leaf_tokens_mean": lambda r: r["leaf_tokens"],
    "total_tokens_mean": lambda r: r["total_tokens"],
    "leaf_calls": lambda r: r["leaf_calls"],
    "llm_usage": lambda r: r["leaf_calls"] > 0,
    "child_usage": lambda r: r["children"] > 0,
    "missing_final": lambda r: r["missing"],
    "forced_final": lambda r: r["forced"],
    "turns": lambda r: len(r["turns"]),
}
QUANTILES = {"median": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
TOKENS = ("leaf_tokens", "total_tokens")


def seed_of(params: Params) -> int:
    """Seed of an evaluation's questions, sampling and resamples."""
    return params.seed if params.evaluation.seed is None else params.evaluation.seed


def summarise(rows: list[dict], params: Params) -> dict:
    """{split: {measure: [value, low, high], ..., "families": {...}, "tasks": {...}}} of the splits that have rollouts."""
    parts = {split: [r for r in rows if r["split"] == split] for split in SPLITS}
    return {split: summarise_split(part, params) for split, part in parts.items() if by_example(part)}


def by_example(rows: list[dict]) -> dict[str, list[dict]]:
    """Rollouts grouped by example, in order of first appearance; infrastructure failures left out."""
    grouped: dict[str, list[dict]] = {}
    for r in rows:
        if r["error"] is None:
            grouped.setdefault(r["example"], []).append(r)
    return grouped


def resamples(groups: Sequence[list[dict]], params: Params) -> np.ndarray:
    """Bootstrap counts [resamples, examples], stratified by family, for grouped rollouts."""
    return bootstrap_weights([g[0]["family"] for g in groups], params.evaluation.bootstrap, seed_of(params))


def summarise_split(rows: list[dict], params: Params) -> dict:
    """All measures of the rollouts of one split, then those of its families and tasks."""
    groups = list(by_example(rows).values())
    counts = resamples(groups, params)
    found = {**rates(groups, counts), **pass_at(groups, counts), **token_quantiles(groups, counts)}
    found["error_rate"] = sum(r["error"] is not None for r in rows) / len(rows)
    found["n_examples"], found["n_rollouts"] = len(groups), sum(map(len, groups))
    for name, key in (("families", "family"), ("tasks", "task")):
        kinds = sorted({g[0][key] for g in groups})
        found[name] = {kind: _part([number for number, g in enumerate(groups) if g[0][key] == kind], groups, counts) for kind in kinds}
    return found


def rates(groups: Sequence[list[dict]], counts: np.ndarray) -> dict:
    """Means of RATES over examples, each with its interval."""
    return {name: mean_interval([np.mean([rate(r) for r in g]) for g in groups], counts) for name, rate in RATES.items()}


def pass_at(groups: Sequence[list[dict]], counts: np.ndarray) -> dict:
    """{"pass_at_k": [value, low, high]} for k from 1 to the rollouts that every example has."""
    n = min(len(g) for g in groups)
    curves = np.array([pass_at_k_all(len(g), sum(r["correct"] for r in g))[:n] for g in groups])  # [examples, n]
    return {f"pass_at_{k}": mean_interval(curves[:, k - 1], counts) for k in range(1, n + 1)}


def token_quantiles(groups: Sequence[list[dict]], counts: np.ndarray) -> dict:
    """Median, p90, p95 and p99 of leaf and of all tokens over rollouts, with intervals, and the largest."""
    found = {}
    for tokens in TOKENS:
        values = [[r[tokens] for r in g] for g in groups]
        intervals = quantile_intervals(values, list(QUANTILES.values()), counts)
        found |= {f"{tokens}_{name}": triple for name, triple in zip(QUANTILES, intervals, strict=True)}
        found[f"{tokens}_max"] = max(max(g) for g in values)
    return found


def _part(members: list[int], groups: Sequence[list[dict]], counts: np.ndarray) -> dict:
    """Measures of some of the examples. Resamples in which none of a task's examples was drawn leave it out."""
    chosen, weights = [groups[m] for m in members], counts[:, members]
    weights = weights[weights.sum(1) > 0] if weights.any() else np.ones((1, len(members)))
    tokens = np.concatenate([[r["leaf_tokens"] for r in g] for g in chosen])
    found = {**rates(chosen, weights), **pass_at(chosen, weights)}
    found |= {f"leaf_tokens_{name}": quantile(tokens, q) for name, q in QUANTILES.items()}
    found["leaf_tokens_max"] = int(tokens.max())
    return found | {"n_examples": len(chosen), "n_rollouts": sum(map(len, chosen))}


def paired_difference(base: list[dict], trained: list[dict], params: Params, metric: str) -> tuple[float, float, float]:
    """trained minus base of a metric in RATES, on the same resamples of the same examples.

    Examples that one of them has no rollout of are left out. Raises RunError where none is left.
    """
    before, after = by_example(base), by_example(trained)
    shared = [e for e in before if e in after]
    if not shared:
        raise RunError("the two evaluations have no question in common; evaluate both again")
    counts = resamples([before[e] for e in shared], params)
    rate = RATES[metric]
    return mean_interval([np.mean([rate(r) for r in after[e]]) - np.mean([rate(r) for r in before[e]]) for e in shared], counts)
