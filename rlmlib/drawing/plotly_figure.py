"""The interactive renderer: panels and marks as one Plotly figure."""

import math
from collections.abc import Sequence

from .axes import decimals, log_names, log_range, reach, whole_step, x_range, y_range, y_reach
from .cells import cell_texts, hatched
from .labels import FONT, Placed, line_ends, placed, text_size
from .layout import ONLY_ROW, ROW, Place, heading, last_in_row, places, row_heights
from .panels import GRID, INK, STYLES, Mark, Panel
from .plotly_marks import PALE, traces

CONFIG = {"displaylogo": False, "responsive": True, "modeBarButtonsToRemove": ["sendChartToCloud", "select2d", "lasso2d"]}
TITLE_LINE = 24  # pixels
LEGEND_LINE = 26  # pixels, of a legend of the whole figure
WIDTH = 900  # pixels that a page gives a figure; texts are placed for it
EDGE = 0.015  # of the width, left of a title that begins at the edge of the figure
LEFT, RIGHT, TOP, BOTTOM = 60, 30, 90, 55  # margins in pixels


def plotly_figure(panels: Sequence[Panel], columns: int, title: str):
    """The interactive figure. Its layout title is the chart's."""
    from plotly.subplots import make_subplots

    found = places(panels, columns)
    heights = row_heights(panels, found)
    rows = len(heights)
    inner, right = _room_for_ends(panels, found, columns)
    figure = make_subplots(
        rows, columns, specs=_specs(found, rows, columns), row_heights=heights if len(set(heights)) > 1 else None,
        horizontal_spacing=0.18 / columns + 0.02 + inner / WIDTH, vertical_spacing=0.34 / sum(heights),
    )  # fmt: skip
    lines = heading(title)
    shared = any(p.legend == "figure" and any(m.label for m in p.marks) for p in panels)
    more = TITLE_LINE * (len(lines) - 1) + LEGEND_LINE * shared
    height = round(110 + (ROW if rows > 1 else ONLY_ROW) * sum(heights)) + more
    size = (WIDTH - LEFT - right, height - TOP - more - BOTTOM)  # of the area of all panels
    named_rows = any(p.y_ticks and not p.log_y for p in panels)  # their names take room at the left, which the title must not lose
    told: set[str] = set()  # labels that the legend of the figure has
    for index, (panel, place) in enumerate(zip(panels, found, strict=True)):
        _add_panel(figure, index, panel, place, size, told)
    if shared:
        top = {"x": 0, "y": 1 + 30 / size[1], "xanchor": "left", "yanchor": "bottom", "orientation": "h"}
        figure.layout[_shared_legend(figure)] = {**top, "font": {"size": 13}, "bgcolor": "rgba(0,0,0,0)"}
    head = {
        "text": "<br>".join(lines),
        "font": {"size": 17},
        "x": EDGE if named_rows else 0,
        "xref": "container" if named_rows else "paper",
    }
    if shared:
        head |= {"y": 1 - 30 / height, "yanchor": "top"}
    figure.update_layout(
        title=head,
        height=height,
        margin={"l": LEFT, "r": right, "t": TOP + more, "b": BOTTOM},
        font={"family": "system-ui, sans-serif", "size": 13, "color": INK},
        template="plotly_white",
        hovermode="closest",
    )
    return figure


def _specs(found: Sequence[Place], rows: int, columns: int) -> list[list[dict | None]]:
    """What make_subplots wants: a cell for each panel, None where there is none."""
    specs: list[list[dict | None]] = [[None] * columns for _ in range(rows)]
    for place in found:
        specs[place.row][place.column] = {"colspan": place.span}
    return specs


def _room_for_ends(panels: Sequence[Panel], found: Sequence[Place], columns: int) -> tuple[float, int]:
    """Pixels that names at the ends of lines need between columns, and right of the last one."""
    widths = [max((text_size(m.end)[0] for m in panel.marks if m.end), default=0.0) for panel in panels]
    last = [last_in_row(place, columns) for place in found]
    inner = max((width for width, is_last in zip(widths, last, strict=True) if not is_last), default=0.0)
    return inner, max([RIGHT, *(round(width) + 8 for width, is_last in zip(widths, last, strict=True) if is_last)])


def _shared_legend(figure) -> str:
    return f"legend{1 + len(list(figure.select_xaxes()))}"


