"""One server with vLLM's completions: a request of token ids, and what must hold of the answer before it is trained on."""

import asyncio
import contextlib
import json
import math
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ..errors import ConfigError, InfrastructureError
from . import retry
from .api import MESSAGE_CHARS, failure_of_status, http_address
from .base import Reply
from .openai_compatible import NO_KEY
from .retry import AttemptFailed, RetryPolicy, parse_retry_after

ADMIN_S = 300.0
UNLOAD_S = 30.0
ADMIN_RETRIES = RetryPolicy(attempts=5, max_delay_s=8.0, attempt_timeout_s=2 * ADMIN_S)  # through a blip of some seconds
PROBE_TEMPERATURES = (0.5, 2.0)
SAME = 1e-4  # log-probs nearer than this are equal
OUT_OF_RANGE = 1e-3  # a log-prob above zero by more is none


@dataclass(frozen=True)
class Request:
    """A reply that is wanted to the prompt `ids`; it ends with the token end_id."""

    ids: list[int]
    max_tokens: int
    temperature: float
    seed: int
    end_id: int


@dataclass(frozen=True)
class TokenReply(Reply):
    """A reply in tokens; `text` holds its ids."""

    ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()


class UnknownModel(AttemptFailed):
    """The server knows no model of that name, as after a restart, which forgets the adapters."""

    def __init__(self, message: str):
        super().__init__("unavailable", message, next_step="check the server's log")


class NoConnection(AttemptFailed):
    """Nobody answers at the address, or the connection was cut."""

    def __init__(self, message: str):
        super().__init__("unavailable", message, next_step="start the server or correct policy.vllm.urls")


