"""Two renderers for one description of a picture: interactive Plotly, and a static SVG by matplotlib.

A chart is a list of panels and a panel a list of marks, so the static twin cannot show other
numbers than the interactive figure.
"""

import io
import math
import re
import textwrap
from collections.abc import Sequence

from .axes import decimals, log_range, log_ticks, reach, short, whole_step, y_range
from .panels import GRID, INK, SCALE, STYLES, Mark, Panel

CONFIG = {"displaylogo": False, "responsive": True, "modeBarButtonsToRemove": ["sendChartToCloud", "select2d", "lasso2d"]}
DASHES = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-."}
MARKERS = {"circle": "o", "diamond": "D", "square": "s", "triangle-up": "^"}
TITLE_CHARS = 85  # of a line
TITLE_LINE = 24  # pixels


def plotly_figure(panels: Sequence[Panel], columns: int, title: str):
    """The interactive figure. Its layout title is the chart's."""
    from plotly.subplots import make_subplots

    rows = -(-len(panels) // columns)
    figure = make_subplots(rows, columns, horizontal_spacing=0.18 / columns + 0.02, vertical_spacing=0.34 / rows)
    for index, panel in enumerate(panels):
        axis = str(index + 1) if index else ""
        where = {"row": index // columns + 1, "col": index % columns + 1}
        for mark in panel.marks:
            for trace in _traces(mark, panel, f"legend{axis}"):
                figure.add_trace(trace, **where)
        figure.update_xaxes(**_plotly_x(panel), **where)
        figure.update_yaxes(**_plotly_y(panel), **where)
        corner = {"xref": f"x{axis} domain", "yref": f"y{axis} domain", "x": 0, "y": 1, "xanchor": "left", "yanchor": "bottom"}
        labelled = any(m.label for m in panel.marks)
        figure.add_annotation(text=f"<b>{panel.title}</b>", showarrow=False, yshift=22 if labelled else 4, **corner)
        x_domain, y_domain = figure.layout[f"xaxis{axis}"].domain, figure.layout[f"yaxis{axis}"].domain
        place = {"x": x_domain[0], "y": y_domain[1], "xanchor": "left", "yanchor": "bottom", "orientation": "h"}
        figure.layout[f"legend{axis}"] = {**place, "font": {"size": 12}, "bgcolor": "rgba(0,0,0,0)"}
    heading = textwrap.wrap(title, TITLE_CHARS)
    more = TITLE_LINE * (len(heading) - 1)
    figure.update_layout(
        title={"text": "<br>".join(heading), "font": {"size": 17}, "x": 0, "xref": "paper"},
        height=110 + (270 if rows > 1 else 340) * rows + more,
        margin={"l": 60, "r": 30, "t": 90 + more, "b": 55},
        font={"family": "system-ui, sans-serif", "size": 13, "color": INK},
        template="plotly_white",
        hovermode="closest",
    )
    return figure


def _plotly_x(panel: Panel) -> dict:
    axis = {"title": {"text": panel.x, "standoff": 6}, "gridcolor": GRID, "linecolor": INK, "ticks": "outside"}
    if panel.log_x:
        return axis | _plotly_log(reach(panel), panel.ticks)
    if panel.ticks:
        names = [name.replace("\n", "<br>") for name in panel.ticks.values()]
        return {**axis, "tickvals": list(panel.ticks), "ticktext": names, "showgrid": False}
    return axis


def _plotly_log(values: Sequence[float], ticks: dict[float, str]) -> dict:
    ends = log_range(values)
    ticks = ticks or _log_names(ends)
    return {"type": "log", "range": [math.log10(e) for e in ends], "tickvals": list(ticks), "ticktext": list(ticks.values())}


def _log_names(ends: tuple[float, float]) -> dict[float, str]:
    return {tick: short(tick) for tick in log_ticks(*ends)}


def _plotly_y(panel: Panel) -> dict:
    axis = {"title": {"text": panel.y, "standoff": 6}, "gridcolor": GRID, "linecolor": INK, "ticks": "outside", "tickformat": ","}
    if panel.log_y:
        return axis | _plotly_log([v for m in panel.marks for v in m.y], {})
    low, high = y_range(panel)
    if panel.percent:
        axis |= {"tickformat": f".{decimals(high)}%"}
    if panel.whole:
        axis |= {"tick0": 0, "dtick": whole_step(high)}
    return {**axis, "range": [low, high]}


def _traces(mark: Mark, panel: Panel, legend: str) -> list:
    """A mark's trace, and one more for the texts of bars, which stand above the intervals."""
    from plotly import graph_objects as go

    traces = [_trace(mark, panel, legend)]
    if mark.kind == "bars" and mark.texts:
        tops = list(mark.high if mark.high is not None else [max(0, v) for v in mark.y])
        options = {"mode": "text", "textposition": "top center", "hoverinfo": "skip", "showlegend": False, "cliponaxis": False}
        traces.append(go.Scatter(x=list(mark.x), y=tops, text=list(mark.texts), **options))
    return traces


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
            x=x, y=y, width=mark.width, marker=bar, error_y=_plotly_error(mark.y, mark.low, mark.high), customdata=named,
            hovertemplate=hover, **common,
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
    marker = {
        "symbol": style.marker + ("-open" if mark.hollow else ""),
        "size": mark.size,
        "color": color,
        "line": {"width": 2, "color": color},
    }
    if mark.values is not None:
        bar = {"title": {"text": panel.values, "side": "right"}, "tickformat": ".0%"}
        scale = [[0, SCALE[0]], [1, SCALE[1]]]
        marker |= {"color": list(mark.values), "colorscale": scale, "colorbar": bar, "line": {"width": 1, "color": INK}}
    return go.Scatter(
        x=x, y=y, mode="markers+text" if mark.texts else "markers", marker=marker, text=list(mark.texts or []),
        textposition=[f"{'bottom' if mark.below else 'top'} {side}" for side in _sides(mark)],
        error_x=_plotly_error(mark.x, mark.x_low, mark.x_high), error_y=_plotly_error(mark.y, mark.low, mark.high),
        hovertemplate=hover, cliponaxis=False, **common,
    )  # fmt: skip


def _sides(mark: Mark) -> list[str]:
    """Where each text stands: towards the middle of the axis, so that none is cut off."""
    middle = (min(mark.x) + max(mark.x)) / 2
    return ["left" if len(mark.x) > 1 and x >= middle else "right" for x in mark.x]


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
        heading = textwrap.wrap(title, TITLE_CHARS)
        figure = Figure(figsize=(9.4, (2.4 if rows > 1 else 3.6) * rows + 0.5 + 0.2 * len(heading)), layout="constrained")
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
    return svg.replace(
        "<svg ", f'<svg style="width:100%;max-width:900px;height:auto" role="img" aria-label="{html.escape(title, quote=True)}" ', 1
    ).strip()


def _draw_panel(axis, panel: Panel, figure):
    from matplotlib.ticker import FuncFormatter, MultipleLocator, NullLocator, PercentFormatter

    for mark in panel.marks:
        _draw_mark(axis, mark, panel, figure)
    axis.set_xlabel(panel.x)
    axis.set_ylabel(panel.y)
    plain = FuncFormatter(lambda value, _: f"{value:,.10g}")
    if panel.log_x:
        ends = log_range(reach(panel))
        axis.set_xscale("log")
        axis.set_xlim(*ends)
        axis.xaxis.set_minor_locator(NullLocator())
    if panel.log_y:
        ends = log_range([v for m in panel.marks for v in m.y])
        axis.set_yscale("log")
        axis.set_ylim(*ends)
        axis.set_yticks(list(_log_names(ends)), list(_log_names(ends).values()))
        axis.yaxis.set_minor_locator(NullLocator())
    else:
        limits = y_range(panel)
        axis.set_ylim(*limits)
        axis.yaxis.set_major_formatter(PercentFormatter(1.0, decimals(limits[1])) if panel.percent else plain)
        if panel.whole:
            axis.yaxis.set_major_locator(MultipleLocator(whole_step(limits[1])))
    ticks = panel.ticks or (_log_names(log_range(reach(panel))) if panel.log_x else {})
    if ticks:
        axis.set_xticks(list(ticks), list(ticks.values()))
    axis.grid(axis="y" if panel.ticks and not panel.log_x else "both", color=GRID, linewidth=0.6)
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
        face = "none" if mark.hollow else color
        axis.scatter(
            x,
            y,
            marker=MARKERS[style.marker],
            s=0.55 * mark.size**2,
            color=face,
            edgecolors=color,
            linewidths=1.8,
            label=label,
            zorder=3,
            clip_on=False,
        )
    errors = {}
    if mark.kind in ("points", "bars") and mark.low is not None:
        errors["yerr"] = _distances(y, mark.low, mark.high)
    if mark.kind == "points" and mark.x_low is not None:
        errors["xerr"] = _distances(x, mark.x_low, mark.x_high)
    if errors:
        axis.errorbar(x, y, **errors, fmt="none", ecolor=INK if mark.kind == "bars" else color, capsize=3, linewidth=1.3, zorder=2)
    for index, (text, side) in enumerate(zip(mark.texts or [], _sides(mark), strict=False)):
        bars = mark.kind == "bars"
        top = max(0, y[index]) if bars else y[index]
        top = mark.high[index] if bars and mark.high is not None else top
        offset = (0, 3) if bars else (8 if side == "right" else -8, -6 if mark.below else 6)
        align = "center" if bars else "left" if side == "right" else "right"
        axis.annotate(
            text, (x[index], top), offset, textcoords="offset points", fontsize=9, color=INK, ha=align, va="top" if mark.below else "bottom"
        )


def _distances(centre, low, high) -> list[list[float]]:
    """Distances; an interval that leaves out its centre (possible for a skewed bootstrap) gets length zero on that side."""
    return [
        [max(0.0, c - v) for c, v in zip(centre, low, strict=True)],
        [max(0.0, h - c) for c, h in zip(centre, high, strict=True)],
    ]
