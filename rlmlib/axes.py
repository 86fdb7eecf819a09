"""Limits and ticks of axes. Both renderers of `drawing` take theirs from here, so that they agree."""

import math
from collections.abc import Sequence

from .panels import Panel

UNITS = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
MOST_STEPS = 6  # between the ticks of a count


def short(value: float) -> str:
    """A number of three significant digits with its unit: 500, 8.19k, 500k, 2M."""
    for scale, unit in UNITS:
        if value >= scale * 0.9995:
            return f"{float(f'{value / scale:.3g}'):g}{unit}"
    return f"{value:.3g}"


def reach(panel: Panel) -> list[float]:
    """Every x that the panel must show."""
    return [value for mark in panel.marks for part in (mark.x, mark.x_low, mark.x_high) if part is not None for value in part]


def log_range(values: Sequence[float]) -> tuple[float, float]:
    """Ends of a log axis with a margin for marks and their names."""
    low, high = min(values), max(values)
    margin = max((high / low) ** 0.08, 1.1)
    return low / margin, high * margin


def log_ticks(low: float, high: float) -> list[float]:
    """1-2-5 ticks; powers of ten where those would crowd, more digits where they would be too few."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    dense = [digit * 10.0**d for d in decades for digit in (1, 2, 3, 5, 7) if low <= digit * 10.0**d <= high]
    fine = [t for t in dense if f"{t:e}"[0] in "125"]
    if len(fine) > 8:
        return [t for t in fine if f"{t:e}"[0] == "1"]
    return fine if len(fine) > 2 else dense


def y_range(panel: Panel) -> tuple[float, float]:
    """Limits of a linear y axis: zero is always on it."""
    values = [float(v) for m in panel.marks for part in (m.y, m.low, m.high) if part is not None for v in part if v == v]
    low, high = min([0.0, *values]), max([panel.reach, *values])
    span = (high - low) or 1.0
    top = high + span * (0.06 + panel.headroom)
    return (low - span * 0.06 if low < 0 else 0.0), min(top, 1.03 + panel.headroom) if panel.percent else top


def whole_step(high: float) -> int:
    """Distance of the ticks of an axis that counts things from 0 to `high`: 1, 2 or 5 times a power of ten."""
    steps = (digit * 10**power for power in range(20) for digit in (1, 2, 5))
    return next(step for step in steps if high / step <= MOST_STEPS)


def decimals(high: float) -> int:
    """Decimals that the percent ticks of an axis up to `high` need."""
    return 0 if high > 0.05 else 1 if high > 0.005 else 2
