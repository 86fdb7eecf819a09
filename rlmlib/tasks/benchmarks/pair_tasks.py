"""The 20 queries of OOLONG-Pairs, as what they ask of two users' lines (arXiv:2512.24601, appendix D.1, CC BY 4.0).

A pair fits when one of the two users meets the first need and the other the second. In tasks 1 to 10 both needs are the same.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import combinations

from ...scoring.native import Pair
from .window import Line

ABBREVIATION, DESCRIPTION, ENTITY = "abbreviation", "description and abstract concept", "entity"
HUMAN, LOCATION, NUMBER = "human being", "location", "numeric value"
LABELS = (ABBREVIATION, DESCRIPTION, ENTITY, HUMAN, LOCATION, NUMBER)


@dataclass(frozen=True)
class Amount:
    """How many lines of a label: from `least` to `most`, None for any number more."""

    label: str
    least: int
    most: int | None

    def met(self, counts: Counter) -> bool:
        return self.least <= counts[self.label] and (self.most is None or counts[self.label] <= self.most)

    def __str__(self) -> str:
        number = {1: "one line", 2: "two lines"}[self.least]
        return f"{'at least' if self.most is None else 'exactly'} {number} labelled '{self.label}'"


@dataclass(frozen=True)
class Days:
    """All lines of a label lie strictly before or after a day; a user without such lines meets this too."""

    label: str
    side: str  # "before" or "after"
    day: date

    def met(self, lines: Iterable[Line]) -> bool:
        days = [line.day for line in lines if line.label == self.label]
        return all(day < self.day if self.side == "before" else day > self.day for day in days)

    def __str__(self) -> str:
        return f"every line labelled '{self.label}', if there is one, dated {self.side} {self.day:%B} {self.day.day}, {self.day.year}"


@dataclass(frozen=True)
class Need:
    """What the lines of one user must be like: a line with one of the labels `any_of`, where given, and all the rest."""

    any_of: tuple[str, ...] = ()
    amounts: tuple[Amount, ...] = ()
    days: tuple[Days, ...] = ()

    def met(self, lines: Sequence[Line]) -> bool:
        counts = Counter(line.label for line in lines)
        some = not self.any_of or any(counts[label] for label in self.any_of)
        return some and all(amount.met(counts) for amount in self.amounts) and all(limit.met(lines) for limit in self.days)

    def __str__(self) -> str:
        labels = " or ".join(f"'{label}'" for label in self.any_of)
        some = [f"at least one line labelled {labels}"] if labels else []
        return ", and ".join([*some, *map(str, self.amounts), *map(str, self.days)])


def _both(*any_of: str, days: Days | None = None) -> tuple[Need, Need]:
    need = Need(any_of, days=(days,) if days else ())
    return need, need


def _some(label: str, least: int = 1) -> Amount:
    return Amount(label, least, None)


def _just(label: str, number: int = 1) -> Amount:
    return Amount(label, number, number)


def _one(*amounts: Amount) -> Need:
    return Need(amounts=amounts)


TASKS: dict[int, tuple[Need, Need]] = {
    1: _both(NUMBER, LOCATION),
    2: _both(ENTITY, HUMAN),
    3: _both(DESCRIPTION, ABBREVIATION),
    4: _both(HUMAN, LOCATION, days=Days(HUMAN, "after", date(2023, 1, 6))),
    5: _both(ENTITY, NUMBER, days=Days(ENTITY, "before", date(2023, 3, 15))),
    6: _both(LOCATION, ABBREVIATION),
    7: _both(DESCRIPTION, NUMBER, days=Days(NUMBER, "after", date(2023, 2, 1))),
    8: _both(HUMAN, DESCRIPTION),
    9: _both(ENTITY, LOCATION, days=Days(LOCATION, "after", date(2023, 4, 10))),
    10: _both(NUMBER, ABBREVIATION, days=Days(ABBREVIATION, "before", date(2023, 5, 20))),
    11: (_one(_some(ENTITY), _some(ABBREVIATION)), _one(_just(ENTITY))),
    12: (_one(_some(NUMBER, 2)), _one(_some(LOCATION), _some(HUMAN))),
    13: (_one(_just(DESCRIPTION)), _one(_some(ABBREVIATION), _some(ENTITY))),
    14: (_one(_some(HUMAN), _some(NUMBER)), _one(_just(LOCATION, 2))),
    15: (_one(_some(ENTITY), _some(LOCATION), _some(ABBREVIATION)), _one(_just(NUMBER))),
    16: (_one(_some(DESCRIPTION), _some(HUMAN)), _one(_some(ENTITY, 2), _just(ABBREVIATION))),
    17: (_one(_just(NUMBER)), _one(_some(LOCATION), _some(DESCRIPTION))),
    18: (_one(_some(ABBREVIATION), _just(HUMAN)), _one(_some(ENTITY), _some(NUMBER))),
    19: (_one(_some(LOCATION, 2), _some(ENTITY)), _one(_just(DESCRIPTION), _just(ABBREVIATION))),
    20: (_one(_some(NUMBER), _some(HUMAN)), _one(_some(LOCATION), _some(ENTITY), _just(ABBREVIATION))),
}


def pairs(task: int, lines: Iterable[Line]) -> list[Pair]:
    """All pairs of users that fit, the lower id first, in order. `lines` have their labels; a repeated line counts again."""
    by_user: dict[int, list[Line]] = defaultdict(list)
    for line in lines:
        by_user[line.user].append(line)
    first, second = ({user for user, own in by_user.items() if need.met(own)} for need in TASKS[task])
    fits = sorted(first | second)
    return [(a, b) for a, b in combinations(fits, 2) if (a in first and b in second) or (b in first and a in second)]


def question(task: int) -> str:
    """The query in words of our own."""
    first, second = TASKS[task]
    if first is second:
        wanted = f"each of the two users has {first}"
    else:
        wanted = f"one of the two users has {first}, while the other has {second}"
    return (
        f"Find every pair of different users such that {wanted}. The labels are not shown: judge each line's question by the kind of "
        f"answer that it asks for, which is one of {', '.join(LABELS)}. "
        "Answer with one pair a line, written (id, id), the lower id first and no pair twice."
    )
