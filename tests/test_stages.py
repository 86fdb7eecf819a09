"""A stage of a run: how its process ends, that nothing of it is left, and why it failed."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from types import SimpleNamespace

import pytest

from rlmlib import stages
from rlmlib.errors import RunError
from rlmlib.notebook import ROOT
from rlmlib.runs import RunDir, write_json
from rlmlib.stages import MARK, Stage, StageProcess, evaluation, marked, training

WAIT_S = 300.0  # met long before, but on a machine that others use
RESULT = "eval/base/summary.json"


def wait_for(what, limit_s: float = WAIT_S):
    """What a function gives once that is true."""
    deadline = time.monotonic() + limit_s
    while not (found := what()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
    return found


def gone(*pids: int) -> bool:
    """Whether none of these processes is left after a minute. One that was killed is there for a moment more."""
    deadline = time.monotonic() + 60
    while (left := any(map(alive, pids))) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not left


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def run(tmp_path) -> RunDir:
    return RunDir(tmp_path / "run")


@pytest.fixture
def stage(run, tmp_path, monkeypatch):
    """Starts a stage whose process is a shell script, in the run directory, instead of Python with a notebook."""
    started = []

    def start(script: str, environment: dict | None = None) -> StageProcess:
        program = tmp_path / "program"
        program.write_text(f"#!/bin/bash\ncd {run.path}\n{script}\n")
        program.chmod(0o755)
        with monkeypatch.context() as patch:
            patch.setattr(sys, "executable", str(program))
            started.append(StageProcess(run, Stage("evaluate base", "50_evaluate", {"step": 3}, RESULT), run / "logs/x.log", environment))
        return started[-1]

    yield start
    for process in started:
        process.end()


@pytest.fixture
def sleeper():
    """Starts a process with a mark, in a session of its own."""
    started = []

    def start(mark: str) -> subprocess.Popen:
        started.append(subprocess.Popen(["sleep", "1000"], env=os.environ | {MARK: mark}, start_new_session=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def ended(process: StageProcess) -> StageProcess:
    process.wait(WAIT_S)
    process.end()
    return process


def pids(run: RunDir, name: str = "pids") -> list[int]:
    with contextlib.suppress(OSError):
        return [int(line) for line in (run / name).read_text().split()]
    return []


# --- it ends whole


def test_a_process_that_left_the_session_is_ended_with_the_stage(stage, run):
    process = ended(stage("setsid sleep 1000 & echo $! > pids"))
    assert process.poll() == 0 and len(pids(run)) == 1
    assert gone(*pids(run))


def test_a_process_whose_parent_has_ended_is_ended_with_the_stage(stage, run):
    process = stage("(setsid bash -c 'echo $$ > pids; sleep 1000 & wait' &)\nsleep 1000")
    (left,) = wait_for(lambda: pids(run))
    process.end()
    assert gone(left)


def test_processes_that_go_on_starting_others_are_all_ended(stage, run):
    process = stage("setsid bash -c 'while :; do setsid sleep 1000 & echo $! >> pids; sleep 0.01; done' &")
    wait_for(lambda: len(pids(run)) > 5)
    process.end()
    assert gone(*pids(run))


def test_a_stage_is_asked_to_end_before_it_is_killed(stage, run):
    process = stage("trap 'echo asked > told; exit 0' TERM\necho $$ > pids\nwhile :; do sleep 0.02; done")
    wait_for(lambda: pids(run))
    process.end()
    assert (run / "told").read_text() == "asked\n"


def test_a_stage_that_does_not_listen_is_killed(stage, run, monkeypatch):
    monkeypatch.setattr(stages, "STOP_S", 0.3)
    process = stage("trap '' TERM\necho $$ > pids\nwhile :; do sleep 0.02; done")
    (pid,) = wait_for(lambda: pids(run))
    process.end()
    assert process.poll() == -signal.SIGKILL and gone(pid)


def test_ending_twice_is_harmless(stage):
    process = ended(stage("exit 3"))
    process.end()
    assert process.poll() == 3


def test_one_that_was_started_while_others_were_ended_is_ended_too(stage, run, sleeper, monkeypatch):
    process, late = stage("setsid bash -c 'echo $$ > pids; sleep 1000' &\nsleep 1000"), []
    wait_for(lambda: pids(run))

    def marked_then(mark: str) -> list[int]:
        found = marked(mark)
        if not late:
            late.append(sleeper(mark))
        return found

    monkeypatch.setattr(stages, "marked", marked_then)
    process.end()
    assert late[0].wait(10) == -signal.SIGKILL


def test_what_another_stage_started_is_left_alone(stage, sleeper):
    other = sleeper(uuid.uuid4().hex)
    ended(stage("exit 0"))
    assert other.poll() is None


def test_marked_processes_are_found_by_the_whole_mark(sleeper):
    mark = uuid.uuid4().hex
    process = sleeper(mark)
    assert wait_for(lambda: marked(mark)) == [process.pid] and marked(mark[:-1]) == []


def test_a_changed_title_cannot_hide_the_mark(stage, run):
    ended(stage("env > environment"))
    assert "SPT_NOENV=1" in (run / "environment").read_text().splitlines()


# --- what it starts with


def test_its_process_is_told_what_to_run(stage, run):
    ended(stage('echo "$@" > told'))
    assert (run / "told").read_text() == f"-m rlmlib.execute {run.path} {os.getpid()}\n"
    assert json.loads((run / "logs/stage.json").read_text()) == {
        "notebook": "50_evaluate",
        "name": "evaluate base",
        "parameters": {"step": 3},
    }


def test_its_process_sees_the_environment_that_was_given(stage, run):
    ended(stage("echo $CUDA_VISIBLE_DEVICES > told", {"CUDA_VISIBLE_DEVICES": "3"}))
    assert (run / "told").read_text() == "3\n"


def test_what_it_prints_is_added_to_the_log(stage, run):
    ended(stage("echo one"))
    ended(stage("echo two >&2"))
    assert (run / "logs/x.log").read_text() == "one\ntwo\n"


def test_the_progress_of_the_stage_before_it_is_gone(stage, run):
    write_json(run / "progress.json", {"phase": "train", "done": 2, "total": 2})
    ended(stage("exit 0"))
    assert not (run / "progress.json").exists()


@pytest.mark.parametrize("there", ["logs", "logs/x.log/"])
def test_a_log_that_cannot_be_written_is_told_in_one_line(stage, run, there):
    run.path.mkdir()
    (run / there).mkdir(parents=True) if there.endswith("/") else (run / there).write_text("a file")
    with pytest.raises(RunError, match="cannot be written") as caught:
        stage("exit 0")
    assert len(str(caught.value).splitlines()) == 1


# --- why it failed


def test_a_stage_that_gave_its_result_has_no_problem(stage):
    assert ended(stage(f"mkdir -p eval/base; echo {{}} > {RESULT}")).problem() is None


def test_an_end_without_the_result_is_a_problem(stage, run):
    assert ended(stage("exit 0")).problem() == f"ended without {RESULT}; see {run / 'logs/x.log'}"


def test_the_reason_that_was_left_is_told(stage):
    assert ended(stage("""echo '{"message": "the leaf is down"}' > logs/failure.json; exit 2""")).problem() == "the leaf is down"


def test_a_reason_of_an_earlier_attempt_is_not_told(stage, run):
    write_json(run / "logs/failure.json", {"message": "the leaf was down"})
    assert "the leaf was down" not in ended(stage("exit 2")).problem()


@pytest.mark.parametrize("script, told", [("exit 3", "ended with code 3"), ("kill -9 $$", "was killed by signal 9")])
@pytest.mark.parametrize("left", [None, "", '{"mess', "[]"])
def test_without_a_reason_the_way_it_ended_is_told(stage, run, script, told, left):
    leave = "" if left is None else f"echo -n '{left}' > logs/failure.json; "
    problem = ended(stage(leave + script)).problem()
    assert problem == f"{told}; run the same command again to go on; details in {run / 'logs/x.log'}"


def disk_with(free: int):
    return lambda _: SimpleNamespace(free=free)


def test_on_a_full_disk_that_is_the_reason(stage, monkeypatch):
    process = ended(stage("exit 1"))
    monkeypatch.setattr(shutil, "disk_usage", disk_with(free=1000))
    assert process.problem().startswith("the disk is full, so not even the reason could be written")


def test_a_reason_that_could_be_written_counts_over_a_full_disk(stage, monkeypatch):
    process = ended(stage("""echo '{"message": "step 3: the disk is full"}' > logs/failure.json; exit 2"""))
    monkeypatch.setattr(shutil, "disk_usage", disk_with(free=1000))
    assert process.problem() == "step 3: the disk is full"


# --- the stages that there are


@pytest.mark.parametrize("label, subject", [("base", "policy"), ("plain", "leaf")])
def test_an_evaluation_ends_with_the_summary_of_its_label(run, label, subject):
    assert evaluation(run, Path("p.yaml"), label, subject=subject).result == f"eval/{label}/summary.json"


def test_training_ends_with_its_last_checkpoint(run):
    assert training(run, Path("p.yaml"), 7).result == "checkpoints/step_7/manifest.json"


def test_every_parameter_of_a_stage_is_one_of_its_notebook(run):
    import papermill

    for stage in (training(run, Path("p.yaml"), 7), evaluation(run, Path("p.yaml"), "base")):
        known = papermill.inspect_notebook(str(ROOT / f"notebooks/{stage.notebook}.ipynb"))
        assert stage.parameters.keys() <= known.keys()


def test_paths_do_not_depend_on_the_folder_that_a_notebook_runs_in(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert training(RunDir("a"), Path("p.yaml"), 1).parameters == {"params": f"{tmp_path}/p.yaml", "run_dir": f"{tmp_path}/a"}


# --- rlmlib.execute


def test_a_stage_whose_parent_has_ended_already_runs_nothing(run):
    write_json(run / "logs/stage.json", {"notebook": "50_evaluate", "name": "evaluate base", "parameters": {}})
    command = [sys.executable, "-m", "rlmlib.execute", str(run.path), "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=WAIT_S)
    assert done.returncode != 0 and not (run / "notebooks").exists()


def test_a_parameter_that_a_notebook_does_not_have_is_refused(stage, run):
    process = StageProcess(run, Stage("evaluate base", "50_evaluate", {"stepp": 3}, RESULT), run / "logs/x.log")
    try:
        process.wait(WAIT_S)
    finally:
        process.end()
    assert process.problem().startswith("50_evaluate.ipynb has no parameter stepp; it knows params, run_dir")
