"""One label of a closed set, a user or a comparison. Never for the judge: what is not the gold label is wrong."""

import re

from .markup import peel
from .outcome import CORRECT, INCORRECT, Verdict3
from .restated import shortened
from .sentences import says
from .text import plain

_KINDS = ("", "label ", "user ", "category ")
_KIND = re.compile(r"^(?:label|user|category):? ")
_JOINED = re.compile(r"(?<=\w)[_-]+(?=[^\W_])")
_FORM = re.compile(r"'(?:answer: ?)?([^'\n]{0,200})\[x\]([^'\n]{0,200})'")
_RANK = r"(?:second )?(?:most|least) (?:common|frequent|often)"
_MOST = rf"(?:the )?({_RANK})(?: represented)? (?:label|user|category)"
_IS_MOST = re.compile(rf"{_MOST} is (.+)|(.+) is {_MOST}")
_COMPARISON = re.compile(
    r"(?:(.+) (?:is|are) |(?:it is |they are )?)(?:of )?(?:the )?(more common|less common|same frequency|as common)"
    r"(?: (?:than|as)(?: (.+))?)?"
)
_SAME = {"as common": "same frequency"}
_BETWEEN = (  # two sides of a question
    r"(?: more common,? less common,? or (?:of )?(?:the )?same frequency as| more common than| with| and of| compare with the number of)"
)
_LABELLED = re.compile(r"(?:records with )?(?:the )?label ")
_FIRST = frozenset(["the first kind", "the first"])


def compare(answer: str, gold: str, question: str) -> Verdict3:
    wanted, given = label(gold), label(answer)
    if given == wanted:
        return CORRECT
    comparison = _COMPARISON.fullmatch(wanted)
    if comparison:
        return CORRECT if _compared(given, question) == comparison[2] else INCORRECT
    if most := _IS_MOST.fullmatch(given):
        which, named = most[1] or most[4], most[2] or most[3]
        asked = set(re.findall(_RANK, shortened(question).casefold()))
        return CORRECT if asked == {which} and label(named) == wanted else INCORRECT
    return CORRECT if any(says(answer, f"{kind}{gold}", question) for kind in _KINDS) else INCORRECT


def label(text: str) -> str:
    """A label in lower case, blanks for "_" and "-", without the word for what it is: "User 64959"."""
    return _JOINED.sub(" ", _KIND.sub("", plain(peel(text)).casefold()))


def _compared(said: str, question: str) -> str | None:
    """The comparison in "A is less common than B", if the question compares A with B in this order; it may leave out either."""
    said = said.replace("'", "").replace('"', "")
    found = _COMPARISON.fullmatch(said)
    if not found or not _are_sides(found[1] or "", found[3] or "", plain(shortened(question)).casefold()):
        return None
    return _SAME.get(found[2], found[2])


def _are_sides(first: str, second: str, question: str) -> bool:
    """Whether a question compares the first with the second, either of which may be empty."""
    if form := _FORM.search(question):
        sides = [_unlabelled(side) for side in (form[1].strip().removesuffix(" is").removesuffix(" are"), form[2])]
        return all(_unlabelled(said) in ("", side) for said, side in zip((first, second), sides, strict=True))
    first = "" if first in _FIRST and first in question else first
    if not first and not second:
        return True
    sides = [re.escape(_unlabelled(side)) if side else ".+" for side in (first, second)]
    compares = rf"\b(?:is|are|compare|numbers? of) {sides[0]}{_BETWEEN} {sides[1]}(?:[,.:?]| in | compare|$)"
    return re.search(compares, _unlabelled(question)) is not None


def _unlabelled(text: str) -> str:
    """Text without quotes, and without the words before a label that say that it is one."""
    return _LABELLED.sub("", _JOINED.sub(" ", text.replace("'", "").replace('"', "").strip()))
