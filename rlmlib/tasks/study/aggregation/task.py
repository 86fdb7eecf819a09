"""A task: one kind of question, with its way to find an answer that is neither tied nor empty."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from .tally import Reading, Tally
from .wording import LESS, MORE, SAME, Kind

Group = Literal["counting", "user", "timeline"]


@dataclass(frozen=True)
class Found:
    """A question without its words. arguments: plain JSON, by the names that the phrasings use."""

    answer: str
    arguments: dict = field(default_factory=dict)
    acceptable: tuple[str, ...] = ()


@dataclass(frozen=True)
class Task:
    """find: draws arguments and gives the answer, or None where these have none.

    about: "records", whatever their labels; "label", certain labels, by name or in other words; "labels", labels as such.
    """

    name: str
    group: Group
    answer: Kind
    about: Literal["records", "label", "labels"]
    find: Callable[[Tally, random.Random, Reading], Found | None]


def two_labels(tally: Tally, rng: random.Random) -> tuple[str, str]:
    """In random order; both occur, unless a single one does."""
    first, second = rng.sample(sorted(tally.labels) if len(tally.labels) > 1 else tally.pool_labels, 2)
    return first, second


def comparison(arguments: dict, first: int, second: int, reading: Reading) -> Found | None:
    """How the first count relates to the second. None where a reader who errs could not tell."""
    if first == second:
        return Found(SAME, arguments, (f"the {SAME}",)) if first and reading.exactly(first + second) else None
    if not reading.leads(max(first, second), min(first, second)):
        return None
    answer = MORE if first > second else LESS
    return Found(answer, arguments, (answer.removesuffix(" than"),))


def number(count: int, arguments: dict) -> Found | None:
    """Neither none nor one, which are too good a guess."""
    return Found(str(count), arguments) if count > 1 else None
