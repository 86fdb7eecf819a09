"""Numbers: digits with separators, words, ordinals, scales and units, alone or as the only number of a short sentence."""

import re
from dataclasses import dataclass
from fractions import Fraction

from . import sentences
from .markup import peel
from .outcome import ASK, CORRECT, INCORRECT, Verdict3
from .restated import plural, restates, shortened
from .sentences import MOST_WORDS
from .text import fold, plain, words
from .units import PREFIX, SUFFIX, converted, demanded, measures, mentioned, same_unit, unit_named

MOST_CHARS = 400  # of a text that is read as a number
_ROUNDING = Fraction(1, 100)  # share by which a converted value may be off
_PLACES = range(1, 6)  # decimals that a value may be rounded to

_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_RANKS = (
    "zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth "
    "sixteenth seventeenth eighteenth nineteenth"
).split()
_TENTHS = [ten.replace("y", "ieth") for ten in _TENS]
_CARDINALS = {w: n for n, w in enumerate(_SMALL)} | {w: 10 * n for n, w in enumerate(_TENS, 2)}
_CARDINALS |= {f"{ten} {one}": a + b for a, ten in zip(range(20, 100, 10), _TENS, strict=True) for b, one in enumerate(_SMALL[1:10], 1)}
_ORDINALS = {w: n for n, w in enumerate(_RANKS)} | {w: 10 * n for n, w in enumerate(_TENTHS, 2)}
_ORDINALS |= {f"{ten} {one}": a + b for a, ten in zip(range(20, 100, 10), _TENS, strict=True) for b, one in enumerate(_RANKS[1:10], 1)}
_SCALES = {"hundred": 10**2, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12, "mn": 10**6, "bn": 10**9}
_MONEY_SCALES = {"k": 10**3, "m": 10**6, "b": 10**9}  # only behind a currency: elsewhere "5 m" is a length


def _either(names) -> str:
    return "|".join(name.replace(" ", "[ -]") for name in sorted(names, key=len, reverse=True))


_QUANTITY = re.compile(
    rf"""(?<![\w.,/-])
    (?P<sign>[-+]|(?i:minus|negative)[ ])?
    (?:(?P<prefix>{PREFIX})[ ]?)?
    (?P<inner_sign>-)?
    (?:(?P<digits>\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?|\d{{1,3}}(?:[ ]\d{{3}})+(?:\.\d+)?|\d{{1,3}}(?:'\d{{3}})+(?:\.\d+)?
        |\d{{1,3}}(?:_\d{{3}})+(?:\.\d+)?|\d+(?:\.\d+)?(?:[eE][+-]?\d{{1,3}})?|\.\d+)(?![.,'_]?\d)(?P<rank>(?i:st|nd|rd|th)(?!\w))?
      |(?P<word>(?i:{_either(_CARDINALS | _ORDINALS)}))(?![\w-]))
    (?:[ -]?(?P<scale>(?i:{_either(_SCALES)}))(?!\w)|(?P<money_scale>[kKmMbB])(?!\w))?
    (?:[ -]?(?P<unit>{SUFFIX}))?(?!\w)""",
    re.VERBOSE,
)
_NOT_BEHIND = ("!", "'", '"', "-")  # a factorial, feet, inches, an open range
_DOUBTFUL_SEPARATOR = re.compile(r"\d{1,3}[.,]\d{3}")


@dataclass(frozen=True)
class Quantity:
    """A number as read. other: its value where a separator is taken the other way ("12.480" for 12,480). nouns: words after it."""

    value: Fraction
    unit: str | None
    ordinal: bool
    other: Fraction | None
    before: tuple[str, ...]
    nouns: tuple[str, ...]


def quantity(text: str) -> Quantity | None:
    """The only number of a text of at most twelve words, or None."""
    text = peel(text)
    if len(text) > MOST_CHARS:
        return None
    text = plain(text)
    found = list(_QUANTITY.finditer(text))
    if len(found) != 1 or text[: found[0].start()].endswith("- "):  # a bullet or a minus
        return None
    match = found[0]
    if (match["money_scale"] and not match["prefix"]) or text[match.end() :][:1] in _NOT_BEHIND:
        return None
    before, after = words(text[: match.start()]), words(text[match.end() :])
    if len(before) + len(after) >= MOST_WORDS or any(c.isdigit() for word in before + after for c in word):
        return None
    if match["prefix"] and match["unit"] and not same_unit(unit_named(match["prefix"]), unit_named(match["unit"])):
        return None
    value, ordinal, other = _value(match)
    unit = match["prefix"] or match["unit"]
    return Quantity(value, unit and unit_named(unit), ordinal, other, tuple(before), tuple(after))


