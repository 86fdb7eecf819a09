"""OOLONG-Pairs (mit-oasys/oolong-pairs): 20 queries for pairs of users over one trec_coarse window of OOLONG."""

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import ConfigError, DataError
from ...scoring.native import write_pairs
from . import oolong, pair_tasks, samples, window
from .base import BenchmarkItem, sample
from .rows import HUB, hub_file, named, rows

ANSWERS_REPO, ANSWERS_REVISION = "mit-oasys/oolong-pairs", "d1e1522b86ac0c169bbc890b0471408aaa29e8fa"
LENGTH = 32_768  # the study's
COLUMNS = {"dataset": str, "context_len": int, "context_window_id": (int, str), "context_window_text": str}
LABELLED = "context_window_text_with_labels"
_PAIR = re.compile(r"\(\s*(\d+)\s*,\s*(\d+)\s*\)")


@dataclass(frozen=True)
class Query:
    """gold: pairs as JSON text."""

    task: int
    question: str
    gold: str


def load(
    source: str | Path | None = None,
    limit: int | None = None,
    seed: int = 0,
    *,
    lengths: Sequence[int] = (LENGTH,),
    answers: str | Path | None = None,
    records: Iterable[tuple[str, str]] | None = None,
) -> Iterator[BenchmarkItem]:
    """`limit` of the 20 queries over one window of each length, in the order of their numbers.

    source: OOLONG ("hub" or a copy), of which the first trec_coarse window of a nominal length is taken; None for windows of
    our own of so many Qwen tokens over `records`, (text, label) pairs with TREC's six labels, by default made-up questions.
    answers: "hub", or a folder with the official files oolong-pairs-LENGTH.json, whose wording is then used; None to work the
    golds out from the labels.
    """
    if source is None and answers is not None:
        raise ConfigError("answers: belong to a window of OOLONG; name that as source, or leave them out")
    chosen = sample(sorted(pair_tasks.TASKS), limit, f"{seed}/oolong_pairs")
    if source is None:
        return _generated(list(samples.questions() if records is None else records), chosen, seed, lengths)
    return _read(source, answers, chosen, lengths)


def _generated(records: list[tuple[str, str]], chosen: list[int], seed: int, lengths: Sequence[int]) -> Iterator[BenchmarkItem]:
    if unknown := sorted({label for _, label in records} - set(pair_tasks.LABELS)):
        raise DataError(f"records: have the label {unknown[0]!r}; oolong_pairs asks about {', '.join(pair_tasks.LABELS)} alone")
    for length in lengths:
        context, lines = window.make(records, length, random.Random(f"{seed}/oolong_pairs/{length}"))
        yield from _items(_worked_out(lines, chosen), context, length, f"own/{length}/{seed}")


def _read(source: str | Path, answers: str | Path | None, chosen: list[int], lengths: Sequence[int]) -> Iterator[BenchmarkItem]:
    for length in lengths:
        path = None if answers is None else answers_file(answers, length)  # first, as to find the window takes long
        context, lines = _first_window(source, length, labelled=path is None)
        queries = _worked_out(lines, chosen) if path is None else read_answers(path, chosen)
        yield from _items(queries, context, length, str(length))


def _items(queries: Iterable[Query], context: str, length: int, place: str) -> Iterator[BenchmarkItem]:
    for query in queries:
        name, metadata = f"oolong_pairs/{place}/{query.task}", {"length": length, "task": query.task}
        yield BenchmarkItem(name, "oolong_pairs", query.question, context, (query.gold,), "pairs", "pairs", metadata)


def _first_window(source: str | Path, length: int, labelled: bool) -> tuple[str, list[window.Line]]:
    """(context without labels, its lines: labelled ones where asked for, else none)."""
    columns = COLUMNS | ({LABELLED: str} if labelled else {})
    row = next(rows(source, oolong.HUB_SET, columns, {"dataset": ["trec_coarse"], "context_len": [length]}))
    lines = window.parse(row[LABELLED], f"{named(source, oolong.HUB_SET)}: column '{LABELLED}'", labelled=True) if labelled else []
    return row["context_window_text"], lines


def _worked_out(lines: list[window.Line], chosen: Iterable[int]) -> Iterator[Query]:
    for task in chosen:
        yield Query(task, pair_tasks.question(task), write_pairs(pair_tasks.pairs(task, lines)))


def answers_file(answers: str | Path, length: int) -> Path:
    """The official file of a length, fetched from the Hub or in the folder `answers`. Raises DataError."""
    if answers == HUB:
        return hub_file(ANSWERS_REPO, f"data/oolong-pairs-{length}.json", ANSWERS_REVISION)
    path = Path(answers) / f"oolong-pairs-{length}.json"
    if not path.is_file():
        raise DataError(f"{path}: is not there; name the folder that holds it as answers, or 'hub'")
    return path


def read_answers(path: Path, chosen: Iterable[int]) -> Iterator[Query]:
    """The chosen queries of an official file, in its order. Streamed: a query over a million tokens has 19 million pairs."""
    import ijson

    missing = set(chosen)
    with open(path, "rb") as file:
        try:
            for query in _queries(ijson.parse(file), path):
                if query.task in missing:
                    missing.remove(query.task)
                    yield query
        except ijson.JSONError as error:
            raise DataError(f"{path}: is no JSON list of queries ({str(error).splitlines()[0]}); fetch it again") from None
    if missing:
        raise DataError(f"{path}: has no query with the id {', '.join(map(str, sorted(missing)))}; fetch it again")


def _queries(events: Iterable[tuple[str, str, object]], path: Path) -> Iterator[Query]:
    fields, gold, number = {}, bytearray(), 0
    for place, event, value in events:
        if (place, event) == ("item", "start_map"):
            fields, gold, number = {}, bytearray(), number + 1
        elif place == "item.answer.item":
            pair = _PAIR.fullmatch(value) if isinstance(value, str) else None
            if pair is None:
                raise DataError(f"{path}: query {number}, column 'answer' holds {str(value)[:40]!r}, which is no pair such as '(1, 2)'")
            gold += f"[{pair[1]},{pair[2]}],".encode()
        elif (place, event) == ("item", "end_map"):
            for name, event_of in (("id", "string"), ("question", "string"), ("answer", "end_array")):
                if fields.get(name, ("", None))[0] != event_of:
                    raise DataError(f"{path}: query {number} has no {'list' if name == 'answer' else 'text'} in column '{name}'")
            if not fields["id"][1].isdigit():
                raise DataError(f"{path}: query {number}, column 'id' is {fields['id'][1][:20]!r}, not a number as text")
            yield Query(int(fields["id"][1]), fields["question"][1], f"[{gold.decode().rstrip(',')}]")
        elif place.startswith("item."):
            fields[place.removeprefix("item.")] = (event, value)
