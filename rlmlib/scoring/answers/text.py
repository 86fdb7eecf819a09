"""Texts as they compare: one spelling for letter case, accents, quotes, dashes and unseen characters."""

import re
import unicodedata

_DASHES = dict.fromkeys(map(ord, "‐‑‒–—―−"), "-")
_QUOTES = dict.fromkeys(map(ord, "‘’‛"), "'") | dict.fromkeys(map(ord, "“”„‟«»"), '"')
_LATIN = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i"})
_INITIALS = re.compile(r"(?<![^\W_])([^\W\d_])\.(?=[^\W\d_](?![^\W_]))")
_WORD = re.compile(r"(?<!\w)\.\d+|\d+(?:[.,]\d+)*[^\W_]*|[^\W_]+(?:'[^\W_]+)*|[^\w\s]")
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_SILENT = frozenset(".,;:()[]{}*`\\|")


def plain(text: str) -> str:
    """One line in NFKC with ASCII dashes and quotes, without unseen characters.

    Raised digits and fractions stay apart from what they follow: "10²" is "10^2", never "102".
    """
    text = " ".join(text.split())
    if text.isascii() and text.isprintable():
        return text
    raised = "".join("^" + c if unicodedata.category(c) == "No" else c for c in text)
    seen = "".join(c for c in unicodedata.normalize("NFKC", raised) if c.isspace() or unicodedata.category(c) not in ("Cf", "Cc"))
    return " ".join(seen.translate(_DASHES | _QUOTES).split())


def words(text: str) -> list[str]:
    """Words, numbers and symbols that carry meaning ("C", "+", "+"), in their letter case; punctuation is left out."""
    text = _INITIALS.sub(r"\1", plain(text))
    return [found[0] for found in _WORD.finditer(text) if not _is_silent(text, found.start(), found[0])]


def _is_silent(text: str, at: int, symbol: str) -> bool:
    """Whether a symbol is mere punctuation where it stands."""
    before, after = text[at - 1 : at], text[at + 1 : at + 2]
    if symbol in "!\"'":
        return not before.isdigit()  # "5!" and 5" are not 5
    if symbol == "-":
        return before.isalnum() == after.isalnum()  # a sign as in "-5" and "O-" counts
    return symbol in _SILENT


def fold(word: str) -> str:
    """A word without letter case, accents of Latin letters, apostrophes and the commas of thousands."""
    if word == "&":
        return "and"
    if _GROUPED.fullmatch(word):
        return word.replace(",", "")
    if word.isascii():
        return word.casefold().replace("'", "")
    letters: list[str] = []
    for c in unicodedata.normalize("NFD", word.casefold().translate(_LATIN)):
        if not (unicodedata.category(c) == "Mn" and letters and letters[-1].isascii()):
            letters.append(c)
    return unicodedata.normalize("NFC", "".join(letters)).replace("'", "")


def folded(text: str) -> list[str]:
    return [fold(word) for word in words(text)]


def same_text(one: str, other: str) -> bool:
    """Equal but for case, accents, punctuation and "the". A text of punctuation alone equals only itself."""
    first, second = folded(one), folded(other)
    bare = [word for word in first if word != "the"]
    if bare:
        return bare == [word for word in second if word != "the"]
    return plain(one).casefold() == plain(other).casefold()


def holds(sequence: list[str], part: list[str]) -> int | None:
    """Where a part begins in a sequence, if it stands there exactly once."""
    places = [at for at in range(len(sequence) - len(part) + 1) if sequence[at : at + len(part)] == part]
    return places[0] if len(places) == 1 and part else None
