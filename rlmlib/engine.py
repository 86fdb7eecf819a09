"""Engines, chosen in one place: who samples, who answers leaf calls, where REPLs run.

An Engine runs batches of rollouts. It owns one event loop in a thread of its own, so it
works the same in a script and in a notebook, and every wait has a limit.
"""

import asyncio
import contextlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from .config import Leaf as LeafConfig
from .config import Params
from .errors import ConfigError, InfrastructureError
from .harness.repl import ReplServer
from .harness.rollout import Rollout, RolloutRunner
from .scoring.static import is_correct
from .tasks.base import Example

BATCH_TIMEOUT_S = 3600.0


@dataclass
class Attempt:
    """A rollout of an example, scored, with the tokens that were sampled for it."""

    example: Example
    index: int  # which of the example's rollouts
    rollout: Rollout
    sequence: object  # models.torch_sampler.TokenSequence
    correct: bool


@dataclass(frozen=True)
class Job:
    """One rollout to run; `key` seeds its sampling."""

    example: Example
    index: int
    key: tuple[int, ...]


def build_leaf(config: LeafConfig):
    """The model behind llm_query."""
    if config.engine == "lexical":
        from .models.lexical_leaf import LexicalLeaf

        return LexicalLeaf(config.window_tokens)
    raise ConfigError(f"leaf.engine: '{config.engine}' is not built in yet; 'lexical' is")


def build_sampler(params: Params, policy):
    """The sampler of a policy (training.policy.Policy), with its present weights."""
    if params.policy.sampler == "torch":
        from .models.torch_sampler import TorchSampler

        limits = params.sampling
        return TorchSampler(policy.dense_weights(), policy.chat, limits.temperature, limits.max_sequence_tokens)
    raise ConfigError(f"policy.sampler: '{params.policy.sampler}' is not built in yet; 'torch' is")


class Engine:
    """Runs rollouts of a policy. Use as a context manager."""

    def __init__(self, params: Params, policy):
        self.params = params
        self.sampler = build_sampler(params, policy)
        self.leaf = build_leaf(params.leaf)
        self._server = ReplServer(params.harness.memory_mb)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="rollouts", daemon=True)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=10)
        self._server.close()

    def push(self, policy):
        """Sample from the policy's present weights from now on."""
        self.sampler.weights = policy.dense_weights()

    def run(self, jobs: Sequence[Job]) -> list[Attempt]:
        """All jobs at once; attempts in the order of the jobs. Raises InfrastructureError on a hang."""
        future = asyncio.run_coroutine_threadsafe(self._run(jobs), self._loop)
        try:
            return future.result(timeout=BATCH_TIMEOUT_S)
        except TimeoutError:
            future.cancel()
            raise InfrastructureError(f"a batch of {len(jobs)} rollouts hung for {BATCH_TIMEOUT_S:.0f} s; run again to resume") from None
        except BaseException:  # an interrupt in a notebook must not leave a batch running
            future.cancel()
            raise

    async def _run(self, jobs):
        runner = RolloutRunner(self.params.harness, self._server, self.leaf, self.params.leaf.concurrency)
        sessions = [self.sampler.session(*job.key) for job in jobs]  # all open before any asks, or batches would be short
        turn_tokens = self.params.sampling.max_turn_tokens
        try:
            rollouts = await asyncio.gather(
                *(runner.run(j.example.question, j.example.context, s, turn_tokens) for j, s in zip(jobs, sessions, strict=True))
            )
        finally:
            for session in sessions:
                with contextlib.suppress(Exception):
                    session.close()
        return [
            Attempt(job.example, job.index, rollout, session.sequence, is_correct(rollout.answer, job.example.golds))
            for job, rollout, session in zip(jobs, rollouts, sessions, strict=True)
        ]


def row(attempt: Attempt, context: str | None = None, **extra) -> dict:
    """An attempt as a line of a rollouts file. `context` is the name it is stored under."""
    example, rollout = attempt.example, attempt.rollout
    return {
        "example": example.id,
        "index": attempt.index,
        "family": example.family,
        "task": example.task,
        "split": example.split,
        "question": example.question,
        "gold": example.answer,
        "context": context,
        "context_chars": len(example.context),
        "answer": rollout.answer,
        "correct": attempt.correct,
        "stop": rollout.stop,
        "missing": rollout.missing,
        "forced": rollout.forced,
        "error": rollout.error,
        "seconds": round(rollout.seconds, 3),
        "leaf_calls": rollout.usage.leaf_calls,
        "leaf_tokens": rollout.usage.leaf,
        "root_tokens": rollout.usage.root_prompt + rollout.usage.root_completion,
        "total_tokens": rollout.usage.total,
        "refused_calls": rollout.refused_calls,
        "turns": [vars(turn) for turn in rollout.turns],
        **extra,
    }
