"""What the tests of the judge share: a scripted judge model behind the ChatModel protocol."""

import asyncio

from rlmlib.models.base import Message, Reply
from rlmlib.scoring.judge import Judge
from rlmlib.scoring.verdict import Verdict

RIGHT, WRONG = "VERDICT: CORRECT", "VERDICT: INCORRECT"
QUESTION, GOLDS = "Who designed the bridge?", ["Ada Byron", "A. Byron"]
HANG = object()


class ScriptedModel:
    """Answers with `line(user message, number of the call)`: a text, a Reply, an Exception to raise, or HANG. 100 + 5 tokens."""

    window_tokens = 100_000

    def __init__(self, line=lambda text, number: RIGHT, name="scripted"):
        self.line, self.name = line, name
        self.heard: list[list[Message]] = []
        self.running = self.most = 0
        self.gate = asyncio.Event()
        self.gate.set()

    def count_tokens(self, text):
        return len(text)

    async def chat(self, messages, max_tokens):
        self.heard.append(list(messages))
        number = len(self.heard) - 1
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(0.001)
            await self.gate.wait()
            line = self.line(messages[-1].content, number)
            if line is HANG:
                await asyncio.sleep(3600)
            if isinstance(line, Exception):
                raise line
            return line if isinstance(line, Reply) else Reply(line, 100, 5, thinking_tokens=2, dollars=0.5)
        finally:
            self.running -= 1


def says(*lines):
    """A model that says its lines in turn, the last one for ever."""
    return ScriptedModel(lambda text, number: lines[min(number, len(lines) - 1)])


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 20))


def judged(model, candidate="Lady Byron", golds=GOLDS, **options) -> Verdict:
    """One verdict of a fresh judge."""

    async def one():
        async with Judge(model, **options) as judge:
            return await judge.verdict(QUESTION, golds, candidate)

    return run(one())
