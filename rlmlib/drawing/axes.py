"""Limits and ticks of axes. Both renderers of `drawing` take theirs from here, so that they agree."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .panels import Panel

UNITS = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
MOST_STEPS = 6  # between the ticks of a count
ZERO_GAP = 0.12  # of a log axis, between its own place of zero and the least positive value
CATEGORY = 0.6  # of a step, kept free beyond the first and the last category


def short(value: float) -> str:
    """A number of three significant digits with its unit: 500, 8.19k, 500k, 2M."""
    for scale, unit in UNITS:
        if value >= scale * 0.9995:
            return f"{float(f'{value / scale:.3g}'):g}{unit}"
    return f"{value:.3g}"


def reach(panel: Panel) -> list[float]:
    """Every x that the panel must show."""
    drawn = [value for mark in panel.marks for part in (mark.x, mark.x_low, mark.x_high) if part is not None for value in part]
    return [*drawn, *panel.x_reach]


def y_reach(panel: Panel) -> list[float]:
    """Every y on a log axis, intervals and bands included."""
    parts = (part for mark in panel.marks for part in (mark.y, mark.low, mark.high) if part is not None)
    return [float(value) for part in parts for value in part if value == value]


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


def log_names(ends: tuple[float, float]) -> dict[float, str]:
    return {tick: short(tick) for tick in log_ticks(*ends)}


@dataclass(frozen=True)
class LogPlaces:
    """Places on a log axis of numbers of which some may be zero: zero gets a place and a tick of its own, left of the least positive."""

    zero: float | None
    ticks: dict[float, str]

    def at(self, value: float) -> float:
        return self.zero if self.zero is not None and value <= 0 else value


def log_places(values: Iterable[float]) -> LogPlaces:
    """For these numbers, all >= 0; missing ones (NaN) have no place."""
    values = [float(v) for v in values if v == v]
    spent = [v for v in values if v > 0] or [1.0]
    ends = log_range(spent)
    names = log_names(ends)
    if len(spent) == len(values):
        return LogPlaces(None, names)
    zero = min(spent) / max(2.0, (max(spent) / min(spent)) ** ZERO_GAP)
    return LogPlaces(zero, {zero: "0"} | {tick: name for tick, name in names.items() if tick > zero * 1.4})


def percent_names(values: Sequence[float]) -> dict[float, str]:
    """Ticks of a log axis of shares: 100 %, 10 %, 1 % ... as far as they go."""
    lowest = min(0, math.ceil(math.log10(min(values))))
    return {10.0**power: f"{100 * 10.0**power:g} %" for power in range(lowest, 1)}


def x_range(panel: Panel) -> tuple[float, float] | None:
    """Limits of a linear x axis, or None where each renderer may choose them."""
    kinds = {mark.kind for mark in panel.marks}
    values = [float(v) for v in reach(panel) if v == v]
    if not values:
        return None
    low, high = min(values), max(values)
    if "cells" in kinds:
        return low - 0.5, high + 0.5
    if "area" in kinds:
        return low, high
    if not (panel.spread or panel.x_percent or panel.x_reach or "horizontal" in kinds):
        return None
    if panel.x_percent:
        high = max(high, low + 0.01)  # a share of a hundredth is seen as small
    margin = 0.05 * ((high - low) or 1.0)
    return low - margin, high + margin


def y_range(panel: Panel) -> tuple[float, float]:
    """Limits of a linear y axis: zero is on it, unless the panel does without."""
    if panel.y_ticks:
        beyond = 0.5 if any(mark.kind == "cells" for mark in panel.marks) else CATEGORY
        return min(panel.y_ticks) - beyond, max(panel.y_ticks) + beyond + panel.headroom
    values = [float(v) for m in panel.marks for part in (m.y, m.low, m.high) if part is not None for v in part if v == v]
    if any(mark.kind == "area" for mark in panel.marks):
        return min(values), max(values)
    if not panel.zero and values:
        margin = 0.06 * ((max(values) - min(values)) or 1.0)
        low, high = min(values) - margin, max(values) + margin
        return (max(0.0, low), min(1.03, high)) if panel.percent else (low, high)
    low, high = min([0.0, *values]), max([panel.reach, *values])
    span = (high - low) or 1.0
    top = high + span * (0.06 + panel.headroom)
    return (low - span * 0.06 if low < 0 else 0.0), min(top, 1.03 + panel.headroom) if panel.percent else top


def x_ends(panel: Panel) -> tuple[float, float]:
    """Where the x axis begins and ends, linear or log."""
    if panel.log_x:
        return log_range(reach(panel))
    return x_range(panel) or (min(reach(panel), default=0.0), max(reach(panel), default=1.0))


def y_ends(panel: Panel) -> tuple[float, float]:
    """Where the y axis begins and ends, linear or log."""
    return log_range(y_reach(panel)) if panel.log_y else y_range(panel)


def whole_step(high: float) -> int:
    """Distance of the ticks of an axis that counts things from 0 to `high`: 1, 2 or 5 times a power of ten."""
    steps = (digit * 10**power for power in range(20) for digit in (1, 2, 5))
    return next(step for step in steps if high / step <= MOST_STEPS)


def decimals(high: float) -> int:
    """Decimals that the percent ticks of an axis up to `high` need."""
    return 0 if high > 0.05 else 1 if high > 0.005 else 2
