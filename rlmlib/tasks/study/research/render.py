"""The pages of a generated world: each fact once, in one of several wordings, among sentences that tell none."""

import math
import random
import re
from datetime import date

from .filler import ABOUT, ANY, LISTS, SECTIONS
from .pool import piece
from .query import year_of
from .sentences import FACTS, OPENINGS
from .world import RELATIONS, Value, World

WORDS = (60, 600)  # of a page; the length is drawn evenly on a logarithmic scale
THIS_YEAR = 2015  # of the pages: no date in a world is later
_MONTHS = "January February March April May June July August September October November December".split()


def day_text(day: date, american: bool = False) -> str:
    month = _MONTHS[day.month - 1]
    return f"{month} {day.day}, {day.year}" if american else f"{day.day} {month} {day.year}"


def page_pieces(world: World, seed: str) -> list[str]:
    """All pages of the world, as pieces of a context, in its order."""
    return [piece(name, _page(world, name, random.Random(f"{seed}/page/{name}"))) for name in world.kinds]


def _page(world: World, name: str, rng: random.Random) -> str:
    kind, facts = world.kinds[name], world.facts[name]
    subject, owner = ("she", "her") if name in world.women else ("he", "his")
    own = {"n": name, "s": subject, "S": subject.title(), "O": owner.title()}
    opening = rng.choice(OPENINGS[kind])
    told = [relation for relation in facts if f"{{{relation}}}" in opening]
    values = {relation: _value_text(relation, facts[relation], rng) for relation in facts}
    first = opening.format(**own, **{relation: values[relation] for relation in told})
    sentences = [rng.choice(FACTS[relation]).format(**own, v=values[relation]) for relation in facts if relation not in told]
    low, high = map(math.log, WORDS)
    missing = round(math.exp(rng.uniform(low, high))) - sum(len(sentence.split()) for sentence in [first, *sentences])
    slots, unused = Slots(world, name, own, rng), []
    while missing > 0:
        if not unused:
            unused = rng.sample(ANY + ABOUT[kind], len(ANY + ABOUT[kind]))
        sentences.append(slots.fill(unused.pop()))
        missing -= len(sentences[-1].split())
    rng.shuffle(sentences)
    return "\n".join(_with_articles(line) for line in _paragraphs(rng, kind, [first, *sentences]))


def _with_articles(line: str) -> str:
    """ "an" before a vowel; names are not touched, as they begin with a capital."""
    return re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", line)


class Slots:
    """Fills the places of a filler sentence, each anew, so that a wording may name two things."""

    def __init__(self, world: World, name: str, own: dict[str, str], rng: random.Random):
        self._own, self._rng = own, rng
        taken = {name, *world.facts[name].values()}  # what a page tells as a fact it does not call a mistake as well
        people = world.of_kind("person")  # by their age
        place = people.index(name) if name in people else 0
        peers = people[max(0, place - 7) : place + 8] if name in people else people
        self._towns = [town for town in world.of_kind("town") if town not in taken]
        self._people = [person for person in people if person not in taken]
        self._peers = [person for person in peers if person not in taken]
        self._life = _active_years(world.facts[name])

    def fill(self, wording: str) -> str:
        return re.sub(r"\{(\w+)\}", lambda match: self._value(match[1]), wording)

    def _value(self, slot: str) -> str:
        rng, (start, end) = self._rng, self._life
        match slot:
            case "who":
                return rng.choice(self._people)
            case "peer":
                return rng.choice(self._peers)
            case "town":
                return rng.choice(self._towns)
            case "k":
                return str(rng.randint(3, 480))
            case "life":
                return str(rng.randint(start, end))
            case "y":
                return str(rng.randint(start, THIS_YEAR))
            case "modern":
                return str(rng.randint(max(start, 1860), THIS_YEAR))
            case "Season":
                return rng.choice(LISTS["season"]).capitalize()
        return self._own[slot] if slot in self._own else rng.choice(LISTS[slot])


def _active_years(facts: dict[str, Value]) -> tuple[int, int]:
    if "born" in facts:
        return facts["born"].year + 18, facts["died"].year
    start = next(year_of(facts[relation]) for relation in ("founded", "opened", "year", "held") if relation in facts)
    return start, THIS_YEAR


def _value_text(relation: str, value: Value, rng: random.Random) -> str:
    if isinstance(value, date):
        return day_text(value, american=rng.random() < 0.3)
    if isinstance(value, int):
        return f"{value:,}" if RELATIONS[relation][1] == "number" else str(value)
    return value


def _paragraphs(rng: random.Random, kind: str, sentences: list[str]) -> list[str]:
    """Paragraphs of three to seven sentences; long pages have headings."""
    headings = list(SECTIONS[kind]) if len(sentences) > 16 else []
    lines: list[str] = []
    start = 0
    while start < len(sentences):
        end = start + rng.randint(3, 7)
        if start and headings:
            lines.append(headings.pop(0))
        lines.append(" ".join(sentences[start:end]))
        start = end
    return lines
