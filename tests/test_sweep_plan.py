"""What a sweep will take, told before it starts: hours and dollars of what is left, and what is not known."""

import pytest
from test_sweep_states import planned, set_status, set_summary

from rlmlib import params_file
from rlmlib.notebook import ROOT
from rlmlib.runs import RunDir
from rlmlib.sweep import grid, plan
from rlmlib.training import preflight
from rlmlib.training.preflight import Device

CPU = Device("cpu", "a processor", 8 << 30, here=False)
SECONDS = 0.1  # of a rollout of the tiny policy, as work.py has it
TRAINED = 2 * (2 / 0.5) * 4  # rollouts of params/smoke.yaml: steps, groups at the assumed share of useful ones, rollouts of a group
QUESTIONS = 6 + 3
UNKNOWN = {"policy.model": "some/model"}
PAID = {"leaf.engine": "gemini", "leaf.model": "gemini-3.5-flash"}


@pytest.fixture
def run(tmp_path) -> RunDir:
    (tmp_path / "run").mkdir()
    return RunDir(tmp_path / "run")


@pytest.fixture
def cost(run, monkeypatch):
    """Of a run: (hours, dollars)."""

    def of(kind: str = "train", **changes):
        found = plan.cost_of(planned(kind, **changes), run, CPU)
        return found.hours, found.dollars

    return of


@pytest.mark.parametrize(
    "kind, changes, rollouts",
    [
        ("train", {}, TRAINED + 2 * QUESTIONS),
        ("train", {"evaluation.greedy": True}, TRAINED + 3 * QUESTIONS),
        ("untrained", {}, 2 * QUESTIONS),
        ("plain", {"evaluation.greedy": True}, QUESTIONS),
    ],
)
def test_hours_count_the_rollouts_of_training_and_evaluation(cost, kind, changes, rollouts):
    assert cost(kind, **changes)[0] == pytest.approx(rollouts * SECONDS / 3600)


def test_dollars_grow_with_the_rollouts(cost):
    assert cost("train", **PAID)[1] / cost("untrained", **PAID)[1] == pytest.approx((TRAINED + 2 * QUESTIONS) / (2 * QUESTIONS))


def test_a_done_run_costs_nothing(cost, run):
    set_status(run, "done")
    set_summary(run)
    assert cost(**PAID) == (0.0, 0.0)


def test_a_trained_run_is_still_to_be_evaluated(cost, run):
    (run / "checkpoints/step_2").mkdir(parents=True)
    assert cost()[0] == pytest.approx(2 * QUESTIONS * SECONDS / 3600)


def test_what_is_not_known_is_no_number(cost):
    assert cost(**UNKNOWN) == (None, 0.0)
    assert cost(**{"leaf.engine": "openai", "leaf.model": "mine"})[1] is None


def table(tmp_path, monkeypatch, **extra):
    """The plan of a sweep of these runs."""
    monkeypatch.setattr(preflight, "device_here", lambda: CPU)
    file = params_file.validate({"name": "toy", "base": "smoke.yaml", "runs": extra}, grid.SweepFile)
    return plan.plan_table(grid.resolve(file, ROOT / "params"), tmp_path)


def test_the_plan_has_a_row_a_run(tmp_path, monkeypatch):
    found = table(tmp_path, monkeypatch, a={"set": {"training.lr": 0.5}}, b={"kind": "plain"})
    assert found[["run", "kind", "changes", "state"]].values.tolist() == [
        ["a-s42", "train", "training.lr 0.5", "queued"],
        ["b-s42", "plain", "none", "queued"],
    ]


def test_the_plan_can_be_written_where_nothing_is_known(tmp_path, monkeypatch):
    found = table(tmp_path, monkeypatch, a={"set": UNKNOWN})
    assert "not known" in found.to_string(na_rep="not known", float_format="%.2f")


def frame(*rows: tuple):
    """A plan of runs of (state, hours, dollars)."""
    import pandas as pd

    return pd.DataFrame(rows, columns=["state", "hours", "dollars"]).astype({"hours": float, "dollars": float})


def test_the_plan_is_told_in_a_sentence():
    text = plan.told(frame(("queued", 3.0, 1000.0), ("failed", 5.0, 234.5), ("done", 0.0, 0.0)), 2)
    assert text == "3 runs, 2 to do, 2 at a time: about 5.0 hours, about 1,234.50 dollars"


def test_runs_side_by_side_share_the_time():
    assert "about 4.0 hours" in plan.told(frame(*[("queued", 2.0, 0.0)] * 4), 2)


def test_it_takes_at_least_as_long_as_the_longest_run():
    assert "about 2.0 hours" in plan.told(frame(("queued", 2.0, 0.0)), 8)


def test_runs_of_which_nothing_is_known_are_told():
    text = plan.told(frame(("queued", 2.0, None), ("queued", None, None), ("queued", None, 7.0)), 1)
    assert "about 2.0 hours (not known for 2 runs)" in text
    assert "about 7.00 dollars (not known for 2 runs)" in text


def test_where_no_run_is_known_no_number_is_told():
    assert plan.told(frame(("queued", None, 0.0)), 1) == "1 run, 1 to do, 1 at a time: hours not known, about 0.00 dollars"


def test_a_finished_sweep_takes_nothing():
    assert plan.told(frame(("done", 0.0, 0.0)), 2).endswith("0 to do, 2 at a time: about 0.0 hours, about 0.00 dollars")
