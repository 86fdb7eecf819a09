"""Sweeps of real runs: kernels that are killed, limits, mistakes that only a run finds, parents that are killed; and the sweep after that.

The story is told once, in the fixtures; each test looks at one thing of it. All waits are bounded and poll.
"""

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from rlmlib import config
from rlmlib.notebook import ROOT
from rlmlib.params_file import as_yaml
from rlmlib.runs import RunDir, write_json
from rlmlib.stages import MARK, marked
from rlmlib.sweep import grid
from rlmlib.sweep.runner import INTERRUPTED
from rlmlib.sweep.states import LOST, LOST_S, state_of
from rlmlib.training import checkpoint

LIMIT_S = 900.0  # of any wait: met long before, but on a machine that others use
OURS = "RLM_SWEEP_TEST"  # names, in the environment of all that these tests start, whose it is
STEPS = {"quiet": 1, "killed": 3, "slow": 2}
SMALLEST = {  # over params/smoke.yaml: seconds of a step
    "policy.threads": 1,
    "sampling.max_turn_tokens": 96,
    "harness.max_turns": 2,
    "tasks.max_chars": 6_000,
    "tasks.pool": 16,
    "training.prompts_per_step": 1,
    "training.rollouts_per_prompt": 2,
    "training.keep_all_right": True,
    "evaluation.heldout_examples": 3,
    "evaluation.seen_examples": 0,
    "evaluation.rollouts_per_example": 1,
    "evaluation.bootstrap": 50,
}


class Folder:
    """A sweep file with a base params file beside it, and the folder of its runs."""

    def __init__(self, path: Path):
        self.path, self.out, self.name = path, path / "out", uuid.uuid4().hex
        (path / "base.yaml").write_text(as_yaml(config.load(ROOT / "params/smoke.yaml", SMALLEST)))

    def write(self, runs: dict, **parts):
        text = yaml.safe_dump({"name": "toy", "base": "base.yaml", "seeds": [7], "at_once": 2, "runs": runs, **parts}, sort_keys=False)
        (self.path / "sweep.yaml").write_text(text)

    def start(self, *options: str) -> subprocess.Popen:
        command = [sys.executable, "-m", "rlmlib.sweep", str(self.path / "sweep.yaml"), "--out", str(self.out), *options]
        environment = os.environ | {OURS: self.name}
        return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def sweep(self, *options: str) -> "Ended":
        return ended(self.start(*options))

    def run(self, name: str) -> RunDir:
        return RunDir(self.out / f"{name}-s7")

    def states(self) -> dict:
        """What each run is at."""
        _, runs = grid.load(self.path / "sweep.yaml")
        return {planned.group: state_of(planned, RunDir(self.out / planned.name)) for planned in runs}

    def kernel(self, name: str) -> int | None:
        """The kernel of a run's stage, once it is there."""
        of_stage = [pid for pid in mine(self.name) if str(self.run(name).path) in command_of(pid) and "rlmlib.execute" in command_of(pid)]
        marks = [mark for pid in of_stage if (mark := environment_of(pid).get(MARK))]
        return next((pid for mark in marks for pid in marked(mark) if "ipykernel" in command_of(pid)), None)


@dataclass
class Ended:
    """How a command ended."""

    code: int
    output: str
    errors: str


def ended(process: subprocess.Popen) -> Ended:
    output, errors = process.communicate(timeout=LIMIT_S)
    return Ended(process.returncode, output, errors)


def wait_for(what, process: subprocess.Popen | None = None):
    """What a function gives once that is true. process: has to live until then."""
    deadline = time.monotonic() + LIMIT_S
    while not (found := what()):
        assert time.monotonic() < deadline, "waited in vain"
        assert process is None or process.poll() is None, process.communicate()
        time.sleep(0.05)
    return found


def read(pid: int, name: str) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/{name}").read_bytes()
    return b""


def command_of(pid: int) -> str:
    return read(pid, "cmdline").replace(b"\0", b" ").decode(errors="replace")


def environment_of(pid: int) -> dict[str, str]:
    pairs = (entry.partition("=") for entry in read(pid, "environ").decode(errors="replace").split("\0"))
    return {name: value for name, _, value in pairs}


def mine(name: str) -> list[int]:
    """Living processes that the sweeps of a folder have started, REPLs left out: they see no environment of ours."""
    pids = (int(path.name) for path in Path("/proc").glob("[0-9]*"))
    return [pid for pid in pids if environment_of(pid).get(OURS) == name]


def descendants(pid: int) -> list[int]:
    children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, timeout=30).stdout.split()
    return [int(child) for child in children] + [found for child in children for found in descendants(int(child))]


