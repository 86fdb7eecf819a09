"""Dates in many layouts: a day, a month of a year, a year, or a day of a month without its year."""

import datetime
import re
from dataclasses import dataclass
from typing import Literal

from . import numbers, sentences
from .markup import peel
from .outcome import ASK, CORRECT, INCORRECT, Verdict3
from .restated import restates, shortened
from .sentences import MOST_WORDS
from .text import plain, words

Order = Literal["month first", "day first"]
Day = tuple[int | None, int | None, int | None]  # year, month, day of the month; None where it is not said

_MOST_CHARS = 200
_MONTHS = "january february march april may june july august september october november december".split()
_ABBREVIATED = {name[:3]: n for n, name in enumerate(_MONTHS, 1)} | {"sept": 9}
_MONTH_NUMBERS = {name: n for n, name in enumerate(_MONTHS, 1)} | _ABBREVIATED
_MONTH = "(?P<month>" + "|".join(sorted(_MONTH_NUMBERS, key=len, reverse=True)) + r")\b\.?"
_WEEKDAY = r"(?:(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?\.?,? )?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?\b"
_YEAR = r"(?P<year>\d{4})"
_MIDNIGHT = r"(?:[t ]00:00(?::00)?(?:\.0+)?z?)?"
_LAYOUTS = [
    re.compile(rf"(?<![\w.,/:-])(?:{layout})(?![\w/:-])(?![.,]\d)", re.IGNORECASE)
    for layout in (
        rf"{_WEEKDAY}(?:the )?{_DAY}(?: of)?[ -]{_MONTH}(?:,? |-){_YEAR}",
        rf"{_WEEKDAY}{_MONTH} (?:the )?{_DAY},? {_YEAR}",
        rf"{_YEAR},? {_MONTH} {_DAY}",
        rf"datetime\.date\({_YEAR}, (?P<month>\d{{1,2}}), (?P<day>\d{{1,2}})\)",
        rf"{_YEAR}(?P<separator>[-/.])(?P<month>\d{{1,2}})(?P=separator)(?P<day>\d{{1,2}}){_MIDNIGHT}",
        rf"(?P<first>\d{{1,2}})(?P<separator>[-/.])(?P<second>\d{{1,2}})(?P=separator){_YEAR}",
        rf"{_MONTH}(?: of)?,? {_YEAR}",
        rf"{_YEAR},? {_MONTH}",
        rf"{_YEAR}-(?P<month>\d{{2}})",
        rf"(?P<month>\d{{1,2}})/{_YEAR}",
        rf"{_WEEKDAY}(?:the )?{_DAY}(?: of)? {_MONTH}",
        rf"{_WEEKDAY}{_MONTH} (?:the )?{_DAY}",
        _YEAR,
    )
]
_FIXED_ORDER: list[tuple[re.Pattern, Order]] = [
    (re.compile(r"\bMM[-/.]DD[-/.]YY", re.IGNORECASE), "month first"),
    (re.compile(r"\bDD[-/.]MM[-/.]YY", re.IGNORECASE), "day first"),
]


@dataclass(frozen=True)
class Date:
    """The days that a text may mean, more than one where day and month can be told either way, and the words around them."""

    readings: frozenset[Day]
    before: tuple[str, ...]
    after: tuple[str, ...]


def date(text: str, question: str = "") -> Date | None:
    """The only date of a text of at most twelve words, or None. The question may fix the order of day and month."""
    text = peel(text)
    if len(text) > _MOST_CHARS:
        return None
    text = plain(text)
    for layout in _LAYOUTS:
        if match := layout.search(text):
            before, after = words(text[: match.start()]), words(text[match.end() :])
            readings = _readings(match, _order(question))
            short = len(before) + len(after) < MOST_WORDS
            alone = not any(c.isdigit() for word in before + after for c in word)
            return Date(readings, tuple(before), tuple(after)) if readings and short and alone else None
    return None


def _order(question: str) -> Order | None:
    question = shortened(question)
    found = [order for pattern, order in _FIXED_ORDER if pattern.search(question)]
    return found[0] if len(found) == 1 else None


def _readings(match: re.Match, order: Order | None) -> frozenset[Day]:
    parts = match.groupdict()
    year = int(parts["year"]) if parts.get("year") else None
    if parts.get("first"):
        first, second = int(parts["first"]), int(parts["second"])
        either = {(year, first, second): "month first", (year, second, first): "day first"}
        real = [day for day in either if _is_real(day)]
        fixed = [day for day in real if either[day] == order]
        return frozenset(fixed or real)
    month = parts.get("month")
    number = None if month is None else int(month) if month.isdigit() else _MONTH_NUMBERS[month.casefold()]
    day = (year, number, int(parts["day"]) if parts.get("day") else None)
    return frozenset([day]) if _is_real(day) else frozenset()


def _is_real(day: Day) -> bool:
    year, month, number = day
    try:
        datetime.date(2000 if year is None else year, 1 if month is None else month, 1 if number is None else number)
    except ValueError:
        return False
    return True


def is_date(text: str, question: str = "") -> Date | None:
    """A text that is a date and nothing else, as gold answers are."""
    read = date(text, question)
    return read if read and not read.before and not read.after else None


def compare(answer: str, gold: str, question: str) -> Verdict3:
    """Dates by what they mean. A gold that is no date compares as a number or as text."""
    wanted = is_date(gold, question) or is_date(gold.partition(" (")[0], question)
    if wanted is None:
        return numbers.compare(answer, gold, question)
    given = date(answer, question)
    if given is None or not restates(given.before, given.after, question):
        return INCORRECT if sentences.negates(answer, gold, question) else ASK
    if given.readings == wanted.readings and len(given.readings) == 1:
        return CORRECT
    agrees = any(_may_agree(one, other) for one in given.readings for other in wanted.readings)
    return ASK if agrees else INCORRECT


def _may_agree(one: Day, other: Day) -> bool:
    """Whether two days are equal in all that both say."""
    return all(a is None or b is None or a == b for a, b in zip(one, other, strict=True))
