"""How long the contexts of a dataset are to be, before any is built."""

import math
import random
import statistics
from collections.abc import Sequence

SPREAD = 0.75  # standard deviation of the logarithm


def targets(count: int, low: int, median: int, high: int, seed: int, name: str) -> list[int]:
    """`count` lengths in tokens: log-normal around the median, kept within [low, high], both halves equally large.

    The longest is `high` itself where there are at least two. `name` sets the draws of one family and split apart.
    """
    rng = random.Random(f"{seed}/lengths/{name}")
    half = [abs(rng.gauss(0, SPREAD)) for _ in range(count)]
    drawn = [math.exp(math.log(median) + (size if index % 2 else -size)) for index, size in enumerate(half)]
    lengths = [min(high, max(low, round(length))) for length in drawn]
    if count > 1:
        lengths[max(range(count), key=lengths.__getitem__)] = high
    rng.shuffle(lengths)
    return lengths


def summary(lengths: Sequence[int]) -> dict[str, int]:
    """Count, smallest, quartiles and largest of lengths in tokens."""
    ordered = sorted(lengths)
    first, median, third = statistics.quantiles(ordered, n=4, method="inclusive") if len(ordered) > 1 else ordered * 3
    return {
        "examples": len(ordered),
        "min": ordered[0],
        "p25": round(first),
        "median": round(median),
        "p75": round(third),
        "max": ordered[-1],
        "total": sum(ordered),
    }