def alive(pid: int) -> bool:
    return read(pid, "stat").rpartition(b")")[2].split()[:1] not in ([], [b"Z"])


def left_of(pids: list[int]) -> list[int]:
    """Those of some processes that do not end within a minute."""
    deadline = time.monotonic() + 60
    while (left := [pid for pid in pids if alive(pid)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def files(folder: Path) -> dict[str, tuple[int, str]]:
    """Time and content of every file of a folder."""
    found = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder)): (path.stat().st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest()) for path in found}


def steps_of(run: RunDir) -> list[int]:
    return [row["step"] for row in run.metrics]


# --- four runs: one is left alone, one has its kernel killed, one is too slow, one has a mistake


@dataclass
class Story:
    folder: Folder
    first: Ended | None = None
    states: dict = field(default_factory=dict)  # after the first sweep
    saved: int = 0  # step of the checkpoint that the killed run had
    rows: list = field(default_factory=list)  # its metrics then
    below: list = field(default_factory=list)  # processes that its kernel had started
    survivors: list = field(default_factory=list)  # of the first sweep
    quiet: dict = field(default_factory=dict)  # files of the run that was left alone
    refused: Ended | None = None
    before: dict = field(default_factory=dict)  # files of all runs before the sweep that is refused
    after: dict = field(default_factory=dict)
    second: Ended | None = None


def four_runs(limit: dict) -> dict:
    settings = {name: {"set": {"training.steps": steps}} for name, steps in STEPS.items()}
    settings["slow"] |= limit
    return {"killed": settings.pop("killed"), **settings, "bad": {"set": {"policy.model": "/no/such/folder"}}}


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    told = Story(Folder(tmp_path_factory.mktemp("four")))
    folder = told.folder
    folder.write(four_runs({"limit_minutes": 0.1}))
    process = folder.start()
    kill_kernel(told, process)
    told.first = ended(process)
    told.states, told.rows = folder.states(), folder.run("killed").metrics
    told.survivors = left_of([*mine(folder.name), *told.below])
    told.quiet, told.before = files(folder.run("quiet").path), files(folder.out)
    folder.write(four_runs({}), set={"training.lr": 0.5})
    told.refused = folder.sweep()
    told.after = files(folder.out)
    folder.write(four_runs({}))
    told.second = folder.sweep()
    return told


def kill_kernel(told: Story, process: subprocess.Popen):
    """Signal 9 to the kernel of the run `killed`, once it has a checkpoint."""
    run = told.folder.run("killed")
    wait_for(lambda: checkpoint.steps(run), process)
    kernel = told.folder.kernel("killed")
    os.kill(kernel, signal.SIGSTOP)  # what is looked at now is what it has done
    told.saved, told.below = checkpoint.steps(run)[-1], descendants(kernel)
    os.kill(kernel, signal.SIGKILL)


def test_a_run_that_nothing_happens_to_is_done(story):
    state = story.states["quiet"]
    assert (state.state, state.reason) == ("done", "") and 0 <= state.correct <= 1


def test_a_killed_kernel_is_told(story):
    state = story.states["killed"]
    assert state.state == "failed" and state.reason.startswith("train: the kernel died")


def test_a_run_over_its_limit_is_told(story):
    state = story.states["slow"]
    assert state.state == "timeout" and "over the limit of 0.1 minutes" in state.reason


def test_a_mistake_that_only_the_run_finds_is_told_in_one_line(story):
    state = story.states["bad"]
    assert state.state == "failed" and "/no/such/folder" in state.reason
    assert len(state.reason.splitlines()) == 1 and "Traceback" not in state.reason


def test_a_sweep_with_runs_that_are_not_done_says_so(story):
    assert story.first.code == 1
    assert story.first.output.splitlines()[-1] == f"{story.folder.out}: 1 done, 2 failed, 1 timeout"


def test_a_log_has_a_line_for_each_end(story):
    for name, state in story.states.items():
        assert sum(line.startswith(f"{name}-s7: {state.state}") for line in story.first.output.splitlines()) == 1


def test_nothing_of_the_first_sweep_lives_on(story):
    assert story.below and story.survivors == []


def test_other_parameters_in_the_folder_are_refused(story):
    assert story.refused.code == 2
    (line,) = story.refused.errors.splitlines()
    assert "killed-s7: holds a run with other parameters (training.lr)" in line


def test_a_refused_sweep_changes_nothing(story):
    assert story.after == story.before


def test_given_again_the_missing_runs_are_completed(story):
    assert {name: state.state for name, state in story.folder.states().items()} == {
        "quiet": "done",
        "killed": "done",
        "slow": "done",
        "bad": "failed",
    }


def test_given_again_a_finished_run_is_not_touched(story):
    assert files(story.folder.run("quiet").path) == story.quiet


