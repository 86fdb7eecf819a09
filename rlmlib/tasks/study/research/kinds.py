"""The kinds of generated questions: each makes a query and its wording at random, for a world to answer or to refuse."""

import random
from collections.abc import Callable
from typing import get_args

from .query import NoAnswer, Query, Reading
from .world import RELATIONS, Kind, World

Draft = tuple[Query, str]

_PHRASES = {
    "born": ("the date of birth of {x}", "the day on which {x} was born"),
    "died": ("the date of death of {x}", "the day on which {x} died"),
    "birthplace": ("the birthplace of {x}", "the town where {x} was born"),
    "occupation": ("the occupation of {x}", "the profession of {x}"),
    "school": ("the institution where {x} studied", "the alma mater of {x}"),
    "teacher": ("the teacher of {x}", "the person who taught {x}"),
    "spouse": ("the spouse of {x}", "the person to whom {x} was married"),
    "province": ("the province in which {x} lies", "the province of {x}"),
    "river": ("the river on which {x} lies", "the river that flows through {x}"),
    "founded": ("the year in which {x} was founded", "the year of the foundation of {x}"),
    "population": ("the population of {x}", "the number of inhabitants of {x}"),
    "altitude": ("the altitude in metres of {x}", "the height in metres above the sea of {x}"),
    "seat": ("the town where {x} has its seat", "the town that is home to {x}"),
    "opened": ("the year in which {x} opened", "the opening year of {x}"),
    "founder": ("the founder of {x}", "the person who founded {x}"),
    "staff": ("the number of people employed by {x}", "the size of the staff of {x}"),
    "author": ("the author of {x}", "the person who made {x}"),
    "year": ("the year in which {x} was completed", "the year of completion of {x}"),
    "form": ("the kind of work that {x} is", "the form of {x}"),
    "dedicatee": ("the person to whom {x} is dedicated", "the dedicatee of {x}"),
    "keeper": ("the institution that keeps {x}", "the keeper of {x}"),
    "place": ("the town where {x} took place", "the town that was host to {x}"),
    "held": ("the day on which {x} opened", "the opening day of {x}"),
    "leader": ("the person who led {x}", "the leader of {x}"),
    "attendance": ("the number of people who attended {x}", "the attendance of {x}"),
}
_CONDITIONS = {
    "school": "who studied at {x}",
    "teacher": "whose teacher was {x}",
    "birthplace": "who were born in {x}",
    "occupation": "whose profession was that of {x}",
}
_THINGS = get_args(Kind)


def phrase(rng: random.Random, world: World, query: Query, stand_in: str = "") -> str:
    """What a chain of relations means, in words; stand_in is for a query at its start that was told before."""
    match query:
        case ["name", name]:
            return {"work": f'"{name}"', "event": f"the {name}"}.get(world.kinds[name], name)
        case ["get", relation, thing]:
            chained = thing[0] == "get"  # then only wordings that need nothing after the thing stay readable
            wordings = [wording for wording in _PHRASES[relation] if wording.endswith("{x}") or not chained]
            return rng.choice(wordings).format(x=phrase(rng, world, thing, stand_in))
    return stand_in


def chain(rng: random.Random, world: World, length: int, end: str, start: Query | None = None, at: str | None = None) -> Query:
    """`length` relations that lead from a named thing, or from `start`, which is `at`, over other things to an `end`.

    end: a kind of thing, or "text", "label", "number", "year" or "date".
    """
    if at is None:
        names = world.of_kind(end) if length == 0 else list(world.kinds)
        at = rng.choice(names)
        start = ["name", at]
    query, seen = start, [at]
    for left in range(length, 0, -1):
        facts, ends = world.facts[at], (end,) if left == 1 else _THINGS
        ways = [relation for relation, value in facts.items() if value not in seen and RELATIONS[relation][1] in ends]
        if not ways:
            raise NoAnswer
        relation = rng.choice(ways)
        query, at = ["get", relation, query], facts[relation]
        seen.append(at)
    return query


