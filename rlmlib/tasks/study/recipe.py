"""An example as a recipe: the question, its gold answer, and what its context is built from."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from ...answer_types import AnswerType

RecipeSplit = Literal["train", "eval"]


@dataclass(frozen=True)
class Recipe:
    """One example. `parts` is all that its family needs to build the context again: ids and seeds, plain JSON.

    tokens: exact Qwen tokens of the context. sha256: of its UTF-8. `metadata` is for people and charts.
    """

    id: str
    family: Literal["aggregation", "research", "coding"]
    task: str
    split: RecipeSplit
    question: str
    answer: str
    answer_type: AnswerType
    parts: dict
    tokens: int
    sha256: str
    acceptable: tuple[str, ...] = ()
    metadata: dict = field(default_factory=dict)


class Family(Protocol):
    """Makes recipes and builds their contexts.

    warnings: what whoever builds a data set should see at once, such as a source that cannot be read. notes: what else was left
    out of the sources and why. A line each.
    """

    name: str
    warnings: list[str]
    notes: list[str]

    def recipes(self, split: RecipeSplit, targets: Sequence[int], seed: int) -> Iterator[Recipe]:
        """One recipe a target, in order, its context as near to that many tokens as whole parts allow."""

    def available(self, split: RecipeSplit) -> int:
        """Tokens that the sources of a split hold: no context can be much longer."""

    def context(self, recipe: Recipe) -> str:
        """The text of a recipe's context. Raises DataError where the sources no longer give it."""


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
