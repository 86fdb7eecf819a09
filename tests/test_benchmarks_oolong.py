"""OOLONG: the layout of its authors, windows of our own, and golds worked out a second way."""

import json
import random
import re
from collections import Counter
from datetime import date, datetime

import pytest
from test_benchmarks import DATA, refusal, with_data, write

from rlmlib.errors import DataError
from rlmlib.tasks.benchmarks import questions, samples, window
from rlmlib.tasks.benchmarks.base import score
from rlmlib.tasks.benchmarks.load import load
from rlmlib.tasks.benchmarks.oolong import gold_list
from rlmlib.tasks.benchmarks.pair_tasks import ABBREVIATION, DESCRIPTION, ENTITY, HUMAN, LOCATION, NUMBER
from rlmlib.tasks.benchmarks.window import Line
from rlmlib.tasks.study import tokens

# --- a small window, labels known

DAY = {"early": date(2022, 5, 1), "late": date(2024, 5, 1), "the sixth": date(2023, 1, 6)}
WINDOW = [
    Line(DAY["late"], 10001, "Who || built the mill ?", HUMAN),
    Line(DAY["early"], 10001, "How many locks are there ?", NUMBER),
    Line(DAY["late"], 10002, "Where is the mill ?", LOCATION),
    Line(DAY["early"], 10002, "Where is the lock ?", LOCATION),
    Line(DAY["the sixth"], 10003, "Who broke the lock ?", HUMAN),
    Line(DAY["late"], 10003, "What wood is it ?", ENTITY),
    Line(DAY["late"], 10003, "What wood is it ?", ENTITY),
    Line(DAY["early"], 10004, "What does OK stand for ?", ABBREVIATION),
    Line(DAY["late"], 10004, "What wood is that ?", ENTITY),
    Line(DAY["late"], 10005, "Why does it turn ?", DESCRIPTION),
]


def text_of(lines, labelled=False) -> str:
    body = "\n".join(f"{line} || Label: {line.label}" if labelled else str(line) for line in lines)
    return f"The following lines contain questions.\n\n{body}\nRecall: the preceding lines contain questions.\n"


def test_a_line_is_written_and_read_as_the_authors_do():
    assert str(WINDOW[4]) == "Date: Jan 06, 2023 || User: 10003 || Instance: Who broke the lock ?"
    assert window.parse(text_of(WINDOW, labelled=True), "x", labelled=True) == WINDOW
    bare = window.parse(text_of(WINDOW), "x")
    assert [(line.day, line.user, line.text, line.label) for line in bare] == [(w.day, w.user, w.text, None) for w in WINDOW]


@pytest.mark.parametrize(
    ("text", "labelled", "says"),
    [
        ("nothing here", False, "file: has no line 'Date:"),
        ("Date: 2024-01-06 || User: 10003 || Instance: x", False, "'2024-01-06' is no date"),
        ("Date: Jan 06, 2024 || User: 10003 || Instance: x", True, "the line of user 10003 on Jan 06, 2024 has no label"),
    ],
)
def test_a_bad_window_is_named(text, labelled, says):
    with pytest.raises(DataError, match=re.escape(says)):
        window.parse(text, "file", labelled)


# --- windows of our own


@pytest.mark.parametrize("length", [1024, 8192, 65536])
def test_a_window_has_the_length_and_the_labels(length):
    context, lines = window.make(samples.topics(), length, random.Random("w"))
    assert length - 80 < tokens.count(context) <= length
    assert [(line.day, line.user, line.text) for line in lines] == [(w.day, w.user, w.text) for w in window.parse(context, "x")]
    known = dict(samples.topics())
    assert all(known[line.text] == line.label for line in lines)
    assert "Label:" not in context
    users = Counter(line.user for line in lines)
    assert 0.1 * len(lines) < sum(count == 1 for count in users.values()) < 0.4 * len(lines)
    assert max(users.values()) < 30 and all(10_000 <= user <= 99_999 for user in users)


def test_records_repeat_only_when_all_of_a_label_are_used():
    records = [(f"a{n}", "a") for n in range(40)] + [(f"b{n}", "b") for n in range(3)]
    _, lines = window.make(records, 4096, random.Random("w"))
    uses = Counter(line.text for line in lines)
    for label in "ab":
        counts = [uses[text] for text, own in records if own == label]
        assert max(counts) - min(counts) <= 1
    assert max(uses.values()) > 1


def test_records_are_cleaned():
    texts = window.by_label([("two  lines\nhere", "a"), ("odd", "a"), ("odd", "b"), ("odd", "a"), ("odd", "a"), ("fine", "b"), (" ", "b")])
    assert texts == {"a": ["two lines here"], "b": ["fine"]}
    with pytest.raises(DataError, match="1 labels"):
        window.by_label([("x", "a"), ("y", "a")])
    assert "use 1024 or more" in refusal("oolong", lengths=[300])


