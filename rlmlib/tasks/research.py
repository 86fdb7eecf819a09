"""Research: a few pages among many distractors, one and two hops.

After the study's deep-research family. A page is one line. Facts are told in several
phrasings, so a search by name finds the page and a reader must find the fact.
"""

import random

from ..lexicon import OCCUPATIONS
from . import names
from .base import Example, Phrasings, Split, log_uniform

COUNTRIES = "Norland Estavia Corovia Belmark Tarsania Quillon Ostrea Vandria Meridia Pallas".split()

_FACTS = {
    "birthplace": (
        "{n} was born in {v}.",
        "{n} came into the world in {v}.",
        "The birthplace of {n} is {v}.",
        "The family home in which {n} was born stood in {v}.",
    ),
    "occupation": (
        "{n} worked as a {v}.",
        "By trade {n} was a {v}.",
        "{n} earned a living as a {v}.",
        "The profession of {n} was that of a {v}.",
    ),
    "year": (
        "The year of birth was {v}.",
        "It was the year {v} when the parents rejoiced in a child.",
        "The parish book gives the year {v} for the first cry.",
    ),
    "teacher": (
        "{n} studied under {v}.",
        "The teacher of {n} was {v}.",
        "In early years {n} was taught by {v}.",
    ),
    "country": (
        "{n} lies in the country of {v}.",
        "The country around {n} is {v}.",
        "{n} is a town in the country {v}.",
    ),
}

QUESTIONS = {
    "birthplace": Phrasings(
        (
            "where {n} was born",
            "in which town {n} was born",
            "what the birthplace of {n} is",
            "the birthplace of {n}",
            "the town where {n} was born",
            "which town {n} was born in",
        )
    ),
    "occupation": Phrasings(
        (
            "what {n} worked as",
            "the profession of {n}",
            "what the trade of {n} was",
            "the work that {n} did by trade",
            "what profession {n} had",
            "the trade of {n}",
        )
    ),
    "year": Phrasings(
        (
            "in what year {n} was born",
            "the year of birth of {n}",
            "the year when {n} was born",
            "what the birth year of {n} is",
            "which year {n} was born in",
            "the birth year of {n}",
        )
    ),
    "born_country": Phrasings(
        (
            "the country of the birthplace of {n}",
            "which country the birthplace of {n} is in",
            "the country of the town where {n} was born",
            "in what country the birthplace of {n} is",
            "in which country the town is where {n} was born",
        )
    ),
    "teacher_occupation": Phrasings(
        (
            "the profession of the teacher of {n}",
            "what the teacher of {n} worked as",
            "the trade of the teacher of {n}",
            "what trade the teacher of {n} had",
            "what profession the teacher of {n} had",
        )
    ),
}
TWO_HOP = ("born_country", "teacher_occupation")

_SUBJECTS = "The mayor|A local paper|The choir|An old map|The harbour|The market|A visitor|The museum|The winter|The council".split("|")
_VERBS = "praised|mentions|shows|recalls|replaced|opened|lost|restored|painted|counted".split("|")
_OBJECTS = (
    "the long bridge|a row of lime trees|the second bell|three narrow streets|the spring fair|a broken mill|"
    "the north gate|several wooden boats|the annual concert|an empty warehouse"
).split("|")


def _filler(rng: random.Random, count: int) -> list[str]:
    return [f"{rng.choice(_SUBJECTS)} {rng.choice(_VERBS)} {rng.choice(_OBJECTS)}." for _ in range(count)]


def _fact(rng: random.Random, relation: str, subject: str, value: str) -> str:
    return rng.choice(_FACTS[relation]).format(n=subject, v=value)


def _page(rng: random.Random, title: str, facts: list[str]) -> str:
    body = facts + _filler(rng, rng.randint(5, 14))
    rng.shuffle(body)
    return f"{title}. " + " ".join(body)


def make(rng: random.Random, split: Split, chars: tuple[int, int], two_hop: float) -> Example:
    """One question with its context; `chars` is the range of context lengths."""
    target = log_uniform(rng, *chars)
    heldout = split == "heldout"
    used: set[str] = set()
    towns = {names.town(rng, heldout, used): rng.choice(COUNTRIES) for _ in range(max(4, target // 5000))}
    pages = [_page(rng, town, [_fact(rng, "country", town, country)]) for town, country in towns.items()]
    people: dict[str, dict[str, str]] = {}
    size = sum(map(len, pages))
    while size < target or len(people) < 2:
        person = names.person(rng, heldout, used)
        facts = {
            "birthplace": rng.choice(list(towns)),
            "occupation": rng.choice(OCCUPATIONS),
            "year": str(rng.randint(1780, 1960)),
        }
        if people:
            facts["teacher"] = rng.choice(list(people))
        people[person] = facts
        pages.append(_page(rng, person, [_fact(rng, relation, person, value) for relation, value in facts.items()]))
        size += len(pages[-1]) + 1
    rng.shuffle(pages)
    task = rng.choice(TWO_HOP) if rng.random() < two_hop else rng.choice(("birthplace", "occupation", "year"))
    asked = rng.choice([p for p in people if task != "teacher_occupation" or "teacher" in people[p]])
    answer = {
        "born_country": lambda f: towns[f["birthplace"]],
        "teacher_occupation": lambda f: people[f["teacher"]]["occupation"],
    }.get(task, lambda f: f[task])(people[asked])
    question = QUESTIONS[task].pick(rng, split).format(n=asked)
    return Example("", "research", task, split, question, "\n".join(pages), answer)
