"""Files of rollouts: which there are, what one asks of them, and pairs of two."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rollout_support import ROWS, attempt, run_with_rollouts

from rlmlib.errors import RunError
from rlmlib.rollout_files import (
    ORDERS,
    OUTCOMES,
    Choice,
    chosen,
    chosen_pairs,
    context,
    depth,
    files,
    frame,
    load,
    marks,
    matches,
    pairs,
)
from rlmlib.runs import RunDir

calmly = settings(deadline=None, max_examples=50)


@pytest.fixture
def run(tmp_path) -> RunDir:
    return run_with_rollouts(tmp_path / "run")


def numbers(found) -> list[int]:
    return [ROWS.index(item) for item in found]


# --- files -------------------------------------------------------------------------------------


def test_files_are_evaluations_then_steps_in_their_order(run):
    steps = ["rollouts/step_2.jsonl", "rollouts/step_10.jsonl"]
    assert files(run) == ["eval/base/rollouts.jsonl", "eval/trained/rollouts.jsonl", *steps]


def test_a_directory_without_rollouts_has_no_files(tmp_path):
    assert files(RunDir(tmp_path / "nothing")) == []


def test_a_file_is_read_as_it_was_written(run):
    assert load(run, "rollouts/step_10.jsonl") == ROWS


def test_a_file_that_is_not_there_names_those_that_are(run):
    with pytest.raises(RunError, match="no such file of rollouts; there are eval/base"):
        load(run, "rollouts/step_7.jsonl")


# --- choosing ----------------------------------------------------------------------------------


def test_marks_tell_what_came_of_a_rollout():
    assert [marks(r) for r in ROWS] == [["right"], ["wrong"], ["missing"], ["right", "forced"], ["wrong", "forced"], ["error"]]


def test_depth_counts_levels_of_children():
    assert [depth(r) for r in ROWS] == [0, 0, 0, 0, 1, 2]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (Choice(), [0, 1, 2, 3, 4, 5]),
        (Choice(outcome="right"), [0, 3]),
        (Choice(outcome="wrong"), [1, 4]),
        (Choice(outcome="missing"), [2]),
        (Choice(outcome="forced"), [3, 4]),
        (Choice(outcome="error"), [5]),
        (Choice(family="coding"), [2]),
        (Choice(task="task 1"), [1, 3, 5]),
        (Choice(split="seen"), []),
        (Choice(depth=0), [0, 1, 2, 3]),
        (Choice(depth=2), [5]),
        (Choice(leaf=False), [1]),
        (Choice(leaf=True, outcome="wrong"), [4]),
        (Choice(text="QUESTION 3"), [3]),
        (Choice(text="answer 4"), [4]),
        (Choice(text="gold"), [0, 1, 2, 3, 4, 5]),
    ],
)
def test_a_choice_takes_what_it_says(choice, expected):
    assert numbers(chosen(ROWS, choice)) == expected


choices = st.builds(
    Choice,
    outcome=st.sampled_from(["", *OUTCOMES]),
    family=st.sampled_from(["", "research", "coding"]),
    depth=st.sampled_from([None, 0, 1]),
    leaf=st.sampled_from([None, True, False]),
)
orders = st.sampled_from(list(ORDERS))


@calmly
@given(choices, orders, st.booleans())
def test_what_is_chosen_is_all_that_matches_whatever_the_order(choice, order, down):
    assert sorted(numbers(chosen(ROWS, choice, order, down))) == [n for n, r in enumerate(ROWS) if matches(r, choice)]


@calmly
@given(choices, st.sampled_from(["family", "depth", "leaf", "outcome"]))
def test_a_choice_with_less_in_it_takes_no_less(choice, name):
    wider = replace(choice, **{name: getattr(Choice(), name)})
    assert set(numbers(chosen(ROWS, choice))) <= set(numbers(chosen(ROWS, wider)))


@calmly
@given(orders, st.booleans())
def test_an_order_sorts_by_its_key(order, down):
    keys = [ORDERS[order](r) for r in chosen(ROWS, Choice(), order, down)]
    assert all(a >= b if down else a <= b for a, b in itertools.pairwise(keys))


# --- pairs -------------------------------------------------------------------------------------

rows = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1)), max_size=8).map(lambda found: [attempt(n, i) for n, i in found])


@calmly
@given(rows, rows)
def test_pairs_are_the_common_attempts_once_each(before, after):
    def keys(found):
        return [(r["example"], r["index"]) for r in found]

    found = pairs(before, after)
    assert keys(a for a, _ in found) == keys(b for _, b in found)
    assert len(found) == len(set(keys(before)) & set(keys(after)))


def test_another_question_under_the_same_id_is_no_pair():
    assert pairs([attempt(1)], [attempt(1, question="another")]) == []


def test_pairs_are_chosen_by_both_outcomes():
    found = pairs([attempt(0), attempt(1, correct=False), attempt(2, correct=False)], [attempt(n, correct=n < 2) for n in range(3)])
    gained = chosen_pairs(found, Choice(outcome="wrong"), after="right")
    assert [before["example"] for before, _ in gained] == ["heldout-00001"]


def test_a_table_of_pairs_shows_what_changed():
    table = frame(pairs([attempt(1, correct=False, leaf_tokens=900)], [attempt(1, leaf_tokens=20)]))
    assert table.loc[0, ["outcome", "leaf tokens", "turns"]].tolist() == ["wrong → right", "900 → 20", "1 → 1"]


# --- contexts ---


def test_a_context_is_found_by_its_name(run):
    assert context(run, {"context": run.store_context("what was read")}) == "what was read"


@pytest.mark.parametrize("name", [None, "", "../params", "0123456789abcdef"])
def test_no_other_file_is_read_as_a_context(run, name):
    (run / "params.txt").write_text("secret")
    assert context(run, {"context": name}) is None
