"""Demonstrations for the cold start: scripted strategies played through the real harness."""

import asyncio
import random
from dataclasses import dataclass

from ..config import Params
from ..harness.repl import ReplServer
from ..harness.rollout import Rollout, RolloutRunner
from ..models.lexical_leaf import LexicalLeaf
from ..tasks.mixture import example
from .scripts import STRATEGIES, ScriptedSession, draw, key_of


@dataclass(frozen=True)
class Demonstration:
    """A conversation of (role, text), the strings copied from the question, and how it went."""

    strategy: str
    conversation: list[tuple[str, str]]
    copied: tuple[str, str]
    task: str
    gold: str
    rollout: Rollout


def play(params: Params, count: int, seed: int, strategy: str | None = None, in_flight: int = 32) -> list[Demonstration]:
    """`count` demonstrations on training examples; `strategy` None draws from the mixture."""
    return asyncio.run(_play(params, count, seed, strategy, in_flight))


async def _play(params, count, seed, strategy, in_flight) -> list[Demonstration]:
    assert strategy is None or strategy in STRATEGIES
    slots = asyncio.Semaphore(in_flight)
    with ReplServer(params.harness.memory_mb) as server:
        runner = RolloutRunner(params.harness, server, LexicalLeaf(params.leaf.window_tokens), params.leaf.concurrency)

        async def one(index: int) -> Demonstration:
            async with slots:
                rng = random.Random(f"{seed}/demonstration/{index}")
                task = example(params.tasks, "train", index, seed)
                session = ScriptedSession(task, strategy or draw(rng), f"{seed}/script/{index}")
                rollout = await runner.run(task.question, task.context, session, params.sampling.max_turn_tokens)
                copied = (task.question, key_of(task))
                return Demonstration(session.strategy, session.conversation, copied, task.task, task.answer, rollout)

        return await asyncio.gather(*(one(i) for i in range(count)))