def second_reading(task: str, question: str, lines: list[Line]) -> str:
    """The answer to a question of our own by a plain reading of its words."""
    labels = sorted({line.label for line in lines} | set(re.findall(r"'([a-z ]+)'", question)) & {own for _, own in samples.topics()})
    asked = [label for label in re.findall(r"'([a-z]+)'", question) if label in labels]
    chosen = lines
    if found := re.search(r"lines of user (\d+)", question):
        chosen = [line for line in lines if line.user == int(found[1])]
    if found := re.search(r"lines of ([A-Z][a-z]+),", question):
        chosen = [line for line in lines if line.day.strftime("%B") == found[1]]
    if task == "RELATIVE_FREQ":
        first, second = (sum(line.label == label for line in chosen) for label in asked[:2])
        return {True: "more common than", False: "less common than"}[first > second] if first != second else "same frequency as"
    if task == "NUMERIC_ONE_CLASS":
        return str(sum(line.label == asked[0] for line in chosen))
    if "date" in question:
        values = [line.day.isoformat() for line in chosen]
    elif "user" in question:
        values = [str(line.user) for line in chosen if not asked or line.label == asked[0]]
    else:
        values = [line.label for line in chosen] + sorted({own for _, own in samples.topics()})  # one each more: absent ones count too
    counts = Counter(values)
    best = min(counts.values()) if "fewest" in question else max(counts.values())
    winners = [value for value, count in counts.items() if count == best]
    assert len(winners) == 1, "a tied answer was asked for"
    return winners[0]


def test_questions_have_the_answer_that_a_second_reading_finds():
    known, tasks = dict(samples.topics()), Counter()
    for item in load("oolong", None, 30, seed=2, lengths=[1024, 4096]):
        lines = [Line(line.day, line.user, line.text, known[line.text]) for line in window.parse(item.context, "x")]
        assert item.golds == (second_reading(item.metadata["task"], item.question, lines),), item.question
        assert score(item, f"Answer: {item.golds[0]}") == 1
        tasks[item.metadata["task"], item.metadata["group"], item.answer_type] += 1
    assert len(tasks) == 8 and sum(tasks.values()) == 60


def test_a_tied_answer_is_never_asked_for():
    lines = [Line(DAY["late"], user, "x", label) for user, label in ((1, "a"), (2, "b"), (3, "c"))]
    for maker in (questions.most_common_label, questions.least_common_label, questions.busiest_user):
        assert maker(random.Random(0), lines, "abc") is None
    assert questions.most_common_label(random.Random(0), [*lines, lines[1]], "abc").gold == "b"
    assert questions.least_common_label(random.Random(0), lines[:2], "abc").gold == "c"


def test_questions_of_our_own_are_reproducible_and_each_asked_once():
    first, again = (list(load("oolong", None, 30, seed=1, lengths=[2048])) for _ in range(2))
    assert [(i.id, i.question, i.context, i.golds) for i in first] == [(i.id, i.question, i.context, i.golds) for i in again]
    assert len({i.id for i in first}) == 30 and len({i.metadata["window"] for i in first}) == 2
    assert len({(i.metadata["window"], i.question) for i in first}) == 30


def test_any_labelled_records_make_windows():
    records = [(f"text number {n}", "odd" if n % 2 else "even") for n in range(50)]
    item = next(load("oolong", None, 1, lengths=[1024], records=records))
    assert item.golds[0] in ("odd", "even") and "'even', 'odd'" in item.context


# --- the data set


def synth_rows() -> list[dict]:
    """Rows in the layout of oolongbench/oolong-synth, windows repeated."""
    kinds = [
        ("TASK_TYPE.MOST_FREQ", "ANSWER_TYPE.LABEL", "['entity']"),
        ("TASK_TYPE.NUMERIC_ONE_CLASS", "ANSWER_TYPE.NUMERIC", "[3]"),
        ("TASK_TYPE.MOST_FREQ", "ANSWER_TYPE.USER", "[10003]"),
        ("TASK_TYPE.MOST_FREQ", "ANSWER_TYPE.DATE", "[datetime.date(2024, 5, 1)]"),
        ("TASK_TYPE.LEAST_FREQ", "ANSWER_TYPE.LABEL", "['abbreviation', 'numeric value']"),
        ("TASK_TYPE.RELATIVE_FREQ", "ANSWER_TYPE.COMPARISON", "['less common than']"),
    ]
    table = []
    for dataset, length, window_id in (("spam", 1024, 1), ("trec_coarse", 1024, 2), ("trec_coarse", 2048, 3), ("trec_coarse", 2048, 4)):
        lines = WINDOW[window_id - 1 :] if dataset == "trec_coarse" else WINDOW
        for task, answer_type, answer in kinds:
            table.append(
                {
                    "id": len(table),
                    "context_len": length,
                    "dataset": dataset,
                    "context_window_text": text_of(lines),
                    "context_window_text_with_labels": text_of(lines, labelled=True),
                    "question": f"Question {len(table)}?",
                    "task_group": "counting",
                    "task": task,
                    "answer": answer,
                    "answer_type": answer_type,
                    "input_subset": "False",
                    "num_labels": 6,
                    "context_window_id": window_id,
                }
            )
    return table


