"""How a sweep deals out its runs: who starts when and on which GPU, what ends with it, and what is written down. No notebook runs here."""

import json
from pathlib import Path

import pytest

from rlmlib import params_file
from rlmlib.errors import ConfigError, RunError
from rlmlib.notebook import ROOT
from rlmlib.runs import RunDir, write_json
from rlmlib.sweep import __main__ as command
from rlmlib.sweep import grid, runner
from rlmlib.sweep.leases import Gpus
from rlmlib.sweep.states import LOST, State

NEVER = 10**9


class Stages:
    """Stands in for StageProcess: each stage ends after so many looks, with a problem or its result."""

    def __init__(self):
        self.looks, self.problems, self.refused = {}, {}, {}  # by name of the run, or "RUN STAGE"
        self.events, self.most, self.running = [], 0, set()
        self.environments = {}

    def __call__(self, run: RunDir, stage, log: Path, environment: dict):
        return FakeStage(self, run, stage, log, environment)

    def of(self, table: dict, name: str, stage: str, default=None):
        return table.get(f"{name} {stage}", table.get(name, default))

    def started(self) -> list[str]:
        return [event for event in self.events if not event.endswith("ended")]


class FakeStage:
    def __init__(self, stages: Stages, run: RunDir, stage, log: Path, environment: dict):
        self.stages, self.run, self.stage = stages, run, stage
        self.name = run.path.name.removesuffix("-s42")
        if refused := stages.of(stages.refused, self.name, stage.name):
            raise refused
        log.parent.mkdir(parents=True, exist_ok=True)
        self.left = stages.of(stages.looks, self.name, stage.name, 1)
        stages.events.append(f"{self.name} {stage.name}")
        stages.environments[self.name] = environment
        stages.running.add(self.name)
        stages.most = max(stages.most, len(stages.running))

    def poll(self) -> int | None:
        self.left -= 1
        return None if self.left > 0 else 0

    def end(self):
        if self.name in self.stages.running:
            self.stages.running.remove(self.name)
            self.stages.events.append(f"{self.name} ended")

    def problem(self) -> str | None:
        found = self.stages.of(self.stages.problems, self.name, self.stage.name)
        if isinstance(found, Exception):
            raise found
        if found is None:
            write_json(self.run / self.stage.result, {})
        return found


@pytest.fixture
def stages(monkeypatch) -> Stages:
    found = Stages()
    monkeypatch.setattr(runner, "StageProcess", found)
    monkeypatch.setattr(runner, "POLL_S", 0.0)
    return found


def sweep_of(*names: str, kind: str = "untrained", **parts) -> tuple[grid.SweepFile, list[grid.Planned]]:
    extra = {name: {"kind": kind, "set": {"training.steps": number}} for number, name in enumerate(names, 1)}
    file = params_file.validate({"name": "toy", "base": "smoke.yaml", "runs": extra, **parts}, grid.SweepFile)
    return file, grid.resolve(file, ROOT / "params")


def run_sweep(out: Path, *names: str, kind: str = "untrained", limit_minutes: float = 240.0, **options) -> dict[str, State]:
    file, runs = sweep_of(*names, kind=kind, limit_minutes=limit_minutes)
    return {state.name.removesuffix("-s42"): state for state in runner.run_sweep(file, runs, out, **options)}


def told(states: dict[str, State]) -> dict[str, tuple[str, str]]:
    return {name: (state.state, state.reason) for name, state in states.items()}


def statuses(out: Path) -> dict[str, tuple[str, str]]:
    return {p.parent.name.removesuffix("-s42"): tuple(json.loads(p.read_text()).values())[:2] for p in sorted(out.glob("*/status.json"))}


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != ".lock"}


class Show:
    """Counts how often the states were shown, and does something at one of these times."""

    def __init__(self, at: int = NEVER, do=None):
        self.at, self.do, self.times = at, do, 0

    def __call__(self, states):
        self.times += 1
        if self.times == self.at:
            self.do()


def interrupt():
    raise KeyboardInterrupt


# --- who runs when


