"""The live dashboard: what it shows, when it draws and watches, and what its buttons do."""

import asyncio
import os
import signal
import subprocess
import sys

import pytest
import yaml
from run_support import VALUES, add_steps, metrics_row, new_run

from rlmlib import config, dashboard
from rlmlib.dashboard import Dashboard
from rlmlib.errors import RunError
from rlmlib.runs import RunDir, open_run


@pytest.fixture
def run(tmp_path) -> RunDir:
    return new_run(tmp_path / "run")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def drawn(monkeypatch) -> list[int]:
    """How many rows each drawing had."""
    found = []
    monkeypatch.setattr(dashboard, "picture", lambda rows: found.append(len(rows)) or f"<svg>{len(rows)}</svg>")
    return found


def test_curves_are_drawn_once_a_row(run, drawn):
    clock = Clock()
    view = Dashboard(run, clock=clock)
    with run.lock():
        for _ in range(3):
            view.refresh()
            clock.now += 10
        assert drawn == [] and view.chart.value == dashboard.NO_STEP
        add_steps(run, 0)
        for _ in range(3):
            view.refresh()
            clock.now += 10
    assert drawn == [1] and view.chart.value == "<svg>1</svg>"


def test_curves_are_drawn_seldom_while_the_run_works_but_always_at_its_end(run, drawn):
    clock = Clock()
    view = Dashboard(run, clock=clock)
    with run.lock():
        for step in range(3):
            add_steps(run, step)
            view.refresh()
            clock.now += dashboard.REDRAW_S / 2
    add_steps(run, 3)
    view.refresh()
    assert drawn == [1, 3, 4]


def test_a_chart_that_cannot_be_drawn_is_told_in_its_place(run, monkeypatch):
    monkeypatch.setattr(dashboard, "picture", lambda rows: rows[0]["<measure>"])
    add_steps(run, 0)
    view = Dashboard(run)
    assert view.refresh() and view.chart.value == "The curves cannot be drawn: KeyError: &#x27;&lt;measure&gt;&#x27;"


def test_the_picture_is_an_svg_of_the_training_curves():
    svg = dashboard.picture([metrics_row(0), metrics_row(1)])
    assert svg.startswith("<svg") and "Right answers" in svg


def test_stop_asks_the_run_and_says_so(run):
    view = Dashboard(run)
    with run.lock():
        view.refresh()
        view.stop.click()
        assert run.stop_asked and view.stop.disabled
        assert "<b>stopping</b>" in view.line.value and view.note.value == dashboard.STOPPING


def test_start_is_refused_where_a_process_works(run, monkeypatch):
    monkeypatch.setattr(dashboard, "launch", lambda *_: pytest.fail("started a second one"))
    view = Dashboard(run)
    with run.lock():
        view.start.click()
        assert f"process {os.getpid()} works here" in view.note.value


def test_only_the_button_that_helps_can_be_pressed(run):
    view = Dashboard(run)
    view.refresh()
    assert (view.start.disabled, view.stop.disabled) == (False, True)
    with run.lock():
        view.refresh()
        assert (view.start.disabled, view.stop.disabled) == (True, False)


def fake(code: str):
    """A `launch` that runs other code, which prints to the run's log."""

    def launch(run, params=None):
        (run / "logs").mkdir(exist_ok=True)
        with open(run / dashboard.LOG, "ab") as log:
            return subprocess.Popen([sys.executable, "-c", code], stdout=log, stderr=log)

    return launch


def test_a_start_that_fails_tells_the_last_line_of_its_log(run, monkeypatch):
    monkeypatch.setattr(dashboard, "launch", fake("import sys; sys.exit('error: the <b>disk</b> is full')"))
    view = Dashboard(run)
    view.start.click()
    view._process.wait(timeout=60)
    view.refresh()
    assert view.note.value == "the &lt;b&gt;disk&lt;/b&gt; is full" and not view.start.disabled


def test_a_started_process_that_is_killed_leaves_a_run_that_can_be_started(run, monkeypatch):
    monkeypatch.setattr(dashboard, "launch", fake("import time; time.sleep(600)"))
    view = Dashboard(run)
    view.start.click()
    assert "<b>starting</b>" in view.line.value and view.start.disabled
    view._process.send_signal(signal.SIGKILL)
    view._process.wait(timeout=60)
    view.refresh()
    assert "killed by signal 9" in view.note.value and not view.start.disabled


def test_a_directory_that_holds_no_run_is_told_and_waited_for(tmp_path):
    view = Dashboard(RunDir(tmp_path))
    assert view.refresh() and "not a run directory" in view.note.value


def test_texts_of_the_run_are_escaped(run):
    run.set_status("failed", "<script>alert(1)</script>")
    view = Dashboard(run)
    view.refresh()
    assert view.note.value == "&lt;script&gt;alert(1)&lt;/script&gt;"


def test_params_of_a_run_are_written_as_a_file_that_a_command_line_takes(tmp_path):
    params = config.validate({**VALUES, "training": {**VALUES["training"], "lr": 1e-05}})
    run = open_run(tmp_path, params)
    assert config.load(dashboard.params_file(run)) == params


def watching(view: Dashboard, meanwhile) -> asyncio.Task:
    """Run an event loop in which the view watches while `meanwhile` happens; returns its task."""

    async def work():
        view.keep_watching()
        await asyncio.sleep(0)
        await meanwhile()
        await asyncio.wait_for(view._task, 60)
        return view._task

    return asyncio.run(work())


def test_watching_ends_when_the_run_has_ended(run, monkeypatch):
    monkeypatch.setattr(dashboard, "POLL_S", 0.0)
    view = Dashboard(run)

    async def end():
        run.set_status("done")

    assert watching(view, end).done() and "<b>done</b>" in view.line.value


def test_watching_ends_when_the_widget_is_closed(run, monkeypatch):
    monkeypatch.setattr(dashboard, "POLL_S", 0.0)
    view = Dashboard(run)

    async def close():
        view.box.close()

    assert watching(view, close).done()


def test_outside_an_event_loop_nothing_watches(run):
    view = Dashboard(run)
    view.keep_watching()
    assert view._task is None


def test_a_newer_view_of_a_run_ends_the_watching_of_the_older(run):
    async def twice():
        old = dashboard.dashboard(run)
        new = dashboard.dashboard(run)
        await asyncio.sleep(0)
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        return old, new, len(tasks)

    old, new, count = asyncio.run(twice())
    assert count == 1 and "newer" in old.children[2].value and "newer" not in new.children[2].value


def test_start_trains_the_run_in_a_process_of_its_own(tmp_path):
    values = {**VALUES, "training": {**VALUES["training"], "steps": 1}}
    file = tmp_path / "params.yaml"
    file.write_text(yaml.safe_dump(values))
    run = open_run(tmp_path / "run", config.load(file))
    view = Dashboard(run, file)
    view.start.click()
    process = view._process
    try:
        assert os.getsid(process.pid) == process.pid
        assert process.wait(timeout=600) == 0, (run / dashboard.LOG).read_text()
    finally:
        process.kill()
    assert not view.refresh()
    assert "<b>done</b> · 1 of 1 steps" in view.line.value and view.chart.value.startswith("<svg")


def test_start_in_a_directory_without_a_run_is_told(tmp_path):
    with pytest.raises(RunError, match="not a run directory"):
        dashboard.launch(RunDir(tmp_path))
