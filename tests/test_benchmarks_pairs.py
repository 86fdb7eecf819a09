"""OOLONG-Pairs: the twenty queries by hand and by brute force, official answers, and the real window."""

import hashlib
import json
import re
from datetime import date
from itertools import combinations

import ijson
import pytest
from test_benchmarks import DATA, refusal, with_data, write
from test_benchmarks_oolong import DAY, WINDOW, real_lines, synth_rows, text_of

from rlmlib.errors import ConfigError, DataError
from rlmlib.scoring.native import read_pairs
from rlmlib.tasks.benchmarks import pair_tasks, samples, window
from rlmlib.tasks.benchmarks.base import score
from rlmlib.tasks.benchmarks.load import load
from rlmlib.tasks.benchmarks.pair_tasks import DESCRIPTION, HUMAN, LOCATION, NUMBER
from rlmlib.tasks.benchmarks.window import Line


@pytest.fixture
def synth(tmp_path):
    return write(tmp_path / "validation.jsonl", synth_rows())


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        (1, {(1, 2)}),  # a number or a place
        (2, {(1, 3), (1, 4), (3, 4)}),  # an entity or a person
        (3, {(4, 5)}),  # a description or an abbreviation
        (4, {(1, 2)}),  # 3 asks about a person on the very day, which is not after it
        (5, set()),  # entities of 3 and 4 are late; 1 has none, but is alone
        (6, {(2, 4)}),
        (7, set()),  # the number of 1 is early
        (8, {(1, 3), (1, 5), (3, 5)}),
        (9, {(3, 4)}),  # a place of 2 is early
        (10, {(1, 4)}),
        (11, set()),  # exactly one entity: 4 alone, and a user is no pair with itself
        (12, set()),
        (13, {(4, 5)}),
        (14, {(1, 2)}),
        (16, set()),
        (18, set()),
    ],
)
def test_pairs_of_a_small_window(task, expected):
    assert pair_tasks.pairs(task, WINDOW) == sorted((10_000 + a, 10_000 + b) for a, b in expected)


def test_a_repeated_line_counts_again_and_pairs_are_unordered():
    lines = [Line(DAY["late"], 20, "n", NUMBER)] * 2 + [Line(DAY["late"], 10, "p", LOCATION), Line(DAY["late"], 10, "q", HUMAN)]
    assert pair_tasks.pairs(12, lines) == [(10, 20)]
    assert pair_tasks.pairs(12, lines[1:]) == []


def test_the_twenty_tasks_are_asked_in_words_that_name_their_labels():
    assert sorted(pair_tasks.TASKS) == list(range(1, 21))
    texts = [pair_tasks.question(task) for task in pair_tasks.TASKS]
    assert len(set(texts)) == 20
    for text, needs in zip(texts, pair_tasks.TASKS.values(), strict=True):
        named = {label for need in needs for label in (*need.any_of, *(a.label for a in need.amounts), *(d.label for d in need.days))}
        assert set(re.findall(r"'([a-z ]+)'", text)) == named
    assert "exactly two lines labelled 'location'" in texts[13] and "dated before March 15, 2023" in texts[4]


def test_records_with_other_labels_are_refused():
    with pytest.raises(DataError, match="have the label 'LOC'; oolong_pairs asks about abbreviation"):
        list(load("oolong_pairs", None, lengths=[1024], records=[("Where is it?", "LOC"), ("Who is it?", "human being")]))


def test_pairs_over_a_window_of_our_own_are_right_by_brute_force():
    known = dict(samples.questions())
    found = list(load("oolong_pairs", None, seed=5, lengths=[8192]))
    lines = [Line(line.day, line.user, line.text, known[line.text]) for line in window.parse(found[0].context, "x")]
    own = {user: [line for line in lines if line.user == user] for user in {line.user for line in lines}}

    def has(user, label):
        return sum(line.label == label for line in own[user])

    both = {(a, b) for a, b in combinations(sorted(own), 2) if all(has(u, NUMBER) + has(u, LOCATION) for u in (a, b))}
    assert [item.metadata["task"] for item in found] == list(range(1, 21))
    assert read_pairs(found[0].golds[0]) == both
    late = {u for u in own if all(line.day > date(2023, 2, 1) for line in own[u] if line.label == NUMBER)}
    seventh = {(a, b) for a, b in combinations(sorted(own), 2) if all(u in late and has(u, DESCRIPTION) + has(u, NUMBER) for u in (a, b))}
    assert read_pairs(found[6].golds[0]) == seventh
    first, second = {u for u in own if has(u, HUMAN) and has(u, NUMBER)}, {u for u in own if has(u, LOCATION) == 2}
    mixed = {(min(a, b), max(a, b)) for a in first for b in second if a != b}
    assert read_pairs(found[13].golds[0]) == mixed and mixed
    assert all(score(item, item.golds[0]) == 1 for item in found if read_pairs(item.golds[0]))


