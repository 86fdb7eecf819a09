"""What a task is, and what the families share."""

import math
import random
from dataclasses import dataclass
from typing import Literal

Split = Literal["train", "seen", "heldout"]


@dataclass(frozen=True)
class Example:
    """One question. split: train; seen (new, from training names and templates); heldout (neither seen)."""

    id: str
    family: str
    task: str
    split: Split
    question: str
    context: str
    answer: str
    acceptable: tuple[str, ...] = ()

    @property
    def golds(self) -> tuple[str, ...]:
        return (self.answer, *self.acceptable)


@dataclass(frozen=True)
class Templates:
    """Phrasings of one kind of question; the held-out ones are used in evaluation only."""

    train: tuple[str, ...]
    heldout: tuple[str, ...]

    def pick(self, rng: random.Random, split: Split) -> str:
        return rng.choice(self.heldout if split == "heldout" else self.train)


def log_uniform(rng: random.Random, low: int, high: int) -> int:
    return round(math.exp(rng.uniform(math.log(low), math.log(high))))
