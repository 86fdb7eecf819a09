"""All tasks, and the choice of one for a context."""

import random

from . import counting, timeline, users
from .tally import Reading, Tally
from .task import Found, Task
from .wording import Variant

TASKS: tuple[Task, ...] = counting.TASKS + users.TASKS + timeline.TASKS
ATTEMPTS = 8  # at the arguments of a task, before another task has its turn


def tasks_of(variant: Variant) -> list[Task]:
    """Where labels are not written, none that needs no label; where they are not even named, none that speaks of labels."""
    allowed = {"shown": ("records", "label", "labels"), "hidden": ("label", "labels"), "semantic": ("label",)}[variant]
    return [task for task in TASKS if task.about in allowed]


def draw_question(tally: Tally, variant: Variant, reading: Reading, rng: random.Random) -> tuple[Task, Found] | None:
    """All tasks of the variant are equally likely, as far as they have an answer. None where none has."""
    tasks = tasks_of(variant)
    for task in rng.sample(tasks, len(tasks)):
        for _ in range(ATTEMPTS):
            if found := task.find(tally, rng, reading):
                return task, found
    return None
