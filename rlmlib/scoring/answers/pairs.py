"""Unordered pairs of ids, as a set. A pair of an id with itself stays in and makes the answer wrong."""

import re

from .lists import is_nothing
from .outcome import CORRECT, INCORRECT, Verdict3
from .restated import restates
from .sentences import MOST_WORDS
from .text import words

MOST_CHARS = 2_000_000  # about 100,000 pairs
MOST_BESIDE = 240  # characters beside the pairs
_ID = r"""["']?([\w-]{1,64})["']?"""
_BRACKETED = re.compile(rf"[(\[]\s{{0,8}}{_ID}\s{{0,8}},\s{{0,8}}{_ID}\s{{0,8}}[)\]]")
_NUMBERING = re.compile(r"^[ \t]{0,8}\d{1,6}[.)](?=\s)", re.MULTILINE)
_BARE_LINE = re.compile(rf"[ \t]{{0,8}}(?:[-*•][ \t])?{_ID}[ \t]{{0,8}},[ \t]{{0,8}}{_ID}[ \t]{{0,8}}[;,.]?")


def compare(answer: str, gold: str, question: str) -> Verdict3:
    """Never for the judge. An empty gold wants an answer that says that there are no pairs."""
    wanted = set(pairs(gold)[0])
    given, left = pairs(answer)
    if not given:
        return CORRECT if not wanted and is_nothing(answer, question) else INCORRECT
    said = words(left) if len(left) <= MOST_BESIDE else None
    if said is None or len(said) > MOST_WORDS:
        return INCORRECT
    silent = restates([word for word in said if word not in ("pairs", "and")], [], question, colon=True)
    return CORRECT if silent and set(given) == wanted else INCORRECT


def pairs(text: str) -> tuple[list[tuple[str, str]], str]:
    """(pairs with the smaller id first, what else the text says). Bare "a, b" counts where it is a line of its own."""
    found = [match.groups() for match in _BRACKETED.finditer(text)]
    left = _BRACKETED.sub(" ", text) if found else text
    if not found:
        lines = [(line, _BARE_LINE.fullmatch(line)) for line in text.splitlines()]
        found = [match.groups() for _, match in lines if match]
        left = "\n".join(line for line, match in lines if not match)
    return [tuple(sorted(pair)) for pair in found], re.sub(r"[\s,;]+", " ", _NUMBERING.sub("", left)).strip(" []")
