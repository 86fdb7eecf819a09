"""Trackers by doubles of the three APIs that take what the real ones take and refuse the rest; the real ones too where installed."""

import importlib.util
import json
import sys
import types
import warnings

import pytest

from rlmlib import config
from rlmlib.errors import ConfigError
from rlmlib.runs import open_run
from rlmlib.tracking import Tracker, public, run_id

ALL = ["trackio", "wandb", "tensorboard"]


def params(*to: str, **sections) -> config.Params:
    return config.validate({"name": "x", "tracking": {"to": list(to), "project": "p"}, **sections})


class Trackio(types.ModuleType):
    """Runs of a project by name: [(step, metrics)]."""

    def __init__(self):
        super().__init__("trackio")
        self.runs, self.configs, self.current = {}, {}, None

    def init(self, project: str, name: str | None = None, config: dict | None = None, resume: str = "never", embed: bool = True):
        assert resume in ("must", "allow", "never")
        assert not embed, "a dashboard in the output of each notebook"
        json.dumps(config)
        self.configs[name] = config
        self.current = types.SimpleNamespace(log=self.log_to_current)
        self.logged = self.runs.setdefault(name, []) if resume == "allow" else self.runs.__setitem__(name, []) or self.runs[name]
        return self.current

    def log_to_current(self, metrics: dict, step: int | None = None):
        assert not {"step", "time", "timestamp", "project"} & metrics.keys(), "reserved keys"
        self.logged.append((step, metrics))

    def finish(self):
        if self.current is None:
            raise RuntimeError("Call trackio.init() before trackio.finish().")
        self.current = None


class Wandb(types.ModuleType):
    """As W&B: a row whose own step is under the last one's would be lost, so none may be given."""

    def __init__(self):
        super().__init__("wandb")
        self.runs, self.configs, self.open = {}, {}, False

    class Settings:
        def __init__(self, *, console: str, disable_git: bool, disable_code: bool, x_disable_meta: bool):
            assert (console, disable_git, disable_code, x_disable_meta) == ("off", True, True, True)

    def init(self, *, project: str, id: str, name: str, dir: str, config: dict, resume: str, settings: "Wandb.Settings"):
        assert isinstance(settings, Wandb.Settings)
        assert resume == "allow"
        self.configs[id], self.open = config, True
        logged = self.runs.setdefault(id, [])
        return types.SimpleNamespace(define_metric=self.define_metric, log=lambda data: logged.append(data), finish=self.finish)

    def define_metric(self, name: str, step_metric: str | None = None):
        assert (name, step_metric) == ("*", "step")

    def finish(self):
        self.open = False


class TensorBoard(types.ModuleType):
    def __init__(self):
        super().__init__("torch.utils.tensorboard")
        self.rows, self.folders = [], []

    def SummaryWriter(self, log_dir: str, purge_step: int):  # noqa: N802 - its name
        self.folders.append(log_dir)
        self.rows = [row for row in self.rows if row[2] < purge_step]

        def add_scalar(tag: str, value: float, step: int):
            assert isinstance(value, int | float)
            self.rows.append((tag, value, step))

        def add_text(tag: str, text: str, step: int):
            assert isinstance(text, str)

        return types.SimpleNamespace(add_scalar=add_scalar, add_text=add_text, flush=lambda: None, close=lambda: None)


@pytest.fixture
def doubles(monkeypatch):
    made = types.SimpleNamespace(trackio=Trackio(), wandb=Wandb(), tensorboard=TensorBoard())
    for module in (made.trackio, made.wandb, made.tensorboard):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return made


def steps(tracker: Tracker, first: int, last: int):
    for step in range(first, last):
        tracker.log(step, {"step": step, "reward": step / 10, "grad_norm": None, "gap": float("inf"), "verdict": "kept"})


@pytest.mark.filterwarnings("error")
def test_the_finite_numbers_of_a_row_reach_all_three(doubles, tmp_path):
    wanted = params(*ALL)
    run = open_run(tmp_path / "run", wanted)
    with Tracker(wanted, run) as tracker:
        steps(tracker, 0, 2)
    name = run_id(wanted, run)
    assert doubles.trackio.runs == {name: [(0, {"reward": 0.0}), (1, {"reward": 0.1})]}
    assert doubles.wandb.runs == {name: [{"step": 0, "reward": 0.0}, {"step": 1, "reward": 0.1}]}
    assert doubles.tensorboard.rows == [("reward", 0.0, 0), ("reward", 0.1, 1)]
    assert doubles.tensorboard.folders == [str(run / "tensorboard")]
    assert doubles.trackio.current is None
    assert not doubles.wandb.open


