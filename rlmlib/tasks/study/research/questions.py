"""A question about a world: drawn until the world has one answer that the question does not give away."""

import random
from dataclasses import dataclass
from datetime import date

from ....answer_types import AnswerType
from .kinds import HELD_OUT, KINDS
from .query import NoAnswer, Query, Reading
from .render import day_text
from .world import RELATIONS, Value, World

HOPS = range(2, 6)
TRIES = 400
_HINTS = {
    "number": "Answer with a number.",
    "year": "Answer with the year.",
    "day": "Answer with the full date.",
    "label": "Answer with one word.",
    "text": "Answer with the name.",
}


@dataclass(frozen=True)
class Question:
    """gold: the titles of the pages it takes to answer. hops: relations followed, compared or matched."""

    kind: str
    text: str
    answer: str
    answer_type: AnswerType
    acceptable: tuple[str, ...]
    query: Query
    gold: tuple[str, ...]
    hops: int


def ask(world: World, kind: str, seed: str) -> Question | None:
    """A question of the kind, or None where the world is too small for it."""
    rng = random.Random(f"{seed}/{kind}")
    draft = (KINDS | HELD_OUT)[kind]
    floor = rng.randint(3, 9)  # of counts: without it most are 3 or 4, which is easy to guess
    for tries in range(TRIES):
        try:
            query, text = draft(rng, world)
            reading = Reading(world)
            value = reading.value(query)
        except NoAnswer:
            continue
        if reading.relations not in HOPS or not _worth_asking(kind, value, reading, max(3, floor - tries // 50)):
            continue
        form = _form(query, value)
        answer, acceptable = _answers(value, form, world)
        if answer.casefold() in text.casefold():
            continue
        answer_type: AnswerType = "date" if form in ("year", "day") else form
        return Question(kind, f"{text} {_HINTS[form]}", answer, answer_type, acceptable, query, tuple(reading.needed), reading.relations)
    return None


def _worth_asking(kind: str, value: Value, reading: Reading, floor: int) -> bool:
    """Not a small count, a group of hardly two, a page alone, or an age before birth or beyond a life."""
    if kind in ("count_born", "fellows"):
        return value >= floor
    if kind in ("born_first_or_last", "second_born", "work_first_or_last", "sum_population"):
        return len(reading.needed) >= 4
    if kind == "age_at_event":
        return 5 <= value <= 95
    return len(reading.needed) >= 2 and value not in (0, 1)


def _form(query: Query, value: Value) -> str:
    if isinstance(value, date):
        return "day"
    if query[0] == "get":
        ends = RELATIONS[query[1]][1]
        return ends if ends in ("number", "year", "label") else "text"
    return "number" if isinstance(value, int) else "text"


def _answers(value: Value, form: str, world: World) -> tuple[str, tuple[str, ...]]:
    """The answer and other ways to write it."""
    if isinstance(value, date):
        return day_text(value), (day_text(value, american=True), value.isoformat())
    if form != "text":
        return str(value), ()
    kind = world.kinds.get(value)
    if kind in ("institution", "event"):
        return value, (f"the {value}",)
    if kind is None:  # a province or a river
        short = value.removesuffix(" Province")
        return value, (f"the {value}", short) if short != value else (f"the {value}", f"the river {value}", f"{value} river")
    return value, ()
