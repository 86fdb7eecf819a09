"""Whole runs of a few small steps: in turns, ahead, watched, evaluated on the way."""

import pytest

from rlmlib.config import validate
from rlmlib.errors import TrainingError
from rlmlib.runs import open_run, read_jsonl
from rlmlib.training import checkpoint
from rlmlib.training.loop import train

TASKS = {"min_chars": 1500, "max_chars": 2500, "coding": 0.0, "research": 0.65, "two_hop": 0.0, "pool": 32}


def params(**training):
    values = {"steps": 3, "prompts_per_step": 2, "keep_all_right": True, **training}
    return validate(
        {"name": "small", "policy": {"threads": 1}, "harness": {"max_turns": 3, "output_chars": 120}, "tasks": TASKS, "training": values}
    )


def run_of(folder, settings):
    run = open_run(folder, settings)
    train(settings, run)
    return run


def timeless(run):
    return [{k: v for k, v in row.items() if "seconds" not in k} for row in run.metrics]


@pytest.fixture(scope="module")
def in_turns(tmp_path_factory):
    settings = params(warmup_steps=2, evaluate_every=2, evaluate_examples=3, keep_last=1)
    return run_of(tmp_path_factory.mktemp("turns"), settings)


def test_the_same_seed_gives_the_same_run_bit_for_bit(in_turns, tmp_path):
    again = run_of(tmp_path, in_turns.params)
    assert timeless(again) == timeless(in_turns)
    adapters = [(run / "checkpoints/step_3/adapter_model.safetensors").read_bytes() for run in (in_turns, again)]
    assert adapters[0] == adapters[1]


def test_the_rate_follows_the_schedule(in_turns):
    assert [row["lr"] for row in in_turns.metrics] == [0.0005, 0.001, 0.001]


def test_a_short_evaluation_is_in_the_row_of_its_step_and_its_rollouts_are_kept(in_turns):
    rows = in_turns.metrics
    assert ["eval_correct" in row for row in rows] == [False, True, False]
    lines = read_jsonl(in_turns / "rollouts/eval_2.jsonl")
    assert len(lines) == 3 and {line["split"] for line in lines} == {"heldout"}
    assert rows[1]["eval_correct"] == pytest.approx(sum(line["correct"] for line in lines) / 3)


def test_the_evaluated_checkpoint_is_kept_beside_the_last(in_turns):
    assert checkpoint.steps(in_turns) == [2, 3]


def test_sampling_ahead_trains_and_tells_how_far_it_was(tmp_path):
    run = run_of(tmp_path, params(steps=4, max_async_level=2))
    rows = run.metrics
    assert [row["step"] for row in rows] == [0, 1, 2, 3]
    assert all(row["grad_norm"] > 0 and row["lag_max"] <= 3 for row in rows) and rows[0]["lag_max"] == 0
    assert max(row["lag_max"] for row in rows) > 0
    assert rows[0]["max_logprob_gap"] < 1e-3  # all of the first batch is of the first weights
    state = checkpoint.verify(run / "checkpoints/step_4")
    assert state["begun"] >= sum(row["groups"] for row in rows)


def test_sampling_ahead_goes_on_where_it_was(tmp_path):
    settings = params(steps=2, max_async_level=1)
    run = run_of(tmp_path, settings)
    begun = checkpoint.verify(run / "checkpoints/step_2")["begun"]
    longer = params(steps=3, max_async_level=1)
    train(longer, run)
    assert [row["step"] for row in run.metrics] == [0, 1, 2]
    assert checkpoint.verify(run / "checkpoints/step_3")["begun"] > begun


def test_a_run_that_diverges_is_stopped_with_its_reason_and_its_best_checkpoint(tmp_path):
    settings = params(steps=9, watch={"window": 1, "min_entropy": 50.0})
    run = open_run(tmp_path, settings)
    with pytest.raises(TrainingError, match=r"step 1: stopped, as the entropy fell .* step_[12] is the best checkpoint; begin another run"):
        train(settings, run)
    assert checkpoint.steps(run) == [1, 2]
