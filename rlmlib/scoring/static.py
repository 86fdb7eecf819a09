"""Correctness without a judge: equal forms, and a three-valued check that says when only a judge can tell."""

import json
import re
import unicodedata
from collections.abc import Callable, Iterable

from ..answer_types import AnswerType
from .answers import choice, dates, expressions, free_text, labels, lists, names, numbers, pairs
from .answers.evasions import evades
from .answers.markup import final_spans, without_thoughts
from .answers.outcome import ASK, CORRECT, INCORRECT, Verdict3

__all__ = ["STATIC_ONLY", "Verdict3", "canonical", "check", "is_correct"]

MOST_CHARS = 20_000  # of an answer that is read

STATIC_ONLY: frozenset[AnswerType] = frozenset({"label", "pairs", "choice"})

_COMPARE: dict[AnswerType, Callable[[str, str, str], Verdict3]] = {
    "number": numbers.compare,
    "date": dates.compare,
    "label": labels.compare,
    "identifier": names.compare_identifiers,
    "path": names.compare_paths,
    "lines": lists.compare_lines,
    "literal": expressions.compare_literals,
    "code": expressions.compare_code,
    "set": lists.compare_sets,
    "list": lists.compare_lists,
    "pairs": pairs.compare,
    "choice": choice.compare,
    "text": free_text.compare,
}
_CODE: frozenset[AnswerType] = frozenset({"literal", "code"})
_NUMBER = re.compile(r"[-+]?(\d{1,3}(,\d{3})+|\d+)(\.\d+)?")


def check(
    answer: str | None, golds: Iterable[str], answer_type: AnswerType = "text", question: str = "", *, judge: bool = True
) -> Verdict3:
    """correct if the answer equals any gold answer, incorrect if it equals none for certain, else ask_judge.

    Without a judge, and for the types in STATIC_ONLY, what is not correct is incorrect. Raises ValueError without golds.
    """
    golds = tuple(golds)
    if not golds:
        raise ValueError("check: the question has no gold answer; leave it out of the data")
    if answer is None or _is_blank(answer):
        return INCORRECT
    verdicts = {_against(answer, gold, answer_type, question) for gold in golds}
    if CORRECT in verdicts:
        return CORRECT
    return INCORRECT if verdicts == {INCORRECT} or not judge or answer_type in STATIC_ONLY else ASK


def _is_blank(text: str) -> bool:
    return all(c.isspace() or unicodedata.category(c) in ("Cc", "Cf") for c in text)


def _against(answer: str, gold: str, answer_type: AnswerType, question: str) -> Verdict3:
    """The answer as a whole, then what it marks as final; marks that do not agree are for the judge."""
    compare = _COMPARE[answer_type]
    if answer.strip() == gold.strip():
        return CORRECT
    if len(answer) > (pairs.MOST_CHARS if answer_type == "pairs" else MOST_CHARS):
        return ASK
    answer = without_thoughts(answer)
    if _is_blank(answer):
        return INCORRECT
    whole = compare(answer, gold, question)
    if whole == CORRECT or answer_type == "choice":  # a choice finds its last statement itself
        return whole
    spans = final_spans(answer, question)
    verdicts = {whole if span == answer else compare(span, gold, question) for span in set(spans)}
    if verdicts == {ASK} and len(spans) == 1 and answer_type not in _CODE and evades(spans[0], gold):
        return INCORRECT
    return verdicts.pop() if len(verdicts) == 1 else ASK


def canonical(text: str) -> str:
    """One spelling for equivalent answers: NFKC, white space, one pair of quotes, case, JSON, number."""
    text = " ".join(unicodedata.normalize("NFKC", text).split())
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"`":
        text = text[1:-1].strip()
    if _NUMBER.fullmatch(text.replace("\u2212", "-")):
        return _canonical_number(text)
    if text[:1] in "[{":
        try:
            return json.dumps(json.loads(text), sort_keys=True, separators=(",", ":")).casefold()
        except (ValueError, RecursionError):
            pass
    return text.casefold()


def _canonical_number(text: str) -> str:
    text = text.replace("\u2212", "-").replace(",", "").lstrip("+")
    whole, _, fraction = text.partition(".")
    sign, digits = ("-", whole[1:]) if whole.startswith("-") else ("", whole)
    digits, fraction = digits.lstrip("0") or "0", fraction.rstrip("0")
    number = f"{digits}.{fraction}" if fraction else digits
    return number if number == "0" else sign + number


def is_correct(answer: str | None, golds: Iterable[str]) -> bool:
    """True when the answer equals a gold answer in canonical form. No answer and an empty one are wrong."""
    if answer is None or not answer.strip():
        return False
    return canonical(answer) in {canonical(gold) for gold in golds}
