"""pass@k and bootstrap intervals. Pure functions over arrays.

Sources: the unbiased estimator 1 - C(n-c, k) / C(n, k) (Chen et al. 2021, arXiv 2107.03374);
intervals by resampling examples, stratified by family, as the study does.
"""

from collections.abc import Sequence

import numpy as np


def pass_at_k(n: int, c: int, k: int) -> float:
    """Chance that at least one of k rollouts drawn without replacement from n is right, c of n being right."""
    if not 0 <= c <= n or not 1 <= k <= n:
        raise ValueError(f"pass@k needs 0 <= c <= n and 1 <= k <= n, got n={n} c={c} k={k}")
    if n - c < k:
        return 1.0
    return float(1.0 - np.prod(1.0 - k / np.arange(n - c + 1, n + 1)))


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


def quantile_interval(groups: Sequence[Sequence[float]], q: float, counts: np.ndarray) -> tuple[float, float, float]:
    """(quantile, low, high) of all rollouts' values, examples resampled. groups: rollouts by example."""
    sizes = np.array([len(g) for g in groups])
    flat = np.concatenate([np.asarray(g, dtype=float) for g in groups])
    order = np.argsort(flat, kind="stable")
    ordered, owner = flat[order], np.repeat(np.arange(len(groups)), sizes)[order]
    weights = np.cumsum(counts[:, owner], axis=1)
    picks = np.minimum((weights < q * weights[:, -1:]).sum(1), len(flat) - 1)
    low, high = np.percentile(ordered[picks], (2.5, 97.5))
    return float(np.quantile(flat, q)), float(low), float(high)
