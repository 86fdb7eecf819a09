"""Short answers that hold no answer: refusals, talk to the marker, and leftovers of code."""

import re

from .markup import peel, peel_code
from .sentences import MOST_CHARS, content_words
from .text import folded, plain

_MOST_WORDS = 20
_REFUSAL = re.compile(
    r"\b(?:do(?:es)?|did) ?(?:not|n't) (?:contain|mention|say|specify|provide|include|state|give|know|answer)\b"
    r"|\b(?:can ?not|can't|could not|couldn't|unable to|not able to|no way to|impossible to) (?:be )?"
    r"(?:determined?|find|found|answer(?:ed)?|tell|say|know|known|identif(?:y|ied)|establish(?:ed)?|verif(?:y|ied))\b"
    r"|\b(?:no|not enough|insufficient) (?:relevant |such |sufficient )?(?:information|evidence|data|answer)\b"
    r"|\b(?:information|answer) (?:is |was )?(?:not|un)[ -]?(?:available|found|known|given|provided)\b"
)
_BLANKS = frozenset("null nan undefined unknown n/a na not_found none unanswerable".split()) | {"not found", "no answer", "i give up"}
_TO_MARKER = re.compile(
    r"\b(?:ignore|disregard|forget|override)\b.{0,60}\b(?:rules?|instructions?|grading|marking|prompt|above|previous)\b"
    r"|\b(?:output|print|reply|respond|return|grade|mark|verdict|say)\b.{0,40}\bcorrect\b"
)
_LEFTOVER = re.compile(
    r"[a-z_]\w{0,40}(?:\.[a-z_]\w{0,40}){0,3}(?:\[[^\[\]\n]{0,80}\]|\([^()\n]{0,80}\)){1,3}"
    r"|(?:\w{1,20}_)?(?:answer|result|response|output)(?:_\w{1,20})?|FINAL_VAR\(.{0,80}\)?"
)
_MAY_BE_NOTHING = frozenset(
    "no none not never nobody neither nothing zero 0 without all every everyone everything null empty unknown".split()
)


def evades(answer: str, gold: str) -> bool:
    """Whether an answer holds none at all. Never when it has a word of the gold answer, or the gold may itself be nothing."""
    if len(answer) > MOST_CHARS:
        return False
    said, wanted = folded(answer), folded(gold)
    polar = wanted[:1] in (["no"], ["yes"])
    if len(said) > _MOST_WORDS or not wanted or (not polar and _MAY_BE_NOTHING & set(wanted)) or gold.strip() in ("[]", "{}", "()"):
        return False
    if not polar and content_words(wanted) & set(said):
        return False
    text = plain(answer).casefold()
    if " but " in text or "however" in text:
        return False
    blank = peel(text).rstrip("!") in _BLANKS and not polar
    return blank or bool(_REFUSAL.search(text) or _TO_MARKER.search(text) or _LEFTOVER.fullmatch(peel_code(answer)))
