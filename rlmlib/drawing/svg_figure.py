"""The static renderer: panels and marks as one SVG, text as text, or PNG, by matplotlib."""

import html
import io
import re
from collections.abc import Sequence

from .axes import decimals, log_names, log_range, reach, whole_step, x_range, y_range, y_reach
from .labels import line_ends, placed
from .layout import Place, heading, places, row_heights
from .panels import GRID, STYLES, Mark, Panel
from .svg_marks import PALE, draw_mark

WIDTH = 9.4  # inches
PNG_DPI = 130
ROW, ONLY_ROW = 2.4, 3.6  # inches, of one row of several and of a single one
LEGEND_LINE = 0.28  # inches, of a legend of the whole figure
POINTS = 0.72  # in a pixel, where 100 pixels are an inch


def static_svg(panels: Sequence[Panel], columns: int, title: str, name: str) -> str:
    """The same picture as one <svg> element: text stays text, ids carry the chart's name, nothing outside is referred to."""
    about = {"Date": None, "Creator": None, "Format": None, "Type": None}
    return _embeddable(_saved(panels, columns, title, name, format="svg", metadata=about).decode(), name, title)


def static_png(panels: Sequence[Panel], columns: int, title: str, name: str) -> bytes:
    """The same picture for where no SVG is shown."""
    return _saved(panels, columns, title, name, format="png", dpi=PNG_DPI, metadata={"Software": None})


def _saved(panels: Sequence[Panel], columns: int, title: str, name: str, **options) -> bytes:
    """The picture as a file's bytes. options: of matplotlib's savefig."""
    import matplotlib

    settings = {"svg.fonttype": "none", "svg.hashsalt": name, "font.family": "sans-serif", "text.parse_math": False, "font.size": 10}
    with matplotlib.rc_context(settings):
        buffer = io.BytesIO()
        _figure(panels, columns, title).savefig(buffer, **options)
    return buffer.getvalue()


def _figure(panels: Sequence[Panel], columns: int, title: str):
    from matplotlib.figure import Figure

    found = places(panels, columns)
    heights = row_heights(panels, found)
    lines = heading(title)
    shared = _shared_labels(panels)
    inches = (ROW if len(heights) > 1 else ONLY_ROW) * sum(heights) + 0.5 + 0.2 * len(lines) + LEGEND_LINE * bool(shared)
    figure = Figure(figsize=(WIDTH, inches), layout="constrained")
    axes = _subplots(figure, found, heights, columns)
    for panel, axis in zip(panels, axes, strict=True):
        _draw_panel(axis, panel, figure)
    if shared:
        _head_with_legend(figure, axes, lines, shared, inches)
    else:
        figure.suptitle("\n".join(lines), x=0.01, ha="left", fontsize=13, fontweight="bold")
    _add_texts(figure, panels, axes)
    return figure


def _subplots(figure, found: Sequence[Place], heights: Sequence[float], columns: int) -> list:
    grid = figure.add_gridspec(len(heights), columns, height_ratios=heights)
    return [figure.add_subplot(grid[p.row, p.column : p.column + p.span]) for p in found]


def _embeddable(svg: str, name: str, title: str) -> str:
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'href="#', f'href="#{name}-', svg)
    svg = svg.replace("url(#", f"url(#{name}-")
    return svg.replace(
        "<svg ", f'<svg style="width:100%;max-width:900px;height:auto" role="img" aria-label="{html.escape(title, quote=True)}" ', 1
    ).strip()


def _draw_panel(axis, panel: Panel, figure):
    for mark in panel.marks:
        draw_mark(axis, mark, panel, figure)
    axis.set_xlabel(panel.x)
    axis.set_ylabel(panel.y)
    _x_axis(axis, panel)
    _y_axis(axis, panel)
    if any(mark.kind == "cells" for mark in panel.marks):
        axis.grid(False)
        axis.tick_params(length=0)
    elif panel.y_ticks and not panel.log_y:
        axis.grid(axis="x", color=GRID, linewidth=0.6)
        axis.tick_params(axis="y", length=0)
    else:
        axis.grid(axis="y" if panel.ticks and not panel.log_x else "both", color=GRID, linewidth=0.6)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
    labelled = [m for m in panel.marks if m.label] if panel.legend == "panel" else []
    axis.set_title(panel.title, loc="left", fontsize=10.5, fontweight="bold", pad=20 if labelled else 6)
    if labelled:
        axis.legend(
            loc="lower left", bbox_to_anchor=(0, 0.98), ncols=len(labelled), frameon=False, fontsize=9, handlelength=1.8,
            borderaxespad=0, columnspacing=1.0,
        )  # fmt: skip


