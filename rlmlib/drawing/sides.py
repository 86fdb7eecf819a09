"""Where the texts of points stand, and how far their intervals reach. Both renderers ask here."""

from collections.abc import Sequence

from .panels import Mark


def sides(mark: Mark) -> list[str]:
    """Where each text stands: towards the middle of the axis, so that none is cut off."""
    middle = (min(mark.x) + max(mark.x)) / 2
    return ["left" if len(mark.x) > 1 and x >= middle else "right" for x in mark.x]


def distances(centre: Sequence[float], low: Sequence[float], high: Sequence[float]) -> list[list[float]]:
    """Distances; an interval that leaves out its centre (possible for a skewed bootstrap) gets length zero on that side."""
    return [
        [max(0.0, c - v) for c, v in zip(centre, low, strict=True)],
        [max(0.0, h - c) for c, h in zip(centre, high, strict=True)],
    ]
