"""What a FRAMES row is as an example: its split and the kind of its answer."""

import hashlib
import re
from collections.abc import Mapping, Sequence

from ....answer_types import AnswerType
from ..recipe import RecipeSplit

EVAL_SHARE = 0.224  # 181 of the study's 807

_MONTH = "(january|february|march|april|may|june|july|august|september|october|november|december)"
_DAY = r"\d{1,2}(st|nd|rd|th)?"
_DATE = re.compile(rf"{_MONTH}( {_DAY})?,? \d{{4}}|{_DAY} {_MONTH},? \d{{4}}|\d{{4}}-\d\d-\d\d")
_YEAR = re.compile(r"1\d{3}|20\d{2}")
_ASKS_YEAR = re.compile(r"\b(what|which|birth|leap) year\b|\bwhen (was|were|did|is|does)\b")
_ASKS_NUMBER = re.compile(r"\bhow (many|much|old|long|far|tall)\b|\bthe (sum|difference)\b")
_NUMBER = re.compile(r"[-+]?[$£€]?(\d{1,3}(,\d{3})+|\d+)(\.\d+)?( ?%| ?[a-z°][a-z°/.²³]*( [a-z/]+){0,2})?")


def answer_type(question: str, answer: str) -> AnswerType:
    """A guess from the forms: number (with a unit of up to three words), date (with its year), else text."""
    answer, question = answer.strip().rstrip(".").casefold(), question.casefold()
    if _DATE.fullmatch(answer):
        return "date"
    if _YEAR.fullmatch(answer) and _ASKS_YEAR.search(question) and not _ASKS_NUMBER.search(question):
        return "date"
    return "number" if _NUMBER.fullmatch(answer) and not re.match(r"\d+(st|nd|rd|th)\b", answer) else "text"


def splits(titles: Mapping[str, Sequence[str]], eval_share: float = EVAL_SHARE) -> dict[str, RecipeSplit]:
    """A split for each question, by its id. Questions that share a page, also through others, are in the same one.

    The hash of the least id of such a group decides, so a row keeps its split wherever its file is read.
    """
    leader = {question: question for question in titles}

    def find(question: str) -> str:
        while leader[question] != question:
            leader[question] = leader[leader[question]]
            question = leader[question]
        return question

    first_with: dict[str, str] = {}
    for question, pages in titles.items():
        for page in pages:
            one, other = sorted((find(question), find(first_with.setdefault(page, question))))
            leader[other] = one
    return {question: "eval" if _fraction(find(question)) < eval_share else "train" for question in titles}


def _fraction(question: str) -> float:
    return int.from_bytes(hashlib.sha256(f"FRAMES {question}".encode()).digest()[:8], "big") / 2**64
