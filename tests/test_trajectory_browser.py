"""Browsing a run's rollouts: files, filters, pairs, the list and the trajectories beside it."""

import itertools
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlmlib.engine import Attempt, row
from rlmlib.errors import RunError
from rlmlib.harness.trajectory import Call, Rollout, Tokens, Turn
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
from rlmlib.runs import RunDir, rewrite_jsonl
from rlmlib.tasks.base import Example
from rlmlib.trajectory_browser import PAGE, TrajectoryBrowser, browse, columns, listing, trajectory

calmly = settings(deadline=None, max_examples=50)
HOSTILE = "<script>alert(1)</script>\u202e\n</pre>"


def attempt(number=0, index=0, correct=True, leaf_tokens=100, levels=0, **options) -> dict:
    """A row as the engine writes it. levels: of children. options: of Rollout, and family, question, answer, context."""
    told = {"family": "research", "question": f"question {number}", "answer": f"answer {number}", "context": "a context", **options}
    example = Example(f"heldout-{number:05d}", told["family"], f"task {number % 2}", "heldout", told["question"], told["context"], "gold")
    calls = [Call("leaf", "m", "prompt", "reply", Tokens(leaf_tokens), attempts=1)] if leaf_tokens else []
    for _ in range(levels):
        calls = [Call("child", "m", "prompt", "reply", attempts=1, child=Rollout("x", "final", turns=[Turn("child", "r", calls=calls)]))]
    turns = [Turn("root", f"reply {number}", ["print(1)"], ["1"], "policy", Tokens(10, 2), calls)]
    rest = {key: value for key, value in told.items() if key in ("forced", "error")}
    return row(Attempt(example, index, Rollout(told["answer"], "final", turns=turns, **rest), correct))


ROWS = [
    attempt(0),
    attempt(1, correct=False, leaf_tokens=0),
    attempt(2, correct=False, answer=None, family="coding"),
    attempt(3, forced=True, leaf_tokens=300),
    attempt(4, correct=False, forced=True, levels=1),
    attempt(5, correct=False, error="the leaf is down", levels=2),
]


@pytest.fixture
def run(tmp_path) -> RunDir:
    run = RunDir(tmp_path / "run")
    rewrite_jsonl(run / "rollouts/step_2.jsonl", ROWS[:2])
    rewrite_jsonl(run / "rollouts/step_10.jsonl", ROWS)
    rewrite_jsonl(run / "eval/base/rollouts.jsonl", ROWS)
    rewrite_jsonl(run / "eval/trained/rollouts.jsonl", [attempt(n, leaf_tokens=7) for n in (4, 1, 9)])
    return run


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


# --- what is shown -----------------------------------------------------------------------------


def test_a_line_of_the_list_is_one_line_without_hostile_characters():
    line = columns([attempt(answer=HOSTILE, question=HOSTILE)])[1]
    assert not set("\n\u202e") & set(line)


def test_texts_begin_and_numbers_end_under_their_heading():
    head, *found = columns([attempt(3, leaf_tokens=1234), attempt(4, forced=True)], first=199)
    assert {line.index("gold") for line in found} == {head.index("gold")}
    assert {line.index("question") for line in found} == {head.index("question")}
    assert found[0].index("1,234") + len("1,234") == head.index("leaf\u00a0tokens") + len("leaf tokens")
    assert [line[:3] for line in found] == ["199", "200"]


def test_a_list_without_rollouts_has_no_lines():
    assert columns([]) == [""]


def test_the_listing_is_an_escaped_table():
    page = listing([attempt(question=HOSTILE)])._repr_html_()
    assert "&lt;script&gt;" in page and "<script" not in page


def test_a_listing_has_pages():
    found = [attempt(n) for n in range(PAGE + 3)]
    counts = [listing(found, page)._repr_html_().count("<tr>") - 1 for page in (0, 1, 2)]
    assert counts == [PAGE, 3, 0]


def test_a_trajectory_has_its_context_where_the_run_kept_it(run):
    name = run.store_context("what was read")
    assert context(run, {"context": name}) == "what was read"
    assert "what was read" in trajectory(run, {**ROWS[0], "context": name})._repr_html_()
    assert "what was read" not in trajectory(run, ROWS[0])._repr_html_()


@pytest.mark.parametrize("name", [None, "", "../params", "0123456789abcdef"])
def test_no_other_file_is_read_as_a_context(run, name):
    (run / "params.txt").write_text("secret")
    assert context(run, {"context": name}) is None


# --- widgets -----------------------------------------------------------------------------------


@pytest.fixture
def browser(run) -> TrajectoryBrowser:
    return TrajectoryBrowser(run)


def lines(browser) -> list[str]:
    return [label.replace("\u00a0", " ") for label, _ in browser.list.options]


def titles(browser) -> list[str]:
    """The headings of the trajectories that are seen."""
    return [re.search(r"&lt;h1&gt;(.*?)&lt;/h1&gt;", pane.value)[1] for pane in browser.panes if pane.value]