def _value(match: re.Match) -> tuple[Fraction, bool, Fraction | None]:
    """(value, whether it is an ordinal, the value by the other reading of its separator)."""
    signs = (match["sign"] or "").strip().casefold(), match["inner_sign"]
    factor = Fraction(-1 if signs[0] in ("-", "minus", "negative") or signs[1] else 1)
    factor *= _SCALES.get((match["scale"] or "").casefold(), 1) * _MONEY_SCALES.get((match["money_scale"] or "").casefold(), 1)
    if match["word"]:
        word = match["word"].casefold().replace("-", " ")
        return factor * _CARDINALS.get(word, _ORDINALS.get(word)), word in _ORDINALS, None
    digits = match["digits"]
    value = Fraction("".join(c for c in digits if c not in ", '_"))
    other = None
    if _DOUBTFUL_SEPARATOR.fullmatch(digits):
        other = factor * (Fraction(digits.replace(",", ".")) if "," in digits else Fraction(digits.replace(".", "")))
    return factor * value, match["rank"] is not None, other


def is_number(text: str) -> Quantity | None:
    """A text that is a number with its unit or a noun or two behind it, as gold answers are."""
    read = quantity(text)
    return read if read and not read.before and len(read.nouns) <= 2 and all(word.isalpha() for word in read.nouns) else None


def compare(answer: str, gold: str, question: str) -> Verdict3:
    """Numbers by value and unit. A gold that is no number compares as text."""
    wanted = is_number(gold) or is_number(gold.partition(" (")[0])
    if wanted is None:
        return sentences.compare(answer, gold, question)
    if plain(peel(answer)) in ("True", "False"):
        return INCORRECT  # Python has True == 1
    given = quantity(answer)
    if given is None or not _only_the_number(given, wanted, question):
        return INCORRECT if sentences.negates(answer, gold, question) else ASK
    verdict = _by_unit(given, wanted, shortened(question))
    if verdict == CORRECT and not _same_kind(given, wanted, question):
        return ASK
    return verdict


def _only_the_number(given: Quantity, wanted: Quantity, question: str) -> bool:
    """Whether the words around a number restate the question, the noun of the gold answer right behind the number aside."""
    nouns = list(given.nouns)
    while nouns and _among(nouns[0], wanted.nouns):
        nouns.pop(0)
    return restates(given.before, nouns, question)


def _same_kind(given: Quantity, wanted: Quantity, question: str) -> bool:
    """Whether two equal values count the same thing: the gold's noun is given or asked for, and a rank is asked for."""
    if given.ordinal and not wanted.ordinal:
        return False
    return all(_among(noun, given.nouns) or _among(noun, words(shortened(question))) for noun in wanted.nouns)


def _among(word: str, others) -> bool:
    return any(plural(fold(word), fold(other)) for other in others)


def _by_unit(given: Quantity, wanted: Quantity, question: str) -> Verdict3:
    if given.unit is None and wanted.unit is None:
        return _by_value(given, wanted)
    if given.unit and wanted.unit:
        return _by_value(given, wanted) if same_unit(given.unit, wanted.unit) else _across_units(given, wanted)
    unit = given.unit or wanted.unit
    asked = demanded(question) if given.unit else mentioned(question)
    if any(same_unit(unit, other) for other in asked):
        return ASK if measures(unit) == "share" and _is_share(given, wanted) else _by_value(given, wanted)
    if given.unit and any(measures(unit) == measures(other) for other in asked):
        return INCORRECT if given.value == wanted.value else ASK
    if given.value == wanted.value or measures(unit) in ("time", "length", "mass", "area", "volume", "speed", "data", "share"):
        return ASK  # the number without a unit may be of any
    return _by_value(given, wanted)


def _by_value(given: Quantity, wanted: Quantity) -> Verdict3:
    if given.value == wanted.value:
        return CORRECT
    if given.other == wanted.value or _is_rounded(given.value, wanted.value):
        return ASK
    return INCORRECT


def _is_rounded(one: Fraction, other: Fraction) -> bool:
    """Whether one of two different values is the other with fewer decimals, at least one left."""
    return any(one == round(other, places) or other == round(one, places) for places in _PLACES)


def _is_share(given: Quantity, wanted: Quantity) -> bool:
    return given.value * 100 == wanted.value or given.value == wanted.value * 100


def _across_units(given: Quantity, wanted: Quantity) -> Verdict3:
    """Two different units: the same amount, or near it, is for the judge, as is money of two currencies unless it is one number."""
    amount = converted(given.value, given.unit, wanted.unit)
    if amount is not None:
        return ASK if abs(amount - wanted.value) <= abs(wanted.value) * _ROUNDING else INCORRECT
    if measures(given.unit) == measures(wanted.unit) == "money" and given.value != wanted.value:
        return ASK
    return INCORRECT
