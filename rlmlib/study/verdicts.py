"""A line of the table of claims, and the rules that turn an interval into a verdict."""

import math
from dataclasses import dataclass, field

from .seeds import Triple

REPRODUCED, NOT, UNCLEAR, NOT_RUN = "reproduced", "not reproduced", "unclear", "not run"
UNCLEAR_CHANGE = "no clear change in"


@dataclass(frozen=True)
class Claim:
    """A line of the table. theirs and ours: figures in words. rule: what the verdict asks. runs: where ours come from."""

    claim: str
    theirs: str
    ours: str
    rule: str
    verdict: str
    runs: list[str] = field(default_factory=list)


def above(triple: Triple, bound: float) -> str:
    """Whether an interval lies above a bound."""
    _, low, high = triple
    return REPRODUCED if low > bound else NOT if high <= bound else UNCLEAR


def below(triple: Triple, bound: float) -> str:
    """Whether it lies below."""
    _, low, high = triple
    return REPRODUCED if high < bound else NOT if low >= bound else UNCLEAR


def all_of(verdicts: list[str]) -> str:
    """The verdict on a claim that has to hold everywhere."""
    return next((v for v in (NOT, UNCLEAR) if v in verdicts), REPRODUCED)


def times(value: float) -> str:
    if not math.isfinite(value):
        return "\u221e" if value > 0 else "unknown"
    return f"{value:.2f}x" if value < 10 else f"{value:.0f}x"


def effect(triple: Triple, nothing: float, what: str) -> str:
    """In words, what an interval says against the value of no effect."""
    _, low, high = triple
    return f"more {what}" if low > nothing else f"fewer {what}" if high < nothing else f"{UNCLEAR_CHANGE} {what}"


def effects(*found: tuple[Triple, float, str]) -> str:
    """Several of them; what shows no clear change is told together."""
    told = {what: effect(triple, nothing, what) for triple, nothing, what in found}
    clear = [text for text in told.values() if not text.startswith(UNCLEAR_CHANGE)]
    others = [what for what, text in told.items() if text.startswith(UNCLEAR_CHANGE)]
    return ", ".join([*clear, *([f"{UNCLEAR_CHANGE} {' or '.join(others)}"] if others else [])])


def wider(triple: Triple, other: Triple) -> Triple:
    """A value with the ends of two intervals that lie further out."""
    return triple[0], min(triple[1], other[1]), max(triple[2], other[2])
