"""What a picture is made of: panels, marks and their styles, for the renderers of `drawing`.

Colour is never the only difference: a style is a colour, a dash and a marker. Every colour has at least 3:1 contrast on white.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

INK, GRID = "#222222", "#dddddd"
SCALE = ("#7aa0c4", "#08306b")  # light to dark, for a value that a mark carries


@dataclass(frozen=True)
class Style:
    color: str
    light: str
    dash: str
    marker: str
    hatch: str = ""


STYLES = {
    "base": Style("#b8450b", "#cf8159", "dash", "circle", "/"),
    "trained": Style("#0b5fa5", "#659ac6", "solid", "diamond"),
    "third": Style("#007a5a", "#4fa38d", "dot", "square", "."),
    "fourth": Style("#8a3b8f", "#b584b8", "dashdot", "triangle-up", "x"),
    "plain": Style("#4d4d4d", "#949494", "solid", "circle"),
}


@dataclass(frozen=True)
class Mark:
    """One series. kind: line, step, band (low..high over x), points (with intervals) or bars."""

    kind: str
    x: Sequence
    y: Sequence
    style: str = "plain"
    label: str = ""  # in the panel's legend
    low: Sequence | None = None
    high: Sequence | None = None
    x_low: Sequence | None = None
    x_high: Sequence | None = None
    texts: Sequence[str] | None = None  # written beside points and on top of bars
    below: bool = False  # texts stand under their points
    values: Sequence | None = None  # coloured by SCALE
    light: bool = False  # a raw series behind its smoothed one
    hollow: bool = False
    size: float = 10  # of a point, in Plotly's pixels
    width: float = 0.4  # of a bar


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    x: str
    y: str
    marks: Sequence[Mark]
    log_x: bool = False
    log_y: bool = False
    percent: bool = False  # y is a share in [0, 1]
    whole: bool = False  # y counts things: its ticks are whole numbers
    reach: float = 0.0  # that a linear y axis shows at least: panels that are compared share it
    ticks: dict[float, str] = field(default_factory=dict)  # names of x positions: categories, or all ticks of a log axis
    values: str = ""  # what the colour scale means
    headroom: float = 0.0  # share of the y range kept free above the marks
