"""The metrics of a step, from what it sampled."""

import numpy as np

from .groups import Batch


def metrics(batch: Batch, version: int) -> dict:
    """Means over everything that was sampled for the step, dropped groups included; `version` is the policy's before the step."""
    groups = batch.groups
    attempts = [a for g in groups if g.verdict != "failed" for a in g.attempts]
    rollouts = [a.rollout for a in attempts]
    usages = [r.usage for r in rollouts]
    leaf = np.array([u.leaf for u in usages])
    verdicts = [g.verdict for g in groups]
    spread = [len({a.rollout.usage.total for a in g.attempts}) > 1 for g in batch.kept]
    lags = [version - g.version for g in batch.kept]
    return {
        "reward": float(np.mean([r for g in batch.kept for r in g.rewards])),
        "correct": float(np.mean([a.correct for a in attempts])),
        "leaf_tokens_mean": float(leaf.mean()),
        "leaf_tokens_median": float(np.median(leaf)),
        "leaf_tokens_p95": float(np.percentile(leaf, 95)),
        "leaf_calls": float(np.mean([u.leaf_calls for u in usages])),
        "llm_usage": float(np.mean([u.leaf_calls > 0 for u in usages])),
        "children": float(np.mean([u.children for u in usages])),
        "dollars": float(np.mean([u.dollars for u in usages])) if all(u.dollars is not None for u in usages) else None,
        "total_tokens": float(np.mean([u.total for u in usages])),
        "reply_tokens": float(np.mean([u.root.completion for u in usages])),
        "turns": float(np.mean([len(r.turns) for r in rollouts])),
        "missing": float(np.mean([r.missing for r in rollouts])),
        "forced": float(np.mean([r.forced for r in rollouts])),
        "all_wrong": verdicts.count("all_wrong") / len(verdicts),
        "all_right": verdicts.count("all_right") / len(verdicts),
        "failed_groups": verdicts.count("failed"),
        "stale_groups": verdicts.count("stale"),
        "cost_spread": float(np.mean(spread)),
        "acceptance": (len(batch.kept) + verdicts.count("surplus")) / len(verdicts),
        "groups": len(verdicts),
        "waves": batch.waves,
        "queued_groups": batch.queued,
        "lag_mean": float(np.mean(lags)),
        "lag_max": max(lags),
    }
