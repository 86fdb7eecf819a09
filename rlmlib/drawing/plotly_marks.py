"""The traces of each kind of mark in Plotly."""

from .axes import x_ends, y_ends
from .cells import cell_colors, cell_texts, hatched, ink_on
from .panels import INK, SCALE, STYLES, Mark, Panel
from .sides import distances, sides

ACROSS = 25  # points of a line across a panel, so that it can be pointed at everywhere
PALE = "rgba(255,255,255,0.8)"  # behind a text on other marks


def traces(mark: Mark, panel: Panel, legend: str, named: bool = True) -> list:
    """A mark's trace, and one more for texts that stand apart from it: above the intervals of bars. named: in the legend."""
    from plotly import graph_objects as go

    common = {"name": mark.label, "showlegend": bool(mark.label) and named, "legend": legend}
    if mark.label and panel.legend == "figure":
        common["legendgroup"] = mark.label
    if mark.kind == "text":
        return []  # drawn as annotations, which can have a ground of their own
    found = [_DRAWN[mark.kind](mark, panel, common)]
    if mark.kind == "bars" and mark.texts:
        tops = list(mark.high if mark.high is not None else [max(0, v) for v in mark.y])
        options = {"mode": "text", "textposition": "top center", "hoverinfo": "skip", "showlegend": False, "cliponaxis": False}
        found.append(go.Scatter(x=list(mark.x), y=tops, text=list(mark.texts), **options))
    return found


def _color(mark: Mark) -> str:
    style = STYLES[mark.style]
    return style.light if mark.light else style.color


def _hover(mark: Mark, panel: Panel) -> dict:
    """What is shown for a point: the mark's own words, or x and y."""
    if mark.hover is not None:
        return {"hovertext": list(mark.hover), "hovertemplate": "%{hovertext}<extra></extra>"}
    x, y = (":.1%" if share else ":,.4~g" for share in (panel.x_percent, panel.percent))
    return {"hovertemplate": f"%{{x{x if panel.x_percent else ''}}}<br>%{{y{y}}}"}


def _bars(mark: Mark, panel: Panel, common: dict):
    from plotly import graph_objects as go

    color = _color(mark)
    pattern = {"shape": STYLES[mark.style].hatch, "fgcolor": "white", "size": 7, "solidity": 0.25}
    bar = {"color": color, "pattern": pattern, "line": {"color": color, "width": 1}}
    named = [panel.ticks.get(round(position), "") for position in mark.x]
    hover = f"%{{customdata}}<br>%{{y{':.1%' if panel.percent else ':,.4~g'}}}"
    return go.Bar(
        x=list(mark.x), y=list(mark.y), width=mark.width, marker=bar, error_y=_error(mark.y, mark.low, mark.high), customdata=named,
        hovertemplate=hover, **common,
    )  # fmt: skip


def _ribbon(mark: Mark) -> dict:
    """The outline of a band, there along its upper and back along its lower edge."""
    x = list(mark.x)
    return {"x": [*x, *reversed(x)], "y": [*mark.high, *reversed(list(mark.low))], "fill": "toself", "mode": "lines"}


def _band(mark: Mark, panel: Panel, common: dict):
    from plotly import graph_objects as go

    return go.Scatter(**_ribbon(mark), fillcolor=_color(mark), opacity=0.2, line={"width": 0}, hoverinfo="skip", **common)


def _area(mark: Mark, panel: Panel, common: dict):
    from plotly import graph_objects as go

    style = STYLES[mark.style]
    pattern = {"shape": style.hatch, "fgcolor": "white", "bgcolor": style.light, "size": 8, "solidity": 0.2}
    words = [*mark.hover, *reversed(list(mark.hover))] if mark.hover is not None else None
    hover = {"hoveron": "points", "text": words, "hoverinfo": "text"} if words else {"hoverinfo": "skip"}
    line = {"width": 1.2, "color": "white"}
    return go.Scatter(**_ribbon(mark), fillcolor=style.light, fillpattern=pattern if style.hatch else None, line=line, **hover, **common)


def _line(mark: Mark, panel: Panel, common: dict):
    from plotly import graph_objects as go

    line = {"color": _color(mark), "width": 1 if mark.light else 2.5, "dash": "solid" if mark.light else STYLES[mark.style].dash}
    shape = {"shape": "hv"} if mark.kind == "step" else {}
    options = {**_hover(mark, panel), **({"opacity": mark.opacity} if mark.opacity < 1 else {})}
    return go.Scatter(x=list(mark.x), y=list(mark.y), mode="lines", line={**line, **shape}, **options, **common)


