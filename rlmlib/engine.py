"""Runs batches of rollouts of a policy, scores them, and chooses the sampler in one place.

It works the same in a script and in a notebook, and every wait has a limit.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path

from .background import BackgroundLoop
from .config import Params
from .errors import ConfigError, RunError, is_out_of_memory, one_line
from .harness.export import cut, to_dict
from .harness.rollout import RolloutRunner, server_of
from .harness.trajectory import Rollout
from .harness.workers import WorkerPool
from .models import choose
from .models.conversation import Sampler
from .scoring.judge import ANSWER_CHARS, Judge, scorable
from .scoring.static import check, is_correct
from .tasks.base import Example

JUDGING_S = 1800.0  # for the verdicts of a batch, waiting in line included
CALL_TIMEOUT_S = 300.0
CLOSE_TIMEOUT_S = 30.0
RETRY_STREAM = 1 << 17  # sets the sampling keys of second attempts apart
SHOWN_PROMPT_CHARS = 300  # of a leaf prompt in a rollouts file; the context is stored whole, once


@dataclass
class Attempt:
    """A rollout of an example, scored. A rollout with an error is neither right nor wrong."""

    example: Example
    index: int  # which of the example's rollouts
    rollout: Rollout
    correct: bool


@dataclass(frozen=True)
class Job:
    """One rollout to run; `key` seeds its sampling."""

    example: Example
    index: int
    key: tuple[int, ...]


def build_sampler(params: Params, policy, together: bool = True, folder: Path | None = None) -> Sampler:
    """The sampler of a policy (training.policy.Policy), with its present weights.

    together: see TorchSampler. folder: where versions of the weights are written for engines that read them from a disk; None: a
    temporary one. Raises ConfigError, InfrastructureError.
    """
    if params.policy.sampler == "vllm":
        from .models import vllm_sampler

        return vllm_sampler.build(params, policy, folder)
    if params.policy.sampler == "server":
        from .models import server_sampler

        return server_sampler.build(params, policy, folder)
    from .models.torch_sampler import TorchSampler

    limits = params.sampling
    return TorchSampler(policy.dense_weights(), policy.chat, limits.temperature, limits.max_sequence_tokens, together)


def build_judge(params: Params) -> Judge | None:
    """The judge of a params file, or None where exact matches decide."""
    config = params.judge
    if config.engine == "none":
        return None
    timeout_s = params.harness.leaf_timeout_s
    model = choose.chat_model(config, timeout_s)
    return Judge(model, config.concurrency, config.waiting, max_tokens=config.max_tokens, call_timeout_s=timeout_s + choose.MARGIN_S)


class Engine:
    """Runs rollouts of a policy. Use as a context manager. together, folder: see build_sampler.

    Without a policy (None) it has no sampler, and only scores what `scored` is given.
    """

    def __init__(self, params: Params, policy, together: bool = True, folder: Path | None = None):
        """Raises as build_sampler, with nothing left open."""
        self.params = params
        self.leaf = choose.leaf(params.leaf, params.harness.leaf_timeout_s)
        self.judge = build_judge(params)
        self._judging = 0  # blocks that use the judge
        with contextlib.ExitStack() as opened:
            self._server = server_of(params.harness)
            opened.callback(self._server.close)
            self._runner = RolloutRunner(params.harness, self._server, self.leaf, params.leaf.concurrency)
            self._background = BackgroundLoop()
            opened.callback(self._background.close)
            self.sampler = build_sampler(params, policy, together, folder) if policy is not None else None  # last: it starts slowest
            opened.pop_all()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(Exception):
            self._background.run(self._disconnect(), CLOSE_TIMEOUT_S, "closing the models")
        self._background.close()
        self._server.close()
        if self.sampler is not None:
            self.sampler.close()

    def push(self, policy):
        """Sample from the policy's present weights from now on."""
        self.sampler.push(policy)

    def run(self, jobs: Sequence[Job]) -> list[Attempt]:
        """All jobs at once; attempts in the order of the jobs. What fails in one is the error of its rollout.

        Raises InfrastructureError on a hang; ConfigError and RunError, which no other rollout would escape.
        """
        return self.call(self._run(jobs), f"a batch of {len(jobs)} rollouts", self.batch_timeout_s)

    @property
    def batch_timeout_s(self) -> float:
        """Longer than any rollout may take with all its attempts and its verdict."""
        harness = self.params.harness
        return harness.attempts * harness.deadline_s + JUDGING_S

    def call(self, work: Coroutine, what: str, timeout_s: float | None = CALL_TIMEOUT_S):
        """The result of a coroutine in the engine's event loop. Raises InfrastructureError on a hang. timeout_s: None for no limit."""
        return self._background.run(work, timeout_s, what)

    @contextlib.asynccontextmanager
    async def judging(self):
        """The judge is open in this block, which others may enter too."""
        if self.judge is not None and not self._judging:
            await self.judge.__aenter__()
        self._judging += 1
        try:
            yield
        finally:
            self._judging -= 1
            if self.judge is not None and not self._judging:
                await self.judge.__aexit__(None, None, None)

    async def _run(self, jobs: Sequence[Job]) -> list[Attempt]:
        async with self.judging():
            return await self.attempts(jobs)

    async def attempts(self, jobs: Sequence[Job]) -> list[Attempt]:
        """As `run`, in the engine's event loop and within `judging`."""
        pool = WorkerPool(len(jobs), self.params.harness.deadline_s, self.params.harness.attempts)
        sessions = [self.sampler.session(*job.key) for job in jobs]  # all open before any asks, or batches would be short
        try:
            return await asyncio.gather(*(self._attempt(pool, job, session) for job, session in zip(jobs, sessions, strict=True)))
        finally:
            for session in sessions:
                with contextlib.suppress(Exception):
                    session.close()

    async def _attempt(self, pool: WorkerPool, job: Job, session) -> Attempt:
        """One job. `session` is that of its first try."""

        async def once(number: int) -> Rollout:
            own = self.sampler.session(*job.key, RETRY_STREAM, number) if number else session
            try:
                context = await asyncio.to_thread(lambda: job.example.context)  # that of a data set may have to be built
                return await self._runner.run(job.example.question, context, own, self.params.sampling.max_turn_tokens)
            finally:
                own.close()

        return await self.scored(job, pool.run(once))

    async def scored(self, job: Job, answering: Awaitable[Rollout]) -> Attempt:
        """The attempt that a rollout is, within `judging`. What fails is the rollout's error; raises as `run`."""
        rollout, correct = Rollout(), False
        try:
            rollout = await answering
            correct = await self._score(job.example, rollout)
        except (ConfigError, RunError):
            raise
        except Exception as error:  # noqa: BLE001 - one rollout never costs the others of its batch
            if is_out_of_memory(error):  # the others would follow
                raise
            rollout.error = one_line(error)
        return Attempt(job.example, job.index, rollout, correct)

    async def _score(self, example: Example, rollout: Rollout) -> bool:
        """Whether the answer is right. A judge that cannot say makes the rollout an infrastructure failure, never a wrong one.

        An answer of more than ANSWER_CHARS is cut first, in the record too.
        """
        if rollout.error is not None:
            return False
        if rollout.answer is not None:
            rollout.answer = cut(rollout.answer, ANSWER_CHARS)
        judged = self.judge is not None and example.family in self.params.judge.families
        if example.answer_type is None and not judged:
            return is_correct(scorable(rollout.answer or ""), example.golds)
        if example.answer_type is not None:
            known = check(scorable(rollout.answer or ""), example.golds, example.answer_type, example.question, judge=judged)
            if known != "ask_judge":
                return known == "correct"
        verdict = await self.judge.verdict(example.question, example.golds, rollout.answer)
        if verdict.correct is None:
            rollout.error = f"the judge could not say: {verdict.reason}"
        return bool(verdict.correct)

    async def _disconnect(self):
        for model in (getattr(self.leaf, "chat_model", None), getattr(self.judge, "chat_model", None)):
            if hasattr(model, "aclose"):
                await model.aclose()


def row(attempt: Attempt, context: str | None = None, **extra) -> dict:
    """An attempt as a line of a rollouts file. `context` is the name it is stored under."""
    example, rollout, usage = attempt.example, attempt.rollout, attempt.rollout.usage
    return {
        "example": example.id,
        "index": attempt.index,
        "family": example.family,
        "task": example.task,
        "split": example.split,
        "gold": example.answer,
        "context": context,
        "context_chars": len(example.context),
        "correct": attempt.correct,
        "missing": rollout.missing,
        "leaf_calls": usage.leaf_calls,
        "leaf_tokens": usage.leaf,
        "children": usage.children,
        "root_tokens": usage.root.total,
        "total_tokens": usage.total,
        "dollars": usage.dollars,
        "refused_calls": usage.refused_calls,
        **to_dict(rollout, SHOWN_PROMPT_CHARS),
        "question": example.question,
        **extra,
    }