def test_a_killed_run_goes_on_from_its_checkpoint(story):
    run = story.folder.run("killed")
    assert 0 < story.saved < STEPS["killed"] and (run / "logs/attempt_2").is_dir()
    kept = [row for row in story.rows if row["step"] < story.saved]
    assert len(kept) == story.saved and run.metrics[: story.saved] == kept


@pytest.mark.parametrize("name", STEPS)
def test_no_step_is_missing_and_none_is_there_twice(story, name):
    assert steps_of(story.folder.run(name)) == list(range(STEPS[name]))


def test_a_mistake_fails_again_for_its_reason(story):
    assert story.folder.states()["bad"].reason == story.states["bad"].reason
    assert story.second.code == 1 and (story.folder.run("bad") / "logs/attempt_2").is_dir()


def test_nothing_of_the_second_sweep_lives_on(story):
    assert left_of(mine(story.folder.name)) == []


# --- the parent of the runs is stopped, and killed


@dataclass
class Parents:
    folder: Folder
    beside: Ended | None = None  # a second sweep in the folder
    stopped: Ended | None = None
    left_by_stopped: list = field(default_factory=list)
    states_of_stopped: dict = field(default_factory=dict)
    status_of_killed: dict = field(default_factory=dict)  # what it has left behind
    left_by_killed: list = field(default_factory=list)
    states_of_killed: dict = field(default_factory=dict)  # when its last sign of life is old
    last: Ended | None = None


@pytest.fixture(scope="module")
def parents(tmp_path_factory):
    told = Parents(Folder(tmp_path_factory.mktemp("parents")))
    told.folder.write({"first": {"kind": "untrained"}, "second": {"kind": "plain"}}, at_once=1)
    stop_parent(told)
    kill_parent(told)
    told.last = told.folder.sweep("--at-once", "2")
    return told


def stop_parent(told: Parents):
    """A termination signal, once the first kernel is there; before that a second sweep is tried beside it."""
    process = told.folder.start()
    kernel = wait_for(lambda: told.folder.kernel("first"), process)
    os.kill(kernel, signal.SIGSTOP)  # else it might be done before the second sweep has even looked
    told.beside = told.folder.sweep()
    below = descendants(process.pid)
    os.kill(kernel, signal.SIGCONT)
    process.terminate()
    told.stopped = ended(process)
    told.left_by_stopped = left_of([*below, *mine(told.folder.name)])
    told.states_of_stopped = told.folder.states()


def kill_parent(told: Parents):
    """Signal 9, once the first kernel is there."""
    run, process = told.folder.run("first"), told.folder.start()
    wait_for(lambda: told.folder.kernel("first"), process)
    below = descendants(process.pid)
    process.kill()
    ended(process)
    told.left_by_killed = left_of([*below, *mine(told.folder.name)])
    told.status_of_killed = run.status
    write_json(run / "status.json", run.status | {"heartbeat": time.time() - LOST_S - 1})
    told.states_of_killed = told.folder.states()


def test_a_second_sweep_in_the_folder_is_refused(parents):
    assert parents.beside.code == 2
    (line,) = parents.beside.errors.splitlines()
    assert "is working here; wait for it or end it first" in line


def test_a_termination_signal_ends_a_sweep_as_ctrl_c_does(parents):
    assert parents.stopped.code == 130
    assert parents.stopped.errors == "interrupted; run the same command again to go on\n"


def test_a_stopped_sweep_leaves_nothing_running(parents):
    assert parents.left_by_stopped == []


def test_after_a_stopped_sweep_each_run_says_what_it_is_at(parents):
    states = {name: (state.state, state.reason) for name, state in parents.states_of_stopped.items()}
    assert states == {"first": ("failed", INTERRUPTED), "second": ("queued", "")}


def test_the_runs_of_a_killed_parent_end_by_themselves(parents):
    assert parents.left_by_killed == []


def test_a_run_whose_parent_was_killed_is_lost(parents):
    assert parents.status_of_killed["state"] == "running"
    assert (parents.states_of_killed["first"].state, parents.states_of_killed["first"].reason) == ("lost", LOST)


def test_the_next_sweep_completes_a_lost_run(parents):
    assert parents.last.code == 0, parents.last.errors
    assert {state.state for state in parents.folder.states().values()} == {"done"}


def test_nothing_of_these_sweeps_lives_on(parents):
    assert left_of(mine(parents.folder.name)) == []


def test_runs_that_are_not_trained_have_no_steps(parents):
    for name, label in (("first", "base"), ("second", "plain")):
        assert steps_of(parents.folder.run(name)) == []
        assert json.loads((parents.folder.run(name) / f"eval/{label}/summary.json").read_text())["label"] == label
