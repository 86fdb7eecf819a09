"""OOLONG (oolongbench/oolong-synth, MIT): questions on the statistics of many labelled lines, the labels hidden."""

import ast
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ...answer_types import AnswerType
from ...errors import DataError
from . import questions, samples, window
from .base import BenchmarkItem, sample
from .rows import HubSet, named, rows

HUB_SET = HubSet("oolongbench/oolong-synth", "validation", "f0d59eaf0febf130664cfceb710436c8e3216b2b")
IN_VALIDATION = ("trec_coarse", "spam")  # every other set of OOLONG is in the split test
LENGTH = 131_072  # the study's; 50 questions over two windows
PER_WINDOW = 25  # questions of each window
COLUMNS = {
    "id": (int, str),
    "context_len": int,
    "dataset": str,
    "context_window_text": str,
    "question": str,
    "task_group": str,
    "task": str,
    "answer": str,
    "answer_type": str,
    "context_window_id": (int, str),
}
TYPES: dict[str, AnswerType] = {"NUMERIC": "number", "DATE": "date", "MONTH_YEAR": "date"}  # all others are names: label
_DAY = re.compile(r"datetime\.date\((\d+), (\d+), (\d+)\)")


def load(
    source: str | Path | None = None,
    limit: int | None = None,
    seed: int = 0,
    *,
    lengths: Sequence[int] = (LENGTH,),
    dataset: str = "trec_coarse",
    records: Iterable[tuple[str, str]] | None = None,
) -> Iterator[BenchmarkItem]:
    """`limit` questions of each nominal length.

    source: "hub" or a copy of the data set, of which `dataset` is read;
    None for windows of our own over `records`, (text, label) pairs, by default made-up remarks. Lengths of our own windows
    are Qwen tokens; those of the data set are by another tokenizer: its window of 16,384 has 13,943 Qwen tokens.
    """
    if source is None:
        return _generated(list(samples.topics() if records is None else records), limit, seed, lengths)
    return _read(source, limit, seed, lengths, dataset)


def _read(source: str | Path, limit: int | None, seed: int, lengths: Sequence[int], dataset: str) -> Iterator[BenchmarkItem]:
    where = {"dataset": [dataset], "context_len": list(lengths)}
    hub = HUB_SET if dataset in IN_VALIDATION else replace(HUB_SET, split="test")
    name = named(source, hub)
    windows: dict[tuple, str] = {}  # every row repeats its window: each is kept once
    found: dict[int, list[BenchmarkItem]] = {length: [] for length in lengths}
    for row in rows(source, hub, COLUMNS, where):
        text = windows.setdefault((row["context_len"], row["context_window_id"]), row["context_window_text"])
        if text != row["context_window_text"]:
            raise DataError(f"{name}: row {row['id']}, column 'context_window_text' differs from that of the same context_window_id")
        found[row["context_len"]].append(_item(row, text, f"{name}: row {row['id']}"))
    for length in lengths:
        if not found[length]:
            raise DataError(f"{name}: has no row of {dataset} with context_len {length}; choose other lengths")
        yield from sample(found[length], limit, f"{seed}/oolong/{length}")


def _item(row: dict, context: str, place: str) -> BenchmarkItem:
    gold, *tied = gold_list(row["answer"], place)
    kind = row["answer_type"].removeprefix("ANSWER_TYPE.")
    metadata = {
        "length": row["context_len"],
        "task": row["task"].removeprefix("TASK_TYPE."),
        "group": row["task_group"],
        "window": str(row["context_window_id"]),
        "tied": tied,  # the official score takes the first one alone
    }
    name = f"oolong/{row['dataset']}/{row['context_len']}/{row['id']}"
    return BenchmarkItem(name, "oolong", row["question"], context, (gold,), TYPES.get(kind, "label"), "oolong", metadata)


def gold_list(answer: str, place: str) -> list[str]:
    """The golds in the column `answer`, a Python list as text, days as 2023-04-05. Raises DataError, which names `place`."""
    text = _DAY.sub(lambda day: f"'{int(day[1]):04d}-{int(day[2]):02d}-{int(day[3]):02d}'", answer)
    try:
        golds = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        golds = None
    if not isinstance(golds, list) or not golds:
        raise DataError(f"{place}, column 'answer' is no list such as \"['entity']\": {answer[:60]!r}")
    return [str(gold) for gold in golds]


def _generated(records: list[tuple[str, str]], limit: int | None, seed: int, lengths: Sequence[int]) -> Iterator[BenchmarkItem]:
    labels = sorted(window.by_label(records))
    wanted = 2 * PER_WINDOW if limit is None else limit  # as in the data set
    for length in lengths:
        for number, first in enumerate(range(0, wanted, PER_WINDOW)):
            rng = random.Random(f"{seed}/oolong/{length}/{number}")
            context, lines = window.make(records, length, rng)
            for index, asked in enumerate(questions.ask(rng, lines, labels, min(PER_WINDOW, wanted - first))):
                name = f"oolong/own/{length}/{seed}/{number}.{index}"
                metadata = {"length": length, "task": asked.task, "group": asked.group, "window": f"{seed}/{length}/{number}", "tied": []}
                yield BenchmarkItem(name, "oolong", asked.text, context, (asked.gold,), asked.answer_type, "oolong", metadata)
