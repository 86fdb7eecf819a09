"""Browsing a run's rollouts: the list, the trajectories beside it, and what the controls do."""

import re

import pytest
from rollout_support import HOSTILE, ROWS, attempt, run_with_rollouts

from rlmlib.runs import RunDir, rewrite_jsonl
from rlmlib.trajectory_browser import PAGE, TrajectoryBrowser, browse, columns, listing, trajectory


@pytest.fixture
def run(tmp_path) -> RunDir:
    return run_with_rollouts(tmp_path / "run")


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
    assert "what was read" in trajectory(run, {**ROWS[0], "context": name})._repr_html_()
    assert "what was read" not in trajectory(run, ROWS[0])._repr_html_()


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
