"""pass@k and bootstrap intervals. Pure functions over arrays.

Sources: the unbiased estimator 1 - C(n-c, k) / C(n, k) (Chen et al. 2021, arXiv 2107.03374);
intervals by resampling examples, stratified by family, as the study does.
"""

from collections.abc import Sequence

import numpy as np

RESAMPLES_AT_ONCE = 1000  # whose cumulated counts are in memory together


def pass_at_k(n: int, c: int, k: int) -> float:
    """Chance that at least one of k rollouts drawn without replacement from n is right, c of n being right."""
    if not 0 <= c <= n or not 1 <= k <= n:
        raise ValueError(f"pass@k needs 0 <= c <= n and 1 <= k <= n, got n={n} c={c} k={k}")
    if n - c < k:
        return 1.0
    return float(1.0 - np.prod(1.0 - k / np.arange(n - c + 1, n + 1)))


def pass_at_k_all(n: int, c: int) -> np.ndarray:
    """pass@k for every k from 1 to n at once: [n]. By C(n-c, k) / C(n, k) = product over i < k of (n - c - i) / (n - i)."""
    if not 0 <= c <= n or n < 1:
        raise ValueError(f"pass@k needs 0 <= c <= n and n >= 1, got n={n} c={c}")
    drawn = np.arange(n)
    return 1.0 - np.cumprod(np.maximum(n - c - drawn, 0) / (n - drawn))


def bootstrap_weights(strata: Sequence[str], resamples: int, seed: int) -> np.ndarray:
    """Counts [resamples, examples]: how often each example is drawn, within its stratum."""
    rng = np.random.default_rng(seed)
    strata = np.asarray(strata)
    counts = np.zeros((resamples, len(strata)), dtype=np.int32)
    for stratum in sorted(set(strata.tolist())):
        members = np.flatnonzero(strata == stratum)
        counts[:, members] = rng.multinomial(len(members), np.full(len(members), 1 / len(members)), size=resamples)
    return counts


def mean_interval(values: Sequence[float], counts: np.ndarray) -> tuple[float, float, float]:
    """(mean, low, high): the mean over examples and its 95 % bootstrap interval.

    values: one number an example. counts: from bootstrap_weights; use the same for paired differences.
    """
    values = np.asarray(values, dtype=float)
    means = counts @ values / counts.sum(1)
    low, high = np.percentile(means, (2.5, 97.5))
    return float(values.mean()), float(low), float(high)


def quantile(values: Sequence[float], q: float) -> float:
    """The smallest of the values with at least a share q of them at or below it: one that was measured, as those of resamples are."""
    return float(np.quantile(values, q, method="inverted_cdf"))


def quantile_intervals(groups: Sequence[Sequence[float]], qs: Sequence[float], counts: np.ndarray) -> list[tuple[float, float, float]]:
    """(quantile, low, high) of all rollouts' values at each q in [0, 1], examples resampled. groups: rollouts by example.

    The rollouts are sorted once; a resample's quantile is found where its cumulated counts pass q.
    """
    flat = np.concatenate([np.asarray(g, dtype=float) for g in groups])
    owner = np.repeat(np.arange(len(groups)), [len(g) for g in groups])
    order = np.argsort(flat, kind="stable")
    ordered, owner = flat[order], owner[order]
    picks = np.empty((len(qs), len(counts)), dtype=np.int64)
    for start in range(0, len(counts), RESAMPLES_AT_ONCE):
        weights = np.cumsum(counts[start : start + RESAMPLES_AT_ONCE, owner], axis=1)
        for row, q in enumerate(qs):
            picks[row, start : start + len(weights)] = (weights < q * weights[:, -1:]).sum(1)
    bounds = np.percentile(ordered[np.minimum(picks, len(flat) - 1)], (2.5, 97.5), axis=1)
    return [(quantile(flat, q), float(low), float(high)) for q, low, high in zip(qs, *bounds, strict=True)]


def wilson(hits: float, total: float, z: float = 1.96) -> tuple[float, float, float]:
    """(share, low, high): the 95 % interval of a share (Wilson 1927). Raises ValueError where the total is 0."""
    if not total:
        raise ValueError("a share of none has no interval")
    p, extra = hits / total, z * z / total
    centre = (p + extra / 2) / (1 + extra)
    half = z / (1 + extra) * float(np.sqrt(p * (1 - p) / total + extra / (4 * total)))
    return float(p), float(max(0.0, centre - half)), float(min(1.0, centre + half))