def test_all_runs_are_done_in_the_end(stages, tmp_path):
    assert told(run_sweep(tmp_path, "a", "b", "c")) == dict.fromkeys("abc", ("done", ""))


def test_a_training_run_is_trained_and_then_evaluated(stages, tmp_path):
    run_sweep(tmp_path, "a", kind="train")
    assert stages.started() == ["a train", "a evaluate trained"]


@pytest.mark.parametrize("at_once", [1, 2, 3])
def test_no_more_runs_at_once_than_asked_for(stages, tmp_path, at_once):
    stages.looks = dict.fromkeys("abcde", 3)
    run_sweep(tmp_path, *"abcde", at_once=at_once)
    assert stages.most == at_once and sorted(stages.started()) == [f"{name} evaluate base" for name in "abcde"]


def test_runs_start_in_the_order_of_the_file(stages, tmp_path):
    run_sweep(tmp_path, "c", "a", "b", at_once=1)
    assert [event[0] for event in stages.started()] == ["c", "a", "b"]


def test_a_run_that_fails_stops_no_other(stages, tmp_path):
    stages.problems = {"a": "the leaf is down"}
    assert told(run_sweep(tmp_path, "a", "b", at_once=1)) == {"a": ("failed", "evaluate base: the leaf is down"), "b": ("done", "")}


def test_after_a_stage_that_fails_the_next_is_not_started(stages, tmp_path):
    stages.problems = {"a train": "no signal"}
    assert told(run_sweep(tmp_path, "a", kind="train"))["a"] == ("failed", "train: no signal")
    assert stages.started() == ["a train"]


@pytest.mark.parametrize("at_once", [0, -1])
def test_no_runs_at_a_time_are_refused(stages, tmp_path, at_once):
    with pytest.raises(ConfigError, match="give 1 or more"):
        run_sweep(tmp_path / "out", "a", at_once=at_once)
    assert not (tmp_path / "out").exists()


# --- GPUs


def gpus(tmp_path: Path, *names: str) -> Gpus:
    return Gpus(names, tmp_path / "gpus")


def test_each_run_sees_one_gpu_of_its_own(stages, tmp_path):
    stages.looks = dict.fromkeys("ab", 5)
    run_sweep(tmp_path / "out", "a", "b", gpus=gpus(tmp_path, "3", "5"))
    assert stages.environments == {"a": {"CUDA_VISIBLE_DEVICES": "3"}, "b": {"CUDA_VISIBLE_DEVICES": "5"}}


def test_without_gpus_none_is_set(stages, tmp_path):
    run_sweep(tmp_path, "a")
    assert stages.environments == {"a": {}}


@pytest.mark.parametrize("at_once", [None, 1, 9])
def test_with_gpus_it_is_one_run_a_gpu(stages, tmp_path, at_once):
    stages.looks = dict.fromkeys("abcd", 3)
    run_sweep(tmp_path / "out", *"abcd", at_once=at_once, gpus=gpus(tmp_path, "0", "1"))
    assert stages.most == 2


def test_gpus_that_another_sweep_has_are_waited_for(stages, tmp_path):
    other = gpus(tmp_path, "0")
    other.take()
    reasons = []

    def look():
        reasons.extend(RunDir(path).status["reason"] for path in (tmp_path / "out").glob("a*"))
        other.give_back("0")

    show = Show(5, look)
    assert run_sweep(tmp_path / "out", "a", gpus=gpus(tmp_path, "0"), show=show)["a"].state == "done"
    assert show.times > 5 and reasons == ["waits for a GPU that another sweep holds"]


@pytest.mark.parametrize("problem", [None, "out of memory"])
def test_a_gpu_is_given_back_when_its_run_ends(stages, tmp_path, problem):
    stages.problems = {"a": problem}
    held = gpus(tmp_path, "0")
    run_sweep(tmp_path / "out", "a", "b", gpus=held)
    assert gpus(tmp_path, "0").take() == "0"


