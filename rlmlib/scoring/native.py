"""The scores that the authors of benchmarks defined, as pure functions: an answer and its gold in, a number in [0, 1] out.

The rules are the official ones but for the reading of an answer, so that a right one is not lost to its form: case, commas in
a number, a full stop at the end, a label of several words, "B)" for B. A denied comparison ("not more common") is none, and
an empty answer is worth 0 even where nothing is to be found.
"""

import json
import re
from collections.abc import Iterable
from datetime import date, datetime

from .answers.lists import is_nothing

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
_EMPTY_ASKED = "Which pairs of users fit?"  # words that an answer may repeat as it says that there are none
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
    """F1 of two sets of pairs. With an empty gold: 1 for an answer that says that there is no pair, or gives an empty list."""
    if not (answer or "").strip():
        return 0.0
    wanted, given = read_pairs(gold), read_pairs(answer)
    if not wanted and not given:
        return float(is_nothing(_THINKING.sub("", answer).strip(), _EMPTY_ASKED))
    return 2 * len(wanted & given) / (len(wanted) + len(given))


# --- LongBench-v2

_WRAPPED = re.compile(r"\\boxed\{|\\text\{|</?answer>|[*$}\"'`]")
_ALONE = re.compile(r"(?:(?:option|choice|answer)\s+)?\(?([A-Da-d])[).:]*", re.IGNORECASE)
_STATED = re.compile(
    r"(?<!wrong )(?<!incorrect )(?<![Nn]o )\b(?i:answer(?: is)?|(?:option|choice) is)\s*[:\uff1a]?\s*"  # "The correct answer is", "Answer:"
    r"(?:(?i:option|choice)\s+)?(?:\(([A-Da-d])\)|([A-D])(?![\w']))"
)
_LED = re.compile(r"\(?([A-Da-d])[).:]+(?=\s)")
_JOINS = "and|or|nor|to|maybe|perhaps|possibly|also|alternatively|else|plus|besides|with|vs|versus|as well as|if not|option|choice"
_LETTER = r"(?:\([A-Da-d]\)|[B-D](?![\w'])|A(?=[).:,;?/]|\s*$))"
_BESIDE_STATED = re.compile(rf"[^\w\n.]*(?:(?i:{_JOINS})\b[^\w\n.]*)*{_LETTER}")  # what follows a full stop explains
_BESIDE_LED = re.compile(rf"\W*(?:(?i:{_JOINS})\b\W*)*{_LETTER}")
_OPEN_END = re.compile(  # "A. Snow, or B"
    rf"(?:(?:\b(?i:{_JOINS}|wait|no|not)\b|[,;/&+|])\W{{0,9}}\(?[A-D]\)?|\?|\b(?i:no|not|wait))\W{{0,9}}\Z"
)
_END = 60  # characters of an answer that are its end
_TAKEN_BACK = re.compile(
    r"[\s).:,;]*\?|[\W_]*(?:(?:no|nope|wait|hm+|scratch|sorry|correction|never ?mind|or)\b|(?:not|actually)(?:[,.!]|\s*$))", re.IGNORECASE
)


def read_choice(answer: str | None) -> str | None:
    """The letter that an answer gives: alone, in its last "answer is (B)", or in front of its text as in "B. Because ...".

    None where another letter is joined to it ("A or B", "A/B") or the next word takes it back ("B, no wait").
    """
    text = _WRAPPED.sub("", answer or "").strip()
    if alone := _ALONE.fullmatch(text):
        return alone[1].upper()
    if stated := list(_STATED.finditer(text)):
        found, beside = stated[-1], _BESIDE_STATED.match(text, stated[-1].end())
    else:
        found = _LED.match(text)
        beside = found and (_BESIDE_LED.match(text, found.end()) or _OPEN_END.search(text, max(found.end(), len(text) - _END)))
    if not found or beside or _TAKEN_BACK.match(text, found.end()):
        return None
    return found[found.lastindex].upper()


def choice(gold: str, answer: str | None) -> float:
    """1 where the letter is the gold one, A to D."""
    return float(read_choice(answer) == gold.upper())
