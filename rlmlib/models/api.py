"""What the models behind APIs have in common: a client for each event loop, retries, costs, error text without keys."""

import asyncio
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from urllib.parse import SplitResult, urlsplit

from pydantic import SecretStr

from ..errors import ConfigError
from . import retry
from .base import Message, ModelError, Reply
from .prices import dollars
from .retry import AttemptFailed, RetryPolicy

MESSAGE_CHARS = 300  # of a server's error text that is shown
_LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ "
_ASCII = bytes(range(128))
_TOO_LONG = re.compile(r"context.{0,12}(length|size|window)|max_model_len|input token count", re.IGNORECASE)


def estimate_tokens(text: str) -> int:
    """Tokens of a text, from above: 3 ASCII letters or spaces a token, 2 bytes of other scripts, 1 digit or sign.

    Tokenizers differ; common ones take 4 letters or more, and many split numbers into digits.
    """
    data = text.encode("utf-8", "surrogatepass")
    other_scripts = len(data.translate(None, _ASCII))
    signs = len(data.translate(None, _LETTERS)) - other_scripts
    letters = len(data) - signs - other_scripts
    return -(-letters // 3) + signs + -(-other_scripts // 2)


def http_address(url: str, name: str, key: str) -> SplitResult:
    """The parts of a server's address. name: of the parameter; key: where a secret belongs instead. Raises ConfigError, without it."""
    if "@" in url:
        raise ConfigError(f"{name}: holds a user or password, which would end up in logs; {key}")
    form = "write it like http://127.0.0.1:8000/v1"
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - it is read where it is asked for, and may be a password without its host
    except ValueError:
        raise ConfigError(f"{name}: is no HTTP address; {form}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{name}: '{url}' is no HTTP address; {form}")
    return parts


def failure_of_status(status: int, message: str, asked_s: float | None = None, next_step: str = "") -> AttemptFailed:
    """The failure that an HTTP error stands for. Servers disagree on the status of a prompt that is too long."""
    if status != 429 and _TOO_LONG.search(message):
        return AttemptFailed("too_long", message)
    if status == 429:
        return AttemptFailed("rate_limit", message, asked_s=asked_s)
    if status in (408, 504):
        return AttemptFailed("timeout", message, asked_s=asked_s)
    if status >= 500:
        return AttemptFailed("unavailable", message, asked_s=asked_s)
    return AttemptFailed("rejected", message, next_step=next_step)


class ApiChat(ABC):
    """Base of the ChatModels behind APIs.

    An HTTP connection belongs to the event loop that opened it, so each loop has a client of its own, made when it is
    first needed. `aclose` closes the one of the running loop; the others stay, and the object can be used again.
    """

    def __init__(
        self,
        model: str,
        *,
        key: str | None,
        window_tokens: int,
        timeout_s: float,
        policy: RetryPolicy,
        prices: Mapping[str, tuple[float, float]] | None,
    ):
        self.name, self.window_tokens, self.timeout_s, self.policy = model, window_tokens, timeout_s, policy
        self._prices = prices
        self._key = SecretStr(key) if key else None
        self._clients: dict[asyncio.AbstractEventLoop, object] = {}

    def __repr__(self):
        return f"{type(self).__name__}({self.name!r})"

    def count_tokens(self, text: str) -> int:
        return estimate_tokens(text)

    async def chat(self, messages: Sequence[Message], max_tokens: int) -> Reply:
        """Answer a conversation within `timeout_s`. Raises ModelError."""
        # A lone surrogate has no UTF-8 and cannot be sent.
        clean = [Message(m.role, m.content.encode("utf-8", "replace").decode()) for m in messages]
        try:
            reply = await retry.call(lambda: self._scrubbed_attempt(clean, max_tokens), self.policy, self.timeout_s, self.name)
        except ModelError as error:
            error.dollars = dollars(self.name, error.prompt_tokens, error.completion_tokens, self._prices)
            raise
        return replace(reply, dollars=dollars(self.name, reply.prompt_tokens, reply.completion_tokens, self._prices))

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await self._close_client(client)

    def _client(self):
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            for ended in [known for known in self._clients if known.is_closed()]:
                self._clients.pop(ended, None)
            self._clients[loop] = self._new_client()
        return self._clients[loop]

    async def _scrubbed_attempt(self, messages: list[Message], max_tokens: int) -> Reply:
        """An attempt whose error text is one line and never repeats the key: servers may echo it."""
        try:
            return await self._attempt(messages, max_tokens)
        except AttemptFailed as failure:
            text = " ".join(str(failure).split()).rstrip(".")
            if self._key:
                text = text.replace(self._key.get_secret_value(), "***")
            failure.args = (text if len(text) <= MESSAGE_CHARS else text[:MESSAGE_CHARS] + "...",)
            raise

    @abstractmethod
    def _new_client(self):
        """A client of the SDK, without retries of its own."""

    @abstractmethod
    async def _close_client(self, client) -> None: ...

    @abstractmethod
    async def _attempt(self, messages: list[Message], max_tokens: int) -> Reply:
        """Send one request. Raises AttemptFailed; an empty reply is a Reply without text."""
