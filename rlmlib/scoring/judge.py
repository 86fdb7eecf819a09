"""The binary judge: no answer is wrong, an exact match is right, then the cache, then one question to the judge model."""

import asyncio
import unicodedata
from collections.abc import Iterable

from ..errors import InfrastructureError
from ..harness.trajectory import Tokens
from ..models.base import ChatModel, ModelError, Reply
from .judge_prompt import INSTRUCTIONS, judge_messages, parse_verdict, shown
from .judge_queue import JudgeQueue, settled
from .static import is_correct
from .verdict import Verdict, VerdictCache, verdict_key

REASON_CHARS = 100
ANSWER_CHARS = 100_000  # of an answer that is scored; longer ones are cut first
MOST_MARKS = 30  # combining marks in a row, as in Unicode's stream-safe text; to put more in order takes quadratic time


def scorable(answer: str) -> str:
    """An answer as it is compared: its first ANSWER_CHARS characters, without the marks that no writing puts on one letter."""
    answer = answer[:ANSWER_CHARS]
    if answer.isascii():
        return answer
    kept, marks = [], 0
    for char in answer:
        marks = marks + 1 if unicodedata.combining(unicodedata.normalize("NFKD", char)[0]) else 0
        if marks <= MOST_MARKS:
            kept.append(char)
    return "".join(kept)


class Judge:
    """Does a candidate answer a question as its gold answers do? Open it with `async with`; leaving withdraws what is pending.

    concurrency: judge calls at once. waiting: questions in line; who submits more waits. attempts: replies asked for until
    one is well-formed. max_tokens: of a reply, thinking included. call_timeout_s: of one reply with the model's own retries;
    keep it above the model's deadline, as a call cut off here reports no tokens. wait_s: for room in the queue, and again
    for a free worker. cache, usage and requests outlive a closing.
    """

    def __init__(
        self,
        chat_model: ChatModel,
        concurrency: int = 8,
        waiting: int = 64,
        attempts: int = 2,
        cache: VerdictCache | None = None,
        *,
        max_tokens: int = 2048,
        call_timeout_s: float = 120.0,
        wait_s: float = 600.0,
    ):
        if concurrency < 1 or waiting < 0 or attempts < 1:
            raise ValueError("judge: set concurrency and attempts to 1 or more, waiting to 0 or more")
        self.chat_model, self.attempts = chat_model, attempts
        self.concurrency, self.waiting = concurrency, waiting
        self.cache = VerdictCache() if cache is None else cache
        self.max_tokens, self.call_timeout_s, self.wait_s = max_tokens, call_timeout_s, wait_s
        self.usage = Tokens()  # of all judge calls, failed and malformed ones included
        self.requests = 0
        self._queue: JudgeQueue | None = None

    async def __aenter__(self) -> "Judge":
        if self._queue is not None:
            raise RuntimeError("judge: is open already; open it once and share it")
        self._queue = JudgeQueue(self.concurrency, self.waiting, self.wait_s)
        return self

    async def __aexit__(self, *_):
        queue, self._queue = self._queue, None
        await queue.close()

    async def verdict(self, question: str, golds: Iterable[str], candidate: str | None) -> Verdict:
        """Submit and wait."""
        return await (await self.submit(question, golds, candidate))

    async def submit(self, question: str, golds: Iterable[str], candidate: str | None) -> asyncio.Future[Verdict]:
        """A future of the verdict, as soon as the question is in the queue: a full queue holds the caller back.

        What needs no call does not queue. Cancelling the future withdraws the question.
        """
        if self._queue is None:
            raise RuntimeError("judge: is not open; submit inside 'async with judge:'")
        golds, candidate = tuple(golds), (candidate or "").strip()
        if not golds:
            raise ValueError("judge: the question has no gold answer; leave it out of the data")
        if not candidate:
            return settled(Verdict(False, "none"))
        if is_correct(scorable(candidate), golds):
            return settled(Verdict(True, "static"))
        key = verdict_key(f"{self.chat_model.name}\n{INSTRUCTIONS}", question, golds, candidate)
        if (known := self.cache.get(key)) is not None:
            return settled(known)
        return await self._queue.submit(key, lambda: self._judge(key, question, golds, candidate))

    async def _judge(self, key: str, question: str, golds: tuple[str, ...], candidate: str) -> Verdict:
        if (known := self.cache.get(key)) is not None:  # an equal question was answered while this one waited for room
            return known
        spent = Tokens()
        for attempt in range(self.attempts):
            try:
                async with asyncio.timeout(self.call_timeout_s):
                    reply = await self.chat_model.chat(judge_messages(question, golds, candidate, again=attempt > 0), self.max_tokens)
            except InfrastructureError as error:
                spent += self._count(error)
                if isinstance(error, ModelError) and error.kind == "blocked":
                    return await self._blocked(question, golds, error, spent)
                return self._unknown(_line(error), spent)
            except TimeoutError:
                return self._unknown(f"no reply in {self.call_timeout_s:g} s; raise call_timeout_s or check its server", spent)
            spent += self._count(reply)
            correct = parse_verdict(reply)
            if correct is not None:
                self.cache.put(key, correct)
                return Verdict(correct, "judge", spent)
        last = shown(reply.text, REASON_CHARS)
        return self._unknown(f"{self.attempts} malformed replies, the last {last!r}; raise max_tokens or change the model", spent)

    async def _blocked(self, question: str, golds: tuple[str, ...], blocked: ModelError, spent: Tokens) -> Verdict:
        """What a refusal of the provider is worth: a candidate that causes it is wrong, or it would buy itself out of its verdict.

        It does where the same question passes with a gold answer in the candidate's place. Not kept in the cache, as a
        provider's rules change.
        """
        try:
            async with asyncio.timeout(self.call_timeout_s):
                reply = await self.chat_model.chat(judge_messages(question, golds, golds[0]), self.max_tokens)
        except (InfrastructureError, TimeoutError) as error:
            return self._unknown(_line(blocked), spent + self._count(error))
        return Verdict(False, "judge", spent + self._count(reply), f"judge {self.chat_model.name}: blocked by the answer: {_line(blocked)}")

    def _unknown(self, why: str, spent: Tokens) -> Verdict:
        return Verdict.unknown(f"judge {self.chat_model.name}: {why}", spent)

    def _count(self, outcome: Reply | Exception) -> Tokens:
        """Add a call to the sums. A failed one is billed too, at a price that nobody states."""
        if isinstance(outcome, Reply):
            tokens = Tokens(outcome.prompt_tokens, outcome.completion_tokens, outcome.thinking_tokens, outcome.dollars)
        elif isinstance(outcome, ModelError):
            billed = outcome.prompt_tokens + outcome.completion_tokens
            tokens = Tokens(outcome.prompt_tokens, outcome.completion_tokens, dollars=None if billed else 0.0)
        else:
            return Tokens()
        self.requests += outcome.attempts
        self.usage += tokens
        return tokens


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
