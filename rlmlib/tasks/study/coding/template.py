"""What a kind of question is, and how one case of it becomes words and a gold answer."""

import json
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ....answer_types import AnswerType
from .analysis import Module
from .view import View

MOST_ITEMS = 20
MOST_CHARS = 400
EASY_SHARE = 0.05  # of questions that may have an answer which a guess hits
_EASY = {"0", "1", "-1", "None", "True", "False", "''", "()", "[]", "{}", "str", "int", "bool", "float", "list", "dict"}
_LAYOUT = "The context holds Python files, each after a line `===== file: PATH =====`."
_ASK: dict[AnswerType, str] = {
    "number": "Answer with the number alone.",
    "identifier": "Answer with the name alone.",
    "path": "Answer with the path alone, as in the header line.",
    "literal": "Answer with the value alone, as a Python literal.",
    "code": "Answer with the expression alone, as in the code.",
    "set": "Answer with a JSON list of strings, in any order.",
    "list": "Answer with a JSON list of strings, in that order.",
    "lines": "The line after the file's header line is line 1. Answer with a JSON list of line numbers.",
}


@dataclass(frozen=True)
class Case:
    """One question of a template. target: what is asked about, by placeholder. answer: int, text, or list of ints or texts."""

    target: dict[str, str]
    answer: int | str | list

    @property
    def gold(self) -> str:
        return json.dumps(self.answer, ensure_ascii=False) if isinstance(self.answer, list) else str(self.answer)

    @property
    def easy(self) -> bool:
        return self.gold in _EASY or (isinstance(self.answer, list) and len(self.answer) < 2)

    @property
    def usable(self) -> bool:
        """Not too long, nor empty. Names beyond ASCII are left out: Python changes some of them as it reads."""
        if isinstance(self.answer, list) and not 0 < len(self.answer) <= MOST_ITEMS:
            return False
        return 0 < len(self.gold.strip()) <= MOST_CHARS and all(value.isascii() for value in self.target.values())


@dataclass(frozen=True)
class Template:
    """phrasings: ways to ask, with the placeholders of a case's target. rules: the definition that makes the answer exact.

    A template has either `of_file` or `of_view`. word: a text that a file must hold to be asked about. foldered: may be asked of
    one folder of the context as well.
    """

    id: str
    task: str
    answer_type: AnswerType
    phrasings: tuple[str, ...]
    rules: str
    of_file: Callable[[Module], Iterable[Case]] | None = None
    of_view: Callable[[View], Iterable[Case]] | None = None
    word: str = ""
    foldered: bool = False

    @property
    def weight(self) -> int:
        """Questions over many files are asked twice as often: they are what a long context is for."""
        return 2 if self.of_view else 1

    def question(self, case: Case, phrasing: int) -> str:
        asked = self.phrasings[phrasing].format(**case.target)
        return " ".join(filter(None, (_LAYOUT, asked, self.rules.format(**case.target), _ASK[self.answer_type])))


def pick(cases: Iterable[Case], rng: random.Random, asked: Callable[[Case], bool], easy: bool) -> Case | None:
    """One usable case that was not asked before; easy ones are among them only if `easy` says so.

    An answer is drawn first, then a case that has it, so that common answers such as 2 are no good guess.
    """
    by_gold: dict[str, list[Case]] = {}
    for case in cases:
        if case.usable and (easy or not case.easy) and not asked(case):
            by_gold.setdefault(case.gold, []).append(case)
    return rng.choice(by_gold[rng.choice(sorted(by_gold))]) if by_gold else None
