"""CodeQA: the multiple-choice questions on code repositories in LongBench-v2 (zai-org/LongBench-v2)."""

from collections.abc import Iterator
from pathlib import Path

from ...errors import ConfigError, DataError
from .base import BenchmarkItem, sample
from .rows import HUB, HubSet, hub_file, named, rows

HUB_SET = HubSet("zai-org/LongBench-v2", "train", "2b48e494f2c7a2f0af81aae178e05c7e1dde0fe9")
FILE = "data.json"  # half a gigabyte, streamed from the disk
ROWS, QUESTIONS = 503, 50  # of the whole set; on code
DOMAIN = "code repository understanding"  # in lower case: copies differ in it
LETTERS = "ABCD"
CHOICES = tuple(f"choice_{letter}" for letter in LETTERS)
TEXTS = ("_id", "domain", "difficulty", "length", "question", *CHOICES, "answer", "context")


def load(source: str | Path | None = None, limit: int | None = None, seed: int = 0) -> Iterator[BenchmarkItem]:
    """`limit` of the 50 questions, whose contexts are of 23,000 to 4.2 million tokens.

    source: "hub" or a copy. Of the whole set exactly 50 questions must be on code, else DataError.
    """
    if source is None:
        raise ConfigError("codeqa cannot be generated; name a copy of LongBench-v2 as source, or 'hub'")
    found, total, name = [], 0, named(source, HUB_SET)
    path = hub_file(HUB_SET.repo, FILE, HUB_SET.revision) if source == HUB else source
    for row in rows(path, HUB_SET, dict.fromkeys(TEXTS, str)):
        total += 1
        if row["domain"].strip().casefold() == DOMAIN:
            found.append(_item(row, name))
    if not found:
        raise DataError(f"{name}: none of {total} rows has the domain 'Code Repository Understanding'; name LongBench-v2 itself")
    if (source == HUB or total == ROWS) and len(found) != QUESTIONS:
        raise DataError(f"{name}: {len(found)} of {total} rows are on code, not {QUESTIONS}; fetch revision {HUB_SET.revision} again")
    return iter(sample(found, limit, f"{seed}/codeqa"))


def _item(row: dict, name: str) -> BenchmarkItem:
    if row["answer"].strip() not in tuple(LETTERS):
        raise DataError(f"{name}: row {row['_id']}, column 'answer' is {row['answer'][:20]!r}, none of A, B, C, D")
    choices = "\n".join(f"({letter}) {row[column]}" for letter, column in zip(LETTERS, CHOICES, strict=True))
    question = f"{row['question'].strip()}\n{choices}\nExactly one is right. Answer with its letter alone."
    metadata = {"difficulty": row["difficulty"], "size": row["length"]}
    golds = (row["answer"].strip(),)
    return BenchmarkItem(f"codeqa/{row['_id']}", "codeqa", question, row["context"], golds, "choice", "choice", metadata)
