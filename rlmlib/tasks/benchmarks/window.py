"""OOLONG's context windows: their lines, read and written, and windows of our own over any labelled texts.

A line is `Date: Oct 05, 2024 || User: 73621 || Instance: text`; with labels, ` || Label: entity` follows.
"""

import math
import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from ...errors import DataError
from ..study import tokens

DAY = "%b %d, %Y"
FIRST_DAY, DAYS = date(2022, 1, 1), 1400  # of our own windows
LINE_TOKENS, BUSY_SHARE, BUSY_LINES = 35, 0.8, 8  # in the data set, users with 8 lines or so write 80 % of them; all others write one
_LINE = re.compile(r"^Date: (.+?) \|\| User: (\d+) \|\| Instance: (.*)$", re.MULTILINE)
_LABELLED = re.compile(r"(.*) \|\| Label: (.+)")


@dataclass(frozen=True)
class Line:
    """One record of a window. label is None where it is not known."""

    day: date
    user: int
    text: str
    label: str | None = None

    def __str__(self) -> str:
        """As in a window; the label is never shown."""
        return f"Date: {self.day:{DAY}} || User: {self.user} || Instance: {self.text}"


def parse(text: str, source: str, labelled: bool = False) -> list[Line]:
    """The lines of a window; heading and ending are passed over. Raises DataError, which names `source`."""
    lines = []
    for day, user, rest in _LINE.findall(text):
        instance, label = rest, None
        if labelled:
            split = _LABELLED.fullmatch(rest)
            if not split:
                raise DataError(f"{source}: the line of user {user} on {day} has no label; give the text with labels")
            instance, label = split.groups()
        try:
            lines.append(Line(datetime.strptime(day, DAY).date(), int(user), instance, label))
        except ValueError:
            raise DataError(f"{source}: '{day[:40]}' is no date such as 'Oct 05, 2024'") from None
    if not lines:
        raise DataError(f"{source}: has no line 'Date: ... || User: ... || Instance: ...'")
    return lines


def make(records: Iterable[tuple[str, str]], length: int, rng: random.Random) -> tuple[str, list[Line]]:
    """(context, its lines) of at most `length` Qwen tokens, filled with (text, label) records.

    Labels come at frequencies of a random spread, users and dates as in the data set. A record is used again only when all
    of its label have been. Raises DataError where there are no two labels, or the length has no room for ten lines.
    """
    texts = by_label(records)
    labels = sorted(texts)
    spread = rng.uniform(0.2, 1.0)
    weights = [math.exp(rng.gauss(0, spread)) for _ in labels]
    room = length - tokens.count(_framed(labels, [])) - 16  # heading and ending state the number of lines twice each
    ids = rng.sample(range(10_000, 100_000), 90_000)
    busy = [ids.pop() for _ in range(max(2, round(room / LINE_TOKENS * BUSY_SHARE / BUSY_LINES)))]
    piles: dict[str, list[str]] = {label: [] for label in labels}
    lines = []
    while True:
        label = rng.choices(labels, weights)[0]
        if not piles[label]:
            piles[label] = rng.sample(texts[label], len(texts[label]))
        user = rng.choice(busy) if rng.random() < BUSY_SHARE else ids.pop()
        line = Line(FIRST_DAY + timedelta(rng.randrange(DAYS)), user, piles[label].pop(), label)
        room -= tokens.count(f"{line}\n")
        if room < 0:
            break
        lines.append(line)
    if len(lines) < 10:
        raise DataError(f"length: {length} tokens hold {len(lines)} lines; use 1024 or more")
    return _framed(labels, lines), lines


def by_label(records: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Distinct texts by label, on one line each. Texts with two labels are left out. Raises DataError."""
    labels: dict[str, str | None] = {}
    for text, label in records:
        text = " ".join(text.split())
        labels[text] = label if labels.get(text, label) == label else None
    texts: dict[str, list[str]] = {}
    for text, label in labels.items():
        if text and label is not None:
            texts.setdefault(label, []).append(text)
    if len(texts) < 2:
        raise DataError(f"records: have {len(texts)} labels; two or more are needed")
    return texts


def label_counts(lines: Iterable[Line], labels: Sequence[str]) -> Counter:
    """How often each label occurs, absent ones at 0."""
    counts = Counter(dict.fromkeys(labels, 0))
    counts.update(line.label for line in lines)
    return counts


def _framed(labels: list[str], lines: list[Line]) -> str:
    """Lines between a heading and an ending that name the labels."""
    names = ", ".join(f"'{label}'" for label in labels)
    about = f"{len(lines)} short texts, one a line. Each belongs to one of {len(labels)} categories, which are not shown: {names}."
    task = "The questions are about how often categories, users and dates occur among all of the lines. Count; do not estimate."
    body = "".join(f"{line}\n" for line in lines)
    return f"Below are {about}\n{task}\n\n{body}\nAbove are {about}\n{task}\n"