class CompletionServer:
    """A server behind `url`, such as http://127.0.0.1:8000/v1. For one event loop."""

    def __init__(self, url: str, api_key: str | None = None, retries: RetryPolicy = ADMIN_RETRIES):
        """retries: of commands, not of replies."""
        parts = http_address(url, "policy.vllm.urls", "set VLLM_API_KEY")
        self.url, self._origin = url.rstrip("/"), f"{parts.scheme}://{parts.netloc}"
        self._key, self._client, self._retries = api_key, None, retries
        self.model, self.adapters = None, []  # names of its own weights and of what is loaded; `check` learns them
        # Kept by the sampler:
        self.down = False
        self.process = None  # which of its processes has the weights that were pushed, where all weights are
        self.loading = asyncio.Lock()

    async def check(self, prompt: list[int], max_sequence: int):
        """Learn its model's name and find out whether it serves for training: token ids, and log-probs after temperature.

        Raises ConfigError where it does not, InfrastructureError where it does not answer.
        """
        try:
            models = self._json(await self._send("GET", f"{self.url}/models"))
            base = next(card for card in models["data"] if not card.get("parent"))
            self.model, room = base["id"], base.get("max_model_len")
            self.adapters = [card["id"] for card in models["data"] if card.get("parent")]
        except AttemptFailed as failure:
            raise InfrastructureError(f"{self.url}: {failure}; {failure.next_step}") from None
        except (KeyError, TypeError, AttributeError, StopIteration):
            raise ConfigError(f"{self.url}: lists no models; policy.vllm.urls takes addresses that end in /v1") from None
        if room is not None and room < max_sequence:
            raise ConfigError(
                f"{self.url}: takes {room} tokens, sampling.max_sequence_tokens is {max_sequence}; start it with --max-model-len"
            )
        top = [await self._top_logprob(prompt, temperature) for temperature in PROBE_TEMPERATURES]
        if abs(top[0] - top[1]) < SAME and top[0] < -SAME:
            raise ConfigError(f"{self.url}: its log-probs are those before temperature; start it with --logprobs-mode processed_logprobs")

    async def _top_logprob(self, prompt: list[int], temperature: float) -> float:
        """Log-prob of the likeliest first token."""
        request = Request(prompt, 1, temperature, 0, -1)
        try:
            choice = await self._choice(request, self.model, 1)
            self._tokens(choice, request)
            return max(choice["logprobs"]["top_logprobs"][0].values())
        except AttemptFailed as failure:
            if failure.kind in ("unavailable", "timeout", "rate_limit"):
                raise InfrastructureError(f"{self.url}: {failure}; {failure.next_step}") from None
            raise ConfigError(f"{self.url}: {failure}; {failure.next_step}") from None
        except (KeyError, TypeError, IndexError, ValueError, AttributeError):
            raise ConfigError(f"{self.url}: gives no log-probs; start vLLM with --logprobs-mode processed_logprobs") from None

    async def complete(self, request: Request, adapter: str | None) -> TokenReply:
        """One attempt at a reply from an adapter, or from the server's own weights. Raises AttemptFailed."""
        ids, logprobs = self._tokens(await self._choice(request, adapter or self.model, 0), request)
        return TokenReply(" ".join(map(str, ids)), len(request.ids), len(ids), ids[-1] != request.end_id, ids=ids, logprobs=logprobs)

    async def _choice(self, request: Request, model: str, logprobs: int) -> dict:
        body = {
            "model": model,
            "prompt": request.ids,
            "max_tokens": request.max_tokens,
            "temperature": request.temperature,
            "seed": request.seed,
            "logprobs": logprobs,
            "return_token_ids": True,
            "return_tokens_as_token_ids": True,
            "stop_token_ids": [request.end_id] if request.end_id >= 0 else [],
            "ignore_eos": True,  # the model's other end tokens are tokens like any
            # What a model's generation_config may say otherwise:
            "top_p": 1.0,
            "top_k": 0,
            "min_p": 0.0,
            "repetition_penalty": 1.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
        }
        answer = self._json(await self._send("POST", f"{self.url}/completions", body))
        try:
            [choice] = answer["choices"]
            choice["finish_reason"]  # noqa: B018 - whether it is one
        except (KeyError, TypeError, ValueError):
            raise AttemptFailed("unavailable", "the answer is no completion") from None
        return choice

    def _tokens(self, choice: dict, request: Request) -> tuple[list[int], list[float]]:
        """Ids and log-probs of a choice. Raises AttemptFailed where they are not what was asked for."""
        ids, prompt, finish = choice.get("token_ids"), choice.get("prompt_token_ids"), choice["finish_reason"]
        if finish not in ("stop", "length"):
            raise AttemptFailed("unavailable", f"the server ended a reply for the reason '{finish}'")
        if not isinstance(ids, list) or not ids or not all(isinstance(token, int) and token >= 0 for token in ids):
            raise _wrong("gives no token ids", "use a server with vLLM's return_token_ids")
        if prompt != request.ids:
            raise _wrong("changed the tokens of the prompt", "use a server that takes token ids as they are")
        if len(ids) > request.max_tokens or request.end_id in ids[:-1] or (finish == "stop") != (ids[-1] == request.end_id):
            raise _wrong("did not end a reply at its end token", "use a server with vLLM's stop_token_ids and ignore_eos")
        logprobs = (choice.get("logprobs") or {}).get("token_logprobs")
        if not isinstance(logprobs, list) or len(logprobs) != len(ids) or not all(map(_is_logprob, logprobs)):
            raise _wrong("gives no log-probs of its tokens", "start vLLM with --logprobs-mode processed_logprobs")
        return ids, logprobs

    async def admin(self, path: str, next_step: str, **body):
        """POST to the server itself, outside the API; again after passing faults. Raises InfrastructureError that says what to do next."""

        async def step():
            answer = await self._send("POST", self._origin + path, body)
            if '"success":false' in answer.replace(" ", ""):
                raise AttemptFailed("unavailable", "it had no effect")

        await self._insist(path, step, next_step)

    async def load_adapter(self, name: str, folder: str, next_step: str):
        """Load it under a name that no other adapter ever has. Raises InfrastructureError."""

        async def step():
            try:
                await self._send("POST", f"{self._origin}/v1/load_lora_adapter", {"lora_name": name, "lora_path": folder})
            except AttemptFailed as failure:
                if "already been loaded" not in str(failure):  # by an attempt whose answer was lost
                    raise

        await self._insist("/v1/load_lora_adapter", step, next_step)

    async def unload_adapter(self, name: str):
        """Tried once: the server may be gone, or never have loaded it."""
        with contextlib.suppress(AttemptFailed, TimeoutError):
            async with asyncio.timeout(UNLOAD_S):
                await self._send("POST", f"{self._origin}/v1/unload_lora_adapter", {"lora_name": name})

    async def process_start(self, next_step: str) -> str:
        """As `running_process`, again after passing faults. Raises InfrastructureError."""
        return await self._insist("/metrics", self.running_process, next_step)

    async def running_process(self) -> str:
        """When the process that answers was started, by its own metrics: no other one has the same. Raises AttemptFailed."""
        found = re.search(r"^process_start_time_seconds (\S+)", await self._send("GET", f"{self._origin}/metrics"), re.MULTILINE)
        if not found:
            raise AttemptFailed("rejected", "it shows no process_start_time_seconds")
        return found[1]

    async def _insist(self, path: str, step: Callable[[], Awaitable[str | None]], next_step: str) -> str:
        """What the step gives, tried again after faults that may pass. Raises ModelError that tells no connection from a refusal."""

        async def attempt() -> Reply:
            try:
                async with asyncio.timeout(ADMIN_S):
                    return Reply(await step() or "done", 0, 0)
            except TimeoutError:
                raise AttemptFailed("timeout", f"did not end within {ADMIN_S:g} s", next_step=next_step, retry=False) from None
            except NoConnection:
                raise
            except AttemptFailed as failure:
                passing = failure.retry and not isinstance(failure, UnknownModel)
                raise AttemptFailed(failure.kind, f"refused ({failure})", next_step=next_step, retry=passing) from None

        return (await retry.call(attempt, self._retries, 2 * ADMIN_S, f"{self.url}: {path}")).text

    async def aclose(self):
        if self._client is not None:
            await self._client.close()

    async def _send(self, method: str, url: str, body: dict | None = None) -> str:
        """The text of an answer. Raises AttemptFailed."""
        import openai  # takes 3 s

        if self._client is None:
            self._client = openai.AsyncOpenAI(
                api_key=self._key or NO_KEY,
                base_url=self.url,
                max_retries=0,
                timeout=None,  # each attempt and each command has a limit of its own
                http_client=openai.DefaultAsyncHttpxClient(timeout=None, limits=openai.DEFAULT_CONNECTION_LIMITS),
            )
        try:
            if method == "GET":
                return await self._client.get(url, cast_to=str)
            return await self._client.post(url, cast_to=str, body=body)
        except openai.APIStatusError as error:
            said = error.body.get("message") if isinstance(error.body, dict) else error.body
            message = " ".join(f"{error.status_code} {said or error.response.reason_phrase}".split())[:MESSAGE_CHARS]
            if error.status_code == 404:
                raise UnknownModel(message) from None
            asked_s = parse_retry_after(error.response.headers.get("retry-after"))
            raise failure_of_status(error.status_code, message, asked_s, "check the server's log and options") from None
        except openai.APITimeoutError:
            raise AttemptFailed("timeout", f"{self.url} timed out") from None
        except openai.APIConnectionError as error:
            raise NoConnection(f"no connection to {self.url} ({type(error.__cause__).__name__})") from None

    @staticmethod
    def _json(text: str):
        try:
            return json.loads(text)
        except ValueError:
            raise AttemptFailed("unavailable", "the answer is no JSON") from None


def _wrong(what: str, next_step: str) -> AttemptFailed:
    return AttemptFailed("rejected", f"the server {what}", next_step=next_step)


def _is_logprob(value) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value <= OUT_OF_RANGE
