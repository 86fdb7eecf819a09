"""Questions on a window of our own, one maker for each kind of OOLONG task. None is asked whose answer is tied."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...answer_types import AnswerType
from .window import Line, label_counts

TRIES = 10  # for each question wanted
MONTHS = "January February March April May June July August September October November December".split()


@dataclass(frozen=True)
class Question:
    """task and group: OOLONG's names of the kind."""

    task: str
    group: str
    text: str
    gold: str
    answer_type: AnswerType


Maker = Callable[[random.Random, Sequence[Line], Sequence[str]], Question | None]


def most_common_label(rng, lines, labels) -> Question | None:
    gold = top(label_counts(lines, labels))
    text = f"Which category do most of the lines belong to? End with 'Label: X', X one of: {', '.join(labels)}."
    return gold and Question("MOST_FREQ", "counting", text, gold, "label")


def least_common_label(rng, lines, labels) -> Question | None:
    gold = top(Counter({label: -count for label, count in label_counts(lines, labels).items()}))
    text = f"Which category do the fewest lines belong to? End with 'Label: X', X one of: {', '.join(labels)}."
    return gold and Question("LEAST_FREQ", "counting", text, gold, "label")


def compare_labels(rng, lines, labels) -> Question | None:
    first, second = rng.sample(list(labels), 2)
    counts = label_counts(lines, labels)
    gold = compared(counts[first], counts[second])
    text = (
        f"Compare how many lines belong to '{first}' and to '{second}'. "
        f"End with 'Answer: {first} is [X] {second}', X one of: more common than, less common than, same frequency as."
    )
    return Question("RELATIVE_FREQ", "counting", text, gold, "label")


def count_label(rng, lines, labels) -> Question | None:
    label = rng.choice(list(labels))
    text = f"How many lines belong to the category '{label}'? End with 'Answer: N', N a number."
    return Question("NUMERIC_ONE_CLASS", "counting", text, str(label_counts(lines, labels)[label]), "number")


def busiest_user(rng, lines, labels) -> Question | None:
    gold = top(Counter(str(line.user) for line in lines))
    return gold and Question("REPRESENTED_N_TIMES", "user", "Which user wrote the most lines? End with 'User: X', X an id.", gold, "label")


def user_with_label(rng, lines, labels) -> Question | None:
    label = rng.choice(list(labels))
    gold = top(Counter(str(line.user) for line in lines if line.label == label))
    text = f"Which user wrote the most lines of the category '{label}'? End with 'User: X', X an id."
    return gold and Question("MOST_FREQ", "user", text, gold, "label")


def count_label_of_user(rng, lines, labels) -> Question | None:
    one = rng.choice(lines)  # so the answer is not 0
    gold = sum(line.user == one.user and line.label == one.label for line in lines)
    text = f"How many lines of user {one.user} belong to the category '{one.label}'? End with 'Answer: N', N a number."
    return Question("NUMERIC_ONE_CLASS", "user", text, str(gold), "number")


def busiest_day(rng, lines, labels) -> Question | None:
    gold = top(Counter(line.day.isoformat() for line in lines))
    text = "On which date were the most lines written? End with 'Date: MM/DD/YYYY'."
    return gold and Question("MOST_FREQ", "timeline", text, gold, "date")


def count_label_in_month(rng, lines, labels) -> Question | None:
    one = rng.choice(lines)
    gold = sum(line.day.month == one.day.month and line.label == one.label for line in lines)
    month = MONTHS[one.day.month - 1]
    text = f"How many lines of {month}, of any year, belong to the category '{one.label}'? End with 'Answer: N', N a number."
    return Question("NUMERIC_ONE_CLASS", "timeline", text, str(gold), "number")


MAKERS: tuple[Maker, ...] = (
    most_common_label,
    count_label,
    busiest_user,
    compare_labels,
    count_label_in_month,
    least_common_label,
    user_with_label,
    busiest_day,
    count_label_of_user,
)


def ask(rng: random.Random, lines: Sequence[Line], labels: Sequence[str], count: int) -> list[Question]:
    """At most `count` different questions, the kinds in turn; a kind whose answer would be tied is passed over."""
    found: dict[str, Question] = {}
    for turn in range(TRIES * count):
        if len(found) == count:
            break
        question = MAKERS[turn % len(MAKERS)](rng, lines, labels)
        if question:
            found.setdefault(question.text, question)
    return list(found.values())


def top(counts: Counter) -> str | None:
    """The key with the largest count; None where two share it or there is none."""
    ranked = counts.most_common(2)
    if not ranked or (len(ranked) == 2 and ranked[0][1] == ranked[1][1]):
        return None
    return ranked[0][0]


def compared(first: int, second: int) -> str:
    return "same frequency as" if first == second else "more common than" if first > second else "less common than"
