"""Training from the command line: what it does with a run directory, and how it tells what went wrong."""

import os

import pytest

from rlmlib import config
from rlmlib.errors import RankError, TrainingError
from rlmlib.notebook import ROOT
from rlmlib.runs import RunDir, open_run
from rlmlib.training import launch
from rlmlib.training.ranks import ALONE, connect

PARAMS = ROOT / "params/smoke.yaml"


@pytest.fixture
def trained(monkeypatch, tmp_path):
    """Runs the command line with a double of the loop; returns (exit code, run)."""

    def run(*options, train=lambda *_, **__: None):
        monkeypatch.setattr(launch, "train", train)
        out = tmp_path / "run"
        return launch.main(["--params", str(PARAMS), "--out", str(out), *options]), RunDir(out)

    return run


def fails_with(error):
    def train(*_, **__):
        raise error

    return train


def checkpointed(run: RunDir):
    (run / "checkpoints/step_1").mkdir(parents=True)


def test_a_run_is_trained_alone_without_torchrun(trained):
    seen = []
    code, run = trained(train=lambda params, run, show, ranks: seen.append((params.name, run.path, ranks.size)))
    assert code == 0 and seen == [("smoke", run.path, 1)]
    assert run.status["state"] == "done" and run.params == config.load(PARAMS)


def test_status_is_running_while_it_trains(trained):
    states = []
    trained(train=lambda params, run, show, ranks: states.append(run.status["state"]))
    assert states == ["running"]


def test_an_expected_error_is_one_line_and_code_2(trained, capsys):
    code, run = trained(train=fails_with(TrainingError("nothing to learn from")))
    assert (code, capsys.readouterr().err) == (2, "error: nothing to learn from\n")
    assert (run.status["state"], run.status["reason"]) == ("failed", "nothing to learn from")


def test_what_another_rank_has_told_is_not_told_again(trained, capsys):
    code, run = trained(train=fails_with(RankError("rank 1: broken", told=True)))
    assert (code, capsys.readouterr().err, run.status["reason"]) == (2, "", "rank 1: broken")


def test_an_interrupted_run_is_code_130(trained, capsys):
    code, run = trained(train=fails_with(KeyboardInterrupt()))
    assert code == 130 and "run the same command again" in capsys.readouterr().err
    assert run.status["reason"] == "interrupted"


def test_a_params_file_that_is_not_there_leaves_no_run(capsys, tmp_path):
    assert launch.main(["--params", "nothing.yaml", "--out", str(tmp_path / "run")]) == 2
    assert capsys.readouterr().err.startswith("error: nothing.yaml") and not (tmp_path / "run").exists()


def test_a_run_with_checkpoints_is_refused_where_it_is_not_to_resume(trained, capsys):
    _, run = trained()
    checkpointed(run)
    assert trained("--resume", "never")[0] == 2
    assert "step 1" in capsys.readouterr().err and run.status["state"] == "done"


def test_a_run_with_checkpoints_goes_on_by_default(trained):
    _, run = trained()
    checkpointed(run)
    assert trained()[0] == 0


def test_fresh_deletes_what_was_there(trained):
    _, run = trained()
    checkpointed(run)
    assert trained("--fresh", "--resume", "never")[0] == 0 and not (run / "checkpoints").exists()


def test_a_run_that_another_process_works_on_keeps_its_status(trained, capsys, monkeypatch, tmp_path):
    run = open_run(tmp_path / "run", config.load(PARAMS))
    run.set_status("running", "by another")
    monkeypatch.setattr(RunDir.lock.__wrapped__, "__defaults__", (0.1,))
    with run.lock():
        assert trained()[0] == 2
    assert "is working here" in capsys.readouterr().err and run.status["reason"] == "by another"


def test_without_torchrun_this_process_is_alone(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    assert connect().size == ALONE.size == 1 and launch.is_leader()


def test_a_run_of_one_rank_is_a_run_alone(monkeypatch):
    monkeypatch.setitem(os.environ, "WORLD_SIZE", "1")
    assert connect().size == 1
