"""What the benchmarks share: an item, and how an answer is scored."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from ...answer_types import AnswerType
from ...scoring import native
from ...scoring.static import is_correct

Score = Literal["ruler", "oolong", "pairs", "choice", "judge"]
T = TypeVar("T")


@dataclass(frozen=True)
class BenchmarkItem:
    """One question over one context. Its texts stay out of its repr: they are long, and some must not be logged.

    golds: accepted answers. score: the rule that `score` follows. metadata: plain JSON for people and charts; "length" is the
    nominal length in tokens where a benchmark has lengths.
    """

    id: str
    benchmark: str
    question: str = field(repr=False)
    context: str = field(repr=False)
    golds: tuple[str, ...] = field(repr=False)
    answer_type: AnswerType
    score: Score
    metadata: dict = field(default_factory=dict)


def score(item: BenchmarkItem, answer: str | None) -> float:
    """An answer's score in [0, 1] by the benchmark's own rule.

    Where that is a judge, this is 1 for an exact match in an equivalent form, else 0: a lower bound; `needs_judge` says whether
    a judge could raise it.
    """
    if item.score == "ruler":
        return native.ruler(item.golds, answer)
    if item.score == "oolong":
        return native.oolong(item.golds[0], answer, item.answer_type)
    if item.score == "pairs":
        return native.pair_f1(item.golds[0], answer)
    if item.score == "choice":
        return native.choice(item.golds[0], answer)
    return float(is_correct(answer, item.golds))


def needs_judge(item: BenchmarkItem, answer: str | None) -> bool:
    """Whether only a judge can say if the answer is right."""
    return item.score == "judge" and bool((answer or "").strip()) and not is_correct(answer, item.golds)


def sample(found: Sequence[T], limit: int | None, name: str) -> list[T]:
    """At most `limit` of what was found, drawn by name ("seed/what"), in the order of the source."""
    if limit is None or limit >= len(found):
        return list(found)
    return [found[index] for index in sorted(random.Random(name).sample(range(len(found)), limit))]
