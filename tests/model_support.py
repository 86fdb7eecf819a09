"""What the tests of models behind APIs share: each engine with its server, and calls in an event loop of their own."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass

import certifi
import google.genai  # noqa: F401  (both take seconds to import, which no test is to time)
import openai  # noqa: F401
import pytest
from servers import Answer, GeminiServer, OpenAIServer, gemini_error, gemini_reply, openai_error, openai_reply

from rlmlib.models.base import Message, ModelError
from rlmlib.models.gemini import GeminiChat
from rlmlib.models.openai_compatible import OpenAICompatibleChat
from rlmlib.models.retry import RetryPolicy

QUICK = RetryPolicy(attempts=3, first_delay_s=0.01, max_delay_s=0.02)
MODEL = "gemini-3.1-flash-lite"
OPENAI_KEY = "sk-test-key-0123456789"
HI = [Message("user", "hi")]


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch, tmp_path):
    """No keys or settings of the machine. Loading a whole bundle of certificates takes most of a test, so it is one."""
    for name in list(os.environ):
        if name.startswith(("GOOGLE_", "GEMINI_", "OPENAI_", "CLOUDSDK_")):
            monkeypatch.delenv(name)
    with open(certifi.where()) as bundle:
        first = bundle.read().partition("-----END CERTIFICATE-----")
    (tmp_path / "one.pem").write_text("".join(first[:2]))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "one.pem"))


def gemini(server, model=MODEL, **options) -> GeminiChat:
    return GeminiChat(model, **{"api_key": GeminiServer.KEY, "base_url": server.origin, "policy": QUICK, **options})


def local(server, **options) -> OpenAICompatibleChat:
    return OpenAICompatibleChat(OpenAIServer.MODEL, server.url, **{"window_tokens": 4096, "policy": QUICK, **options})


@dataclass(frozen=True)
class Engine:
    """An engine, its server and how that says things."""

    server: Callable
    chat: Callable
    reply: Callable
    error: Callable  # (status, **answer)
    empty: Answer
    truncated: Answer
    key: str


GEMINI = Engine(
    GeminiServer,
    gemini,
    lambda text, prompt=10, completion=3: gemini_reply(text, prompt=prompt, candidates=completion),
    lambda status, **answer: gemini_error(status, "UNAVAILABLE", **answer),
    gemini_reply(None, prompt=10, candidates=None),
    gemini_reply("cut o", finish="MAX_TOKENS"),
    GeminiServer.KEY,
)
OPENAI = Engine(
    OpenAIServer,
    local,
    lambda text, prompt=10, completion=3: openai_reply(text, prompt=prompt, completion=completion),
    lambda status, **answer: openai_error(status, **answer),
    openai_reply(None, completion=0),
    openai_reply("cut o", finish="length"),
    OPENAI_KEY,
)
both = pytest.mark.parametrize("engine", [pytest.param(GEMINI, id="gemini"), pytest.param(OPENAI, id="openai")])


def run(chat, messages=HI, max_tokens=64):
    """One call in an event loop of its own, connections closed."""

    async def main():
        try:
            return await chat.chat(messages, max_tokens)
        finally:
            await chat.aclose()

    return asyncio.run(main())


def error_of(chat, messages=HI) -> ModelError:
    with pytest.raises(ModelError) as caught:
        run(chat, messages)
    return caught.value
