"""Colours of the cells of a heat map, and of the text in them."""

import math
from collections.abc import Sequence

from .panels import Mark

CELLS = ("#e6eef7", "#08306b")  # light to dark
EMPTY, BLACK, WHITE = "#ffffff", "#000000", "#ffffff"


def cell_colors(mark: Mark, log: bool = False) -> list[str]:
    """A colour a cell: from the least value, light, to the largest, dark. A cell without a number is white."""
    found = [None if value is None or value != value else float(value) for value in mark.values]
    known = [value for value in found if value is not None]
    scale = _log_of if log else float
    low, high = (scale(min(known)), scale(max(known))) if known else (0.0, 1.0)
    return [EMPTY if value is None else _between((scale(value) - low) / ((high - low) or 1.0)) for value in found]


def _log_of(value: float) -> float:
    return math.log10(max(value, 1.0))


def _between(share: float) -> str:
    ends = ([int(color[i : i + 2], 16) for i in (1, 3, 5)] for color in CELLS)
    return "#" + "".join(f"{round(light + share * (dark - light)):02x}" for light, dark in zip(*ends, strict=True))


def ink_on(color: str) -> str:
    """Black or white, whichever has more contrast on a colour: at least 4.5 on any (relative luminance of WCAG 2)."""
    return max((BLACK, WHITE), key=lambda ink: contrast(color, ink))


def contrast(first: str, second: str) -> float:
    lights = sorted(map(_luminance, (first, second)))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


def _luminance(color: str) -> float:
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def cell_texts(mark: Mark) -> Sequence[str]:
    return mark.texts if mark.texts is not None else [""] * len(mark.x)


def hatched(mark: Mark) -> Sequence[bool]:
    return mark.hatched if mark.hatched is not None else [False] * len(mark.x)
