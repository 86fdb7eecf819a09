"""Units as answers write them: their names, what they measure, and how many base units they are."""

import functools
import re
from fractions import Fraction

# unit: (what it measures, base units, names). Names of one or two letters count only in the letter case given here.
_UNITS: dict[str, tuple[str, str, str]] = {
    "second": ("time", "1", "second seconds sec secs s"),
    "minute": ("time", "60", "minute minutes min mins"),
    "hour": ("time", "3600", "hour hours hr hrs h"),
    "day": ("time", "86400", "day days"),
    "week": ("time", "604800", "week weeks"),
    "month": ("time", "2629746", "month months"),
    "year": ("time", "31556952", "year years yr yrs"),
    "decade": ("time", "315569520", "decade decades"),
    "century": ("time", "3155695200", "century centuries"),
    "millimetre": ("length", "0.001", "millimetre millimetres millimeter millimeters mm"),
    "centimetre": ("length", "0.01", "centimetre centimetres centimeter centimeters cm"),
    "metre": ("length", "1", "metre metres meter meters m"),
    "kilometre": ("length", "1000", "kilometre kilometres kilometer kilometers km kms"),
    "inch": ("length", "0.0254", "inch inches"),
    "foot": ("length", "0.3048", "foot feet ft"),
    "yard": ("length", "0.9144", "yard yards yd yds"),
    "mile": ("length", "1609.344", "mile miles mi"),
    "milligram": ("mass", "0.000001", "milligram milligrams mg"),
    "gram": ("mass", "0.001", "gram grams gramme grammes g"),
    "kilogram": ("mass", "1", "kilogram kilograms kilogramme kilogrammes kg kgs"),
    "tonne": ("mass", "1000", "tonne tonnes"),
    "pound": ("mass", "0.45359237", "lb lbs"),
    "ounce": ("mass", "0.0283495", "ounce ounces oz"),
    "ton": ("mass", "907.18474", "ton tons"),
    "square metre": ("area", "1", "square_metre square_metres square_meter square_meters sq_m m^2"),
    "square kilometre": ("area", "1000000", "square_kilometre square_kilometres square_kilometer square_kilometers sq_km km^2"),
    "square mile": ("area", "2589988", "square_mile square_miles sq_mi mi^2"),
    "square foot": ("area", "0.092903", "square_foot square_feet sq_ft ft^2"),
    "hectare": ("area", "10000", "hectare hectares ha"),
    "acre": ("area", "4046.8564", "acre acres"),
    "millilitre": ("volume", "0.001", "millilitre millilitres milliliter milliliters ml"),
    "litre": ("volume", "1", "litre litres liter liters l"),
    "kilometre an hour": ("speed", "0.277778", "km/h kph kmh kilometres_per_hour kilometers_per_hour"),
    "mile an hour": ("speed", "0.44704", "mph miles_per_hour"),
    "metre a second": ("speed", "1", "m/s metres_per_second meters_per_second"),
    "byte": ("data", "1", "byte bytes"),
    "kilobyte": ("data", "1000", "kilobyte kilobytes KB kB"),
    "megabyte": ("data", "1000000", "megabyte megabytes MB"),
    "gigabyte": ("data", "1000000000", "gigabyte gigabytes GB"),
    "degree Celsius": ("temperature in Celsius", "1", "°C degrees_celsius"),
    "degree Fahrenheit": ("temperature in Fahrenheit", "1", "°F degrees_fahrenheit"),
    "degree": ("angle", "1", "degree degrees °"),
    "percent": ("share", "0.01", "% percent per_cent percentage pct"),
    "percentage point": ("points", "1", "percentage_point percentage_points"),
    "dollar": ("money", "1", "dollar dollars usd $ us$"),
    "pound sterling": ("money", "1", "gbp £"),
    "euro": ("money", "1", "euro euros eur €"),
    "yen": ("money", "1", "yen jpy ¥"),
    "rupee": ("money", "1", "rupee rupees inr ₹"),
    "Canadian dollar": ("money", "1", "cad ca$ c$"),
    "Australian dollar": ("money", "1", "aud a$"),
    "pounds of either kind": ("mass or money", "1", "pound pounds"),
}
_POUNDS = {"pound", "pound sterling", "pounds of either kind"}
_NAMES = {name.replace("_", " "): unit for unit, (_, _, names) in _UNITS.items() for name in names.split()}
_BASE = {unit: Fraction(base) for unit, (_, base, _) in _UNITS.items()}
_OPEN_ENDED = re.compile(r"\w$")


def _choices(names) -> str:
    return "|".join(
        (re.escape(name) if len(name) <= 2 else f"(?i:{re.escape(name)})") + (r"(?![\w^/])" if _OPEN_ENDED.search(name) else r"(?!\w)")
        for name in sorted(names, key=len, reverse=True)
    )


SUFFIX = _choices(_NAMES)
PREFIX = r"(?i:us\$|ca\$|[ac]\$)|[$£€¥₹]|(?i:usd|gbp|eur|jpy|inr|cad|aud)\b"
_SPELLED = _choices(name for name in _NAMES if len(name) > 1 or not name.isalpha())
_MENTION = re.compile(rf"(?<!\w)(?:{_SPELLED})")
_AGE = re.compile(r"\b(?:how old|what age)\b", re.IGNORECASE)
_DEMAND = re.compile(rf"\b(?i:how many|number of|in)[ ](?:[a-z]{{1,20}}[ ]){{0,2}}?({_SPELLED})")


def unit_named(name: str) -> str:
    return _NAMES[name] if name in _NAMES else _NAMES[name.casefold()]


@functools.lru_cache(maxsize=1024)
def mentioned(question: str) -> frozenset[str]:
    """Units that a question names, those of one letter aside; an age is in years."""
    named = {unit_named(found[0]) for found in _MENTION.finditer(question)}
    return frozenset(named | {"year"} if _AGE.search(question) else named)


@functools.lru_cache(maxsize=1024)
def demanded(question: str) -> frozenset[str]:
    """Units that a question wants its answer in: "how many years", "in metres", "what percentage", "how old"."""
    named = {unit_named(found[1]) for found in _DEMAND.finditer(question)} | ({"percent"} & mentioned(question))
    return frozenset(named | {"year"} if _AGE.search(question) else named)


def same_unit(one: str, other: str) -> bool:
    """Equal; plain pounds are of weight or of money."""
    return one == other or (one in _POUNDS and other in _POUNDS and "pounds of either kind" in (one, other))


def measures(unit: str) -> str:
    return _UNITS[unit][0]


def converted(value: Fraction, unit: str, other: str) -> Fraction | None:
    """A value in another unit, where the two measure the same and have a fixed rate."""
    if measures(unit) != measures(other) or measures(unit) == "money":
        return None
    return value * _BASE[unit] / _BASE[other]
