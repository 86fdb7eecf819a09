"""A letter of a multiple choice. Never for the judge: what does not settle on the gold letter is wrong."""

import re

from .announced import takes_back
from .markup import final_spans, peel, without_thoughts
from .outcome import CORRECT, INCORRECT, Verdict3
from .restated import part_of, shortened
from .text import folded, plain, same_text

_OPTION = re.compile(r"(?:(?<=\s)|^)(?:\(([A-Z])\)|([A-Z])[).:](?=\s))")
_LETTER = r"[*_`\"'(\[]{0,4}([A-Za-z])[*_`\"')\]]{0,4}(?!\w)"
_BARE = re.compile(rf"(?:(?:option|choice|answer)\s{{1,3}})?{_LETTER}[.:)]?", re.IGNORECASE)
_STATED = re.compile(
    r"(?:^|(?<=[.!?])[ \t]{1,3})[ \t>#*`-]{0,6}(?:(?:so|thus|hence|therefore|wait|actually|finally|overall)\b,?[ \t]{1,3})?"
    r"(?:(?:i|we)[ \t]{1,3}(?:choose|pick|select)\b(?:[ \t]{1,3}option)?"
    r"|(?:(?:the|my)[ \t]{1,3})?(?:(?:final|correct|right|best)[ \t]{1,3}){0,2}(?:answer|choice|option)\b[*`]{0,3}[ \t]{0,3}(?::|is\b:?)"
    r"(?:[ \t]{1,3}(?:option|choice)\b)?)"
    rf"[\s*]{{0,4}}(?:\\boxed\{{)?{_LETTER}\}}?",
    re.IGNORECASE | re.MULTILINE,
)
_TAKEN_BACK = re.compile(
    r"\b(?:wait|actually|correction|correct(?:ing)? (?:that|this|myself)|mistaken?|instead|unsure|not sure|wrong|incorrect|"
    r"maybe|perhaps|possibly|hm+|oops|sorry|scratch|strike|cancel|forget|disregard|ignore|retract|withdraw|reconsider|"
    r"changed?|rather|no longer|kidding|joking|jk|"
    r"second thoughts?|never ?mind|(?:take|took) (?:that|it|this) back|don['’]t think|doubt|untrue|false|the opposite)\b"
    r"|(?:^|[.!?,;:\n(-])\s*(?:no(?!\s+other|\s+need|\s+doubt)|nope|nah|not|or|but|however|although|yet|alternatively|then again)\b"
    r"|\b(?:that|this|it) ?(?:is|was|can|could)? ?(?:not|n['’]t)\b|\b(?:a joke|far from|contrary|as if)\b"
    r"|\bor (?:is it|not)\b|\?|\bnot$",
    re.IGNORECASE,
)
_OTHER_LETTER = re.compile(r"[(\[]([A-Za-z])[)\]]|(?<![\w'])([B-HJ-Z])(?![\w'])|(?<![\w'])(A)(?=[).,:;]|\s*$)")


def compare(answer: str, gold: str, question: str) -> Verdict3:
    wanted = _bare_letter(gold)
    return CORRECT if wanted and chosen(answer, question) == wanted else INCORRECT


def chosen(answer: str, question: str) -> str | None:
    """The letter an answer settles on: alone, before or in place of its option's text, or stated last ("The answer is (B)")."""
    answer = without_thoughts(answer)
    options = _options(shortened(question))
    for text in (answer, final_spans(answer, question)[-1]):
        if letter := _bare_letter(text) or _by_text(text, options) or _stated(text, options):
            return letter
    return None


def _bare_letter(text: str) -> str | None:
    found = _BARE.fullmatch(text.strip()) or _BARE.fullmatch(peel(text))
    return found[1].upper() if found else None


def _stated(answer: str, options: dict[str, str]) -> str | None:
    """The letter of the last statement, if what follows neither names another, by letter or text, nor takes it back."""
    stated = list(_STATED.finditer(answer))
    if not stated or takes_back(answer[: stated[-1].start()]):
        return None
    letter, rest = stated[-1][1].upper(), answer[stated[-1].end() :]
    others = {other.upper() for found in _OTHER_LETTER.findall(rest) for other in found if other} - {letter}
    if others or _TAKEN_BACK.search(rest) or _names_another(rest, letter, options):
        return None
    if rest.lstrip("*_`)}$")[:1] in ("", ".", "\n"):
        return letter
    said = rest.partition("\n")[0].lstrip(".:) *_`}$")
    return letter if same_text(peel(said), options.get(letter, "")) else None


def _names_another(rest: str, letter: str, options: dict[str, str]) -> bool:
    """Whether a text holds the words of an option other than the letter's."""
    said, own = folded(rest), folded(options.get(letter, ""))
    return any(part_of(part, said) and not part_of(part, own) for other in options if other != letter and (part := folded(options[other])))


def _by_text(answer: str, options: dict[str, str]) -> str | None:
    """The letter whose option an answer repeats, with the letter before it or without."""
    text = plain(peel(answer))
    named = _OPTION.match(text)
    letter = named and (named[1] or named[2])
    text = text[named.end() :].strip() if named else text
    same = [other for other, option in options.items() if option and same_text(text, option)]
    return same[0] if len(same) == 1 and letter in (None, same[0]) else None


def _options(question: str) -> dict[str, str]:
    """Option texts by letter, of "(A) ... (B) ..." or "A. ..." lines."""
    marks = list(_OPTION.finditer(question))
    ends = [*(mark.start() for mark in marks[1:]), len(question)]
    return {mark[1] or mark[2]: plain(question[mark.end() : end]) for mark, end in zip(marks, ends, strict=False)}
