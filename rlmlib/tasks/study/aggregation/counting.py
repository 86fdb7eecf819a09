"""Tasks on the labels of all records."""

import random
from collections import Counter

from .tally import Reading, Tally
from .task import Found, Task, comparison, number, two_labels
from .wording import LETTERS


def most_frequent_label(tally: Tally, rng: random.Random, reading: Reading) -> Found | None:
    label = reading.top(tally.labels)
    return label and Found(label)


def least_frequent_label(tally: Tally, rng: random.Random, reading: Reading) -> Found | None:
    """Only where all labels of the closed list occur: one with no record at all would be a matter of words."""
    label = reading.bottom(tally.labels) if len(tally.labels) == len(tally.pool_labels) else None
    return label and Found(label)


def second_most_frequent_label(tally: Tally, rng: random.Random, reading: Reading) -> Found | None:
    label = reading.top(tally.labels, 2) if len(tally.pool_labels) > 2 else None
    return label and Found(label)


def count_of_label(tally: Tally, rng: random.Random, reading: Reading) -> Found | None:
    label = rng.choice(sorted(tally.labels))
    return number(tally.labels[label], {"label": label}) if reading.exactly(tally.size) else None


def compare_labels(tally: Tally, rng: random.Random, reading: Reading) -> Found | None:
    label, other = two_labels(tally, rng)
    return comparison({"label": label, "other": other}, tally.labels[label], tally.labels[other], reading)


def most_frequent_among(tally: Tally, rng: random.Random, reading: Reading) -> Found | None:
    labels = _some_labels(tally, rng)
    return _choice(reading.top(Counter({label: tally.labels[label] for label in labels})), labels)


def least_frequent_among(tally: Tally, rng: random.Random, reading: Reading) -> Found | None:
    labels = _some_labels(tally, rng)
    if not all(label in tally.labels for label in labels):
        return None
    return _choice(reading.bottom(Counter({label: tally.labels[label] for label in labels})), labels)


def difference_of_labels(tally: Tally, rng: random.Random, reading: Reading) -> Found | None:
    label, other = sorted(two_labels(tally, rng), key=lambda one: -tally.labels[one])
    difference = tally.labels[label] - tally.labels[other]
    return number(difference, {"label": label, "other": other}) if reading.exactly(tally.size) else None


def labels_with_more_than(tally: Tally, rng: random.Random, reading: Reading) -> Found | None:
    """The number asked with is near the count of some label, and not all labels pass it."""
    bound = rng.choice(sorted(tally.labels.values())) + rng.randint(-3, 3)
    passing = sum(count > bound for count in tally.labels.values())
    if bound < 1 or not 1 < passing < len(tally.pool_labels) or not reading.exactly(tally.size):
        return None
    return number(passing, {"number": bound})


def _some_labels(tally: Tally, rng: random.Random) -> list[str]:
    """Three to five, or both of two, in random order."""
    return rng.sample(tally.pool_labels, min(rng.randint(3, 5), len(tally.pool_labels)))


def _choice(label: str | None, labels: list[str]) -> Found | None:
    return label and Found(LETTERS[labels.index(label)], {"labels": labels})


TASKS = (
    Task("most_frequent_label", "counting", "label", "labels", most_frequent_label),
    Task("least_frequent_label", "counting", "label", "labels", least_frequent_label),
    Task("second_most_frequent_label", "counting", "label", "labels", second_most_frequent_label),
    Task("count_of_label", "counting", "number", "label", count_of_label),
    Task("compare_labels", "counting", "comparison", "label", compare_labels),
    Task("most_frequent_among", "counting", "choice", "label", most_frequent_among),
    Task("least_frequent_among", "counting", "choice", "label", least_frequent_among),
    Task("difference_of_labels", "counting", "number", "label", difference_of_labels),
    Task("labels_with_more_than", "counting", "number", "labels", labels_with_more_than),
)
