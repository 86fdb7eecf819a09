"""How well a leaf reads, by the length of the excerpt that holds the evidence.

The leaf must be fair: about as right on an excerpt that fills its window as on a short
one, only dearer. This measures it on training questions of one hop.
"""

import asyncio
import random
from concurrent.futures import ThreadPoolExecutor

from .config import Tasks
from .models.base import Leaf
from .scoring.passk import wilson
from .tasks.base import Example
from .tasks.mixture import example
from .tiny.scripts import key_of

TASKS = ("birthplace", "occupation", "year", "hidden_user", "shown_user", "params", "base")
LIMIT_S = 3600
LENGTHS = (500, 1000, 2000, 4000, 7500)


def leaf_accuracy(leaf: Leaf, per_family: int = 100, lengths: tuple[int, ...] = LENGTHS, seed: int = 0) -> list[dict]:
    """Rows of {excerpt_chars, family, n, accuracy, low, high, tokens}; Wilson 95 % intervals, mean prompt tokens."""
    with ThreadPoolExecutor(1) as thread:  # a notebook's own thread runs an event loop already
        return thread.submit(asyncio.run, _measure(leaf, per_family, lengths, seed)).result(timeout=LIMIT_S)


async def _measure(leaf, per_family, lengths, seed) -> list[dict]:
    rows = []
    config = Tasks(min_chars=9_000, max_chars=30_000, two_hop=0.0)
    questions = _questions(config, per_family, seed)
    for length in lengths:
        for family, chosen in questions.items():
            replies = [await leaf.complete(f"{q.question}\n{excerpt(q, length, seed)}") for q in chosen]
            right = sum(reply.text == q.answer for reply, q in zip(replies, chosen, strict=True))
            _, low, high = wilson(right, len(chosen))
            tokens = sum(reply.prompt_tokens for reply in replies) / len(chosen)
            measured = {"n": len(chosen), "accuracy": right / len(chosen), "low": low, "high": high, "tokens": tokens}
            rows.append({"excerpt_chars": length, "family": family, **measured})
    return rows


def _questions(config: Tasks, per_family: int, seed: int) -> dict[str, list[Example]]:
    found: dict[str, list[Example]] = {"aggregation": [], "coding": [], "research": []}
    index = 0
    while any(len(questions) < per_family for questions in found.values()):
        made = example(config, "train", index, seed)
        if made.task in TASKS and len(found[made.family]) < per_family:
            found[made.family].append(made)
        index += 1
    return found


def excerpt(question: Example, length: int, seed: int = 0) -> str:
    """About `length` characters of the context that hold all evidence, at a random place."""
    rng = random.Random(f"{seed}/{question.id}/{length}")
    key, context = key_of(question), question.context
    if question.family == "coding":
        word = "def" if question.task == "params" else "class"
        start = context.index(f"{word} {key}(")
        begin = max(0, start - rng.randint(0, max(0, length - 450)))
        return context[begin : begin + length]
    lines = context.split("\n")
    chosen = {i for i, line in enumerate(lines) if key in line}
    size = sum(len(lines[i]) for i in chosen)
    for i in rng.sample(range(len(lines)), len(lines)):
        if i not in chosen and size + len(lines[i]) <= length:
            chosen.add(i)
            size += len(lines[i]) + 1
    return "\n".join(lines[i] for i in sorted(chosen))
