"""One label of a closed set, a user or a comparison. Never for the judge: what is not the gold label is wrong."""

import re

from .markup import peel
from .outcome import CORRECT, INCORRECT, Verdict3
from .sentences import says, shortened
from .text import plain

_KIND = re.compile(r"^(?:label|user|category):? ")
_JOINED = re.compile(r"(?<=\w)[_-]+(?=[^\W_])")
_FORM = re.compile(r"'(?:answer: ?)?([^'\n]{0,200})\[x\]([^'\n]{0,200})'")
_MOST = re.compile(r"(?:the )?((?:second )?(?:most|least) (?:common|frequent|often))(?: represented)? (?:label|user|category) is (.+)")
_SIDES = re.compile(r"label '([^'\n]{1,100})'[^.?\n]{0,200}?\blabel '([^'\n]{1,100})'")
_COMPARISON = re.compile(r"(?:the )?(more common|less common|same frequency)(?: than| as)?")


def compare(answer: str, gold: str, question: str) -> Verdict3:
    wanted, given = label(gold), label(answer)
    if given == wanted:
        return CORRECT
    comparison = _COMPARISON.fullmatch(wanted)
    if comparison:
        return CORRECT if _compared(given, question) == comparison[1] else INCORRECT
    most = _MOST.fullmatch(given)
    if most and most[1] in question.casefold() and most[2] == wanted:
        return CORRECT
    return CORRECT if says(answer, gold, question) else INCORRECT


def label(text: str) -> str:
    """A label in lower case, blanks for "_" and "-", without the word for what it is: "User 64959"."""
    return _JOINED.sub(" ", _KIND.sub("", plain(peel(text)).casefold()))


def _compared(said: str, question: str) -> str | None:
    """The comparison in "A is less common than B", if A and B stand as the question has them; it may leave out either."""
    said = said.replace("'", "").replace('"', "")
    first, second = _sides(plain(shortened(question)).casefold())
    found = _COMPARISON.fullmatch(said.removeprefix(first).removesuffix(second).strip())
    return found[1] if found else None


def _sides(question: str) -> tuple[str, str]:
    """What stands before and behind the comparison, by the form that the question gives or by the labels it names."""
    if form := _FORM.search(question):
        return _JOINED.sub(" ", form[1]), _JOINED.sub(" ", form[2])
    if sides := _SIDES.search(question):
        return f"{_JOINED.sub(' ', sides[1])} is ", f" {_JOINED.sub(' ', sides[2])}"
    return "", ""
