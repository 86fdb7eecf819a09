"""The live dashboard: what it reads from a run's files, and what its buttons do."""

import asyncio
import json
import os
import signal
import subprocess
import sys

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rlmlib import config, dashboard
from rlmlib.dashboard import Dashboard
from rlmlib.errors import RunError
from rlmlib.run_view import START_S, Rows, facts, holder, last_line, look, training_frame
from rlmlib.runs import RunDir, append_jsonl, open_run, rewrite_jsonl, write_json

STEPS = 4
VALUES = {
    "name": "small",
    "policy": {"threads": 1},
    "harness": {"max_turns": 3, "output_chars": 120},
    "tasks": {"min_chars": 1500, "max_chars": 2500, "coding": 0.0, "research": 0.65, "two_hop": 0.0, "pool": 32},
    "training": {"steps": STEPS, "prompts_per_step": 2, "keep_all_right": True},
}


def metrics_row(step: int) -> dict:
    shares = dict.fromkeys(("llm_usage", "all_wrong", "missing", "forced", "dropped_high", "dropped_low"), 0.25)
    seconds = {"sample_seconds": 2.0, "train_seconds": 1.0}
    return {"step": step, "correct": 0.5, "leaf_tokens_mean": 1234.5, "entropy": 0.5, **shares, **seconds}


@pytest.fixture
def run(tmp_path) -> RunDir:
    return open_run(tmp_path / "run", config.validate(VALUES))


def add_steps(run: RunDir, *steps: int):
    append_jsonl(run / "metrics.jsonl", map(metrics_row, steps))


def seen(run: RunDir, **options):
    return look(run, Rows(run / "metrics.jsonl"), STEPS, **options)


def state(run: RunDir, **options) -> str:
    return seen(run, **options).state


def later(run: RunDir, seconds: float) -> float:
    """A time so long after the run's status was told."""
    return run.status["heartbeat"] + seconds


# --- rows --------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 3), st.data())
def test_a_half_written_last_line_is_left_out(tmp_path_factory, count, data):
    path = tmp_path_factory.mktemp("rows") / "metrics.jsonl"
    written = [json.dumps({"step": step, "text": "é\n"}) + "\n" for step in range(count + 1)]
    cut = data.draw(st.integers(0, len(written[-1]) - 2))  # the whole line, without its end, is a row
    path.write_text("".join(written[:-1]) + written[-1][:cut])
    assert [row["step"] for row in Rows(path).read()] == list(range(count))


def test_rows_that_come_later_are_seen(run):
    rows = Rows(run / "metrics.jsonl")
    assert rows.read() == []
    add_steps(run, 0)
    assert len(rows.read()) == 1
    add_steps(run, 1)
    assert len(rows.read()) == 2


def test_a_file_that_did_not_change_is_not_read_again(run, monkeypatch):
    add_steps(run, 0)
    rows = Rows(run / "metrics.jsonl")
    first = rows.read()
    monkeypatch.setattr("rlmlib.run_view.read_jsonl", lambda path: pytest.fail("read again"))
    assert rows.read() is first


def test_a_run_that_went_back_to_its_checkpoint_has_fewer_rows(run):
    add_steps(run, 0, 1, 2)
    rows = Rows(run / "metrics.jsonl")
    rows.read()
    rewrite_jsonl(run / "metrics.jsonl", [metrics_row(0)])
    assert [row["step"] for row in rows.read()] == [0]


def test_rows_of_a_file_that_was_deleted_are_gone(run):
    add_steps(run, 0)
    rows = Rows(run / "metrics.jsonl")
    rows.read()
    (run / "metrics.jsonl").unlink()
    assert rows.read() == [] and rows.written == 0


# --- state -------------------------------------------------------------------------------------


def test_a_directory_without_any_file_of_a_run_is_not_started(tmp_path):
    assert state(RunDir(tmp_path / "nothing")) == "not started"


def test_a_locked_directory_runs_whatever_its_status_says(run):
    run.set_status("failed", "long ago")
    with run.lock():
        assert (state(run), holder(run)) == ("running", str(os.getpid()))
    assert holder(run) is None


def test_a_running_run_that_was_asked_to_stop_is_stopping(run):
    with run.lock():
        run.ask_to_stop()
        assert state(run) == "stopping"


