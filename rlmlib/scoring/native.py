"""The scores that the authors of benchmarks defined, as pure functions: an answer and its gold in, a number in [0, 1] out.

The rules are the official ones but for the reading of an answer, so that a right one is not lost to its form: case, commas in
a number, a full stop at the end, a label of several words, "B)" for B. A denied comparison ("not more common") is none, and
an empty answer is worth 0 even where nothing is to be found.
"""

import json
import re
from collections.abc import Iterable
from datetime import date, datetime

Pair = tuple[int, int]

# --- RULER

_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")


def ruler(golds: Iterable[str], answer: str | None) -> float:
    """Share of the golds that the answer contains, case aside (RULER's string_match_all)."""
    golds, said = tuple(golds), (answer or "").casefold()
    plain = _THOUSANDS.sub("", said)
    return sum(gold.casefold() in said or gold.casefold() in plain for gold in golds) / len(golds)


# --- OOLONG

PARTIAL = 0.75  # credit for a number that is off by one; off by n: to the power n
_LONG = 20  # characters from which an answer without a colon is a sentence, whose last word counts
_MARKUP = "*[]`\"'"
_INTEGER = re.compile(r"[-+]?(\d{1,3}(,\d{3})+|\d{1,18})(\.0+)?")
_COMPARISONS = ("more common", "less common", "same frequency")
_DENIED = re.compile(r"\b(not|never|neither)\b|n't\b")
_DAYS = ("%Y-%m-%d", "%Y/%m/%d", "%m/%d/%Y", "%m-%d-%Y", "%b %d, %Y", "%B %d, %Y", "%b %d %Y", "%B %d %Y", "%d %b %Y", "%d %B %Y")
_MONTHS = ("%B %Y", "%b %Y", "%B, %Y", "%b, %Y", "%Y-%m", "%m/%Y")


def oolong(gold: str, answer: str | None, answer_type: str) -> float:
    """OOLONG's score of one answer. answer_type: number (partial credit), date (a day or a month), else a label or an id.

    A label must be the whole of what is said after the last colon; without a colon, the whole answer or its last word.
    Of a comparison the phrase decides: one of "more common", "less common", "same frequency", not denied.
    """
    return max((_oolong(gold, said, answer_type) for said in _said(answer or "")), default=0.0)


def _said(answer: str) -> list[str]:
    """The spans of an answer that may be what it says."""
    text = answer.rpartition(":")[2]
    spans = [text] if ":" in answer or len(answer) < _LONG or not text.split() else [text, text.split()[-1]]
    cleaned = [" ".join("".join(c for c in span if c not in _MARKUP).split()).rstrip(".") for span in spans]
    return [span for span in cleaned if span]


def _oolong(gold: str, said: str, answer_type: str) -> float:
    if said.casefold() == gold.casefold():
        return 1.0
    if answer_type == "number":
        wanted, given = _integer(gold), _integer(said)
        if wanted is None or given is None:
            return 0.0
        return PARTIAL ** min(abs(wanted - given), 1000)
    if answer_type == "date":
        forms = _DAYS if _parsed(gold, _DAYS) else _MONTHS
        given = _parsed(said, forms)
        return float(given is not None and given == _parsed(gold, forms))
    phrase = _comparison(gold)
    return float(phrase is not None and phrase == _comparison(said))


def _integer(text: str) -> int | None:
    return int(text.partition(".")[0].replace(",", "")) if _INTEGER.fullmatch(text) else None


def _parsed(text: str, forms: Iterable[str]) -> date | None:
    """The first reading that fits; numbers are month first, as the questions ask."""
    text = re.sub(r"(?<=\d)(st|nd|rd|th)\b", "", text)
    for form in forms:
        try:
            return datetime.strptime(text, form).date()
        except ValueError:
            continue
    return None


def _comparison(text: str) -> str | None:
    found = [phrase for phrase in _COMPARISONS if phrase in text.casefold()]
    return found[0] if len(found) == 1 and not _DENIED.search(text.casefold()) else None


# --- OOLONG-Pairs

_THINKING = re.compile(r"<think>.*?(</think>|\Z)", re.DOTALL)
_BRACKETED = re.compile(r"[(\[]\s*['\"]?(\d{1,18})['\"]?\s*,\s*['\"]?(\d{1,18})['\"]?\s*[)\]]")
_BARE = re.compile(r"^[\s*\-]*(\d{1,18})\s*,\s*(\d{1,18})\s*,?$", re.MULTILINE)


def read_pairs(answer: str | None) -> set[Pair]:
    """The unordered pairs of ids in an answer, lower first: "(a, b)" or "[a, b]", or if there are none, "a, b" a line.

    A pair of an id with itself stays: it is an error that costs precision.
    """
    text = _THINKING.sub("", answer or "")
    found = _BRACKETED.findall(text) or _BARE.findall(text)
    return {(min(a, b), max(a, b)) for a, b in ((int(x), int(y)) for x, y in found)}


def write_pairs(pairs: Iterable[Pair]) -> str:
    """Pairs as a gold: a JSON list of lists."""
    return json.dumps([list(pair) for pair in pairs], separators=(",", ":"))


def pair_f1(gold: str, answer: str | None) -> float:
    """F1 of two sets of pairs. With an empty gold: 1 for an answer that names no pair, 0 for none at all."""
    if not (answer or "").strip():
        return 0.0
    wanted, given = read_pairs(gold), read_pairs(answer)
    if not wanted and not given:
        return 1.0
    return 2 * len(wanted & given) / (len(wanted) + len(given))


# --- LongBench-v2

_ALONE = re.compile(r"\(?([A-Da-d])[).:]*")
_STATED = re.compile(
    r"\b(?i:answer(?: is)?)\s*:?\s*(?:(?i:option|choice)\s+)?"  # "The correct answer is", "Answer: option"
    r"(?:\(([A-Da-d])\)|([A-D])(?![\w']))"
    r"(?!\s*(?:or|and)\b)"  # two letters are no choice
)
_LED = re.compile(r"\(?([A-Da-d])[).:]+\s")


def read_choice(answer: str | None) -> str | None:
    """The letter that an answer gives: alone, in its last "answer is (B)", or in front of its text as in "B. Because ..."."""
    text = (answer or "").replace("*", "").strip(" \t\n\"'`")
    if alone := _ALONE.fullmatch(text):
        return alone[1].upper()
    if stated := _STATED.findall(text):
        return "".join(stated[-1]).upper()
    led = _LED.match(text)
    return led[1].upper() if led else None


def choice(gold: str, answer: str | None) -> float:
    """1 where the letter is the gold one, A to D."""
    return float(read_choice(answer) == gold.upper())