def test_gpus_are_given_back_when_the_sweep_is_interrupted(stages, tmp_path):
    stages.looks = dict.fromkeys("ab", NEVER)
    held = gpus(tmp_path, "0", "1")
    with pytest.raises(KeyboardInterrupt):
        run_sweep(tmp_path / "out", "a", "b", gpus=held, show=Show(3, interrupt))
    other = gpus(tmp_path, "0", "1")
    assert [other.take(), other.take()] == ["0", "1"]


# --- how runs end


@pytest.mark.parametrize("error", [RunError("x.log: cannot be written"), OSError("no processes left")])
def test_a_run_that_cannot_start_is_a_failed_one(stages, tmp_path, error):
    stages.refused = {"a": error}
    states = run_sweep(tmp_path, "a", "b")
    assert states["a"].state == "failed" and str(error) in states["a"].reason and states["b"].state == "done"


def test_a_second_stage_that_cannot_start_is_a_failure(stages, tmp_path):
    stages.refused = {"a evaluate trained": RunError("x.log: cannot be written")}
    assert told(run_sweep(tmp_path, "a", kind="train"))["a"] == ("failed", "x.log: cannot be written")


def test_a_run_whose_folder_vanished_is_a_failed_one(stages, tmp_path):
    stages.problems = {"a": FileNotFoundError(2, "No such file or directory", "logs")}
    states = run_sweep(tmp_path, "a", "b")
    assert states["a"].state == "failed" and "No such file" in states["a"].reason and states["b"].state == "done"


def test_a_run_over_its_limit_is_ended_and_says_so(stages, tmp_path):
    stages.looks = {"a": NEVER}
    states = run_sweep(tmp_path, "a", limit_minutes=0.00015)
    assert states["a"].state == "timeout" and stages.running == set()
    assert states["a"].reason.startswith("evaluate base: over the limit of 0.00015 minutes; run the sweep again to go on")


def test_the_limit_is_of_all_stages_together(stages, tmp_path, monkeypatch):
    clock = iter(range(10**6))
    monkeypatch.setattr(runner.time, "monotonic", lambda: float(next(clock)))
    stages.looks = {"a train": 10, "a evaluate trained": 10}
    assert run_sweep(tmp_path / "short", "a", kind="train", limit_minutes=30 / 60)["a"].state == "timeout"
    assert stages.events == ["a train", "a ended", "a evaluate trained", "a ended"]
    assert run_sweep(tmp_path / "long", "a", kind="train", limit_minutes=1000 / 60)["a"].state == "done"


def test_a_sign_of_life_that_cannot_be_written_ends_nothing(stages, tmp_path, monkeypatch):
    write = RunDir.set_status

    def full(run, state, reason=""):
        if state == "running":
            raise RunError("status.json: the disk is full")
        write(run, state, reason)

    monkeypatch.setattr(RunDir, "set_status", full)
    stages.looks = dict.fromkeys("ab", 3)
    assert {state.state for state in run_sweep(tmp_path, "a", "b").values()} == {"done"}


def test_a_running_run_gives_signs_of_life(stages, tmp_path, monkeypatch):
    clock, beats = iter(range(10**6)), []
    monkeypatch.setattr(runner.time, "monotonic", lambda: float(next(clock)))
    write = RunDir.set_status
    monkeypatch.setattr(RunDir, "set_status", lambda run, *told: beats.append(told) or write(run, *told))
    stages.looks = {"a": 100}
    run_sweep(tmp_path, "a")
    assert 10 < beats.count(("running", "evaluate base")) < 100


def test_a_new_stage_is_told_at_once(stages, tmp_path):
    stages.looks, seen = {"a": 2}, set()
    run_sweep(tmp_path, "a", kind="train", show=lambda states: seen.update(state.reason for state in states))
    assert {"train", "evaluate trained"} <= seen


# --- interruption


def test_an_interrupted_sweep_leaves_nothing_running(stages, tmp_path):
    stages.looks = dict.fromkeys("abc", NEVER)
    with pytest.raises(KeyboardInterrupt):
        run_sweep(tmp_path, "a", "b", "c", at_once=2, show=Show(3, interrupt))
    assert stages.running == set()
    assert statuses(tmp_path) == {"a": ("failed", runner.INTERRUPTED), "b": ("failed", runner.INTERRUPTED), "c": ("queued", "")}


