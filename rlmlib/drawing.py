"""Two renderers for one description of a picture: interactive Plotly, and a static SVG by matplotlib.

A chart is a list of panels and a panel a list of marks, so the static twin cannot show other
numbers than the interactive figure. Colour is never the only difference: a style is a colour,
a dash and a marker. Every colour has at least 3:1 contrast on white.
"""

import io
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field

CONFIG = {"displaylogo": False, "responsive": True, "modeBarButtonsToRemove": ["sendChartToCloud", "select2d", "lasso2d"]}
INK, GRID = "#222222", "#dddddd"
DASHES = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-."}
MARKERS = {"circle": "o", "diamond": "D", "square": "s", "triangle-up": "^"}
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
    values: Sequence | None = None  # coloured by SCALE
    light: bool = False  # a raw series under its smoothed one
    hollow: bool = False
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
    ticks: dict[float, str] = field(default_factory=dict)  # names of x positions, for categories
    values: str = ""  # what the colour scale means
    headroom: float = 0.0  # share of the y range kept free above the marks


def plotly_figure(panels: Sequence[Panel], columns: int, title: str):
    """The interactive figure. Its layout title is the chart's."""
    from plotly.subplots import make_subplots

    rows = -(-len(panels) // columns)
    figure = make_subplots(rows, columns, horizontal_spacing=0.18 / columns + 0.02, vertical_spacing=0.26 / rows)
    for index, panel in enumerate(panels):
        axis = str(index + 1) if index else ""
        where = {"row": index // columns + 1, "col": index % columns + 1}
        for mark in panel.marks:
            figure.add_trace(_trace(mark, panel, f"legend{axis}"), **where)
        figure.update_xaxes(**_plotly_x(panel), **where)
        figure.update_yaxes(**_plotly_y(panel), **where)
        corner = {"xref": f"x{axis} domain", "yref": f"y{axis} domain", "x": 0, "y": 1, "xanchor": "left", "yanchor": "bottom"}
        labelled = any(m.label for m in panel.marks)
        figure.add_annotation(text=f"<b>{panel.title}</b>", showarrow=False, yshift=22 if labelled else 4, **corner)
        x_domain, y_domain = figure.layout[f"xaxis{axis}"].domain, figure.layout[f"yaxis{axis}"].domain
        place = {"x": x_domain[0], "y": y_domain[1], "xanchor": "left", "yanchor": "bottom", "orientation": "h"}
        figure.layout[f"legend{axis}"] = {**place, "font": {"size": 12}, "bgcolor": "rgba(0,0,0,0)"}
    figure.update_layout(
        title={"text": title, "font": {"size": 17}, "x": 0, "xref": "paper"},
        height=110 + (270 if rows > 1 else 340) * rows,
        margin={"l": 60, "r": 30, "t": 90, "b": 55},
        font={"family": "system-ui, sans-serif", "size": 13, "color": INK},
        template="plotly_white",
        hovermode="closest",
    )
    return figure


def _plotly_x(panel: Panel) -> dict:
    axis = {"title": {"text": panel.x, "standoff": 6}, "gridcolor": GRID, "linecolor": INK, "ticks": "outside"}
    if panel.ticks:
        return {**axis, "tickvals": list(panel.ticks), "ticktext": [t.replace("\n", "<br>") for t in panel.ticks.values()], "showgrid": False}
    return {**axis, "type": "log", "dtick": 1, "exponentformat": "none"} if panel.log_x else axis


def _plotly_y(panel: Panel) -> dict:
    axis = {"title": {"text": panel.y, "standoff": 6}, "gridcolor": GRID, "linecolor": INK, "ticks": "outside", "tickformat": ","}
    if panel.percent:
        axis |= {"tickformat": ".0%"}
    if panel.log_y:
        return {**axis, "type": "log", "exponentformat": "none"}
    low, high = _range(panel)
    return {**axis, "range": [low, high]}


def _range(panel: Panel) -> tuple[float, float]:
    """Limits of a linear y axis: zero is always on it, and the two renderers agree."""
    values = [float(v) for m in panel.marks for part in (m.y, m.low, m.high) if part is not None for v in part if v == v]
    low, high = min([0.0, *values]), max([0.0, *values])
    span = (high - low) or 0.01
    top = high + span * (0.06 + panel.headroom)
    return (low - span * 0.06 if low < 0 else 0.0), min(top, 1.03 + panel.headroom) if panel.percent else top


def _trace(mark: Mark, panel: Panel, legend: str):
    from plotly import graph_objects as go

    style = STYLES[mark.style]
    color = style.light if mark.light else style.color
    x, y = list(mark.x), list(mark.y)
    number = ":.1%" if panel.percent else ":,.4~g"
    common = {"name": mark.label, "showlegend": bool(mark.label), "legend": legend}
    hover = f"%{{x}}<br>%{{y{number}}}"
    if mark.kind == "bars":
        pattern = {"shape": style.hatch, "fgcolor": "white", "size": 7, "solidity": 0.25}
        bar = {"color": color, "pattern": pattern, "line": {"color": color, "width": 1}}
        named = [panel.ticks.get(round(position), "") for position in x]
        hover = f"%{{customdata}}<br>%{{y{number}}}"
        return go.Bar(
            x=x, y=y, width=mark.width, marker=bar, error_y=_plotly_error(mark.y, mark.low, mark.high), text=_lifted(mark),
            textposition="outside", textangle=0, cliponaxis=False, customdata=named, hovertemplate=hover, **common,
        )  # fmt: skip
    if mark.kind == "band":
        edge = [*x, *reversed(x)]
        ribbon = [*mark.high, *reversed(list(mark.low))]
        return go.Scatter(
            x=edge, y=ribbon, fill="toself", fillcolor=color, opacity=0.2, line={"width": 0}, hoverinfo="skip", mode="lines", **common
        )
    if mark.kind in ("line", "step"):
        line = {"color": color, "width": 1 if mark.light else 2.5, "dash": "solid" if mark.light else style.dash}
        shape = {"shape": "hv"} if mark.kind == "step" else {}
        return go.Scatter(x=x, y=y, mode="lines", line={**line, **shape}, hovertemplate=hover, **common)
    marker = {"symbol": style.marker + ("-open" if mark.hollow else ""), "size": 10, "color": color, "line": {"width": 2, "color": color}}
    if mark.values is not None:
        bar = {"title": {"text": panel.values, "side": "right"}, "tickformat": ".0%"}
        scale = [[0, SCALE[0]], [1, SCALE[1]]]
        marker |= {"color": list(mark.values), "colorscale": scale, "colorbar": bar, "line": {"width": 1, "color": INK}}
    return go.Scatter(
        x=x, y=y, mode="markers+text" if mark.texts else "markers", marker=marker, text=list(mark.texts or []), textposition="top right",
        error_x=_plotly_error(mark.x, mark.x_low, mark.x_high), error_y=_plotly_error(mark.y, mark.low, mark.high),
        hovertemplate=hover, **common,
    )  # fmt: skip


def _lifted(mark: Mark) -> list[str] | None:
    """Bar labels; an interval would run through them, so they stand a line above it."""
    if not mark.texts:
        return None
    return [f"{text}<br> " if mark.high is not None else text for text in mark.texts]


def _plotly_error(centre, low, high) -> dict | None:
    if low is None:
        return None
    below, above = _distances(centre, low, high)
    return {"array": above, "arrayminus": below, "thickness": 1.5, "width": 5}


def static_svg(panels: Sequence[Panel], columns: int, title: str, name: str) -> str:
    """The same picture as one <svg> element: text stays text, ids carry the chart's name, nothing outside is referred to."""
    import matplotlib
    from matplotlib.figure import Figure

    rows = -(-len(panels) // columns)
    settings = {"svg.fonttype": "none", "svg.hashsalt": name, "font.family": "sans-serif", "text.parse_math": False, "font.size": 10}
    with matplotlib.rc_context(settings):
        heading = textwrap.wrap(title, 95)
        figure = Figure(figsize=(10.5, (2.5 if rows > 1 else 3.6) * rows + 0.5 + 0.2 * len(heading)), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False).flat
        for panel, axis in zip(panels, axes, strict=False):
            _draw_panel(axis, panel, figure)
        for axis in list(axes)[len(panels) :]:
            axis.axis("off")
        figure.suptitle("\n".join(heading), x=0.01, ha="left", fontsize=13, fontweight="bold")
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return _embeddable(buffer.getvalue(), name, title)


def _embeddable(svg: str, name: str, title: str) -> str:
    import html

    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'href="#', f'href="#{name}-', svg)
    svg = svg.replace("url(#", f"url(#{name}-")
    return svg.replace("<svg ", f'<svg role="img" aria-label="{html.escape(title, quote=True)}" ', 1).strip()


def _draw_panel(axis, panel: Panel, figure):
    from matplotlib.ticker import FuncFormatter, PercentFormatter

    for mark in panel.marks:
        _draw_mark(axis, mark, panel, figure)
    axis.set_xlabel(panel.x)
    axis.set_ylabel(panel.y)
    plain = FuncFormatter(lambda value, _: f"{value:,.10g}")
    if panel.log_x:
        axis.set_xscale("log")
        axis.xaxis.set_major_formatter(plain)
        axis.xaxis.set_minor_formatter("")
    if panel.log_y:
        axis.set_yscale("log")
        axis.yaxis.set_major_formatter(plain)
        axis.yaxis.set_minor_formatter("")
    else:
        axis.set_ylim(*_range(panel))
        axis.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=None) if panel.percent else plain)
    if panel.ticks:
        axis.set_xticks(list(panel.ticks), list(panel.ticks.values()))
    axis.grid(axis="y" if panel.ticks else "both", color=GRID, linewidth=0.6)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
    labelled = [m for m in panel.marks if m.label]
    axis.set_title(panel.title, loc="left", fontsize=10.5, fontweight="bold", pad=20 if labelled else 6)
    if labelled:
        axis.legend(
            loc="lower left", bbox_to_anchor=(0, 0.98), ncols=len(labelled), frameon=False, fontsize=9, handlelength=1.8,
            borderaxespad=0, columnspacing=1.0,
        )  # fmt: skip