def _across(mark: Mark, panel: Panel, common: dict):
    """Lines from edge to edge at each x, or at each y."""
    from plotly import graph_objects as go

    upright = mark.kind == "vertical"
    low, high = (y_ends if upright else x_ends)(panel)
    log = panel.log_y if upright else panel.log_x
    steps = [i / (ACROSS - 1) for i in range(ACROSS)]
    along = [low * (high / low) ** s if log else low + s * (high - low) for s in steps]
    at = [float(v) for v in (mark.x if upright else mark.y)]
    fixed = [v for place in at for v in (*[place] * ACROSS, None)]
    moving = [v for _ in at for v in (*along, None)]
    line = {"color": _color(mark), "width": 1 if mark.light else 1.5, "dash": STYLES[mark.style].dash}
    words = [word for text in mark.texts for word in [text] * (ACROSS + 1)] if mark.texts else None
    hover = {"hovertext": words, "hovertemplate": "%{hovertext}<extra></extra>"} if words else {"hoverinfo": "skip"}
    x, y = (fixed, moving) if upright else (moving, fixed)
    return go.Scatter(x=x, y=y, mode="lines", line=line, **hover, **common)


def _cells(mark: Mark, panel: Panel, common: dict):
    """Bars of height one: these can be hatched and the cells of Plotly's heat map cannot. Texts of hatched ones are apart, on a ground."""
    from plotly import graph_objects as go

    colors = cell_colors(mark, panel.log_values)
    shapes = ["/" if is_hatched else "" for is_hatched in hatched(mark)]
    pattern = {"shape": shapes, "fgcolor": "#b0b0b0", "size": 9, "solidity": 0.12}
    inks = [ink_on(color) for color in colors]
    texts = ["" if is_hatched else text.replace("\n", "<br>") for text, is_hatched in zip(cell_texts(mark), hatched(mark), strict=True)]
    return go.Bar(
        x=list(mark.x), y=[1] * len(colors), base=[y - 0.5 for y in mark.y], width=1, offset=-0.5, text=texts, textposition="inside",
        insidetextanchor="middle", textangle=0, textfont={"color": inks, "size": 13}, constraintext="none",
        marker={"color": colors, "pattern": pattern, "line": {"color": "#cccccc", "width": 1}}, **_hover(mark, panel), **common,
    )  # fmt: skip


def _points(mark: Mark, panel: Panel, common: dict):
    from plotly import graph_objects as go

    color = _color(mark)
    hidden = mark.hollow and mark.white
    symbol = STYLES[mark.style].marker + ("-open" if mark.hollow and not hidden else "")
    marker = {"symbol": symbol, "size": mark.size, "color": "white" if hidden else color, "line": {"width": 2, "color": color}}
    if mark.values is not None:
        bar = {"title": {"text": panel.values, "side": "right"}, "tickformat": ".0%"}
        scale = [[0, SCALE[0]], [1, SCALE[1]]]
        marker |= {"color": list(mark.values), "colorscale": scale, "colorbar": bar, "line": {"width": 1, "color": INK}}
    written = bool(mark.texts) and not panel.spread
    return go.Scatter(
        x=list(mark.x), y=list(mark.y), mode="markers+text" if written else "markers", marker=marker,
        text=list(mark.texts or []) if written else [],
        textposition=[f"{'bottom' if mark.below else 'top'} {side}" for side in sides(mark)],
        error_x=_error(mark.x, mark.x_low, mark.x_high, mark.light), error_y=_error(mark.y, mark.low, mark.high, mark.light),
        cliponaxis=False, **_hover(mark, panel), **common,
    )  # fmt: skip


def _error(centre, low, high, light: bool = False) -> dict | None:
    if low is None:
        return None
    below, above = distances(centre, low, high)
    return {"array": above, "arrayminus": below, **({"thickness": 1, "width": 0} if light else {"thickness": 1.5, "width": 5})}


_DRAWN = {
    "line": _line, "step": _line, "band": _band, "area": _area, "points": _points, "bars": _bars, "cells": _cells,
    "vertical": _across, "horizontal": _across,
}  # fmt: skip
