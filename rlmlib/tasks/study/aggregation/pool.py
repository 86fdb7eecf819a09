"""The records of one set that one split may use, and how many tokens they take as lines."""

import functools
import hashlib

from ...sources.classification import LabelledSet, Record
from .. import tokens
from ..recipe import RecipeSplit

TRAIN_SHARE = 0.78
SEPARATOR = "||"
SAMPLE = 200  # records, about, whose mean length stands for all


def split_of(record: Record, seed: int) -> RecipeSplit:
    """A text is of one split for good, in whichever set it stands."""
    drawn = int(hashlib.sha256(f"{seed}/{record.id}".encode()).hexdigest()[:12], 16) / 16**12
    return "train" if drawn < TRAIN_SHARE else "eval"


class Pool:
    """Records by label, in the order of their set. Texts that hold the separator of the line layout are left out."""

    def __init__(self, labelled: LabelledSet, split: RecipeSplit, seed: int):
        self.set = labelled
        self.by_label: dict[str, list[Record]] = {label: [] for label in labelled.labels}
        for record in labelled.records:
            if SEPARATOR not in record.text and split_of(record, seed) == split:
                self.by_label[record.label].append(record)
        self.by_label = {label: records for label, records in self.by_label.items() if records}
        self.labels = tuple(self.by_label)
        self.size = sum(map(len, self.by_label.values()))
        self._counted: dict[tuple[str, str], int] = {}

    def text_tokens(self, text: str, end: str) -> int:
        """Tokens of a text after a blank and before `end`, "" or a line break."""
        key = (text, end)
        if key not in self._counted:
            self._counted[key] = tokens.count(f" {text}{end}")
        return self._counted[key]

    @functools.cached_property
    def mean_text_tokens(self) -> float:
        """Of a sample."""
        records = [record for records in self.by_label.values() for record in records]
        sample = records[:: max(1, len(records) // SAMPLE)]
        return sum(self.text_tokens(record.text, "\n") for record in sample) / len(sample)