def test_an_interruption_that_cannot_be_written_ends_the_others_too(stages, tmp_path, monkeypatch):
    write = RunDir.set_status

    def full(run, state, reason=""):
        if reason == runner.INTERRUPTED and run.path.name == "a-s42":
            raise RunError("status.json: the disk is full")
        write(run, state, reason)

    monkeypatch.setattr(RunDir, "set_status", full)
    stages.looks = dict.fromkeys("ab", NEVER)
    with pytest.raises(KeyboardInterrupt):
        run_sweep(tmp_path, "a", "b", at_once=2, show=Show(3, interrupt))
    assert stages.running == set() and statuses(tmp_path)["b"] == ("failed", runner.INTERRUPTED)


def test_an_interruption_while_a_run_starts_finds_it(stages, tmp_path, monkeypatch):
    """Ctrl-C just after the process was made: it must not go on by itself."""
    status = RunDir.set_status

    def pressed(run, state, reason=""):
        if state == "running":
            raise KeyboardInterrupt
        status(run, state, reason)

    monkeypatch.setattr(RunDir, "set_status", pressed)
    with pytest.raises(KeyboardInterrupt):
        run_sweep(tmp_path, "a")
    assert stages.events == ["a evaluate base", "a ended"]


# --- given again


def test_what_is_done_is_left_alone(stages, tmp_path):
    run_sweep(tmp_path, "a", "b")
    before = files(tmp_path)
    stages.events.clear()
    assert {state.state for state in run_sweep(tmp_path, "a", "b").values()} == {"done"}
    assert stages.events == [] and files(tmp_path) == before


def test_a_run_goes_on_with_the_stage_that_has_no_result(stages, tmp_path):
    stages.problems = {"a evaluate trained": "the leaf is down"}
    run_sweep(tmp_path, "a", kind="train")
    stages.events.clear()
    stages.problems = {}
    assert run_sweep(tmp_path, "a", kind="train")["a"].state == "done"
    assert stages.started() == ["a evaluate trained"]


def test_a_run_that_becomes_one_of_another_kind_is_run(stages, tmp_path):
    run_sweep(tmp_path, "a", kind="untrained")
    stages.events.clear()
    assert run_sweep(tmp_path, "a", kind="train")["a"].state == "done"
    assert stages.started() == ["a train", "a evaluate trained"]


def test_each_attempt_has_logs_of_its_own(stages, tmp_path):
    stages.problems = {"a": "once more"}
    run_sweep(tmp_path, "a")
    run_sweep(tmp_path, "a")
    assert sorted(p.name for p in (tmp_path / "a-s42/logs").iterdir()) == ["attempt_1", "attempt_2"]


@pytest.mark.parametrize(
    "before, told",
    [
        (("failed", "train: no signal"), "was failed: train: no signal"),
        (("timeout", "too slow"), "was timeout: too slow"),
        (("running", "train"), LOST),  # a moment ago, but its folder is free
        (("queued", "was failed: x"), "was failed: x"),
        (("queued", ""), ""),
    ],
)
def test_while_a_run_waits_its_last_end_stays_readable(stages, tmp_path, before, told):
    RunDir(tmp_path / "b-s42").set_status(*before)
    stages.looks = {"a": NEVER}
    with pytest.raises(KeyboardInterrupt):
        run_sweep(tmp_path, "a", "b", at_once=1, show=Show(2, interrupt))
    assert statuses(tmp_path)["b"] == ("queued", told)


def test_a_folder_with_other_runs_is_refused_before_anything_starts(stages, tmp_path):
    run_sweep(tmp_path, "a", "b")
    before = files(tmp_path)
    stages.events.clear()
    with pytest.raises(RunError, match=r"b-s42: holds a run with other parameters \(training.steps\); name another folder"):
        run_sweep(tmp_path, "new", "x", "b")
    assert stages.events == [] and files(tmp_path) == before


