"""Tables, chart and notebook of the tasks, for the offline families and for a data set."""

import nbformat
import numpy as np
import pandas as pd
import pytest

from rlmlib import config, task_charts
from rlmlib.drawing.axes import whole_step
from rlmlib.execute import execute
from rlmlib.notebook import ROOT
from rlmlib.scoring.static import is_correct
from rlmlib.tasks import overview
from rlmlib.tasks.study.recipe import Recipe
from rlmlib.tasks.study.store import write_recipes
from rlmlib.tasks.study.tokens import count
from rlmlib.tiny.demonstrations import by_strategy, play

PARAMS = config.load(ROOT / "params/smoke.yaml")
NAMES = str([f"name {n}" for n in range(50)])


def recipe(family: str, task: str, split: str, question: str, answer: str, kind: str, tokens: int, context: str) -> Recipe:
    return Recipe(f"{split}-{question}", family, task, split, question, answer, kind, {}, tokens, context)


RECIPES = [
    recipe("research", "frames", "train", "Who?", "x", "text", 10, "1"),
    recipe("research", "frames", "train", "Where?", "y", "text", 20, "2"),
    recipe("coding", "names", "train", "Which?", "[]", "set", 30, "3"),
    recipe("coding", "names", "eval", "Who?", "[]", "set", 40, "1"),
    recipe("coding", "decorators", "eval", "How <b>many</b>?", NAMES, "set", 50, "4"),
]


@pytest.fixture(scope="module")
def frame():
    return overview.of_offline(PARAMS, 30, seed=3)


def judged(**values):
    return config.validate({"name": "t", "judge": {"engine": "openai", "model": "m@http://localhost:1", **values}})


def test_a_row_an_example_with_its_exact_tokens(frame):
    assert list(frame.columns) == [*overview.COLUMNS, "seconds"] and list(frame["split"]) == ["train"] * 30 + ["heldout"] * 30
    assert (frame["tokens"] > 500).all() and (frame["seconds"] > 0).all()


@pytest.mark.parametrize(
    ("kind", "family", "params", "expected"),
    [
        (None, "coding", PARAMS, "exact match"),
        ("text", "research", PARAMS, "rule of its type"),
        (None, "coding", judged(), "exact match, then the judge"),
        ("text", "research", judged(), "rule of its type, then the judge"),
        ("label", "research", judged(), "rule of its type"),
        ("text", "research", judged(families=["coding"]), "rule of its type"),
        ("number", "aggregation", judged(), "rule of its type"),
    ],
)
def test_who_checks_is_what_the_engine_does(kind, family, params, expected):
    assert overview.checked_by(kind, family, params.judge) == expected


def test_recipes_are_checked_by_the_rule_of_their_type():
    found = overview.checking(overview.of_recipes(RECIPES, PARAMS))
    assert set(found["checked_by"]) == {"rule of its type"} and found["examples"].sum() == 5


def test_lengths_are_those_of_the_frame(frame):
    found = overview.lengths(frame).set_index("family")
    assert found["examples"].drop("all").sum() == found.loc["all", "examples"] == 60
    assert found.loc["all", "longest"] == frame["tokens"].max()
    assert list(overview.lengths(overview.of_recipes(RECIPES, PARAMS)).loc[2, ["examples", "shortest", "median", "longest"]]) == [
        5,
        10,
        30,
        50,
    ]


def test_samples_have_each_task_once_and_short_answers(frame):
    assert len(overview.samples(frame)) == len(frame.groupby(["family", "task"]))
    found = overview.samples(overview.of_recipes(RECIPES, PARAMS))
    assert len(found) == 3 and found["answer"].str.len().max() == overview.ANSWER_CHARS


def test_seconds_are_counted_by_family(frame):
    found = overview.build_seconds(frame)
    assert found["examples"].sum() == 60 and found["longest, seconds"].max() == frame["seconds"].max()


def test_what_splits_share_is_counted():
    rows = overview.splits(overview.of_recipes(RECIPES, PARAMS)).set_index(["split", "family"])
    assert list(rows.index) == [("train", "coding"), ("train", "research"), ("eval", "coding")]
    assert rows.to_numpy().tolist() == [[1, 1, 1, 0, 0], [2, 1, 0, 1, 1], [2, 2, 1, 1, 1]]


