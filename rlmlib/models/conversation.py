"""A conversation with the policy, token in and token out: what was sampled is never decoded and encoded again."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from .base import ContextFull, Message, Reply
from .chat import ChatFormat

CHILD_STREAM = 1 << 16  # sets the keys of children apart from those of rollouts


@dataclass
class TokenSequence:
    """A conversation as sampled. mask is 1 on sampled tokens; logprobs is 0.0 elsewhere. All have length T."""

    ids: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)

    def extend(self, ids: list[int], mask: int, logprobs: list[float] | None = None):
        self.ids += ids
        self.mask += [mask] * len(ids)
        self.logprobs += logprobs or [0.0] * len(ids)

    def cut(self, length: int):
        for values in (self.ids, self.mask, self.logprobs):
            del values[length:]


class Sampler(Protocol):
    """Samples from the policy for any number of conversations at once.

    Log-probs are those of the distribution that was sampled from: after temperature, over the whole vocabulary.
    """

    chat: ChatFormat
    max_sequence: int  # tokens of a conversation, prompts and replies
    version: int  # of the weights: how often they were pushed

    def session(self, *key: int) -> "TokenSession":
        """A new conversation; `key` seeds its own random stream."""

    async def generate(self, session: "TokenSession", max_tokens: int) -> tuple[list[int], list[float]]:
        """Continue a conversation: sampled ids, the end token included, and their log-probs. Raises InfrastructureError."""

    def leave(self, session: "TokenSession") -> None:
        """A conversation has ended."""

    def push(self, policy) -> None:
        """Sample every reply that begins after this call from the policy's present weights. May be called from another thread."""

    def close(self) -> None:
        """Free what it holds."""


class TokenSession:
    """One conversation with the policy; see models.base.Session."""

    name = "policy"

    def __init__(self, sampler: Sampler, key: tuple[int, ...]):
        self.sampler, self.key = sampler, key
        self.children = 0  # started so far: part of their keys
        self.waits_for = 0  # children that are open: until they have ended it asks for nothing
        self.parent: TokenSession | None = None
        self.sequence = TokenSequence()
        self.random = np.random.Generator(np.random.Philox(np.random.SeedSequence(key)))

    async def reply(self, messages: list[Message], max_tokens: int) -> Reply:
        chat, sequence = self.sampler.chat, self.sequence
        opening = [chat.end_id] if sequence.ids and sequence.mask[-1] and sequence.ids[-1] != chat.end_id else []
        prompt = opening + chat.prompt_ids(messages, not sequence.ids)
        if len(sequence.ids) + len(prompt) + 1 > self.sampler.max_sequence:
            raise ContextFull
        said = len(sequence.ids)
        sequence.extend(prompt, 0)
        before = len(sequence.ids)
        try:
            ids, logprobs = await self.sampler.generate(self, min(max_tokens, self.sampler.max_sequence - before))
        except BaseException:  # cut off: the conversation is as it was
            self.forget(said)
            raise
        sequence.extend(ids, 1, logprobs)
        return Reply(chat.reply_text(ids), before, len(ids), ids[-1] != chat.end_id, sequence=sequence)

    def forget(self, length: int):
        """Cut the conversation to its first `length` tokens."""
        self.sequence.cut(length)

    def child(self) -> "TokenSession":
        session = self.sampler.session(*self.key, CHILD_STREAM, self.children)
        session.parent = self
        self.children += 1
        self.waits_for += 1
        return session

    def close(self):
        if self.parent is not None:
            self.parent.waits_for -= 1
            self.parent = None
        self.sampler.leave(self)


class PushedSampler(ABC):
    """What samplers have in common whose engine loads each version of the weights from a folder. `version` is theirs to keep."""

    version: int

    def session(self, *key: int) -> TokenSession:
        return TokenSession(self, key)

    def push(self, policy):
        """Sample from the policy's present weights: an adapter, under a name that was never used, or, where it has none, all weights.

        A new adapter serves the replies that begin from now on, beside those that run. All weights are changed between replies:
        those that run end first, and those that are asked for meanwhile wait.
        """
        self._push(policy, self.version + 1)

    def load_first(self, policy):
        """As `push`, for the weights that training begins with: they are version 0."""
        self._push(policy, 0)

    @abstractmethod
    def _push(self, policy, version: int):
        """Load the policy's present weights as that version. Raises InfrastructureError."""
