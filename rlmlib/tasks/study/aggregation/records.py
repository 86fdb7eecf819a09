"""The records of a context: who posted which text when, drawn from a seed, and the lines that they become."""

import functools
import itertools
import math
import random
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, timedelta
from typing import NamedTuple

from .. import tokens
from .pool import Pool
from .wording import Variant, header

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
BATCH = 1024  # users and days drawn at once
FEWEST = 20  # records of a context, however small its target
HEAVY_USERS, HEAVY_LINES = 0.2, 0.8  # the most active fifth of the users posts four fifths of the records


class Post(NamedTuple):
    """One line of a context."""

    text: str
    label: str
    user: int
    day: date


def day_text(day: date) -> str:
    return f"{month_text(day)[:3]} {day.day:02d}, {day.year}"


def month_text(day: date) -> str:
    return f"{MONTHS[day.month - 1]} {day.year}"


def posts(pool: Pool, seed: str, users: int) -> Iterator[Post]:
    """Endless posts. The first n are the same however many are taken.

    Labels have frequencies of a random temperature, which drift from month to month; users and days are of unequal
    weight. A text comes again only when its label has no other left.
    """
    rng = random.Random(f"{seed}/frequencies")
    days = _days(rng)
    day_weights = _cumulated(_weights(rng, len(days), 0.4))
    names, user_weights = _users(rng, users)
    label_weights = _label_weights(rng, pool, days)
    source = random.Random(f"{seed}/records")
    remaining = {label: _shuffled_again_and_again(records, source) for label, records in pool.by_label.items()}
    user_rng, day_rng, label_rng = (random.Random(f"{seed}/{what}") for what in ("users", "days", "labels"))
    while True:
        batch_users = user_rng.choices(names, cum_weights=user_weights, k=BATCH)
        batch_days = day_rng.choices(days, cum_weights=day_weights, k=BATCH)
        for user, day in zip(batch_users, batch_days, strict=True):
            (label,) = label_rng.choices(pool.labels, cum_weights=label_weights[day.year, day.month])
            record = next(remaining[label])
            yield Post(record.text, label, user, day)


def fill(pool: Pool, seed: str, users: int, variant: Variant, target: int) -> tuple[list[Post], int]:
    """Posts whose context is as near to the target as whole lines allow, and its exact tokens."""
    taken, head, lines = [], header_tokens(pool, variant, FEWEST), 0
    for post in posts(pool, seed, users):
        total, more = head + lines, line_tokens(pool, post, variant)
        if len(taken) >= FEWEST and total + more - target > target - total:
            break
        taken.append(post)
        lines += more
    return taken, header_tokens(pool, variant, len(taken)) + lines


def line(post: Post, variant: Variant) -> str:
    start = f"Date: {day_text(post.day)} || User: {post.user} || Instance: {post.text}"
    return f"{start} || Label: {post.label}\n" if variant == "shown" else f"{start}\n"


def context(pool: Pool, drawn: Sequence[Post], variant: Variant) -> str:
    return header(pool.set.known, pool.labels, variant, len(drawn)) + "".join(line(post, variant) for post in drawn)


def header_tokens(pool: Pool, variant: Variant, count: int) -> int:
    return _counted(header(pool.set.known, pool.labels, variant, count))


def line_tokens(pool: Pool, post: Post, variant: Variant) -> int:
    """Exact: a token never crosses a blank before a visible character, so the parts of a line add up."""
    if variant == "shown":
        return _start_tokens(post.day) + pool.text_tokens(post.text, "") + _counted(f" || Label: {post.label}\n")
    return _start_tokens(post.day) + pool.text_tokens(post.text, "\n")


def mean_line_tokens(pool: Pool) -> float:
    """Of lines without label, about."""
    return _start_tokens(date(2020, 1, 1)) + pool.mean_text_tokens


@functools.lru_cache(maxsize=1024)
def _counted(text: str) -> int:
    return tokens.count(text)


@functools.lru_cache(maxsize=8192)
def _start_tokens(day: date) -> int:
    return tokens.count(f"Date: {day_text(day)} || User: 12345 || Instance:")  # every digit is a token


def _days(rng: random.Random) -> list[date]:
    first = date(rng.randint(2016, 2023), 1, 1) + timedelta(days=rng.randrange(365))
    return [first + timedelta(days=number) for number in range(rng.randint(365, 730))]


def _users(rng: random.Random, count: int) -> tuple[list[int], list[int]]:
    """Distinct five-digit ids and their weights, cumulated."""
    names = rng.sample(range(10_000, 100_000), count)
    heavy = max(1, round(HEAVY_USERS * count))
    groups = ((heavy, HEAVY_LINES), (count - heavy, 1 - HEAVY_LINES))
    weights = [round(1_000_000 * share * weight / size) for size, share in groups for weight in _weights(rng, size, 0.4)]
    return names, _cumulated(weights)


def _label_weights(rng: random.Random, pool: Pool, days: list[date]) -> dict[tuple[int, int], list[int]]:
    """Of each month, by (year, month), cumulated in the order of the pool's labels."""
    base = _weights(rng, len(pool.labels), rng.uniform(0.2, 1.2))
    drift = rng.uniform(0.0, 0.5)
    months = dict.fromkeys((day.year, day.month) for day in days)

    def drifted() -> list[int]:
        return [weight * change for weight, change in zip(base, _weights(rng, len(base), drift), strict=True)]

    return {month: _cumulated(drifted()) for month in months}


def _weights(rng: random.Random, count: int, temperature: float) -> list[int]:
    """Log-normal; whole numbers, so that the last bit of a machine's exp is of no account."""
    return [1 + round(1000 * math.exp(temperature * rng.gauss(0, 1))) for _ in range(count)]


def _cumulated(weights: Iterable[int]) -> list[int]:
    return list(itertools.accumulate(weights))


def _shuffled_again_and_again(items: list, rng: random.Random) -> Iterator:
    """Each item once in random order, then each again. Lazy: what is not taken is not shuffled."""
    items = list(items)
    while True:
        for place in range(len(items)):
            other = rng.randrange(place, len(items))
            items[place], items[other] = items[other], items[place]
            yield items[place]
