"""The plain baseline: the leaf alone reads what its window holds of the context, and answers. No policy, no harness, no code."""

import asyncio
from collections.abc import Sequence

from .engine import JUDGING_S, Attempt, Engine, Job
from .harness.subcalls import WINDOW_SHARE, cost_of, kept_prompt
from .harness.trajectory import Call, Rollout, Turn
from .models.base import Leaf
from .models.choose import MARGIN_S


def answer_plainly(engine: Engine, jobs: Sequence[Job]) -> list[Attempt]:
    """One call of the engine's leaf a job; attempts in the order of the jobs. Raises as Engine.run."""
    params = engine.params
    turns = -(-len(jobs) // params.leaf.concurrency)  # calls that wait for one another
    limit_s = turns * (params.harness.leaf_timeout_s + MARGIN_S) + JUDGING_S
    return engine.call(_answer_all(engine, jobs), f"a batch of {len(jobs)} plain answers", limit_s)


async def _answer_all(engine: Engine, jobs: Sequence[Job]) -> list[Attempt]:
    slots = asyncio.Semaphore(engine.params.leaf.concurrency)
    async with engine.judging():
        return await asyncio.gather(*(engine.scored(job, _answer(engine.leaf, job, slots)) for job in jobs))


async def _answer(leaf: Leaf, job: Job, slots: asyncio.Semaphore) -> Rollout:
    """Raises ModelError where the leaf gives no answer."""
    context = await asyncio.to_thread(lambda: job.example.context)
    prompt = fitting(leaf, job.example.question, context)
    async with slots:
        reply = await leaf.complete(prompt)
    text = (reply.text or "").strip()
    call = Call("leaf", leaf.name, kept_prompt(prompt), text, cost_of(reply), attempts=reply.attempts)
    turn = Turn("root", "", model="none", calls=[call])
    return Rollout(text or None, "final" if text else "missing", turns=[turn], question=job.example.question)


def fitting(leaf: Leaf, question: str, context: str) -> str:
    """The question, then as much of the context's beginning as the leaf's window takes, to 64 characters."""
    limit = int(leaf.window_tokens * WINDOW_SHARE)
    low, high = 0, len(context)
    if leaf.count_tokens(f"{question}\n{context}") <= limit:
        return f"{question}\n{context}"
    while high - low > 64:
        middle = (low + high) // 2
        low, high = (middle, high) if leaf.count_tokens(f"{question}\n{context[:middle]}") <= limit else (low, middle)
    return f"{question}\n{context[:low]}"
