"""Tables and the chart of notebook 20."""

import pandas as pd
import pytest

from rlmlib import config, task_charts
from rlmlib.notebook import ROOT
from rlmlib.scoring.static import is_correct
from rlmlib.tasks import overview
from rlmlib.tasks.study.recipe import Recipe
from rlmlib.tasks.study.tokens import count
from rlmlib.tiny.demonstrations import by_strategy, play


@pytest.fixture(scope="module")
def frame():
    tasks = config.load(ROOT / "params/smoke.yaml").tasks
    return overview.of_offline(tasks, "train", 30, seed=3)


def test_a_row_an_example_with_its_exact_tokens(frame):
    assert list(frame.columns) == overview.COLUMNS and len(frame) == 30
    assert (frame["tokens"] > 500).all() and (frame["seconds"] > 0).all()


def test_recipes_say_who_checks_them():
    recipes = [
        Recipe("a", "research", "frames", "train", "q", "x", "text", {}, 10, "h", metadata={"judge": True}),
        Recipe("b", "coding", "T01", "eval", "q", "3", "number", {}, 30, "h", metadata={"judge": False}),
    ]
    found = overview.of_recipes(recipes)
    assert list(found["checked_by"]) == ["static, then the judge", "static only"]
    assert list(overview.lengths(found).loc["all", ["count", "min", "max"]]) == [2, 10, 30]


def test_lengths_are_those_of_the_frame(frame):
    found = overview.lengths(frame)
    assert found["count"].drop("all").sum() == found.loc["all", "count"] == 30
    assert found.loc["all", "max"] == frame["tokens"].max()


def test_samples_have_each_task_once(frame):
    found = overview.samples(frame)
    assert len(found) == len(frame.groupby(["family", "task"]))


def test_histogram_counts_every_example_once(frame):
    chart = task_charts.context_lengths(frame)
    assert chart.frame["examples"].sum() == len(frame)
    assert set(chart.frame["family"]) == set(frame["family"])
    assert f"{frame['tokens'].max():,}" in chart.title


def test_histogram_of_one_length_does_not_fail():
    frame = pd.DataFrame({"family": ["coding"] * 3, "tokens": [7] * 3})
    assert task_charts.context_lengths(frame).frame["examples"].sum() == 3


def test_strategies_are_what_their_rollouts_were():
    played = play(config.load(ROOT / "params/smoke.yaml"), 24, seed=2)
    found = by_strategy(played)
    assert found["rollouts"].sum() == 24
    name = found.index[0]
    right = [is_correct(d.rollout.answer, [d.gold]) for d in played if d.strategy == name]
    assert found.loc[name, "right"] == pytest.approx(sum(right) / len(right), abs=0.005)


def test_count_is_the_tokenizers():
    assert count("hello world") == 2