def _asked(rng: random.Random, world: World, query: Query, stand_in: str = "") -> str:
    return rng.choice(("What is {x}?", "Find {x}.", "State {x}.")).format(x=phrase(rng, world, query, stand_in))


def _chain_of(*ends: str) -> Callable[[random.Random, World], Draft]:
    def draft(rng: random.Random, world: World) -> Draft:
        query = chain(rng, world, rng.choice((2, 3, 3, 4)), rng.choice(ends))
        return query, _asked(rng, world, query)

    return draft


def _age_at_event(rng: random.Random, world: World) -> Draft:
    event = rng.choice(world.of_kind("event"))
    start = ["get", "leader", ["name", event]]
    person = chain(rng, world, rng.choice((0, 1)), "person", start, world.facts[event]["leader"])
    if world.facts[Reading(world).value(person)]["died"] < world.facts[event]["held"]:
        raise NoAnswer
    day = ["get", "held", ["name", event]]
    return ["age", ["get", "born", person], day], f"How old, in whole years, was {phrase(rng, world, person)} on {phrase(rng, world, day)}?"


def _years_between(rng: random.Random, world: World) -> Draft:
    first, second = chain(rng, world, 2, "year"), chain(rng, world, rng.choice((1, 2)), "year")
    return ["years", first, second], f"How many years lie between {phrase(rng, world, first)} and {phrase(rng, world, second)}?"


def _group(rng: random.Random, world: World) -> tuple[Query, str]:
    """People with something in common."""
    relation = rng.choice(("school", "teacher", "birthplace"))
    common = chain(rng, world, rng.choice((1, 2)), RELATIONS[relation][1])
    return ["all", "person", [[relation, common]]], _CONDITIONS[relation].format(x=phrase(rng, world, common))


def _born_first_or_last(rng: random.Random, world: World) -> Draft:
    group, words = _group(rng, world)
    place, which = rng.choice(((1, "first"), (-1, "last")))
    return ["nth", place, "born", group], f"Of all the people {words}, who was born {which}?"


def _work_first_or_last(rng: random.Random, world: World) -> Draft:
    author = chain(rng, world, rng.choice((1, 2)), "person")
    place, which = rng.choice(((1, "earliest"), (-1, "latest")))
    query = ["nth", place, "year", ["all", "work", [["author", author]]]]
    return query, f"What is the {which} work, by year of completion, of {phrase(rng, world, author)}?"


def _unnamed(world: World, query: Query) -> Query:
    """The query again, unless it names the very thing that it asks for."""
    if repr(Reading(world).value(query)) in str(query):
        raise NoAnswer
    return query


def _intersection(rng: random.Random, world: World) -> Draft:
    common = chain(rng, world, 1, "town"), chain(rng, world, 0, "institution")
    one = _unnamed(world, ["only", ["all", "person", [["birthplace", common[0]], ["school", common[1]]]]])
    query = ["get", rng.choice(("born", "died", "occupation", "teacher", "spouse")), one]
    words = f"Only one person was born in {phrase(rng, world, common[0])} and studied at {phrase(rng, world, common[1])}."
    return query, f"{words} {_asked(rng, world, query, 'that person')}"


def _count_born(rng: random.Random, world: World) -> Draft:
    group, words = _group(rng, world)
    side = rng.choice(("before", "after"))
    year = chain(rng, world, 1, "year")
    if year[1] == "founded":  # long before anybody was born
        raise NoAnswer
    return ["count", [side, "born", year, group]], f"How many of the people {words} were born {side} {phrase(rng, world, year)}?"


def _sum_population(rng: random.Random, world: World) -> Draft:
    province = ["get", "province", chain(rng, world, rng.choice((1, 2)), "town")]
    query = ["sum", "population", ["all", "town", [["province", province]]]]
    return query, f"How many people live in all the towns of {phrase(rng, world, province)} taken together?"


