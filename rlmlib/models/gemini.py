"""Gemini through the google-genai SDK: the Developer API with a key, or Vertex AI with Google Cloud credentials."""

import os
from collections.abc import Mapping, Sequence
from typing import Literal

from ..errors import ConfigError
from .api import ApiChat, failure_of_status
from .base import Message, Reply
from .retry import AttemptFailed, RetryPolicy, parse_retry_after

Thinking = Literal["none", "low", "medium", "high"]
KEY_VARIABLES = ("GOOGLE_API_KEY", "GEMINI_API_KEY")  # in the SDK's own order
LEVELS = {"none": "MINIMAL", "low": "LOW", "medium": "MEDIUM", "high": "HIGH"}
BUDGETS = {"none": 0, "low": 1024, "medium": 8192, "high": 24576}  # tokens; models before Gemini 3 have no levels
BLOCKED = ("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "ESCALATION", "MODEL_ARMOR")
_ACCESS_STEP = "check the key or credentials, the model's name and the project's access to it"
_VERTEX_STEP = "run 'gcloud auth application-default login' or set GOOGLE_APPLICATION_CREDENTIALS"


class GeminiChat(ApiChat):
    """A Gemini model. max_tokens of a reply holds its thinking as well, as the API counts it.

    thinking "none" is the least that the model offers: Gemini 3 models cannot be kept from thinking altogether.
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        vertex_project: str | None = None,
        vertex_location: str | None = None,
        thinking: Thinking = "none",
        temperature: float = 1.0,
        window_tokens: int = 1_048_576,
        timeout_s: float = 300.0,
        policy: RetryPolicy | None = None,
        prices: Mapping[str, tuple[float, float]] | None = None,
        base_url: str | None = None,
    ):
        """timeout_s: of a whole call, retries included. base_url: of a proxy. Raises ConfigError without a key or project."""
        self.vertex_project, self.vertex_location = vertex_project, vertex_location
        if thinking not in LEVELS:
            raise ConfigError(f"thinking: '{thinking}' is not a level; choose one of {', '.join(LEVELS)}")
        self.thinking, self.temperature, self.base_url = thinking, temperature, base_url
        key = self._find_key(api_key)
        super().__init__(model, key=key, window_tokens=window_tokens, timeout_s=timeout_s, policy=policy or RetryPolicy(), prices=prices)

    def _find_key(self, api_key: str | None) -> str | None:
        if self.vertex_project:
            if api_key:
                raise ConfigError("vertex_project: Vertex AI takes no api_key; leave one of the two out")
            return None
        if self.vertex_location:
            raise ConfigError("vertex_location: needs vertex_project as well; set it, or leave both out to use an API key")
        key = (api_key or next(filter(None, map(os.environ.get, KEY_VARIABLES)), "")).strip()
        if not key:
            raise ConfigError("no Gemini API key: set GEMINI_API_KEY (or GOOGLE_API_KEY), or give vertex_project")
        return key

    def _new_client(self):
        try:
            from google import genai  # takes 3 s
            from google.genai.types import HttpOptions
        except ImportError:
            raise ConfigError("google-genai is not installed; run 'make' or 'pip install google-genai'") from None
        options = HttpOptions(base_url=self.base_url)
        if self.vertex_project:
            location = self.vertex_location or "global"
            return genai.Client(vertexai=True, project=self.vertex_project, location=location, http_options=options)
        # vertexai is given, or GOOGLE_GENAI_USE_VERTEXAI would decide.
        return genai.Client(vertexai=False, api_key=self._key.get_secret_value(), http_options=options)

    async def _close_client(self, client) -> None:
        await client.aio.aclose()
        client.close()

    async def _attempt(self, messages: list[Message], max_tokens: int) -> Reply:
        client = self._client()
        from google.auth.exceptions import GoogleAuthError
        from google.genai.errors import APIError

        system, contents = to_contents(messages)
        config = {
            "temperature": self.temperature,
            "max_output_tokens": max_tokens,
            "thinking_config": thinking_config(self.name, self.thinking),
            "system_instruction": system,
        }
        try:
            response = await client.aio.models.generate_content(model=self.name, contents=contents, config=config)
        except APIError as error:
            raise to_failure(error) from None
        except _timeouts():
            raise AttemptFailed("timeout", "the connection timed out") from None
        except _transport_errors() as error:
            where = self.base_url or "Google's API"
            reason = f"no connection to {where} ({type(error).__name__})"
            raise AttemptFailed("unavailable", reason, next_step="check the network and try again") from None
        except GoogleAuthError as error:
            raise AttemptFailed("rejected", f"no Google Cloud credentials: {error}", next_step=_VERTEX_STEP) from None
        except (ValueError, TypeError, AttributeError) as error:  # what the SDK's parser makes of a body that is no reply
            raise AttemptFailed("unavailable", f"the server's answer is no Gemini reply ({type(error).__name__}: {error})") from None
        return to_reply(response)


def _timeouts() -> tuple[type[Exception], ...]:
    """Of the two transports of the SDK, which takes aiohttp where it is installed."""
    import httpx2

    aiohttp = _aiohttp()
    return (httpx2.TimeoutException, aiohttp.ServerTimeoutError) if aiohttp else (httpx2.TimeoutException,)


def _transport_errors() -> tuple[type[Exception], ...]:
    import httpx2

    aiohttp = _aiohttp()
    return (httpx2.TransportError, aiohttp.ClientError) if aiohttp else (httpx2.TransportError,)


def _aiohttp():
    try:
        import aiohttp
    except ImportError:
        return None
    return aiohttp


def thinking_config(model: str, thinking: Thinking) -> dict:
    """The SDK's thinking_config: a level, or for Gemini 2 models a budget of tokens."""
    if model.removeprefix("models/").startswith("gemini-2"):
        return {"thinking_budget": BUDGETS[thinking]}
    return {"thinking_level": LEVELS[thinking]}


def to_contents(messages: Sequence[Message]) -> tuple[str | None, list[dict]]:
    """(system instruction, contents) of a conversation."""
    system = "\n\n".join(m.content for m in messages if m.role == "system")
    roles = {"user": "user", "assistant": "model"}
    contents = [{"role": roles[m.role], "parts": [{"text": m.content}]} for m in messages if m.role != "system"]
    return system or None, contents


def to_reply(response) -> Reply:
    """Reply of a GenerateContentResponse. Raises AttemptFailed where prompt or reply was blocked."""
    usage = response.usage_metadata
    prompt = (usage and usage.prompt_token_count) or 0
    thoughts = (usage and usage.thoughts_token_count) or 0
    completion = ((usage and usage.candidates_token_count) or 0) + thoughts
    candidate = response.candidates[0] if response.candidates else None
    finish = _enum_name(candidate and candidate.finish_reason)
    parts = (candidate and candidate.content and candidate.content.parts) or []
    text = "".join(part.text for part in parts if part.text and not part.thought)
    refused = _enum_name(response.prompt_feedback and response.prompt_feedback.block_reason)
    if not text and (refused or finish in BLOCKED):
        what = f"the prompt was blocked ({refused})" if refused else f"the reply was blocked ({finish})"
        raise AttemptFailed("blocked", what, prompt_tokens=prompt, completion_tokens=completion)
    return Reply(text, prompt, completion, truncated=finish == "MAX_TOKENS", thinking_tokens=thoughts)


def _enum_name(value) -> str:
    """Name of an SDK enum's member; values unknown to the SDK's version are members too."""
    return str(getattr(value, "value", value) or "")


def to_failure(error) -> AttemptFailed:
    """The failure that an errors.APIError stands for. A used-up daily quota is not worth waiting for."""
    details = error_details(error.details)
    message = f"{error.code} {error.message or error.status or 'without a message'}"
    quotas = [str(v.get("quotaId")) for d in details for v in d.get("violations") or [] if isinstance(v, dict)]
    daily = next((quota for quota in quotas if "PerDay" in quota), None)
    if error.code == 429 and daily:
        step = "wait for the reset at midnight Pacific time or raise the project's quota"
        return AttemptFailed("rate_limit", f"the daily quota {daily} is used up", retry=False, next_step=step)
    delays = [d["retryDelay"] for d in details if str(d.get("@type")).endswith("RetryInfo") and "retryDelay" in d]
    headers = getattr(error.response, "headers", None) or {}
    asked = str(delays[0]).removesuffix("s") if delays else headers.get("retry-after")
    return failure_of_status(error.code, message, parse_retry_after(asked), next_step=_ACCESS_STEP)


def error_details(body: object) -> list[dict]:
    """The typed details of a Google error body, which is only mostly of the documented shape."""
    error = body.get("error", body) if isinstance(body, dict) else None
    details = error.get("details") if isinstance(error, dict) else None
    return [detail for detail in details if isinstance(detail, dict)] if isinstance(details, list) else []