def _add_panel(figure, index: int, panel: Panel, place: Place, size: tuple[float, float], told: set[str]):
    """Traces, axes, title, legend and texts of one panel."""
    axis = str(index + 1) if index else ""
    where = {"row": place.row + 1, "col": place.column + 1}
    legend = _shared_legend(figure) if panel.legend == "figure" else f"legend{axis}"
    for mark in panel.marks:
        named = bool(mark.label) and not (panel.legend == "figure" and mark.label in told)
        told.add(mark.label)
        for trace in traces(mark, panel, legend, named):
            figure.add_trace(trace, **where)
    figure.update_xaxes(**_plotly_x(panel), **where)
    figure.update_yaxes(**_plotly_y(panel), **where)
    corner = {"xref": f"x{axis} domain", "yref": f"y{axis} domain", "x": 0, "y": 1, "xanchor": "left", "yanchor": "bottom"}
    labelled = panel.legend == "panel" and any(m.label for m in panel.marks)
    figure.add_annotation(text=f"<b>{panel.title}</b>", showarrow=False, yshift=22 if labelled else 4, **corner)
    x_domain, y_domain = figure.layout[f"xaxis{axis}"].domain, figure.layout[f"yaxis{axis}"].domain
    if panel.legend == "panel":
        spot = {"x": x_domain[0], "y": y_domain[1], "xanchor": "left", "yanchor": "bottom", "orientation": "h"}
        figure.layout[f"legend{axis}"] = {**spot, "font": {"size": 12}, "bgcolor": "rgba(0,0,0,0)"}
    width, height = ((ends[1] - ends[0]) * pixels for ends, pixels in zip((x_domain, y_domain), size, strict=True))
    for mark, share in line_ends(panel, height):
        spot = {"xref": f"x{axis} domain", "yref": f"y{axis} domain", "x": 1, "y": share, "xanchor": "left", "yanchor": "middle"}
        color = STYLES[mark.style].color
        figure.add_annotation(text=mark.end, showarrow=False, xshift=4, font={"size": FONT, "color": color}, **spot)
    for name in placed(panel, width, height) if panel.spread else []:
        figure.add_annotation(**_beside(name, panel, axis))
    for mark, x, y, text in _texts_on_ground(panel):
        figure.add_annotation(**_beside(Placed(text, x, y, 0, 0, mark, False), panel, axis))


def _texts_on_ground(panel: Panel) -> list[tuple[Mark, float, float, str]]:
    """(mark, x, y, text) of texts that stand on other marks or on a hatch."""
    found = []
    for mark in panel.marks:
        if mark.kind in ("text", "cells"):
            wanted = hatched(mark) if mark.kind == "cells" else [True] * len(mark.x)
            spots = zip(mark.x, mark.y, cell_texts(mark), wanted, strict=True)
            found += [(mark, x, y, text) for x, y, text, is_wanted in spots if is_wanted]
    return found


def _beside(name: Placed, panel: Panel, axis: str) -> dict:
    """The annotation of a text that was placed; one further off has a line to its point."""
    x, y = (math.log10(v) if log else v for v, log in ((name.x, panel.log_x), (name.y, panel.log_y)))
    font = {"size": FONT, "color": STYLES[name.mark.style].color}
    common = {"x": x, "y": y, "xref": f"x{axis}", "yref": f"y{axis}", "text": name.text.replace("\n", "<br>"), "font": font}
    common |= {"bgcolor": PALE, "borderpad": 0}
    if not name.leader:
        return {**common, "showarrow": False, "xshift": name.dx, "yshift": name.dy}
    arrow = {"showarrow": True, "arrowhead": 0, "arrowwidth": 0.8, "arrowcolor": "#999999", "standoff": 6, "ax": name.dx, "ay": -name.dy}
    return {**common, **arrow}


def _plotly_x(panel: Panel) -> dict:
    axis = {"title": {"text": panel.x, "standoff": 6}, "gridcolor": GRID, "linecolor": INK, "ticks": "outside"}
    if panel.log_x:
        return axis | _plotly_log(reach(panel), panel.ticks)
    if limits := x_range(panel):
        axis |= {"range": list(limits), "zeroline": False}
    if panel.x_percent:
        axis |= {"tickformat": f".{decimals(limits[1])}%"}
    if panel.ticks:
        names = [name.replace("\n", "<br>") for name in panel.ticks.values()]
        return {**axis, "tickvals": list(panel.ticks), "ticktext": names, "showgrid": False}
    return axis


def _plotly_log(values: Sequence[float], ticks: dict[float, str]) -> dict:
    ends = log_range(values)
    ticks = ticks or log_names(ends)
    return {"type": "log", "range": [math.log10(e) for e in ends], "tickvals": list(ticks), "ticktext": list(ticks.values())}


def _plotly_y(panel: Panel) -> dict:
    axis = {"title": {"text": panel.y, "standoff": 6}, "gridcolor": GRID, "linecolor": INK, "ticks": "outside", "tickformat": ","}
    if panel.log_y:
        return axis | _plotly_log(y_reach(panel), panel.y_ticks)
    low, high = y_range(panel)
    if panel.y_ticks:
        names = [name.replace("\n", "<br>") for name in panel.y_ticks.values()]
        return {
            **axis,
            "tickvals": list(panel.y_ticks),
            "ticktext": names,
            "ticks": "",
            "showgrid": False,
            "zeroline": False,
            "range": [low, high],
        }
    if panel.percent:
        axis |= {"tickformat": f".{decimals(high)}%"}
    if panel.whole:
        axis |= {"tick0": 0, "dtick": whole_step(high)}
    return {**axis, "range": [low, high]}