def _town_by_size(rng: random.Random, world: World) -> Draft:
    river = ["get", "river", chain(rng, world, 1, "town")]
    place, which = rng.choice(((1, "fewest"), (-1, "most")))
    query = ["get", rng.choice(("founded", "altitude", "province")), ["nth", place, "population", ["all", "town", [["river", river]]]]]
    words = f"Of all the towns on {phrase(rng, world, river)}, take the one with the {which} inhabitants."
    return query, f"{words} {_asked(rng, world, query, 'that town')}"


def _dedicated(rng: random.Random, world: World) -> Draft:
    person = chain(rng, world, 1, "person")
    one = _unnamed(world, ["only", ["all", "work", [["dedicatee", person]]]])
    about = rng.choice(("occupation", "birthplace", "school", "died", "form", "keeper"))
    query = ["get", about, one if about in ("form", "keeper") else ["get", "author", one]]
    return query, f"Only one work is dedicated to {phrase(rng, world, person)}. {_asked(rng, world, query, 'that work')}"


def _led(rng: random.Random, world: World) -> Draft:
    person = chain(rng, world, rng.choice((1, 2)), "person")
    one = _unnamed(world, ["only", ["all", "event", [["leader", person]]]])
    query = ["get", rng.choice(("attendance", "held", "place")), one]
    return query, f"Only one event was led by {phrase(rng, world, person)}. {_asked(rng, world, query, 'that event')}"


def _author_first_or_last(rng: random.Random, world: World) -> Draft:
    works = rng.sample(world.of_kind("work"), 3)
    place, which = rng.choice(((1, "first"), (-1, "last")))
    query = ["nth", place, "born", ["list", *(["get", "author", ["name", work]] for work in works)]]
    query = ["get", rng.choice(("birthplace", "occupation", "school", "died")), query]
    words = f'Of the authors of "{works[0]}", "{works[1]}" and "{works[2]}", take the one who was born {which}.'
    return query, f"{words} {_asked(rng, world, query, 'that person')}"


def _second_born(rng: random.Random, world: World) -> Draft:
    group, words = _group(rng, world)
    return ["nth", 2, "born", group], f"Of all the people {words}, who was the second to be born?"


def _days_between(rng: random.Random, world: World) -> Draft:
    first, second = chain(rng, world, 1, "date"), chain(rng, world, 2, "date")
    return ["days", first, second], f"How many days lie between {phrase(rng, world, first)} and {phrase(rng, world, second)}?"


def _next_work(rng: random.Random, world: World) -> Draft:
    work = ["name", rng.choice(world.of_kind("work"))]
    query = ["next", "year", ["all", "work", [["author", ["get", "author", work]]]], work]
    return query, f"Which work did the author of {phrase(rng, world, work)} complete next after it?"


def _fellows(rng: random.Random, world: World) -> Draft:
    relation, words = rng.choice(
        (
            ("teacher", "had the same teacher as"),
            ("school", "studied at the same institution as"),
            ("birthplace", "were born in the same town as"),
        )
    )
    person = chain(rng, world, rng.choice((0, 1)), "person")
    group = ["all", "person", [[relation, ["get", relation, person]]]]
    return ["count", ["except", group, person]], f"How many other people {words} {phrase(rng, world, person)}?"


KINDS: dict[str, Callable[[random.Random, World], Draft]] = {
    "chain_name": _chain_of("text", "person", "town", "institution"),
    "chain_label": _chain_of("label"),
    "chain_date": _chain_of("date"),
    "chain_year": _chain_of("year"),
    "chain_number": _chain_of("number"),
    "age_at_event": _age_at_event,
    "years_between": _years_between,
    "born_first_or_last": _born_first_or_last,
    "work_first_or_last": _work_first_or_last,
    "intersection": _intersection,
    "count_born": _count_born,
    "sum_population": _sum_population,
    "town_by_size": _town_by_size,
    "dedicated": _dedicated,
    "led": _led,
    "author_first_or_last": _author_first_or_last,
}
HELD_OUT: dict[str, Callable[[random.Random, World], Draft]] = {
    "second_born": _second_born,
    "days_between": _days_between,
    "next_work": _next_work,
    "fellows": _fellows,
}