def _draw_mark(axis, mark: Mark, panel: Panel, figure):
    style = STYLES[mark.style]
    color = style.light if mark.light else style.color
    label = mark.label or None
    x, y = list(mark.x), list(mark.y)
    if mark.kind == "bars":
        axis.bar(x, y, mark.width, color=color, hatch=style.hatch * 2, edgecolor="white" if style.hatch else color, label=label)
    elif mark.kind == "band":
        axis.fill_between(x, list(mark.low), list(mark.high), color=color, alpha=0.2, linewidth=0, label=label)
    elif mark.kind in ("line", "step"):
        line = {"color": color, "linewidth": 0.9 if mark.light else 2, "linestyle": "-" if mark.light else DASHES[style.dash]}
        axis.plot(x, y, drawstyle="steps-post" if mark.kind == "step" else "default", label=label, **line)
    elif mark.values is not None:
        from matplotlib.colors import LinearSegmentedColormap

        scale = LinearSegmentedColormap.from_list("scale", SCALE)
        dots = axis.scatter(x, y, c=list(mark.values), cmap=scale, s=36, edgecolors=INK, linewidths=0.7, label=label, zorder=3)
        figure.colorbar(dots, ax=axis, label=panel.values, format=lambda value, _: f"{value:.0%}")
    else:
        face = "white" if mark.hollow else color
        axis.scatter(x, y, marker=MARKERS[style.marker], s=55, color=face, edgecolors=color, linewidths=1.8, label=label, zorder=3)
    errors = {}
    if mark.kind in ("points", "bars") and mark.low is not None:
        errors["yerr"] = _distances(y, mark.low, mark.high)
    if mark.kind == "points" and mark.x_low is not None:
        errors["xerr"] = _distances(x, mark.x_low, mark.x_high)
    if errors:
        axis.errorbar(x, y, **errors, fmt="none", ecolor=INK if mark.kind == "bars" else color, capsize=3, linewidth=1.3, zorder=2)
    for index, text in enumerate(mark.texts or []):
        bars = mark.kind == "bars"
        top = mark.high[index] if bars and mark.high is not None else y[index]
        offset, align = ((0, 3), "center") if bars else ((8, 6), "left")
        axis.annotate(text, (x[index], top), offset, textcoords="offset points", fontsize=9, color=INK, ha=align, va="bottom")


def _distances(centre, low, high) -> list[list[float]]:
    """Distances; an interval that leaves out its centre (possible for a skewed bootstrap) gets length zero on that side."""
    return [
        [max(0.0, c - v) for c, v in zip(centre, low, strict=True)],
        [max(0.0, h - c) for c, h in zip(centre, high, strict=True)],
    ]
