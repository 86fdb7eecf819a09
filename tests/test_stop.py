"""A request to stop a run: met after the step under way with a checkpoint, and nothing is lost by it."""

import pytest

from rlmlib import errors, execute
from rlmlib.config import validate
from rlmlib.errors import Stopped, TrainingError
from rlmlib.runs import open_run, status_kept
from rlmlib.training import checkpoint
from rlmlib.training.loop import train

TASKS = {"min_chars": 1500, "max_chars": 2500, "coding": 0.0, "research": 0.65, "two_hop": 0.0, "pool": 32}
STOPPED = r"step 2: stopped as asked, with a checkpoint; run again to go on"


def params(steps=3, **training):
    values = {"steps": steps, "prompts_per_step": 2, "keep_all_right": True, "checkpoint_every": 50, **training}
    return validate(
        {"name": "small", "policy": {"threads": 1}, "harness": {"max_turns": 3, "output_chars": 120}, "tasks": TASKS, "training": values}
    )


def asking(run, step):
    """For `after_step`: asks when that step is done, so that the one after it is the last."""
    return lambda row: row["step"] == step and run.ask_to_stop()


def timeless(run):
    return [{k: v for k, v in row.items() if "seconds" not in k} for row in run.metrics]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nobody stopped, though someone had asked a process before it to."""
    run = open_run(tmp_path_factory.mktemp("whole"), params())
    run.ask_to_stop()
    train(run.params, run)
    return run


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """(the run, its error, {what: how it was then}); afterwards it went on to its end."""
    run = open_run(tmp_path_factory.mktemp("stopped"), params())
    with pytest.raises(Stopped) as error:
        train(run.params, run, after_step=asking(run, 0))
    then = {"rows": len(run.metrics), "checkpoints": checkpoint.steps(run), "asked": run.stop_asked}
    train(run.params, run)
    return run, error.value, then


def test_a_request_from_before_the_run_began_is_forgotten(whole):
    assert len(whole.metrics) == 3 and not whole.stop_asked


def test_a_stopped_run_says_where_it_is_and_what_to_do(stopped):
    assert str(stopped[1]) == STOPPED


def test_a_stop_leaves_a_checkpoint_of_a_step_that_would_have_none(stopped):
    assert stopped[2]["checkpoints"] == [2] and stopped[2]["rows"] == 2


def test_a_met_request_is_removed(stopped):
    assert not stopped[2]["asked"]


def test_a_stopped_run_goes_on_as_if_it_had_not_been_stopped(stopped, whole):
    run = stopped[0]
    assert timeless(run) == timeless(whole)
    adapters = [(r / "checkpoints/step_3/adapter_model.safetensors").read_bytes() for r in (run, whole)]
    assert adapters[0] == adapters[1]


def test_a_request_during_the_last_step_lets_the_run_end_as_done(tmp_path):
    run = open_run(tmp_path, params(steps=2))
    with status_kept(run, "train"):
        train(run.params, run, after_step=asking(run, 0))
    assert checkpoint.steps(run) == [2] and not run.stop_asked and run.status["state"] == "done"


def test_a_run_that_diverges_says_so_though_it_was_asked_to_stop(tmp_path):
    run = open_run(tmp_path, params(steps=9, watch={"window": 1, "min_entropy": 50.0}))
    with pytest.raises(TrainingError, match="the entropy fell"):
        train(run.params, run, after_step=asking(run, 0))


def test_the_status_tells_a_stop(tmp_path):
    run = open_run(tmp_path, params())
    with pytest.raises(Stopped), status_kept(run, "train"):
        raise Stopped("step 2: stopped as asked")
    assert (run.status["state"], run.status["reason"]) == ("failed", "step 2: stopped as asked")


def test_a_notebook_tells_every_error_that_training_may_raise_as_one_line():
    raised = {e.__name__ for e in vars(errors).values() if isinstance(e, type) and issubclass(e, errors.RlmError)}
    assert raised - execute.EXPECTED == {"RankError"}  # no notebook runs on several ranks