def test_a_process_of_our_own_that_holds_no_lock_yet_is_starting(run):
    assert state(run, alive=True) == "starting"


@pytest.mark.parametrize(("seconds", "expected"), [(1, "starting"), (START_S + 1, "lost")])
def test_a_run_that_says_running_without_a_lock_is_lost_after_a_while(run, seconds, expected):
    run.set_status("running", "train")
    assert state(run, now=later(run, seconds)) == expected


def test_a_run_whose_process_is_known_to_have_ended_is_lost_at_once(run):
    run.set_status("running", "train")
    assert state(run, alive=False, now=later(run, 1)) == "lost"


def test_a_stop_is_told_from_a_failure(run):
    run.set_status("failed", "step 2: stopped as asked, with a checkpoint; run again to go on")
    assert state(run) == "stopped"
    run.set_status("failed", "step 2: memory is short")
    assert (seen(run).state, seen(run).reason) == ("failed", "step 2: memory is short")


def test_rows_are_believed_before_an_older_status(run):
    write_json(run / "status.json", {"state": "failed", "reason": "long ago", "heartbeat": 1.0})
    add_steps(run, *range(STEPS - 1))
    assert state(run) == "not running"
    add_steps(run, STEPS - 1)
    assert state(run) == "done"


def test_a_queued_run_is_queued(run):
    run.set_status("queued")
    assert state(run) == "queued"


# --- the line ----------------------------------------------------------------------------------


def test_the_line_has_state_step_pace_and_the_newest_measures(run):
    add_steps(run, 0, 1)
    with run.lock():
        line = " · ".join(facts(seen(run)))
    assert line == "running · 2 of 4 steps · 3 s a step · last step: 50 % right, 1,234 leaf tokens a rollout"


def test_the_time_left_counts_down_between_two_steps(run):
    add_steps(run, 0, 1)
    write_json(run / "progress.json", {"phase": "train", "done": 2, "total": 4, "eta_s": 60.0, "note": ""})
    written = (run / "progress.json").stat().st_mtime
    with run.lock():
        assert seen(run, now=written + 20).left_s == pytest.approx(40)
        assert seen(run, now=written + 100).left_s == 0


def test_before_the_first_eta_the_pace_of_the_last_steps_counts(run):
    add_steps(run, 0, 1)
    write_json(run / "progress.json", {"phase": "train", "done": 2, "total": 4, "eta_s": None, "note": ""})
    with run.lock():
        assert seen(run).left_s == 2 * 3.0


def test_an_evaluation_is_named_and_cannot_be_stopped(run):
    write_json(run / "progress.json", {"phase": "evaluate base", "done": 10, "total": 64, "eta_s": None, "note": ""})
    with run.lock():
        view = seen(run)
    assert facts(view)[:2] == ["running", "evaluate base: 10 of 64"] and not view.stoppable


def test_a_run_that_trains_can_be_stopped_and_not_started(run):
    with run.lock():
        view = seen(run)
    assert view.stoppable and not view.startable
    assert seen(run).startable and not seen(run).stoppable


def test_a_run_with_all_its_steps_cannot_be_started(run):
    add_steps(run, *range(STEPS))
    assert not seen(run).startable


def test_the_frame_has_its_columns_before_the_first_step(run):
    empty = training_frame(run)
    assert len(empty) == 0 and empty.index.name == "step" and {"correct", "grad_norm", "max_logprob_gap"} <= set(empty)
    add_steps(run, 0)
    assert training_frame(run).loc[0, "correct"] == 0.5


@pytest.mark.parametrize(
    ("text", "expected"),
    [(b"", ""), (b"a\nerror: b; c\n\n", "b; c"), (b"x" * 9000 + b"\nend", "end"), (b"a\n\xff", "\ufffd")],
)
def test_the_last_line_of_a_log(tmp_path, text, expected):
    (tmp_path / "log").write_bytes(text)
    assert last_line(tmp_path / "log") == expected


def test_a_log_that_is_not_there_has_no_last_line(tmp_path):
    assert last_line(tmp_path / "log") == ""


# --- widgets -----------------------------------------------------------------------------------


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