@pytest.mark.filterwarnings("error")
def test_after_a_restart_the_same_run_goes_on(doubles, tmp_path):
    wanted = params(*ALL)
    run = open_run(tmp_path / "run", wanted)
    for first, last in ((0, 3), (2, 4)):  # step 2 is done again: the checkpoint was older
        with Tracker(wanted, run, first) as tracker:
            steps(tracker, first, last)
    assert [step for step, _ in doubles.trackio.runs[run_id(wanted, run)]] == [0, 1, 2, 2, 3]
    assert [row["step"] for row in doubles.wandb.runs[run_id(wanted, run)]] == [0, 1, 2, 2, 3]
    assert [row[2] for row in doubles.tensorboard.rows] == [0, 1, 2, 3]
    assert len(doubles.trackio.runs) == len(doubles.wandb.runs) == 1


def test_two_runs_of_one_preset_are_two(tmp_path):
    wanted = params()
    first, second = (open_run(tmp_path / name, wanted) for name in "ab")
    assert run_id(wanted, first) != run_id(wanted, second)
    assert run_id(wanted, first) == run_id(wanted, first)


@pytest.mark.parametrize("name", ALL)
def test_a_package_that_is_not_installed_is_named_with_the_command(name, monkeypatch, tmp_path):
    for module in ("trackio", "wandb", "torch.utils.tensorboard"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=f"pip install {name}"):
        Tracker(params(name), open_run(tmp_path / "run", params(name)))


def test_without_trackers_nothing_is_imported_or_written(monkeypatch, tmp_path):
    monkeypatch.setattr("importlib.import_module", lambda name: pytest.fail(f"imported {name}"))
    run = open_run(tmp_path / "run", params())
    with Tracker(params(), run) as tracker:
        steps(tracker, 0, 2)
    assert not (run / "tracking.json").exists()


def test_one_that_fails_is_told_once_and_the_others_go_on(doubles, tmp_path):
    wanted = params("wandb", "tensorboard")
    tracker = Tracker(wanted, open_run(tmp_path / "run", wanted))
    doubles.wandb.runs[run_id(wanted, open_run(tmp_path / "run", wanted))] = None

    def broken(*_):
        raise OSError("no network")

    tracker._open["wandb"].log = broken
    with pytest.warns(RuntimeWarning, match=r"tracking\.to: wandb failed \(OSError: no network\); training goes on") as told:
        steps(tracker, 0, 3)
    assert len(told) == 1
    tracker.finish()
    assert [row[2] for row in doubles.tensorboard.rows] == [0, 1, 2]


def test_one_that_cannot_start_does_not_stop_training(doubles, monkeypatch, tmp_path):
    def refused(**_):
        raise RuntimeError("api_key not configured")

    monkeypatch.setattr(doubles.wandb, "init", refused)
    with pytest.warns(RuntimeWarning, match="api_key not configured"):
        tracker = Tracker(params("wandb"), open_run(tmp_path / "run", params("wandb")))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        steps(tracker, 0, 2)
        tracker.finish()


def test_one_that_cannot_finish_does_not_either(doubles, monkeypatch, tmp_path):
    tracker = Tracker(params("trackio"), open_run(tmp_path / "run", params("trackio")))
    doubles.trackio.current = None
    with pytest.warns(RuntimeWarning, match=r"before trackio\.finish"):
        tracker.finish()
    tracker.finish()


def test_secrets_are_not_sent():
    secret = params(
        leaf={"engine": "openai", "model": "m", "base_url": "http://me:SECRET@host:1/v1?key=SECRET#SECRET"},
        policy={"vllm": {"urls": ["http://SECRET@h:2/v1"]}},
        harness={"sandbox_command": ["run", "--token", "SECRET"]},
    )
    sent = public(secret)
    assert "SECRET" not in json.dumps(sent)
    assert sent["leaf"]["base_url"] == "http://host:1/v1"
    assert sent["policy"]["vllm"]["urls"] == ["http://h:2/v1"]
    assert sent["training"]["lr"] == secret.training.lr


@pytest.mark.parametrize("name", [name for name in ALL if importlib.util.find_spec(name)])
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_the_real_one(name, monkeypatch, tmp_path):
    """Runs where the package is installed; a failing call would be a RuntimeWarning."""
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    wanted = params(name)
    run = open_run(tmp_path / "run", wanted)
    for first, last in ((0, 3), (2, 4)):
        with Tracker(wanted, run, first) as tracker:
            steps(tracker, first, last)
    written = {"trackio": tmp_path / "trackio", "wandb": run / "wandb", "tensorboard": run / "tensorboard"}[name]
    assert any(path.stat().st_size for path in written.rglob("*") if path.is_file())
