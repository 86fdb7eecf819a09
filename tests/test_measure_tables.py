"""The tables of an evaluation: every number in its own form, and a difference only where there is something to compare."""

from rlmlib import config, measure_tables
from rlmlib.measures import summarise
from rlmlib.runs import RunDir, rewrite_jsonl

PARAMS = config.validate({"name": "test", "evaluation": {"bootstrap": 200}})


def rollouts(right: int, leaf_tokens: int) -> list[dict]:
    """Six questions of two tasks, two rollouts each; the first `right` questions are answered right."""
    row = {"split": "heldout", "error": None, "total_tokens": 100, "leaf_calls": 1, "children": 0, "missing": False, "forced": False}
    return [
        {
            **row,
            "example": f"q{number}",
            "index": index,
            "family": "research",
            "task": f"task{number % 2}",
            "correct": number < right,
            "leaf_tokens": leaf_tokens * (1 + index),
            "turns": [{}],
        }
        for number in range(6)
        for index in range(2)
    ]


def test_shares_tokens_and_numbers_have_their_own_forms():
    table = measure_tables.with_intervals(summarise(rollouts(3, 1000), PARAMS)).set_index("measure")["heldout"]
    assert table["pass_at_1"].startswith("50.0 % [")
    assert table["leaf_tokens_mean"].startswith("1\u202f500 [")
    assert table["leaf_calls"].startswith("1.00 [")
    assert table["n_examples"] == 6


def test_tasks_are_rows_with_their_own_questions():
    table = measure_tables.by_part(summarise(rollouts(1, 10), PARAMS)["heldout"], "tasks").set_index("tasks")
    assert list(table["questions"]) == [3, 3]
    assert (table.loc["task0", "pass_at_1"], table.loc["task1", "pass_at_1"]) == (1 / 3, 0.0)


def test_greedy_stands_beside_sampled_where_it_was_run():
    summary = summarise(rollouts(3, 10), PARAMS)
    assert list(measure_tables.greedy_beside_sampled(summary)) == ["note"]
    summary["greedy"] = summarise(rollouts(6, 10), PARAMS)
    [row] = measure_tables.greedy_beside_sampled(summary).to_dict("records")
    assert (row["sampled, pass@1"], row["greedy, pass@1"]) == (0.5, 1.0)


def test_differences_are_to_the_base_of_the_same_run(tmp_path):
    run = RunDir(tmp_path)
    rewrite_jsonl(run / "eval/trained/rollouts.jsonl", rollouts(6, 10))
    assert list(measure_tables.less_base(run, "trained", PARAMS)) == ["note"]
    rewrite_jsonl(run / "eval/base/rollouts.jsonl", rollouts(0, 20))
    table = measure_tables.less_base(run, "trained", PARAMS).set_index("measure")["less base"]
    assert table["correct"] == "+100.0 points [+100.0, +100.0]"
    assert table["leaf_tokens_mean"].startswith("\u221215 [")
    assert list(measure_tables.less_base(run, "base", PARAMS)) == ["note"]
