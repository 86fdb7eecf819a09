"""Shares of rollouts that come in clusters, as those of one prompt do: intervals that count what such rollouts are worth.

A cluster is (hits, rollouts). Rollouts of a cluster are alike, so a share is less certain than that of as many independent ones, by
the design effect (Kish 1965): the intervals are Wilson's for rollouts / design effect. They have a width also where no rollout is
hit, and a bootstrap of zeros has none.
"""

from collections.abc import Sequence

import numpy as np

from ..scoring.passk import wilson
from .seeds import Triple

Cluster = tuple[int, int]  # hits, rollouts


def design_effect(clusters: Sequence[Cluster]) -> float:
    """Variance of a share over that of as many independent rollouts, at least 1. 1 where all or none are hits: it cannot be told."""
    hits, sizes = np.array(clusters, dtype=float).T
    total, count = sizes.sum(), len(sizes)
    p = hits.sum() / total
    if count < 2 or p in (0.0, 1.0):
        return 1.0
    variance = count / (count - 1) * ((hits - p * sizes) ** 2).sum() / total**2
    return max(1.0, float(variance / (p * (1 - p) / total)))


def clustered_share(clusters: Sequence[Cluster], effect: float | None = None) -> Triple:
    """(share, low, high). effect: design effect, where a better known one than that of these clusters is at hand."""
    hits, sizes = np.array(clusters).T
    total = sizes.sum() / (design_effect(clusters) if effect is None else effect)
    return wilson(hits.sum() / sizes.sum() * total, total)


def less(first: Triple, second: Triple, times: float = 1.0) -> Triple:
    """first minus `times` second, of two independent shares: an interval from theirs (Newcombe 1998, method 10)."""
    value = first[0] - times * second[0]
    down = np.hypot(first[0] - first[1], times * (second[2] - second[0]))
    up = np.hypot(first[2] - first[0], times * (second[0] - second[1]))
    return value, float(value - down), float(value + up)
