"""Answers of no stated kind: the gold answer shows whether it is a number, a date, a yes or no, several names or just text."""

import re

from . import dates, lists, numbers, sentences
from .outcome import ASK, CORRECT, INCORRECT, Verdict3
from .places import is_qualified
from .restated import agrees, shortened
from .text import fold, words

_SEVERAL = re.compile(r"\b(?:two|three|four|five|six|seven|eight|nine|ten|both)\b", re.IGNORECASE)
_ORDER = re.compile(r"\b(?:orders?|ordered|ranked?|respectively|chronological|first|last|then|respective)\b", re.IGNORECASE)
_POLAR = re.compile(r"((?i:yes|no))\b(?!\.? ?\d)(?:[.;:!-].*|, ?[a-z].*)?", re.DOTALL)
_DENIALS = frozenset("not isnt wasnt arent werent didnt doesnt dont hasnt hadnt havent".split())


def compare(answer: str, gold: str, question: str) -> Verdict3:
    if sentences.says(answer, gold, question) or is_qualified(answer, gold, question):
        return CORRECT
    if polarity := _POLAR.fullmatch(gold.strip()):
        return _compare_polarity(answer, polarity[1].casefold(), question)
    if numbers.is_number(gold) or numbers.is_number(gold.partition(" (")[0]):
        return numbers.compare(answer, gold, question)
    if dates.is_date(gold, question):
        return dates.compare(answer, gold, question)
    if _SEVERAL.search(shortened(question)) and not _ORDER.search(shortened(question)) and len(lists.splits(gold)[0]) > 1:
        return lists.compare_sets(answer, gold, question)
    return sentences.compare(answer, gold, question)


def _compare_polarity(answer: str, wanted: str, question: str) -> Verdict3:
    """A yes or no comes first, and behind it no more than the words of the question that say the same."""
    said = words(answer)
    if not said or len(said) > sentences.MOST_WORDS or fold(said[0]) not in ("yes", "no"):
        return ASK
    given, rest = fold(said[0]), [word for word in said[1:] if fold(word) not in _DENIALS]
    denies = len(rest) < len(said) - 1
    if not agrees(rest, question) or (rest and denies != (given == "no")):
        return ASK
    return CORRECT if given == wanted else INCORRECT