def test_pairs_over_the_first_window_of_a_length_need_no_answers(synth):
    found = list(load("oolong_pairs", synth, lengths=[2048]))
    assert found[0].context == text_of(WINDOW[2:]) and "Label:" not in found[0].context
    assert [read_pairs(item.golds[0]) for item in found] == [set(pair_tasks.pairs(task, WINDOW[2:])) for task in range(1, 21)]


def official(folder, length=2048, **changed):
    """A file in the layout of mit-oasys/oolong-pairs."""
    row = {"answer": ["(10003, 10004)", "(10002,10005)"], "type": "list_of_answers"}
    table = [{"id": str(task), "question": f"Official {task}?", **row, **changed} for task in range(1, 21)]
    write(folder / f"oolong-pairs-{length}.json", table)
    return folder


def test_official_answers_are_streamed_with_their_wording(synth, tmp_path):
    found = list(load("oolong_pairs", synth, 4, lengths=[2048], answers=official(tmp_path / "answers")))
    tasks = [item.metadata["task"] for item in found]
    assert len(tasks) == 4 and tasks == sorted(tasks)
    assert found[0].question == f"Official {tasks[0]}?" and found[0].context == text_of(WINDOW[2:])
    assert read_pairs(found[0].golds[0]) == {(10003, 10004), (10002, 10005)}
    assert score(found[0], "(10004, 10003)") == pytest.approx(2 / 3)


def test_official_answers_are_never_parsed_as_a_whole(synth, tmp_path, monkeypatch):
    monkeypatch.setattr(json, "load", None)
    monkeypatch.setattr(ijson, "items", None)
    assert len(list(load("oolong_pairs", synth, lengths=[2048], answers=official(tmp_path / "answers")))) == 20


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"answer": ["(1, 2)", "1 and 2"]}, "query 1, column 'answer' holds '1 and 2'"),
        ({"answer": [[1, 2]]}, "query 1, column 'answer' holds"),
        ({"answer": "(1, 2)"}, "query 1 has no list in column 'answer'"),
        ({"question": None}, "query 1 has no text in column 'question'"),
        ({"id": "one"}, "query 1, column 'id' is 'one'"),
        ({"id": "21"}, "has no query with the id 1, 2, 3"),
    ],
)
def test_bad_official_answers_are_named(synth, tmp_path, changed, says):
    message = refusal("oolong_pairs", synth, lengths=[2048], answers=official(tmp_path / "answers", **changed))
    assert "oolong-pairs-2048.json" in message and says in message


def test_an_empty_gold_list_is_read(synth, tmp_path):
    item = next(load("oolong_pairs", synth, lengths=[2048], answers=official(tmp_path / "answers", answer=[])))
    assert item.golds == ("[]",) and score(item, "There are none.") == 1 and score(item, "(1, 2)") == 0


def test_sources_of_pairs_that_do_not_fit_are_named(synth, tmp_path):
    assert "oolong-pairs-2048.json: is not there" in refusal("oolong_pairs", synth, lengths=[2048], answers=tmp_path)
    assert "belong to a window" in refusal("oolong_pairs", answers=tmp_path, error=ConfigError)
    (tmp_path / "oolong-pairs-2048.json").write_text('[{"id": "1", "ans')
    assert "is no JSON list of queries" in refusal("oolong_pairs", synth, lengths=[2048], answers=tmp_path)
    bare = [{key: value for key, value in row.items() if key != "context_window_text_with_labels"} for row in synth_rows()]
    path = write(tmp_path / "bare.jsonl", bare)
    assert "no column 'context_window_text_with_labels'" in refusal("oolong_pairs", path, lengths=[2048])


@pytest.fixture(scope="module")
def real_window():
    return real_lines()


@with_data
@pytest.mark.parametrize("task", range(1, 21))
def test_pairs_of_the_real_window_are_the_expected_ones(task, real_window):
    expected = json.loads((DATA / "oolong_pairs/expected_16k.json").read_text())[str(task)]
    found = pair_tasks.pairs(task, real_window)
    assert len(found) == expected["n_pairs"] and [list(pair) for pair in found[:3]] == expected["first3"]
    written = "\n".join(f"({a}, {b})" for a, b in found)
    assert hashlib.sha256(written.encode()).hexdigest() == expected["sha256"]
