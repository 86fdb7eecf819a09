"""The status table of a sweep: in a terminal, as a widget without a browser, as lines of a log; hostile text stays text."""

import io
import sys

import pytest

from rlmlib.sweep import live
from rlmlib.sweep.states import State

HOSTILE = "<script>alert(1)</script> [bold red]x[/bold red] [/] & \x1b[31mred\x1b[0m\x07"
RUNNING = State("a", "running", "train", "train", 3, 10, 0.25, 12345.0, 200.0)


def test_a_row_of_the_table():
    assert live.cells(RUNNING) == ("a", "running", "train 3/10", "25.0 %", "12\u202f345", "3 minutes", "train")


def test_what_is_not_known_is_left_empty():
    assert live.cells(State("a", "queued")) == ("a", "queued", "", "", "", "", "")


def test_a_reason_cannot_move_the_cursor_of_a_terminal():
    assert live.cells(State("a", "failed", "x\x1b[2J\x1b[31my\r\x07z\x9b"))[-1] == "xyz"


def test_markup_escapes_what_runs_say():
    page = live.markup([State("<b>a", "failed", HOSTILE)])
    assert "<script" not in page and "<b>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; [bold red]x[/bold red] [/] &amp; red" in page


def test_a_terminal_shows_what_runs_say_as_it_is():
    from rich.console import Console

    console = Console(file=io.StringIO(), width=200, force_terminal=True)
    console.print(live.table([State("[red]a", "failed", HOSTILE)]))
    written = console.file.getvalue()
    assert "[red]a" in written and "[bold red]x[/bold red] [/] & red" in written and "\x1b[31m" not in written


def test_the_table_has_a_row_a_run():
    table = live.state_table([RUNNING, State("b", "queued")])
    assert list(table["run"]) == ["a", "b"] and list(table.columns) == list(live.HEADINGS)


def lines(*steps: list[State]) -> list[str]:
    """What is written where the states are shown in turn."""
    written = []
    with live.Lines(written.append) as show:
        for states in steps:
            show(states)
    return written


def test_a_line_is_written_for_each_change_alone():
    queued, done = State("a", "queued"), State("a", "done", correct=0.5)
    written = lines([queued], [RUNNING], [RUNNING], [State("a", "running", "train", "train", 4, 10)], [done], [done])
    assert written == ["a: running, 25.0 % right, train", "a: done, 50.0 % right"]


def test_a_run_that_fails_again_is_told_again():
    failed = State("a", "failed", "because")
    assert lines([failed], [State("a", "queued", "was failed: because")], [failed]).count("a: failed, because") == 2


def test_each_run_has_lines_of_its_own():
    assert lines([State("a", "done"), State("b", "timeout", "slow")]) == ["a: done", "b: timeout, slow"]


def test_a_widget_shows_the_table_without_a_browser():
    with live.Widget() as show:
        show([RUNNING])
        show([State("a", "failed", HOSTILE)])
    assert show.html.value == live.markup([State("a", "failed", HOSTILE)])


def test_a_widget_is_not_sent_what_it_shows_already():
    widget, sent = live.Widget(), []
    widget.html.observe(lambda change: sent.append(change["new"]), "value")
    widget([RUNNING])
    widget([RUNNING])
    assert sent == [live.markup([RUNNING])]


@pytest.mark.parametrize(
    "interactive, terminal, kind", [(True, True, live.Widget), (False, True, live.Terminal), (False, False, live.Lines)]
)
def test_the_view_fits_the_place(monkeypatch, interactive, terminal, kind):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    assert type(live.live(interactive)) is kind


def test_a_terminal_draws_the_newest_table(monkeypatch):
    from rich.console import Console

    view = live.Terminal()
    view._live.console = Console(file=io.StringIO(), width=120)
    with view:
        view([RUNNING])
    assert "train 3/10" in view._live.console.file.getvalue()
