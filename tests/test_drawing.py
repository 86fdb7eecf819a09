"""Panels and marks in both renderers, and where texts are put."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlmlib.drawing import axes, cells, labels, plotly_figure, static_svg
from rlmlib.drawing.layout import heading, places, row_heights
from rlmlib.drawing.panels import STYLES, Mark, Panel
from rlmlib.drawing.svg_marks import draw_mark

X = [1.0, 2.0, 3.0]
MARKS = {
    "line": Mark("line", X, [1, 3, 2], "trained", end="its name"),
    "step": Mark("step", X, [1, 3, 2], "third"),
    "band": Mark("band", X, X, "trained", low=[0, 1, 2], high=[2, 3, 4]),
    "area": Mark("area", X, X, "third", low=[0, 0, 0], high=[2, 3, 4], hover=["a", "b", "c"]),
    "points": Mark("points", X, [1, 3, 2], "base", texts=["one", "two", "three"], low=[0, 2, 1], high=[2, 4, 3]),
    "bars": Mark("bars", X, [1, 3, 2], "base", texts=["one", "two", "three"]),
    "cells": Mark("cells", [0, 1], [0, 0], values=[0.1, None], texts=["ten", "stopped\nearly"], hatched=[False, True]),
    "text": Mark("text", [2.0], [2.0], "fourth", texts=["in the middle"]),
    "vertical": Mark("vertical", [1.5, 2.5], [], "muted", texts=["here", "there"]),
    "horizontal": Mark("horizontal", [], [2.5], "muted", end="the level"),
}


def panel_of(*marks: Mark, **options) -> Panel:
    return Panel("A title", "across", "up", list(marks), **options)


def written(svg: str) -> str:
    return re.sub(r"<[^>]+>|<!--.*?-->", " ", svg, flags=re.DOTALL)


def plotly_texts(figure) -> str:
    said = [a.text for a in figure.layout.annotations] + [str(t) for trace in figure.data for t in (trace.text or ())]
    return " ".join(said).replace("<br>", " ")


# --- every kind of mark in both renderers ----------------------------------------------------


@pytest.mark.parametrize("kind", MARKS)
def test_a_mark_is_drawn_by_matplotlib(kind):
    from matplotlib.figure import Figure

    axis = Figure().subplots()
    before = len(axis.get_children())
    draw_mark(axis, MARKS[kind], panel_of(MARKS[kind]), axis.figure)
    assert len(axis.get_children()) > before


@pytest.mark.parametrize("kind", MARKS)
def test_a_mark_is_drawn_by_plotly(kind):
    figure = plotly_figure([panel_of(MARKS[kind])], 1, "t")
    assert len(figure.data) + sum(a.text == "in the middle" for a in figure.layout.annotations) >= 1


@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize("kind", [kind for kind, mark in MARKS.items() if (mark.texts or mark.end) and kind != "vertical"])
def test_texts_are_written_by_both(kind, spread):
    mark, panels = MARKS[kind], [panel_of(MARKS[kind], spread=spread)]
    wanted = {word for text in [*(mark.texts or []), mark.end] for word in text.split()}
    for said in (written(static_svg(panels, 1, "t", "n")), plotly_texts(plotly_figure(panels, 1, "t"))):
        assert wanted <= set(said.split())


def test_hatched_cells_are_hatched_in_both():
    panels = [panel_of(MARKS["cells"], ticks={0: "a", 1: "b"}, y_ticks={0: "c"})]
    assert list(plotly_figure(panels, 1, "t").data[0].marker.pattern.shape) == ["", "/"]
    assert "<pattern" in static_svg(panels, 1, "t", "n")


def test_lines_across_reach_both_edges():
    trace = plotly_figure([panel_of(MARKS["vertical"], MARKS["line"])], 1, "t").data[0]
    low, high = axes.y_ends(panel_of(MARKS["vertical"], MARKS["line"]))
    ys = [y for y in trace.y if y is not None]
    assert (min(ys), max(ys)) == pytest.approx((low, high)) and {x for x in trace.x if x is not None} == {1.5, 2.5}


def test_a_legend_of_the_figure_names_each_label_once():
    panels = [panel_of(Mark("line", X, X, "trained", "same"), legend="figure") for _ in range(3)]
    assert [trace.showlegend for trace in plotly_figure(panels, 3, "t").data] == [True, False, False]
    assert written(static_svg(panels, 3, "t", "n")).count("same") == 1


def test_both_renderers_share_the_limits_of_axes():
    panel = panel_of(MARKS["points"], log_x=True, y_ticks={1: "a", 2: "b", 3: "c"})
    layout = plotly_figure([panel], 1, "t").layout
    assert [10**v for v in layout.xaxis.range] == pytest.approx(axes.x_ends(panel)) and list(layout.yaxis.range) == list(axes.y_ends(panel))


def test_a_log_axis_of_shares_has_named_ticks():
    panel = panel_of(Mark("line", X, [1.0, 0.05, 0.002]), log_y=True, y_ticks=axes.percent_names([1.0, 0.002]))
    names = {"100 %", "10 %", "1 %"}
    assert set(plotly_figure([panel], 1, "t").layout.yaxis.ticktext) == names
    assert {line.strip() for line in written(static_svg([panel], 1, "t", "n")).splitlines() if "%" in line} == names


# --- where panels stand ----------------------------------------------------------------------


def test_a_wide_panel_has_a_row_of_its_own():
    panels = [panel_of(wide=True, height=1.5), panel_of(), panel_of(), panel_of(), panel_of(wide=True)]
    found = places(panels, 2)
    assert [(p.row, p.column, p.span) for p in found] == [(0, 0, 2), (1, 0, 1), (1, 1, 1), (2, 0, 1), (3, 0, 2)]
    assert row_heights(panels, found) == [1.5, 1, 1, 1]


def test_a_taller_panel_makes_a_taller_figure():
    low, tall = (plotly_figure([panel_of(MARKS["line"], height=height)], 1, "t").layout.height for height in (1.0, 2.0))
    assert tall - low == 340


def test_a_title_keeps_a_number_and_its_percent_in_one_line():
    lines = heading("x" * 79 + " and 12 % of them")
    assert lines == ["x" * 79 + " and", "12 % of them"]


# --- axes ------------------------------------------------------------------------------------


def test_zero_has_a_place_left_of_the_least_on_a_log_axis():
    found = axes.log_places([0.0, 10.0, 1000.0])
    assert 0 < found.at(0.0) < 10.0 and found.ticks[found.at(0.0)] == "0" and found.at(10.0) == 10.0


def test_numbers_above_zero_keep_their_places_and_have_no_zero():
    found = axes.log_places([10.0, float("nan"), 1000.0])
    assert found.zero is None and "0" not in found.ticks.values()


def test_only_zeros_have_a_place():
    assert axes.log_places([0.0, 0.0]).at(0.0) > 0 and axes.log_places([]).ticks


def test_shares_that_are_all_zero_have_a_small_axis():
    low, high = axes.x_range(panel_of(Mark("points", [0.0, 0.0], [0, 1]), x_percent=True))
    assert -0.001 < low < 0 and 0.01 <= high < 0.02


def test_an_axis_that_does_without_zero_is_near_its_values():
    low, high = axes.y_range(panel_of(Mark("line", X, [0.5, 0.6, 0.55]), zero=False, percent=True))
    assert 0.48 < low < 0.5 and 0.6 < high < 0.62


# --- colours of cells ------------------------------------------------------------------------


def test_the_largest_value_is_darkest_and_a_missing_one_white():
    low, high, none = cells.cell_colors(Mark("cells", [0, 1, 2], [0, 0, 0], values=[1.0, 9.0, None]))
    assert (low, high, none) == (*cells.CELLS, cells.EMPTY)


def test_a_log_scale_puts_the_geometric_mean_in_the_middle():
    def middle(values, log=False):
        return cells.cell_colors(Mark("cells", X, X, values=values), log)[1]

    assert middle([10.0, 100.0, 1000.0], log=True) == middle([1.0, 2.0, 3.0]) != middle([10.0, 100.0, 1000.0])


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=6))
def test_text_in_a_cell_can_be_read(values):
    colors = cells.cell_colors(Mark("cells", values, values, values=values))
    assert all(cells.contrast(color, cells.ink_on(color)) >= 4.5 for color in colors)


@pytest.mark.parametrize("style", STYLES)
def test_names_at_lines_and_points_can_be_read(style):
    assert cells.contrast(STYLES[style].color, "#ffffff") >= 4.5


# --- where texts stand -----------------------------------------------------------------------

SPOTS = st.lists(st.tuples(st.floats(60, 740), st.floats(60, 340)), min_size=1, max_size=9)


@given(SPOTS)
def test_texts_lie_on_no_other_text_and_stay_in_the_panel(spots):
    sizes = [labels.text_size("a name")] * len(spots)
    centres = labels.place(spots, sizes, (800, 400), np.zeros((0, 4)), np.zeros(0))
    boxes = [(x - w / 2, y - h / 2, x + w / 2, y + h / 2) for (x, y), (w, h) in zip(centres, sizes, strict=True)]
    assert all(b[0] >= -1e-6 and b[1] >= -1e-6 and b[2] <= 800 + 1e-6 and b[3] <= 400 + 1e-6 for b in boxes)
    for i, a in enumerate(boxes):
        for b in boxes[i + 1 :]:
            assert min(a[2], b[2]) - max(a[0], b[0]) <= 1e-6 or min(a[3], b[3]) - max(a[1], b[1]) <= 1e-6


def test_a_text_keeps_off_what_is_beside_its_point():
    wall = np.array([[104.0, 0.0, 300.0, 400.0]])
    ((x, _),) = labels.place([(100, 200)], [(60, 15)], (400, 400), wall, np.array([labels.POINT]))
    assert x + 30 <= 104.5


def test_a_text_far_from_its_point_is_joined_to_it():
    crowd = [Mark("points", [5.0 + 0.001 * i], [0.5], texts=[f"point number {i}"]) for i in range(9)]
    found = labels.placed(Panel("", "", "", crowd, x_reach=(0, 10), spread=True), 500, 300)
    assert any(name.leader for name in found) and not all(name.leader for name in found)


@given(st.lists(st.floats(-50, 150), min_size=1, max_size=8))
def test_names_of_lines_keep_their_order_and_distance(wanted):
    found = labels.spread_along(wanted, 10, 5, 100)
    in_order = [found[i] for i in sorted(range(len(wanted)), key=lambda i: wanted[i])]
    assert all(b - a >= 10 - 1e-6 for a, b in zip(in_order, in_order[1:], strict=False))
    assert min(found) >= 5 - 1e-6 and max(found) <= 100 + 1e-6


def test_names_with_room_stay_where_their_lines_end():
    assert labels.spread_along([80.0, 20.0], 10, 0, 100) == [80.0, 20.0]


def test_names_that_would_overlap_share_the_way():
    assert labels.spread_along([50.0, 50.0], 10, 0, 100) == [45.0, 55.0]
