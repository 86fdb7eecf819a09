"""Questions in a small declarative form, plain JSON, and their answers in a world.

A query is a list whose first item says what it is:
["name", N]                   the thing of that name
["get", relation, X]          what the relation gives for the thing X
["all", kind, conditions]     the things of a kind; conditions are pairs [relation, query of its value]
["list", X, Y, ...]           these things
["before", relation, V, S]    those things of S whose relation is less than V (of a date its year counts); also "after"
["except", S, X]              S without X
["only", S]                   the one thing in S
["nth", k, relation, S]       the k-th thing of S by the relation, from the least; k = -1: the one with the most
["next", relation, S, X]      the thing that comes right after X in S by the relation
["count", S], ["sum", relation, S]
["years", A, B], ["days", A, B]   between two years or dates, or two dates, never negative
["age", A, B]                 whole years from date A to date B
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date

from .world import Value, World

Query = list


class NoAnswer(Exception):
    """The query has no answer in this world, or more than one."""


@dataclass
class Reading:
    """Answers a query and notes the things whose pages an answer needs: those it follows, and all members of its sets."""

    world: World
    needed: dict[str, None] = field(default_factory=dict)
    relations: int = 0  # followed, compared or matched: the hops

    def value(self, query: Query) -> Value:
        match query:
            case ["name", name]:
                return name
            case ["get", relation, thing]:
                self.relations += 1
                return self._fact(self.value(thing), relation)
            case ["only", many]:
                found = self.things(many)
                if len(found) != 1:
                    raise NoAnswer
                return found[0]
            case ["nth", place, relation, many]:
                order = self._ranked(relation, many)
                if len(order) < max(2, place):
                    raise NoAnswer
                return order[place if place < 0 else place - 1]
            case ["next", relation, many, thing]:
                order, name = self._ranked(relation, many), self.value(thing)
                if name not in order[:-1]:
                    raise NoAnswer
                return order[order.index(name) + 1]
            case ["count", many]:
                return len(self.things(many))
            case ["sum", relation, many]:
                self.relations += 1
                return sum(self._fact(name, relation) for name in self.things(many))
            case ["years", first, second]:
                return abs(year_of(self.value(first)) - year_of(self.value(second)))
            case ["days", first, second]:
                return abs((self.value(first) - self.value(second)).days)
            case ["age", born, day]:
                return age(self.value(born), self.value(day))
        raise ValueError(f"no such query: {query}")

    def things(self, query: Query) -> list[str]:
        match query:
            case ["all", kind, conditions]:
                self.relations += len(conditions)
                wanted = [(relation, self.value(value)) for relation, value in conditions]
                facts = self.world.facts
                found = [name for name in self.world.of_kind(kind) if all(facts[name].get(key) == value for key, value in wanted)]
            case ["list", *items]:
                found = [self.value(item) for item in items]
                if len(set(found)) < len(found):
                    raise NoAnswer
            case ["before" | "after" as side, relation, limit, many]:
                self.relations += 1
                year = year_of(self.value(limit))
                found = [name for name in self.things(many) if self._beside(year_of(self._fact(name, relation)), year, side)]
            case ["except", many, thing]:
                name = self.value(thing)
                found = [other for other in self.things(many) if other != name]
            case _:
                raise ValueError(f"no such query: {query}")
        self._need(found)
        return found

    def _fact(self, name: str, relation: str) -> Value:
        self._need([name])
        if relation not in self.world.facts[name]:
            raise NoAnswer
        return self.world.facts[name][relation]

    def _ranked(self, relation: str, many: Query) -> list[str]:
        self.relations += 1
        names = self.things(many)
        keys = [self._fact(name, relation) for name in names]
        if len(set(keys)) < len(keys):
            raise NoAnswer
        return sorted(names, key=lambda name: self.world.facts[name][relation])

    @staticmethod
    def _beside(year: int, limit: int, side: str) -> bool:
        if year == limit:
            raise NoAnswer  # a reader may take "before" either way
        return (year < limit) == (side == "before")

    def _need(self, names: Iterable[str]):
        self.needed.update(dict.fromkeys(names))


def year_of(value: Value) -> int:
    return value.year if isinstance(value, date) else value


def age(born: date, day: date) -> int:
    """Whole years of life on a day."""
    return day.year - born.year - ((day.month, day.day) < (born.month, born.day))