@pytest.fixture(params=["validation.jsonl", "validation-00000-of-00001.parquet"])
def synth(tmp_path, request):
    return write(tmp_path / request.param, synth_rows())


def test_rows_are_filtered_by_set_and_length(synth):
    found = list(load("oolong", synth, lengths=[2048]))
    assert [item.id for item in found] == [f"oolong/trec_coarse/2048/{n}" for n in range(12, 24)]
    assert [item.id for item in load("oolong", synth, lengths=[1024], dataset="spam")] == [f"oolong/spam/1024/{n}" for n in range(6)]
    assert len({id(item.context) for item in found}) == 2  # each window is kept once


def test_other_sets_are_read_from_the_split_test(tmp_path):
    write(tmp_path / "data/validation-00000-of-00001.parquet", synth_rows())
    write(tmp_path / "data/test-00000-of-00001.parquet", [row | {"dataset": "imdb"} for row in synth_rows()[:3]])
    assert len(list(load("oolong", tmp_path, lengths=[1024], dataset="imdb"))) == 3
    assert len(list(load("oolong", tmp_path, lengths=[1024], dataset="spam"))) == 6


def test_labels_are_never_shown(synth):
    for item in load("oolong", synth, lengths=[1024, 2048]):
        assert "Label:" not in item.context and "|| Instance:" in item.context


def test_golds_are_read_and_ties_noted(synth):
    found = list(load("oolong", synth, lengths=[1024]))
    assert [item.golds[0] for item in found] == ["entity", "3", "10003", "2024-05-01", "abbreviation", "less common than"]
    assert [item.answer_type for item in found] == ["label", "number", "label", "date", "label", "label"]
    assert [item.metadata["tied"] for item in found][3:5] == [[], ["numeric value"]]
    answers = ["Label: entity", "Answer: 4", "User: 10003", "Date: 05/01/2024", "Label: numeric value", "Answer: a is less common than b"]
    assert [score(item, answer) for item, answer in zip(found, answers, strict=True)] == [1, 0.75, 1, 1, 0, 1]


def test_a_limit_draws_from_each_length_by_seed(synth):
    chosen = [[item.id for item in load("oolong", synth, 3, seed, lengths=[1024, 2048])] for seed in range(6)]
    assert all(len(ids) == 6 and sum("/1024/" in name for name in ids) == 3 for ids in chosen)
    assert len({tuple(ids) for ids in chosen}) > 1


@pytest.mark.parametrize("answer", ["entity", "[]", "['a'", "{'a'}", "[__import__('os')]", ""])
def test_an_answer_that_is_no_list_is_named(answer):
    with pytest.raises(DataError, match="row 7, column 'answer'"):
        gold_list(answer, "file: row 7")


def test_bad_rows_of_oolong_are_named(tmp_path, synth):
    assert "no rows with dataset in ['imdb']" in refusal("oolong", synth, dataset="imdb")
    assert "no row of trec_coarse with context_len 4096" in refusal("oolong", synth, lengths=[1024, 4096])
    table = synth_rows()
    table[7]["context_window_text"] = "another"
    mixed = write(tmp_path / "mixed.jsonl", table)
    assert "row 7, column 'context_window_text' differs" in refusal("oolong", mixed, lengths=[1024])
    table = synth_rows()
    table[6]["context_len"] = "1024"
    assert "line 7: column 'context_len' is str, not int" in refusal("oolong", write(tmp_path / "typed.jsonl", table), lengths=[1024])
    bare = [{key: value for key, value in row.items() if key != "answer_type"} for row in synth_rows()]
    assert "no column 'answer_type'" in refusal("oolong", write(tmp_path / "bare.jsonl", bare), lengths=[1024])


# --- the real window


def real_lines() -> list[Line]:
    """The labelled lines of a real trec_coarse window."""
    rows = json.loads((DATA / "oolong_sample/oolong_trec_coarse_16k_labels.json").read_text())
    return [Line(datetime.strptime(row["date"], window.DAY).date(), row["user_id"], row["instance"], row["label"]) for row in rows]


@with_data
def test_the_real_window_is_read_line_by_line():
    real_window = real_lines()
    text = json.loads((DATA / "oolong_sample/oolong_trec_coarse_16k.json").read_text())["context_window_text"]
    assert [str(line) for line in window.parse(text, "x")] == [str(line) for line in real_window]
    labelled = "\n".join(f"{line} || Label: {line.label}" for line in real_window)
    assert window.parse(labelled, "x", labelled=True) == real_window