def test_the_first_file_and_its_first_rollout_are_shown(browser):
    assert browser.file.value == "eval/base/rollouts.jsonl" and len(lines(browser)) == len(ROWS)
    assert titles(browser) == ["1. right; gold gold; eval/base/rollouts.jsonl"]


def test_choosing_a_line_shows_its_trajectory(browser):
    browser.list.index = 3
    assert titles(browser)[0].startswith("4. right, forced")
    assert "reply 3" in browser.panes[0].value


def test_a_filter_shortens_the_list_and_shows_its_first(browser):
    browser.outcome.value = "missing"
    assert len(lines(browser)) == 1 and titles(browser)[0].startswith("1. missing")
    assert "1 to 1 of 1 that match, 6 in all" in browser.count.value


def test_filters_offer_what_the_file_holds(browser):
    assert [value for _, value in browser.filters["family"].options] == [None, "coding", "research"]
    assert [value for _, value in browser.filters["depth"].options] == [None, 0, 1, 2]


def test_nothing_that_matches_shows_nothing(browser):
    browser.text.value = "no such text"
    assert lines(browser) == [] and titles(browser) == [] and "no rollouts that match" in browser.count.value


def test_sorting_brings_the_dearest_to_the_top(browser):
    browser.down.value = True
    browser.order.value = "leaf tokens"
    assert "300" in lines(browser)[0]


def test_another_file_is_read_when_it_is_chosen(browser):
    browser.file.value = "rollouts/step_2.jsonl"
    assert len(browser.rows) == 2


def test_two_evaluations_stand_side_by_side_on_the_same_question(browser, run):
    browser.beside.value = (run, "eval/trained/rollouts.jsonl")
    assert len(lines(browser)) == 2
    assert "0 → 7" in lines(browser)[0] and "wrong → right" in lines(browser)[0]
    assert [title.split("; ")[-1] for title in titles(browser)] == ["eval/base/rollouts.jsonl", "eval/trained/rollouts.jsonl"]
    browser.beside.value = None
    assert len(titles(browser)) == 1 and browser.after.disabled


def test_a_second_run_can_be_put_beside(run, tmp_path):
    other = RunDir(tmp_path / "other")
    rewrite_jsonl(other / "rollouts/step_2.jsonl", [attempt(0, correct=False)])
    browser = TrajectoryBrowser(run, other)
    browser.beside.value = (other, "rollouts/step_2.jsonl")
    assert len(lines(browser)) == 1
    assert str(other.path) in titles(browser)[1]


def test_files_without_a_common_question_say_so(run, tmp_path):
    rewrite_jsonl(run / "eval/else/rollouts.jsonl", [attempt(99)])
    browser = TrajectoryBrowser(run)
    browser.beside.value = (run, "eval/else/rollouts.jsonl")
    assert "no question in common" in browser.note.value and lines(browser) == []


def test_a_list_has_pages(run):
    rewrite_jsonl(run / "eval/base/rollouts.jsonl", [attempt(n) for n in range(PAGE + 3)])
    browser = TrajectoryBrowser(run)
    assert (len(lines(browser)), browser.back.disabled, browser.forth.disabled) == (PAGE, True, False)
    browser.forth.click()
    assert len(lines(browser)) == 3 and titles(browser)[0].startswith(f"{PAGE + 1}. ")
    assert (browser.back.disabled, browser.forth.disabled) == (False, True)


def test_an_empty_run_says_what_to_do_and_sees_files_that_come_later(tmp_path):
    run = RunDir(tmp_path)
    browser = TrajectoryBrowser(run)
    assert "train or evaluate first" in browser.note.value
    rewrite_jsonl(run / "rollouts/step_0.jsonl", ROWS)
    browser.again.click()
    assert len(lines(browser)) == len(ROWS) and browser.note.value == ""


def test_reading_again_stays_at_the_file(browser, run):
    browser.file.value = "rollouts/step_10.jsonl"
    rewrite_jsonl(run / "eval/a/rollouts.jsonl", ROWS)
    browser.again.click()
    assert browser.file.value == "rollouts/step_10.jsonl" and "eval/a/rollouts.jsonl" in dict(browser.file.options)


def test_a_damaged_file_is_told_and_another_can_be_chosen(browser, run):
    (run / "rollouts/step_2.jsonl").write_text("{\n{}\n")
    browser.file.value = "rollouts/step_2.jsonl"
    assert "is damaged" in browser.note.value and lines(browser) == []
    browser.file.value = "rollouts/step_10.jsonl"
    assert browser.note.value == "" and len(lines(browser)) == len(ROWS)


def test_model_text_reaches_no_markup(run):
    rewrite_jsonl(run / "eval/base/rollouts.jsonl", [attempt(answer=HOSTILE, question=HOSTILE, correct=False)])
    browser = TrajectoryBrowser(run)
    for widget in (browser.note, browser.head, browser.count, *browser.panes):
        assert "<script" not in widget.value


def test_browse_gives_one_widget(run):
    assert browse(run).children
