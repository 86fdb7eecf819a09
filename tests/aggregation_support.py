"""Labelled sets of invented texts for the aggregation tests."""

import random

from rlmlib.tasks.sources.classification import LabelledSet, Record, text_id

WORDS = (
    "river stone lamp 42 it's naïve 東京 e\u0301clair 😀 (so) well... 1,550 — said: #tag @you x_y ?! ''quoted'' don't a/b 100% $5"
).split()


def invented(name: str, labels: int, count: int, words: tuple[int, int] = (3, 14), seed: int = 0) -> LabelledSet:
    """`count` texts with letters, digits, marks and emoji, each with one of so many labels."""
    rng = random.Random(f"{seed}/{name}")
    names = tuple(f"kind {number:02d}" if number % 3 else f"sort_{number:02d}" for number in range(labels))
    records = {}
    while len(records) < count:
        text = " ".join([f"n{len(records)}", *rng.choices(WORDS, k=rng.randint(*words))])
        records[text_id(text)] = Record(text_id(text), text, rng.choice(names))
    return LabelledSet(name, tuple(records.values()), tuple(sorted({record.label for record in records.values()})), [f"{name}: a note"])
