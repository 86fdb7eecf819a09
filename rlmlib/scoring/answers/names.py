"""Names and paths of code, whose letter case counts."""

import posixpath
import re

from .markup import peel_code
from .outcome import ASK, CORRECT, INCORRECT, Verdict3
from .restated import FRAME, restates, shortened
from .sentences import MOST_WORDS
from .text import fold, words

_MOST_CHARS = 300  # of a sentence around a name
_NAME = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_PATH = re.compile(r"[\w.@+-]*(?:/[\w.@+-]+)+|[\w@+-]+(?:\.[\w@+-]+)*\.\w{1,5}")
_LINE_BEHIND = re.compile(r"(?::\d+(?:[-:]\d+)?|#L\d+(?:-L?\d+)?)$")
_ROUND = "'\"`,;:.?!"


def without_stop(text: str) -> str:
    """Text without the full stop of a sentence."""
    return text[:-1].rstrip() if text.endswith(".") and not text.endswith("..") else text


def code_in(answer: str, gold: str, question: str) -> str:
    """The one word, or the one span in backticks, around which a short sentence restates the question; else the answer as it is.

    Where the question names the gold answer, only frames such as "It is" count around it.
    """
    answer = peel_code(answer)
    if len(answer) > _MOST_CHARS:
        return answer
    named = gold in [word.strip(_ROUND).removesuffix("()") for word in shortened(question).split()]
    asked = "" if named else question
    before, tick, rest = answer.partition("`")
    code, closed, after = rest.partition("`")
    if tick and closed and code:
        around = words(before), words(after)
        return code if len(around[0]) + len(around[1]) < MOST_WORDS and restates(*around, asked) else answer
    parts = answer.split()
    if not 1 < len(parts) <= MOST_WORDS or fold(gold) in FRAME:
        return answer
    found = [at for at in range(len(parts)) if restates(words(" ".join(parts[:at])), words(" ".join(parts[at + 1 :])), asked, name=True)]
    return without_stop(parts[found[0]]) if len(found) == 1 else answer


def compare_identifiers(answer: str, gold: str, question: str) -> Verdict3:
    """Names with or without backticks and "()". The modules of a gold name may stand before it."""
    gold = _name(gold)
    given = _name(code_in(answer, gold, question))
    if given == gold:
        return CORRECT
    if not _NAME.fullmatch(given):
        return ASK
    if given.endswith("." + gold):
        owner = given[: -len(gold) - 1]
        return CORRECT if owner.islower() and owner not in ("self", "cls") else ASK  # it may be another class
    return ASK if gold.endswith("." + given) else INCORRECT


def _name(text: str) -> str:
    return without_stop(peel_code(text)).strip("'\"`").removesuffix("()").removeprefix("@")


def compare_paths(answer: str, gold: str, question: str) -> Verdict3:
    """Paths with either slash, "./" before or a line number behind. Less or more of a path is for the judge."""
    gold = path(gold)
    given = path(code_in(answer, gold, question))
    if given == gold:
        return CORRECT
    if not _PATH.fullmatch(given) or given.endswith("/" + gold) or gold.endswith("/" + given):
        return ASK
    return ASK if _module(given) == _module(gold) else INCORRECT


def path(text: str) -> str:
    text = _LINE_BEHIND.sub("", without_stop(peel_code(text)).strip("'\"`")).replace("\\", "/")
    folder = "/" if text.endswith("/") else ""
    return posixpath.normpath(text) + folder if text else ""


def _module(path: str) -> str:
    return path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
