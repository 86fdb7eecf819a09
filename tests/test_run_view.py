"""What a run's files say about it while it works: rows, state, the line, the log."""

import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_support import STEPS, add_steps, metrics_row, new_run

from rlmlib.run_view import START_S, Rows, facts, last_line, look, training_frame
from rlmlib.runs import RunDir, rewrite_jsonl, write_json


@pytest.fixture
def run(tmp_path) -> RunDir:
    return new_run(tmp_path / "run")


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
        assert (state(run), run.holder) == ("running", str(os.getpid()))
    assert run.holder is None


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
