"""How each kind of mark is drawn by matplotlib."""

from .cells import cell_colors, cell_texts, hatched, ink_on
from .panels import INK, SCALE, STYLES, Mark, Panel
from .sides import distances, sides

DASHES = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-.", "longdash": (0, (8, 2.5)), "longdashdot": (0, (8, 2, 1.5, 2))}
MARKERS = {"circle": "o", "diamond": "D", "square": "s", "triangle-up": "^", "triangle-down": "v", "pentagon": "p", "x": "X"}

PALE = {"boxstyle": "round,pad=0.08", "facecolor": "white", "edgecolor": "none", "alpha": 0.8}  # behind a text on other marks


def draw_mark(axis, mark: Mark, panel: Panel, figure):
    """One mark with its intervals and texts on matplotlib's axes. figure: gets the colour bar of points with values."""
    style = STYLES[mark.style]
    _DRAWN[mark.kind](axis, mark, panel, figure, style.light if mark.light else style.color)
    if mark.kind in ("points", "bars"):
        _intervals(axis, mark)
        if mark.kind == "bars" or not panel.spread:
            _texts(axis, mark)


def _bars(axis, mark: Mark, panel: Panel, figure, color: str):
    hatch = STYLES[mark.style].hatch
    edge = "white" if hatch else color
    axis.bar(list(mark.x), list(mark.y), mark.width, color=color, hatch=hatch * 2, edgecolor=edge, label=mark.label or None)


def _band(axis, mark: Mark, panel: Panel, figure, color: str):
    axis.fill_between(list(mark.x), list(mark.low), list(mark.high), color=color, alpha=0.2, linewidth=0, label=mark.label or None)


def _area(axis, mark: Mark, panel: Panel, figure, color: str):
    style = STYLES[mark.style]
    axis.fill_between(
        list(mark.x), list(mark.low), list(mark.high), facecolor=style.light, hatch=style.hatch * 2 or None, edgecolor="white",
        linewidth=0.8, label=mark.label or None,
    )  # fmt: skip


def _line(axis, mark: Mark, panel: Panel, figure, color: str):
    line = {"color": color, "linewidth": 0.9 if mark.light else 2, "linestyle": "-" if mark.light else DASHES[STYLES[mark.style].dash]}
    drawn = "steps-post" if mark.kind == "step" else "default"
    alpha = mark.opacity if mark.opacity < 1 else None
    axis.plot(list(mark.x), list(mark.y), drawstyle=drawn, label=mark.label or None, alpha=alpha, **line)


def _across(axis, mark: Mark, panel: Panel, figure, color: str):
    line = {"color": color, "linewidth": 0.8 if mark.light else 1.2, "linestyle": DASHES[STYLES[mark.style].dash], "zorder": 1.5}
    for number, place in enumerate(mark.x if mark.kind == "vertical" else mark.y):
        label = mark.label if mark.label and number == 0 else None
        (axis.axvline if mark.kind == "vertical" else axis.axhline)(place, label=label, **line)


def _cells(axis, mark: Mark, panel: Panel, figure, color: str):
    colors = cell_colors(mark, panel.log_values)
    cells = zip(mark.x, mark.y, colors, hatched(mark), cell_texts(mark), strict=True)
    for x, y, shade, is_hatched, text in cells:
        edge = {"edgecolor": "#b0b0b0", "hatch": "//"} if is_hatched else {"edgecolor": "#cccccc"}
        axis.bar([x], [1], 1, bottom=[y - 0.5], color=shade, linewidth=0.8, **edge)
        look = {"color": INK, "bbox": PALE} if is_hatched else {"color": ink_on(shade)}
        axis.text(x, y, text, ha="center", va="center", fontsize=9.5, linespacing=1.25, **look)


def _text(axis, mark: Mark, panel: Panel, figure, color: str):
    for x, y, text in zip(mark.x, mark.y, mark.texts or [], strict=True):
        axis.text(x, y, text, ha="center", va="center", fontsize=9.5, color=color, bbox=PALE)


def _points(axis, mark: Mark, panel: Panel, figure, color: str):
    x, y, label = list(mark.x), list(mark.y), mark.label or None
    if mark.values is not None:
        from matplotlib.colors import LinearSegmentedColormap

        scale = LinearSegmentedColormap.from_list("scale", SCALE)
        dots = axis.scatter(x, y, c=list(mark.values), cmap=scale, s=36, edgecolors=INK, linewidths=0.7, label=label, zorder=3)
        figure.colorbar(dots, ax=axis, label=panel.values, format=lambda value, _: f"{value:.0%}")
        return
    look = {"marker": MARKERS[STYLES[mark.style].marker], "s": 0.55 * mark.size**2, "linewidths": 1.8}
    inside = ("white" if mark.white else "none") if mark.hollow else color
    axis.scatter(x, y, color=inside, edgecolors=color, label=label, zorder=3, clip_on=False, **look)


def _intervals(axis, mark: Mark):
    style = STYLES[mark.style]
    x, y, errors = list(mark.x), list(mark.y), {}
    if mark.low is not None:
        errors["yerr"] = distances(y, mark.low, mark.high)
    if mark.kind == "points" and mark.x_low is not None:
        errors["xerr"] = distances(x, mark.x_low, mark.x_high)
    if errors:
        color = INK if mark.kind == "bars" else style.light if mark.light else style.color
        look = {"capsize": 0, "linewidth": 1.0} if mark.light else {"capsize": 3, "linewidth": 1.3}
        axis.errorbar(x, y, **errors, fmt="none", ecolor=color, zorder=2, **look)


def _texts(axis, mark: Mark):
    """Beside points, on top of bars."""
    bars = mark.kind == "bars"
    tops = [max(0, y) for y in mark.y] if bars else list(mark.y)
    if bars and mark.high is not None:
        tops = list(mark.high)
    for x, top, text, side in zip(mark.x, tops, mark.texts or [], sides(mark), strict=False):
        offset = (0, 3) if bars else (8 if side == "right" else -8, -6 if mark.below else 6)
        align = {"ha": "center" if bars else "left" if side == "right" else "right", "va": "top" if mark.below else "bottom"}
        axis.annotate(text, (x, top), offset, textcoords="offset points", fontsize=9, color=INK, **align)


_DRAWN = {
    "line": _line, "step": _line, "band": _band, "area": _area, "points": _points, "bars": _bars, "cells": _cells, "text": _text,
    "vertical": _across, "horizontal": _across,
}  # fmt: skip
