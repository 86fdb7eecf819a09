"""Names and paths of code, whose letter case counts."""

import posixpath
import re

from .markup import peel_code
from .outcome import ASK, CORRECT, INCORRECT, Verdict3
from .sentences import MOST_WORDS, all_glue, asked_words, is_glue, shortened

_MOST_CHARS = 300  # of a sentence around a name
_NAME = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_PATH = re.compile(r"[\w.@+-]*(?:/[\w.@+-]+)+|[\w@+-]+(?:\.[\w@+-]+)*\.\w{1,5}")
_LINE_BEHIND = re.compile(r"(?::\d+(?:[-:]\d+)?|#L\d+(?:-L?\d+)?)$")
_ROUND = "'\"`,;:.?!"


def without_stop(text: str) -> str:
    """Text without the full stop of a sentence."""
    return text[:-1].rstrip() if text.endswith(".") and not text.endswith("..") else text


def code_in(answer: str, gold: str, question: str) -> str:
    """The one word of a short sentence that is not glue, or the one span in backticks; else the answer as it is.

    A gold answer that the question names, or that reads as glue itself, is found only where it stands alone.
    """
    answer = peel_code(answer)
    if len(answer) > _MOST_CHARS:
        return answer
    named = gold in [word.strip(_ROUND).removesuffix("()") for word in shortened(question).split()]
    asked = frozenset() if named else asked_words(question)
    before, tick, rest = answer.partition("`")
    code, closed, after = rest.partition("`")
    if tick and closed and code and _says_nothing([*before.split(), *after.split()], asked):
        return code
    parts = answer.split()
    if not 1 < len(parts) <= MOST_WORDS or is_glue(gold, asked):
        return answer
    left = [part for at, part in enumerate(parts) if not (part.isalpha() and is_glue(part, asked, leads=at == 0))]
    return without_stop(left[0]) if len(left) == 1 else answer


def _says_nothing(parts: list[str], asked: frozenset[str]) -> bool:
    bare = [part.strip(_ROUND) for part in parts]
    return len(bare) < MOST_WORDS and all_glue([word for word in bare if word], asked) and not any("?" in part for part in parts)


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
    return posixpath.normpath(text) if text else ""


def _module(path: str) -> str:
    return path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