def _x_axis(axis, panel: Panel):
    from matplotlib.ticker import NullLocator, PercentFormatter

    if panel.log_x:
        axis.set_xscale("log")
        axis.set_xlim(*log_range(reach(panel)))
        axis.xaxis.set_minor_locator(NullLocator())
    elif limits := x_range(panel):
        axis.set_xlim(*limits)
    if panel.x_percent:
        axis.xaxis.set_major_formatter(PercentFormatter(1.0, decimals(limits[1])))
    ticks = panel.ticks or (log_names(log_range(reach(panel))) if panel.log_x else {})
    if ticks:
        axis.set_xticks(list(ticks), list(ticks.values()))


def _y_axis(axis, panel: Panel):
    from matplotlib.ticker import FuncFormatter, MultipleLocator, NullLocator, PercentFormatter

    if panel.log_y:
        ends = log_range(y_reach(panel))
        ticks = panel.y_ticks or log_names(ends)
        axis.set_yscale("log")
        axis.set_yticks(list(ticks), list(ticks.values()))
        axis.set_ylim(*ends)  # after the ticks, which would widen it
        axis.yaxis.set_minor_locator(NullLocator())
        return
    limits = y_range(panel)
    axis.set_ylim(*limits)
    if panel.y_ticks:
        axis.set_yticks(list(panel.y_ticks), list(panel.y_ticks.values()))
        return
    plain = FuncFormatter(lambda value, _: f"{value:,.10g}")
    axis.yaxis.set_major_formatter(PercentFormatter(1.0, decimals(limits[1])) if panel.percent else plain)
    if panel.whole:
        axis.yaxis.set_major_locator(MultipleLocator(whole_step(limits[1])))


def _shared_labels(panels: Sequence[Panel]) -> list[str]:
    return list(dict.fromkeys(m.label for p in panels if p.legend == "figure" for m in p.marks if m.label))


def _head_with_legend(figure, axes: Sequence, lines: Sequence[str], labels: Sequence[str], inches: float):
    """The title, under it one legend for the whole figure; the panels keep out of the room of both."""
    title = 0.08 + 0.22 * len(lines)
    figure.text(0.01, 1 - 0.06 / inches, "\n".join(lines), ha="left", va="top", fontsize=13, fontweight="bold")
    handles = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(
        [handles[label] for label in labels], list(labels), loc="upper left", bbox_to_anchor=(0.005, 1 - title / inches), frameon=False,
        ncols=len(labels), fontsize=10, handlelength=2.4, borderaxespad=0, columnspacing=1.6,
    )  # fmt: skip
    figure.get_layout_engine().set(rect=(0, 0, 1, 1 - (title + LEGEND_LINE) / inches))


def _add_texts(figure, panels: Sequence[Panel], axes: Sequence):
    """Names at the ends of lines, which take room beside the panel, then names of points, which are moved within it."""
    ends = [[_end(axis, m) for m in panel.marks if m.end and len(m.y)] for panel, axis in zip(panels, axes, strict=True)]
    if not any(ends) and not any(panel.spread for panel in panels):
        return
    figure.draw_without_rendering()  # so that the panels have their sizes
    for panel, axis, texts in zip(panels, axes, ends, strict=True):
        box = axis.get_window_extent()
        width, height = (100 * size / figure.dpi for size in (box.width, box.height))
        for text, (_, share) in zip(texts, line_ends(panel, height), strict=True):
            text.xy = (1.0, share)
        for name in placed(panel, width, height) if panel.spread else []:
            arrow = {"arrowstyle": "-", "color": "#999999", "linewidth": 0.7, "shrinkA": 1, "shrinkB": 4} if name.leader else None
            axis.annotate(
                name.text, (name.x, name.y), (name.dx * POINTS, name.dy * POINTS), textcoords="offset points", fontsize=9, ha="center",
                va="center", color=STYLES[name.mark.style].color, arrowprops=arrow, annotation_clip=False, bbox=PALE,
            )  # fmt: skip


def _end(axis, mark: Mark):
    return axis.annotate(
        mark.end, (1.0, 0.5), (4, 0), xycoords="axes fraction", textcoords="offset points", fontsize=9, ha="left", va="center",
        color=STYLES[mark.style].color, annotation_clip=False,
    )  # fmt: skip
