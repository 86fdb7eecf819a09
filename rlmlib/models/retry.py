"""One bounded retry policy for the models behind APIs.

An engine sends one request and either returns a Reply or raises AttemptFailed; all waiting and counting is here.
"""

import asyncio
import math
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from .base import ModelError, Reply

NEXT_STEP = {
    "rate_limit": "lower the concurrency or try again later",
    "timeout": "raise the time limit or ask for fewer tokens",
    "unavailable": "try again later",
    "empty": "try again or change the prompt",
    "blocked": "change the prompt",
    "too_long": "send a shorter prompt",
    "rejected": "correct the request",
}
"""What the reader of a ModelError can do, by its kind, where the engine knows no better."""


@dataclass(frozen=True)
class RetryPolicy:
    """Bounds of the attempts of one call; its deadline as a whole is given to `call`."""

    attempts: int = 5
    empty_attempts: int = 2  # of those, how many may come back empty: an empty reply is billed in full
    attempt_timeout_s: float = 120.0
    first_delay_s: float = 1.0  # doubled after each failed attempt
    max_delay_s: float = 30.0
    max_asked_s: float = 60.0  # longest wait that a server is granted (Retry-After, RetryInfo)


class AttemptFailed(Exception):
    """One request gave no answer. kind: as in ModelError. retry: whether the same request may yet succeed.

    asked_s: the wait that the server asked for. The tokens are those it reported for the failed request.
    """

    def __init__(
        self,
        kind: str,
        message: str,
        *,
        next_step: str = "",
        retry: bool | None = None,
        asked_s: float | None = None,
        prompt_tokens: int = 0,
        completion_tokens: int = 0,
        thinking_tokens: int = 0,
    ):
        super().__init__(message)
        self.kind, self.next_step, self.asked_s = kind, next_step or NEXT_STEP[kind], asked_s
        self.retry = kind in ("rate_limit", "timeout", "unavailable", "empty") if retry is None else retry
        self.prompt_tokens, self.completion_tokens, self.thinking_tokens = prompt_tokens, completion_tokens, thinking_tokens


def backoff_s(policy: RetryPolicy, failures: int, asked_s: float | None, jitter: float) -> float:
    """Seconds to wait after `failures` failed attempts (1 or more). jitter: a random number in [0, 1).

    Exponential, shortened to a half at most by the jitter. A wait that the server asks for is a lower bound up to
    the cap, and the jitter comes on top of it, or all callers would be back at the same instant.
    """
    own_s = min(policy.max_delay_s, policy.first_delay_s * 2 ** (failures - 1)) * (1 - jitter / 2)
    if asked_s is None:
        return own_s
    return max(own_s, min(asked_s, policy.max_asked_s) + policy.first_delay_s * jitter)


def parse_retry_after(value: str | None, now: datetime | None = None) -> float | None:
    """Seconds of a Retry-After header, which is a number of seconds or an HTTP date; None where it is neither."""
    try:
        seconds = float(value)
        return max(0.0, seconds) if math.isfinite(seconds) else None
    except (TypeError, ValueError):
        pass
    try:
        return max(0.0, (parsedate_to_datetime(value) - (now or datetime.now(UTC))).total_seconds())
    except (TypeError, ValueError):  # not a date, or a date without a time zone
        return None


async def call(attempt: Callable[[], Awaitable[Reply]], policy: RetryPolicy, timeout_s: float, name: str) -> Reply:
    """Attempt until there is an answer, the policy is spent or `timeout_s` is over. Raises ModelError, named after the model.

    The tokens of all attempts are in the Reply or the ModelError. A wait that would outlast the deadline is not begun.
    """
    clock = asyncio.get_running_loop().time
    deadline = clock() + timeout_s
    prompt = completion = thinking = empty = sent = 0
    while True:
        outcome = await _outcome(attempt, min(deadline, clock() + policy.attempt_timeout_s))
        sent += 1
        prompt += outcome.prompt_tokens
        completion += outcome.completion_tokens
        thinking += outcome.thinking_tokens
        if isinstance(outcome, Reply):
            return replace(outcome, prompt_tokens=prompt, completion_tokens=completion, thinking_tokens=thinking, attempts=sent)
        empty += outcome.kind == "empty"
        wait_s = backoff_s(policy, sent, outcome.asked_s, random.random())
        spent = sent >= policy.attempts or empty >= policy.empty_attempts or clock() + wait_s >= deadline
        if spent or not outcome.retry:
            break
        await asyncio.sleep(wait_s)
    tries = f" after {sent} attempts" if sent > 1 else ""
    raise ModelError(outcome.kind, f"{name}: {outcome}{tries}; {outcome.next_step}", sent, prompt, completion)


async def _outcome(attempt: Callable[[], Awaitable[Reply]], until: float) -> Reply | AttemptFailed:
    """One attempt, as a value: a Reply with text, or why there is none."""
    began = asyncio.get_running_loop().time()
    try:
        async with asyncio.timeout_at(until):
            reply = await attempt()
    except AttemptFailed as failure:
        return failure
    except TimeoutError:
        return AttemptFailed("timeout", f"no answer within {until - began:.3g} s")
    if reply.text.strip():
        return reply
    return AttemptFailed(
        "empty",
        "max_tokens ran out before any text" if reply.truncated else "an empty reply",
        next_step="raise max_tokens or lower the thinking level" if reply.truncated else "",
        prompt_tokens=reply.prompt_tokens,
        completion_tokens=reply.completion_tokens,
        thinking_tokens=reply.thinking_tokens,
    )
