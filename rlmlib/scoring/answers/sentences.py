"""Short sentences around an answer: whether they say it, deny it, or need a judge."""

from collections.abc import Sequence

from .markup import peel
from .outcome import ASK, CORRECT, INCORRECT, Verdict3
from .restated import ASKING, FRAME, FUNCTION_WORDS, restates, words_of
from .text import fold, folded, holds, same_text, words

MOST_WORDS = 12  # of a sentence that is read at all
MOST_CHARS = 400  # of such a sentence, beside the gold answer in it

_NEGATIONS = frozenset("not never isnt wasnt arent werent".split())


def says(answer: str, gold: str, question: str) -> bool:
    """Whether an answer is the gold one, bare or in a short sentence that restates the question: "It was Paris"."""
    if len(answer) > 4 * len(gold) + MOST_CHARS:
        return False
    return same_text(peel(answer), peel(gold)) or _in_sentence(words(answer), gold, question)


def _in_sentence(said: Sequence[str], gold: str, question: str) -> bool:
    part = folded(gold)
    part = part[1:] if part[:1] == ["the"] else part
    asked = words_of(question)
    if (
        len(said) > MOST_WORDS
        or not part
        or all(word in FRAME or word in FUNCTION_WORDS or word in ASKING or word in asked for word in part)
    ):
        return False
    at = holds([fold(word) for word in said], part)
    return at is not None and restates(said[:at], said[at + len(part) :], question, gold, name=True)


def negates(answer: str, gold: str, question: str) -> bool:
    """Whether an answer says no more than that it is not the gold one."""
    if len(answer) > 4 * len(gold) + MOST_CHARS:
        return False
    said = words(answer)
    left = [word for word in said if fold(word) not in _NEGATIONS]
    if len(said) - len(left) != 1:
        return False
    return same_text(" ".join(left), gold) or _in_sentence(left, gold, question)


def compare(answer: str, gold: str, question: str) -> Verdict3:
    """The verdict on free text: only the same text is right, and only its plain denial is wrong."""
    if says(answer, gold, question):
        return CORRECT
    return INCORRECT if negates(answer, gold, question) else ASK


def content_words(folds: Sequence[str]) -> set[str]:
    """Folded words that say something; all of them where none does."""
    return {word for word in folds if word not in FRAME and word not in FUNCTION_WORDS} or set(folds)
