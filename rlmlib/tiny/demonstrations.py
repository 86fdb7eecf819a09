"""Demonstrations for the cold start: scripted strategies played through the real harness."""

import asyncio
import multiprocessing
import random
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from ..config import Params
from ..harness.rollout import RolloutRunner, server_of
from ..harness.trajectory import Rollout
from ..models.lexical_leaf import LexicalLeaf
from ..scoring.static import is_correct
from ..tasks.mixture import example
from .scripts import ScriptedSession, draw, key_of

IN_FLIGHT = 32
LIMIT_S = 1800


@dataclass(frozen=True)
class Demonstration:
    """The conversations of (role, text) of a rollout, the strings copied from the question, and how it went.

    conversations: the root's, then its children's.
    """

    strategy: str
    conversations: list[list[tuple[str, str]]]
    copied: tuple[str, str]
    task: str
    gold: str
    rollout: Rollout


def play(params: Params, count: int, seed: int) -> list[Demonstration]:
    """`count` demonstrations on training examples, strategies drawn from the mixture, played by one process a thread."""
    workers = params.policy.threads
    shards = [range(start, count, workers) for start in range(workers)]
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        played = list(pool.map(_play_shard, [params] * workers, shards, [seed] * workers, timeout=LIMIT_S))
    return [played[index % workers][index // workers] for index in range(count)]


def _play_shard(params: Params, indices: range, seed: int) -> list[Demonstration]:
    return asyncio.run(_play(params, indices, seed))


async def _play(params, indices, seed) -> list[Demonstration]:
    slots = asyncio.Semaphore(IN_FLIGHT)
    harness = params.harness.model_copy(update={"depth": 2})  # children are shown too; the compact prompts are the same at each depth
    with server_of(harness) as server:
        runner = RolloutRunner(harness, server, LexicalLeaf(params.leaf.window_tokens), params.leaf.concurrency)

        async def one(index: int) -> Demonstration:
            async with slots:
                rng = random.Random(f"{seed}/demonstration/{index}")
                task = example(params.tasks, "train", index, seed)
                session = ScriptedSession(task, draw(rng), f"{seed}/script/{index}")
                rollout = await runner.run(task.question, task.context, session, params.sampling.max_turn_tokens)
                copied = (task.question, key_of(task))
                conversations = [session.conversation, *(child.conversation for child in session.children)]
                return Demonstration(session.strategy, conversations, copied, task.task, task.answer, rollout)

        return await asyncio.gather(*(one(i) for i in indices))


def by_strategy(demonstrations: list[Demonstration]):
    """DataFrame: strategy, rollouts, right, missing (shares), leaf_tokens and turns (means); the good ones first."""
    import pandas as pd

    frame = pd.DataFrame(
        {
            "strategy": d.strategy,
            "right": is_correct(d.rollout.answer, [d.gold]),
            "missing": d.rollout.missing,
            "leaf_tokens": d.rollout.usage.leaf,
            "turns": len(d.rollout.turns),
        }
        for d in demonstrations
    )
    found = frame.groupby("strategy").mean()
    found.insert(0, "rollouts", frame.groupby("strategy").size())
    return found.sort_values(["right", "leaf_tokens"], ascending=[False, True]).round(2)
