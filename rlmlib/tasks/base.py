"""What a task is, and what the families share."""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from ..answer_types import AnswerType

Split = Literal["train", "seen", "heldout"]


@dataclass(frozen=True)
class Example:
    """One question. split: train; seen (new, from training names and phrasings); heldout (neither seen).

    source: the context, or what gives it. Many examples are held at once, so one of a data set does not hold its megabytes.
    """

    id: str
    family: str
    task: str
    split: Split
    question: str
    source: str | Callable[[], str] = field(repr=False)
    answer: str
    acceptable: tuple[str, ...] = ()
    answer_type: AnswerType | None = None  # None: an exact match in an equivalent form

    @property
    def context(self) -> str:
        """The text. Of a data set it is read or built now, and kept only as long as it is among the last ones asked for."""
        return self.source if isinstance(self.source, str) else self.source()

    @property
    def golds(self) -> tuple[str, ...]:
        return (self.answer, *self.acceptable)


OPENINGS = ("Find out", "Tell me", "Please tell me", "I want to know", "Please find out", "Let me know", "I must know", "Please say")


@dataclass(frozen=True)
class Phrasings:
    """Ways to ask one thing: any opening with any core. One pair in four is met in evaluation only."""

    cores: tuple[str, ...]

    def templates(self, split: Split) -> list[str]:
        return [
            f"{opening} {core}."
            for i, opening in enumerate(OPENINGS)
            for j, core in enumerate(self.cores)
            if ((i + j) % 4 == 0) == (split == "heldout")
        ]

    def pick(self, rng: random.Random, split: Split) -> str:
        return rng.choice(self.templates(split))


def log_uniform(rng: random.Random, low: int, high: int) -> int:
    return round(math.exp(rng.uniform(math.log(low), math.log(high))))