def test_offline_splits_share_no_question_and_no_context(frame):
    found = overview.splits(frame)
    assert found["question elsewhere"].sum() == found["context elsewhere"].sum() == 0


# --- the chart


def test_histogram_counts_every_example_once(frame):
    chart = task_charts.context_lengths(frame)
    assert chart.frame["examples"].sum() == len(frame)
    assert set(chart.frame["family"]) == set(frame["family"])
    assert f"{frame['tokens'].max():,}" in chart.title
    for family, part in chart.frame.groupby("family"):
        tokens = frame.loc[frame["family"] == family, "tokens"]
        assert part["examples"].iloc[0] == tokens.between(part["from_tokens"].iloc[0] - 1, part["to_tokens"].iloc[0]).sum()


def test_histograms_are_compared_on_the_same_axes_in_whole_examples():
    tokens = np.geomspace(31_975, 1_900_036, 30).round()
    frame = pd.DataFrame({"family": ["aggregation"] * 24 + ["coding"] * 6, "tokens": np.concatenate([tokens[:24], tokens[24:]])})
    chart = task_charts.context_lengths(frame)
    layout = chart.figure.layout
    assert layout.xaxis.range == layout.xaxis2.range and layout.yaxis.range == layout.yaxis2.range
    assert layout.xaxis.ticktext == ("50k", "100k", "200k", "500k", "1M", "2M") and all(tick in chart.svg for tick in layout.xaxis.ticktext)
    assert layout.yaxis.dtick == whole_step(layout.yaxis.range[1]) == 1
    assert ">0.5<" not in chart.svg and [panel.title for panel in chart.panels] == ["aggregation (n = 24)", "coding (n = 6)"]
    assert f"median {frame.loc[24:, 'tokens'].median():,.0f}" in chart.svg


def test_histogram_of_one_length_does_not_fail():
    frame = pd.DataFrame({"family": ["coding"] * 3, "tokens": [7] * 3})
    chart = task_charts.context_lengths(frame)
    assert chart.frame["examples"].sum() == 3 and chart.title == "All contexts have 7 tokens"


# --- the notebook


def outputs(path) -> str:
    cells = [cell for cell in nbformat.read(path, 4).cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in cells)
    found = [output.get("data", output) for cell in cells for output in cell.outputs]
    return "\n".join(str(data.get("text/html", data.get("text/plain", data.get("text", "")))) for data in found)


def run(tmp_path, **values) -> str:
    execute(ROOT / "notebooks/20_tasks.ipynb", tmp_path / "executed.ipynb", {"out": str(tmp_path / "out"), **values})
    assert {path.suffix for path in (tmp_path / "out/figures").iterdir()} == {".json", ".png", ".svg", ".csv"}
    return outputs(tmp_path / "executed.ipynb")


def test_the_notebook_runs_offline(tmp_path):
    shown = run(tmp_path, number=6, played=16)
    assert all(word in shown for word in ("heldout", "exact match", "median seconds", "first_chunk"))


def test_the_notebook_shows_a_data_set_and_nothing_that_it_does_not_know(tmp_path):
    write_recipes(tmp_path / "data", RECIPES)
    shown = run(tmp_path, dataset=str(tmp_path / "data"))
    assert all(word in shown for word in ("How &lt;b&gt;many", "rule of its type", "Not played"))
    assert not any(word in shown for word in ("nan", "NaN", "median seconds", "first_chunk", "heldout"))


def test_strategies_are_what_their_rollouts_were():
    played = play(config.load(ROOT / "params/smoke.yaml"), 24, seed=2)
    found = by_strategy(played)
    assert found["rollouts"].sum() == 24
    name = found.index[0]
    right = [is_correct(d.rollout.answer, [d.gold]) for d in played if d.strategy == name]
    assert found.loc[name, "right"] == pytest.approx(sum(right) / len(right), abs=0.005)


def test_count_is_the_tokenizers():
    assert count("hello world") == 2