def test_a_second_sweep_in_the_folder_is_refused(stages, tmp_path):
    with RunDir(tmp_path).lock(), pytest.raises(RunError, match="is working here"):
        run_sweep(tmp_path, "a")
    assert stages.events == [] and statuses(tmp_path) == {}


def test_the_folder_says_which_runs_belong_together(stages, tmp_path):
    run_sweep(tmp_path, "a")
    told = json.loads((tmp_path / "sweep.json").read_text())
    entry = {"name": "a-s42", "group": "a", "kind": "untrained", "seed": 42, "changes": {"training.steps": 1}}
    assert told == {"name": "toy", "base": "smoke.yaml", "set": {}, "axes": {}, "runs": [entry]}


def test_the_runs_of_a_folder_hold_what_their_notebooks_are_given(stages, tmp_path):
    from rlmlib import config

    _, (planned,) = sweep_of("a")
    run_sweep(tmp_path, "a")
    assert config.load(tmp_path / "a-s42/params.yaml") == planned.params == RunDir(tmp_path / "a-s42").params


# --- the command line


@pytest.fixture
def main(stages, tmp_path, monkeypatch):
    """The exit code of the command on a sweep of two runs."""
    from rlmlib.training import preflight

    monkeypatch.setattr(preflight, "device_here", lambda: preflight.Device("cpu", "a processor", 8 << 30, here=False))
    text = f"name: toy\nbase: {ROOT}/params/smoke.yaml\nruns: {{a: {{kind: untrained}}, b: {{kind: plain}}}}\n"
    (tmp_path / "toy.yaml").write_text(text)
    return lambda *options: command.main([str(tmp_path / "toy.yaml"), "--out", str(tmp_path / "out"), *options])


def test_the_exit_code_of_a_sweep_whose_runs_are_done(main, capsys, tmp_path):
    assert main() == 0
    assert f"{tmp_path / 'out'}: 2 done" in capsys.readouterr().out


def test_the_exit_code_of_a_sweep_with_a_failed_run(main, stages, capsys):
    stages.problems = {"a": "the leaf is down"}
    assert main() == 1
    assert "a-s42: failed, evaluate base: the leaf is down" in capsys.readouterr().out


def test_the_exit_code_of_an_interrupted_sweep(main, stages, monkeypatch, capsys):
    monkeypatch.setattr(runner.time, "sleep", lambda _: interrupt())
    assert main() == 130
    assert capsys.readouterr().err.startswith("interrupted; run the same command again")


def test_the_exit_code_of_a_bad_file(main, tmp_path, capsys):
    (tmp_path / "toy.yaml").write_text("name: toy\nbase: smoke.yaml\naxs: {}\n")
    assert main() == 2
    assert "axs: no such parameter; did you mean 'axes'?" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_plan_starts_nothing_and_writes_nothing(main, stages, tmp_path, capsys):
    assert main("--plan") == 0
    assert "2 runs, 2 to do, 1 at a time: about 0.0 hours" in capsys.readouterr().out
    assert stages.events == [] and not (tmp_path / "out").exists()


def test_the_plan_tells_how_many_runs_are_at_once(main, capsys):
    main("--plan", "--at-once", "2")
    main("--plan", "--gpus", "0,1,2")
    out = capsys.readouterr().out
    assert "2 runs, 2 to do, 2 at a time" in out and "2 runs, 2 to do, 3 at a time" in out


@pytest.mark.parametrize("options", [["--at-once", "0"], ["--at-once", "-1"], ["--at-once", "two"], ["--at-once", "2", "--gpus", "0"]])
def test_options_that_make_no_sense_are_refused(main, stages, options, capsys):
    with pytest.raises(SystemExit) as caught:
        main(*options)
    assert caught.value.code == 2 and stages.events == [] and "error: argument --" in capsys.readouterr().err


@pytest.mark.parametrize("names", ["", "0,,1", "0,0"])
def test_gpus_that_are_not_named_are_refused(main, stages, names, capsys):
    assert main("--gpus", names) == 2
    assert "name each GPU once" in capsys.readouterr().err and stages.events == []
