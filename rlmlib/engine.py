"""Engines, chosen in one place: who samples, who answers leaf calls, where REPLs run.

An Engine runs batches of rollouts, from a script and from a notebook alike, and every wait has a limit.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from .background import BackgroundLoop
from .config import Leaf as LeafConfig
from .config import Params
from .errors import ConfigError
from .harness.export import to_dict
from .harness.rollout import RolloutRunner, server_of
from .harness.trajectory import Rollout
from .scoring.static import is_correct
from .tasks.base import Example

BATCH_TIMEOUT_S = 3600.0
SHOWN_PROMPT_CHARS = 300  # of a leaf prompt in a rollouts file; the context is stored whole, once


@dataclass
class Attempt:
    """A rollout of an example, scored."""

    example: Example
    index: int  # which of the example's rollouts
    rollout: Rollout
    correct: bool

    @property
    def sequences(self) -> list:
        """What was sampled from the policy for it: the root's tokens and those of its children (TokenSequence)."""
        return [rollout.sequence for rollout in self.rollout.tree()]


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
        self._server = server_of(params.harness)
        self._background = BackgroundLoop()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._background.close()
        self._server.close()

    def push(self, policy):
        """Sample from the policy's present weights from now on."""
        self.sampler.weights = policy.dense_weights()

    def run(self, jobs: Sequence[Job]) -> list[Attempt]:
        """All jobs at once; attempts in the order of the jobs. Raises InfrastructureError on a hang."""
        return self._background.run(self._run(jobs), BATCH_TIMEOUT_S, f"a batch of {len(jobs)} rollouts")

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
            Attempt(job.example, job.index, rollout, is_correct(rollout.answer, job.example.golds))
            for job, rollout in zip(jobs, rollouts, strict=True)
        ]


def row(attempt: Attempt, context: str | None = None, **extra) -> dict:
    """An attempt as a line of a rollouts file. `context` is the name it is stored under."""
    example, rollout, usage = attempt.example, attempt.rollout, attempt.rollout.usage
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
        "leaf_calls": usage.leaf_calls,
        "leaf_tokens": usage.leaf,
        "children": usage.children,
        "root_tokens": usage.root.total,
        "total_tokens": usage.total,
        "dollars": usage.dollars,
        "refused_calls": usage.refused_calls,
        "turns": to_dict(rollout, SHOWN_PROMPT_CHARS)["turns"],
        **extra,
    }
