"""Servers that speak OpenAI's chat completions: vLLM, llama.cpp, OpenAI itself and others, through the openai SDK."""

import os
from collections.abc import Mapping

from ..errors import ConfigError
from .api import ApiChat, estimate_tokens, failure_of_status, http_address
from .base import Message, Reply
from .retry import AttemptFailed, RetryPolicy, parse_retry_after

OPENAI_HOST = "api.openai.com"
NO_KEY = "none"  # the SDK wants a key; servers without one ignore it


class OpenAICompatibleChat(ApiChat):
    """A model behind `base_url`, such as http://127.0.0.1:8000/v1.

    OPENAI_API_KEY is used for OpenAI's own host only: it is never sent to another server. Other keys are given as api_key.
    Thinking is told apart from the text by the server: start vLLM with a reasoning parser for models that think.
    """

    def __init__(
        self,
        model: str,
        base_url: str,
        *,
        window_tokens: int,
        api_key: str | None = None,
        temperature: float = 1.0,
        timeout_s: float = 300.0,
        policy: RetryPolicy | None = None,
        prices: Mapping[str, tuple[float, float]] | None = None,
        extra_body: Mapping[str, object] | None = None,
    ):
        """timeout_s: of a whole call, retries included. extra_body: the server's own parameters, added to each request."""
        url = http_address(base_url, "base_url", "give it as api_key")
        self.base_url, self.is_openai = base_url, url.hostname == OPENAI_HOST
        self.temperature, self.extra_body = temperature, dict(extra_body or {})
        key = (api_key or (os.environ.get("OPENAI_API_KEY") if self.is_openai else None) or "").strip()
        if self.is_openai and not key:
            raise ConfigError("no OpenAI API key: set OPENAI_API_KEY")
        super().__init__(model, key=key, window_tokens=window_tokens, timeout_s=timeout_s, policy=policy or RetryPolicy(), prices=prices)

    def _new_client(self):
        try:
            import openai  # takes 3 s
        except ImportError:
            raise ConfigError("openai is not installed; run 'make' or 'pip install openai'") from None
        return openai.AsyncOpenAI(
            api_key=self._key.get_secret_value() if self._key else NO_KEY,
            base_url=self.base_url,
            max_retries=0,
            timeout=None,  # each attempt has a limit of its own
            # The SDK's own client closes itself when it is collected, on whatever loop then runs.
            http_client=openai.DefaultAsyncHttpxClient(timeout=None),
        )

    async def _close_client(self, client) -> None:
        await client.close()

    async def _attempt(self, messages: list[Message], max_tokens: int) -> Reply:
        client = self._client()
        import openai

        limit = "max_completion_tokens" if self.is_openai else "max_tokens"  # OpenAI's newer models refuse the old name
        try:
            completion = await client.chat.completions.create(
                model=self.name,
                messages=[{"role": m.role, "content": m.content} for m in messages],
                temperature=self.temperature,
                extra_body={limit: max_tokens, **self.extra_body},
            )
        except openai.APIStatusError as error:
            raise self._failure(error) from None
        except openai.APITimeoutError:
            raise AttemptFailed("timeout", f"{self.base_url} timed out") from None
        except openai.APIConnectionError as error:
            reason = f"no connection to {self.base_url} ({type(error.__cause__).__name__})"
            raise AttemptFailed("unavailable", reason, next_step="start the server or correct base_url") from None
        except (openai.OpenAIError, ValueError) as error:  # a body that is no JSON
            raise self._not_a_reply(type(error).__name__) from None
        if not isinstance(completion, openai.types.chat.ChatCompletion) or not isinstance(completion.choices, list):
            raise self._not_a_reply("no choices")
        try:
            return to_reply(completion, estimate_tokens("".join(m.content for m in messages)))
        except (AttributeError, TypeError):  # the SDK does not check the types of a body
            raise self._not_a_reply("a field of another type") from None

    def _not_a_reply(self, why: str) -> AttemptFailed:
        step = "check that base_url is the address of an API; it mostly ends in /v1"
        return AttemptFailed("unavailable", f"the answer of {self.base_url} is no chat completion ({why})", next_step=step)

    def _failure(self, error) -> AttemptFailed:
        """The failure that an openai.APIStatusError stands for."""
        body = error.body if isinstance(error.body, dict) else {"message": error.body}
        code = body.get("code")
        message = f"{error.status_code} {body.get('message') or error.response.reason_phrase}"
        if isinstance(code, str):
            message += f" ({code})"
        if code == "insufficient_quota":
            return AttemptFailed("rate_limit", message, retry=False, next_step="check the account's plan and balance")
        step = f"check the key, the model's name and base_url {self.base_url}"
        return failure_of_status(error.status_code, message, parse_retry_after(error.response.headers.get("retry-after")), step)


def to_reply(completion, prompt_estimate: int) -> Reply:
    """Reply of a ChatCompletion. Raises AttemptFailed where it was blocked.

    Where the server gives no usage, or does not say how much of it was thinking, the tokens are estimated from the text.
    """
    choice = completion.choices[0] if completion.choices else None
    message = choice and choice.message
    text = flat_text(message and message.content)
    # Not in OpenAI's schema: `reasoning_content` of llama.cpp and older vLLM, `reasoning` of newer vLLM.
    thoughts = flat_text(getattr(message, "reasoning_content", None) or getattr(message, "reasoning", None))
    usage, thinking = completion.usage, estimate_tokens(thoughts)
    prompt, total = prompt_estimate, estimate_tokens(text) + thinking
    if usage:
        share = thinking / total if total else 0.0
        prompt, total = usage.prompt_tokens or 0, usage.completion_tokens or 0
        details = usage.completion_tokens_details
        reported = details.reasoning_tokens if details else None
        thinking = round(total * share) if reported is None else reported
    refusal = message and message.refusal
    finish = choice and choice.finish_reason
    if not text and (refusal or finish == "content_filter"):
        what = f"the reply was blocked ({refusal or finish})"
        raise AttemptFailed("blocked", what, prompt_tokens=prompt, completion_tokens=total)
    return Reply(text, prompt, total, truncated=finish == "length", thinking_tokens=thinking)


def flat_text(content: object) -> str:
    """Text of a message's content: a string, nothing, or a list of typed parts."""
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict) and part.get("type") == "text")
    return content if isinstance(content, str) else ""
