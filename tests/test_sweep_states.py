"""What a run is at is read from its files, whoever asks, also where they are damaged or half-written."""

import json
import os
import time

import pytest

from rlmlib import params_file, runs
from rlmlib.notebook import ROOT
from rlmlib.runs import RunDir, append_jsonl, last_jsonl, write_json
from rlmlib.sweep import grid
from rlmlib.sweep.runner import stages
from rlmlib.sweep.states import HEARTBEAT_S, LOST, LOST_S, NO_RESULT, State, count, result, state_of

KINDS = ("train", "untrained", "plain")


@pytest.fixture
def run(tmp_path) -> RunDir:
    (tmp_path / "run").mkdir()
    return RunDir(tmp_path / "run")


def planned(kind: str = "train", **changes) -> grid.Planned:
    values = {"name": "toy", "base": "smoke.yaml", "runs": {"x": {"kind": kind, "set": changes}}}
    (found,) = grid.resolve(params_file.validate(values, grid.SweepFile), ROOT / "params")
    return found


def seen(run: RunDir, kind: str = "train") -> State:
    return state_of(planned(kind), run)


def set_status(run: RunDir, state: str, reason: str = "", age_s: float = 0.0):
    write_json(run / "status.json", {"state": state, "reason": reason, "heartbeat": time.time() - age_s})


def set_progress(run: RunDir, **changes):
    write_json(run / "progress.json", {"phase": "train", "done": 1, "total": 3, "eta_s": 40.0, "note": ""} | changes)


def set_summary(run: RunDir, kind: str = "train", right: float = 0.75, tokens: float = 1234.0):
    write_json(run / result(kind), {"heldout": {"correct": [right, 0, 1], "leaf_tokens_mean": [tokens, 0, 9]}})


# --- the state of a run


def test_a_run_without_a_folder_is_queued(tmp_path):
    assert seen(RunDir(tmp_path / "nothing")) == State("x-s42", "queued")


@pytest.mark.parametrize("state", ["queued", "failed", "timeout"])
def test_a_state_is_told_with_its_reason(run, state):
    set_status(run, state, "because", age_s=9999)
    assert (seen(run).state, seen(run).reason) == (state, "because")


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_is_done_with_its_evaluation(run, kind):
    set_status(run, "done", age_s=9999)
    set_summary(run, kind)
    assert seen(run, kind).state == "done"


@pytest.mark.parametrize("kind", KINDS)
def test_the_last_stage_of_a_run_makes_what_it_is_done_with(run, kind):
    assert stages(planned(kind), run)[-1].result == result(kind)


@pytest.mark.parametrize("kind, other", [("train", "untrained"), ("untrained", "plain"), ("plain", "train")])
def test_a_run_that_was_done_as_another_kind_is_to_be_run(run, kind, other):
    set_status(run, "done")
    set_summary(run, other)
    assert (seen(run, kind).state, seen(run, kind).reason) == ("queued", NO_RESULT)


def test_a_running_run_is_told_with_its_progress(run):
    set_status(run, "running", "train")
    set_progress(run)
    assert seen(run) == State("x-s42", "running", "train", "train", 1, 3, None, None, 40.0)


def test_between_two_signs_of_life_a_run_is_not_lost(run):
    set_status(run, "running", "train", age_s=HEARTBEAT_S + 2)
    assert seen(run).state == "running"


def test_without_signs_of_life_a_running_run_is_lost(run):
    set_status(run, "running", "train", age_s=LOST_S + 1)
    assert (seen(run).state, seen(run).reason) == ("lost", LOST)


@pytest.mark.parametrize("state", ["queued", "done", "failed", "timeout"])
def test_the_progress_of_a_run_that_does_not_run_is_not_told(run, state):
    set_status(run, state)
    set_progress(run)
    assert (seen(run).total, seen(run).eta_s) == (0, None)


def test_no_time_left_is_promised_before_the_first_step(run):
    set_status(run, "running")
    set_progress(run, done=0, eta_s=None)
    assert seen(run).eta_s is None


@pytest.mark.parametrize("text", ["", '{"state": "runn', "[1]", "null", "\0"])
def test_a_damaged_status_reads_as_one_that_is_missing(run, text):
    (run / "status.json").write_text(text)
    assert seen(run).state == "queued"


@pytest.mark.parametrize("text", ["", '{"phase": "tr', "[]"])
def test_a_damaged_progress_file_hides_no_state(run, text):
    set_status(run, "running", "train")
    (run / "progress.json").write_text(text)
    assert seen(run) == State("x-s42", "running", "train")


# --- what it has measured


def test_the_last_training_step_is_measured_until_there_is_an_evaluation(run):
    append_jsonl(run / "metrics.jsonl", [{"correct": 0.1, "leaf_tokens_mean": 10.0}, {"correct": 0.2, "leaf_tokens_mean": 20.0}])
    assert (seen(run).correct, seen(run).tokens) == (0.2, 20.0)


def test_an_evaluation_counts_over_training_steps(run):
    append_jsonl(run / "metrics.jsonl", [{"correct": 0.1, "leaf_tokens_mean": 10.0}])
    set_summary(run)
    assert (seen(run).correct, seen(run).tokens) == (0.75, 1234.0)


def test_an_evaluation_of_another_kind_does_not_count(run):
    set_summary(run, "untrained")
    assert seen(run).correct is None and seen(run, "untrained").correct == 0.75


def test_a_half_written_evaluation_does_not_count(run):
    append_jsonl(run / "metrics.jsonl", [{"correct": 0.1, "leaf_tokens_mean": 10.0}])
    (run / "eval/trained").mkdir(parents=True)
    (run / "eval/trained/summary.json").write_text('{"heldout": {"corr')
    assert seen(run).correct == 0.1


def test_the_last_row_is_read(tmp_path):
    append_jsonl(tmp_path / "f", [{"a": 1}, {"a": 2}])
    assert last_jsonl(tmp_path / "f") == {"a": 2}


@pytest.mark.parametrize("text", [None, "", "\n", '{"a": 1}', "[1]\n3\n", "\xff\xfe\n"])
def test_where_there_is_no_whole_row_there_is_none(tmp_path, text):
    if text is not None:
        (tmp_path / "f").write_text(text, encoding="latin-1")
    assert last_jsonl(tmp_path / "f") == {}


@pytest.mark.parametrize("cut", ['{"a": ', '{"a": 2}', "{", "\xff"])
def test_a_last_row_that_is_being_written_is_left_out(tmp_path, cut):
    (tmp_path / "f").write_text('{"a": 1}\n' + cut, encoding="latin-1")
    assert last_jsonl(tmp_path / "f") == {"a": 1}


def test_the_last_row_of_a_long_file_is_found_without_reading_it_all(tmp_path):
    append_jsonl(tmp_path / "f", [{"a": 1}])
    os.truncate(tmp_path / "f", 1 << 36)  # a hole: nobody could read that
    with open(tmp_path / "f", "ab") as file:
        file.write(b"\n" + json.dumps({"a": "x" * (runs.LAST_BYTES - 100)}).encode() + b"\n")
    assert len(last_jsonl(tmp_path / "f")["a"]) == runs.LAST_BYTES - 100


def test_states_are_counted_in_the_order_of_a_run_s_life():
    states = [State("", name) for name in ("lost", "done", "running", "done", "queued")]
    assert list(count(states).items()) == [("queued", 1), ("running", 1), ("done", 2), ("lost", 1)]
