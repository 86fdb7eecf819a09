"""A seeded world of invented people, towns, institutions, works and events, and the facts about them.

Facts are functions: a thing has at most one value for a relation, so a chain of relations has one end.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Literal

from .names import FORMS, Namer, Split

Kind = Literal["person", "town", "institution", "work", "event"]
Value = str | int | date

# relation -> (kind of the thing, what the value is: a kind, "text", "label", "number", "year" or "date")
RELATIONS: dict[str, tuple[Kind, str]] = {
    "born": ("person", "date"),
    "died": ("person", "date"),
    "birthplace": ("person", "town"),
    "occupation": ("person", "label"),
    "school": ("person", "institution"),
    "teacher": ("person", "person"),
    "spouse": ("person", "person"),
    "province": ("town", "text"),
    "river": ("town", "text"),
    "founded": ("town", "year"),
    "population": ("town", "number"),
    "altitude": ("town", "number"),
    "seat": ("institution", "town"),
    "opened": ("institution", "year"),
    "founder": ("institution", "person"),
    "staff": ("institution", "number"),
    "author": ("work", "person"),
    "year": ("work", "year"),
    "form": ("work", "label"),
    "dedicatee": ("work", "person"),
    "keeper": ("work", "institution"),
    "place": ("event", "town"),
    "held": ("event", "date"),
    "leader": ("event", "person"),
    "attendance": ("event", "number"),
}

OCCUPATIONS = (
    "actuary architect armourer astronomer balloonist botanist bookbinder brewer cartographer chemist clockmaker composer "
    "diplomat engraver entomologist ferryman geologist glassblower goldsmith horologist hydrologist illustrator jurist "
    "lexicographer librarian linguist mathematician mineralogist navigator ornithologist papermaker philologist physician "
    "playwright printer sculptor surveyor telegraphist topographer typographer veterinarian violinist weaver zoologist"
).split()

_SHARES = {"town": 0.16, "institution": 0.14, "work": 0.2, "event": 0.11}  # of the pages; the rest are people
_FEWEST = {"town": 5, "institution": 6, "work": 6, "event": 4}
FEWEST_PAGES = 40


@dataclass(frozen=True)
class World:
    """kinds: of each thing, by name, in the order of the pages. facts: by name, then by relation. women: names."""

    kinds: dict[str, Kind]
    facts: dict[str, dict[str, Value]]
    women: frozenset[str]

    def of_kind(self, kind: Kind) -> list[str]:
        return [name for name, its_kind in self.kinds.items() if its_kind == kind]


def make_world(split: Split, seed: str, pages: int) -> World:
    """The world of a seed with so many things, each of which has a page."""
    rng = random.Random(f"{seed}/world")
    counts = {kind: max(_FEWEST[kind], round(share * pages)) for kind, share in _SHARES.items()}
    people = pages - sum(counts.values())
    namer = Namer(split, rng, people)
    facts: dict[str, dict[str, Value]] = {}
    towns = _towns(rng, namer, counts["town"], facts)
    crowd = _people(rng, namer, people, towns, facts)
    schools = _institutions(rng, namer, counts["institution"], towns, crowd, facts)
    _lives(rng, crowd, schools, facts)
    houses = [name for name in facts if "seat" in facts[name] and name not in schools]
    works = _works(rng, namer, counts["work"], crowd, houses, facts)
    events = _events(rng, namer, counts["event"], towns, crowd, facts)
    lists: dict[Kind, list[str]] = {"person": crowd, "town": towns, "institution": [*schools, *houses], "work": works, "event": events}
    kinds = {name: kind for kind, names in lists.items() for name in names}
    return World(kinds, facts, frozenset(name for name in crowd if rng.random() < 0.5))


def _favoured(rng: random.Random, things: Sequence[str]) -> str:
    """One of the things, the first ones more often: some towns are large and some teachers have many pupils."""
    return rng.choices(things, [1 / (2 + i) for i in range(len(things))])[0]


def _day(rng: random.Random, first_year: int, last_year: int) -> date:
    first = date(first_year, 1, 1)
    return first + timedelta(days=rng.randrange((date(last_year + 1, 1, 1) - first).days))


def _towns(rng: random.Random, namer: Namer, count: int, facts: dict) -> list[str]:
    provinces = [namer.province() for _ in range(max(2, count // 5))]
    rivers = [namer.river() for _ in range(max(2, count // 4))]
    towns = [namer.town() for _ in range(count)]
    years, altitudes = rng.sample(range(870, 1590), count), rng.sample(range(4, 1900), count)
    populations = rng.sample(range(1_100, 480_000), count)
    for town, founded, altitude, population in zip(towns, years, altitudes, populations, strict=True):
        facts[town] = {
            "province": rng.choice(provinces),
            "river": rng.choice(rivers),
            "founded": founded,
            "population": population,
            "altitude": altitude,
        }
    return towns


def _people(rng: random.Random, namer: Namer, count: int, towns: list[str], facts: dict) -> list[str]:
    """From the oldest to the youngest."""
    births = sorted(_day(rng, 1640, 1920) for _ in range(count))
    crowd = [namer.person() for _ in range(count)]
    for person, born in zip(crowd, births, strict=True):
        facts[person] = {
            "born": born,
            "died": born + timedelta(days=rng.randint(38 * 365, 92 * 365)),
            "birthplace": _favoured(rng, towns),
            "occupation": rng.choice(OCCUPATIONS),
        }
    return crowd


def _institutions(rng: random.Random, namer: Namer, count: int, towns: list[str], crowd: list[str], facts: dict) -> list[str]:
    """Adds them all and gives the names of the schools, which old people founded so that others could study there."""
    schools = [namer.school() for _ in range((count + 1) // 2)]
    houses = [namer.house() for _ in range(count // 2)]
    staff = rng.sample(range(12, 3_000), count)
    for i, name in enumerate([*schools, *houses]):
        founder = rng.choice(crowd[: max(3, len(crowd) // 3)])
        born, died = facts[founder]["born"].year, facts[founder]["died"].year
        facts[name] = {"seat": rng.choice(towns), "opened": rng.randint(born + 24, died), "founder": founder, "staff": staff[i]}
    return schools


def _lives(rng: random.Random, crowd: list[str], schools: list[str], facts: dict):
    """Schools, teachers and marriages, for those for whom there is one of the time."""
    for i, person in enumerate(crowd):
        own = facts[person]
        year = own["born"].year
        if open_schools := [school for school in schools if facts[school]["opened"] <= year + 17]:
            own["school"] = _favoured(rng, open_schools)
        teachers = [other for other in crowd[:i] if facts[other]["born"].year <= year - 14 and facts[other]["died"].year >= year + 16]
        if teachers:
            own["teacher"] = _favoured(rng, teachers[-16:])
    for person, other in zip(crowd, crowd[1:], strict=False):
        if "spouse" not in facts[person] and abs(facts[other]["born"].year - facts[person]["born"].year) <= 12 and rng.random() < 0.6:
            facts[person]["spouse"], facts[other]["spouse"] = other, person


def _works(rng: random.Random, namer: Namer, count: int, crowd: list[str], houses: list[str], facts: dict) -> list[str]:
    authors = rng.sample(crowd, max(3, min(len(crowd), count // 3)))
    works = [namer.work() for _ in range(count)]
    for work in works:
        author = _favoured(rng, authors)
        dedicatee = rng.choice([person for person in crowd if person != author])
        born, died = facts[author]["born"].year, facts[author]["died"].year
        facts[work] = {
            "author": author,
            "year": rng.randint(born + 19, died),
            "form": rng.choice(FORMS),
            "dedicatee": dedicatee,
            "keeper": rng.choice(houses),
        }
    return works


def _events(rng: random.Random, namer: Namer, count: int, towns: list[str], crowd: list[str], facts: dict) -> list[str]:
    events = [namer.event() for _ in range(count)]
    attendances = rng.sample(range(90, 60_000), count)
    for event, attendance in zip(events, attendances, strict=True):
        leader = rng.choice(crowd)
        day = _day(rng, facts[leader]["born"].year + 22, facts[leader]["died"].year - 1)
        facts[event] = {"place": _favoured(rng, towns), "held": day, "leader": leader, "attendance": attendance}
    return events
