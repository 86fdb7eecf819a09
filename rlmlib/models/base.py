"""The two protocols that the harness talks to: a Session of the root model, and a Leaf."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Message:
    role: str  # "system" or "user"; the model's own replies are kept by the session
    content: str


@dataclass(frozen=True)
class Reply:
    """One reply. prompt_tokens counts the whole conversation before it (prefixes are re-counted)."""

    text: str
    prompt_tokens: int
    completion_tokens: int
    truncated: bool


@dataclass(frozen=True)
class LeafReply:
    text: str
    prompt_tokens: int
    completion_tokens: int


class ContextFull(Exception):
    """The conversation has no room for another reply."""


class Session(Protocol):
    """One conversation with the policy. It only ever grows: each prompt extends the last one."""

    async def reply(self, messages: list[Message], max_tokens: int) -> Reply:
        """Append messages, sample a reply. Raises ContextFull."""

    def close(self) -> None: ...


class Leaf(Protocol):
    """A model that sees one prompt and nothing else."""

    name: str
    window_tokens: int

    def count_tokens(self, text: str) -> int: ...

    async def complete(self, prompt: str) -> LeafReply:
        """Raises InfrastructureError when no answer can be had."""
