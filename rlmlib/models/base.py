"""The protocols that the harness talks to: a Session of the root model, a Leaf, and the ChatModel behind either."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ..errors import InfrastructureError


@dataclass(frozen=True)
class Message:
    role: str  # "system", "user" or, in a ChatModel's history, "assistant"
    content: str


@dataclass(frozen=True)
class Reply:
    """One reply. prompt_tokens counts the whole conversation before it (prefixes are re-counted).

    completion_tokens holds the thinking tokens too. dollars is None where no price is known.
    sequence: the conversation's tokens where the policy was sampled (models.conversation.TokenSequence).
    """

    text: str
    prompt_tokens: int
    completion_tokens: int
    truncated: bool = False
    thinking_tokens: int = 0
    attempts: int = 1  # requests sent for it; the tokens of all of them are counted
    dollars: float | None = 0.0
    sequence: object = None


class ContextFull(Exception):
    """The conversation has no room for another reply."""


class ModelError(InfrastructureError):
    """A model gave no answer after all attempts.

    kind: rate_limit, timeout, unavailable, empty, blocked, too_long or rejected (a request that no retry can mend).
    The tokens of the failed attempts are kept, as they are billed.
    """

    def __init__(
        self, kind: str, message: str, attempts: int = 1, prompt_tokens: int = 0, completion_tokens: int = 0, dollars: float | None = None
    ):
        super().__init__(message)
        self.dollars = dollars
        self.kind, self.attempts = kind, attempts
        self.prompt_tokens, self.completion_tokens = prompt_tokens, completion_tokens


class ChatModel(Protocol):
    """A model behind an API. One object serves many conversations at once."""

    name: str
    window_tokens: int

    def count_tokens(self, text: str) -> int:
        """Tokens of a text, estimated from above where only the server knows."""

    async def chat(self, messages: Sequence[Message], max_tokens: int) -> Reply:
        """Answer a conversation within its deadline. Raises ModelError."""


class Session(Protocol):
    """One conversation with the root model. It only ever grows: each prompt extends the last one."""

    name: str

    async def reply(self, messages: list[Message], max_tokens: int) -> Reply:
        """Append messages, sample a reply. Raises ContextFull or InfrastructureError."""

    def child(self) -> "Session":
        """A fresh conversation with the same model, for a child RLM. This one waits meanwhile."""

    def close(self) -> None:
        """Free what it holds. A session may be closed again."""


class Leaf(Protocol):
    """A model that sees one prompt and nothing else.

    One whose price is known may have a method `most_dollars(prompt_tokens)`: what a call costs at most, or None.
    """

    name: str
    window_tokens: int
    max_tokens: int  # of a reply

    def count_tokens(self, text: str) -> int: ...

    async def complete(self, prompt: str) -> Reply:
        """Raises InfrastructureError when no answer can be had."""
