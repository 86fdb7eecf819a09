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
    "fifth": Style("#8a6100", "#a98540", "longdash", "triangle-down", "-"),
    "sixth": Style("#b3306f", "#cf6f9d", "longdashdot", "pentagon", "+"),
    "alone": Style("#2b2b2b", "#8c8c8c", "longdash", "x"),
    "muted": Style("#767676", "#949494", "dot", "circle"),
}


@dataclass(frozen=True)
class Mark:
    """One series. kind: line, step, band (low..high over x), area (a band of a stack, filled and hatched), points (with intervals), bars,
    cells (unit squares around x, y), text (texts around x, y), or a line across the panel: vertical (at each x), horizontal (at each y).
    """

    kind: str
    x: Sequence
    y: Sequence
    style: str = "plain"
    label: str = ""  # in the legend
    low: Sequence | None = None
    high: Sequence | None = None
    x_low: Sequence | None = None
    x_high: Sequence | None = None
    texts: Sequence[str] | None = None  # written beside points, on top of bars and in cells
    below: bool = False  # texts stand under their points
    values: Sequence | None = None  # of points and cells, coloured by the scale; a cell without a number (None) is left white
    light: bool = False  # a raw series behind its smoothed one
    opacity: float = 1.0  # of a line
    hollow: bool = False
    white: bool = False  # a hollow point hides what is under it
    size: float = 10  # of a point, in Plotly's pixels
    width: float = 0.4  # of a bar
    end: str = ""  # name of a line, written where it ends
    hatched: Sequence[bool] | None = None  # cells
    hover: Sequence[str] | None = None  # what Plotly shows for each point, in place of x and y


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
    y_ticks: dict[float, str] = field(default_factory=dict)  # names of y positions: categories, or all ticks of a log axis
    x_percent: bool = False  # x is a share in [0, 1]
    x_reach: Sequence[float] = ()  # that the x axis shows at least
    zero: bool = True  # a linear y axis begins at zero
    spread: bool = False  # texts of points are moved until none lies on another or on a mark
    log_values: bool = False  # the colour scale of cells is logarithmic
    wide: bool = False  # the panel has a row of its own
    height: float = 1.0  # over that of other panels
    legend: str = "panel"  # where the labels of marks stand: over their panel, or once under the title of the "figure"
