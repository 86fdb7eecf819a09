"""Short sentences around an answer: which of their words say nothing of their own, and what takes an answer back."""

import functools
import re
from collections.abc import Sequence

from .markup import peel
from .outcome import ASK, CORRECT, INCORRECT, Verdict3
from .text import fold, folded, holds, same_text, words

MOST_WORDS = 12  # of a sentence that is read at all
MOST_CHARS = 400  # of such a sentence, beside the gold answer in it
QUESTION_CHARS = 4_000  # of a question that are read, at its beginning and at its end

_VERBS = frozenset("is was are were be equals had has have did does".split())
_LEADS = frozenset("the a an in on at of by to for".split())
_GLUE = _VERBS | _LEADS | frozenset(
    "it its this that these they there he she his her their been total answer final correct result called named name known as "
    "so therefore thus hence exactly year number count value".split()
)  # fmt: skip
_LOADED = frozenset(  # of a question: words that change an answer when they stand beside it
    "or nor not no never none neither either both all any only except without unless ago but and if before after until since from between "
    "than more less fewer least most about around over under nearly almost half twice double other another instead rather "
    "would could might may maybe vs versus per times older younger earlier later".split()
)
_ASKING = frozenset("who whom whose what which when where why how".split())
_NEGATIONS = frozenset("not never isnt wasnt arent werent".split())
_QUOTED = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"|`[^`\n]*`")
_STEM = 3


def shortened(question: str) -> str:
    if len(question) <= 2 * QUESTION_CHARS:
        return question
    return f"{question[:QUESTION_CHARS]}\n{question[-QUESTION_CHARS:]}"


@functools.lru_cache(maxsize=1024)
def asked_words(question: str, gold: str = "", quoted: bool = False) -> frozenset[str]:
    """Words of a question that may stand around its answer: in lower case, of no effect on the answer, quoted ones on demand.

    None when the question itself names the gold answer: then it may name the wrong ones too.
    """
    question = shortened(question)
    asked = words(question if quoted else _QUOTED.sub(" ", question))
    if gold and holds_any([fold(word) for word in asked], folded(gold)):
        return frozenset()
    return frozenset(word for word in asked if word.isalpha() and word.islower() and len(word) > 2) - _LOADED


def holds_any(sequence: list[str], part: list[str]) -> bool:
    return any(sequence[at : at + len(part)] == part for at in range(len(sequence) - len(part) + 1))


def is_glue(word: str, asked: frozenset[str], leads: bool = False) -> bool:
    """Whether a word says nothing of its own. Capitals may be part of a name, save on the first word (`leads`)."""
    if not (word.islower() or leads):
        return False
    plain = fold(word)
    return plain in _GLUE or (plain not in _LOADED and any(related(plain, other) for other in asked))


def related(one: str, other: str) -> bool:
    """Forms of one word: "goal" and "goals", "defined" and "defines"."""
    return one == other or (_stem(one) == _stem(other) and len(_stem(one)) >= _STEM)


def _stem(word: str) -> str:
    return next((word[: -len(end)] for end in ("ing", "ed", "es", "s", "e") if word.endswith(end)), word)


def all_glue(around: Sequence[str], asked: frozenset[str]) -> bool:
    return all(is_glue(word, asked, leads=at == 0) for at, word in enumerate(around))


def says(answer: str, gold: str, question: str) -> bool:
    """Whether an answer is the gold one, bare or in a short sentence of glue: "It was Paris", "Paris is the capital"."""
    if len(answer) > 4 * len(gold) + MOST_CHARS:
        return False
    return same_text(peel(answer), peel(gold)) or _in_glue(words(answer), gold, asked_words(question, gold))


def _in_glue(said: Sequence[str], gold: str, asked: frozenset[str]) -> bool:
    part = folded(gold)
    part = part[1:] if part[:1] == ["the"] else part
    if len(said) > MOST_WORDS or not part or all(word in _GLUE or word in _ASKING or word in asked for word in part):
        return False
    at = holds([fold(word) for word in said], part)
    if at is None:
        return False
    before, after = said[:at], said[at + len(part) :]
    lead = [fold(word) for word in before]
    if not (set(lead) <= _LEADS or set(lead) & _VERBS) or not all_glue(before, asked):
        return False
    return not after or (fold(after[0]) in _VERBS and all_glue(after, asked) and fold(after[-1]) not in _LEADS)


def negates(answer: str, gold: str, question: str) -> bool:
    """Whether an answer says no more than that it is not the gold one."""
    if len(answer) > 4 * len(gold) + MOST_CHARS:
        return False
    said = words(answer)
    left = [word for word in said if fold(word) not in _NEGATIONS]
    if len(said) - len(left) != 1:
        return False
    return same_text(" ".join(left), gold) or _in_glue(left, gold, asked_words(question, gold))


def compare(answer: str, gold: str, question: str) -> Verdict3:
    """The verdict on free text: only the same text is right, and only its plain denial is wrong."""
    if says(answer, gold, question):
        return CORRECT
    return INCORRECT if negates(answer, gold, question) else ASK


def content_words(folds: Sequence[str]) -> set[str]:
    """Folded words that say something; all of them where none does."""
    return {word for word in folds if word not in _GLUE} or set(folds)
