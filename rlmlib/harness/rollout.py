"""The turn loop: one question over one context, from the first message to the answer."""

import asyncio
import time
from dataclasses import dataclass, field

from ..config import Harness
from ..errors import InfrastructureError
from ..models.base import ContextFull, Leaf, Message, Session
from .budget import SubcallBudget
from .prompts import PROMPT_SETS
from .protocol import cut_output, parse_reply
from .repl import Repl, ReplServer, WorkerDied

WINDOW_SHARE = 0.85  # a leaf prompt may fill this share of its window (the study's rule)


@dataclass
class Usage:
    """Tokens of a rollout. root_prompt re-counts each turn's prefix, as an API bills it."""

    root_prompt: int = 0
    root_completion: int = 0
    leaf_calls: int = 0
    leaf_prompt: int = 0
    leaf_completion: int = 0

    @property
    def leaf(self) -> int:
        return self.leaf_prompt + self.leaf_completion

    @property
    def total(self) -> int:
        return self.root_prompt + self.root_completion + self.leaf


@dataclass
class Turn:
    """One reply, the blocks it ran and what they printed. kind: root or finalise."""

    kind: str
    reply: str
    blocks: list[str]
    outputs: list[str]
    leaf_calls: int = 0
    leaf_tokens: int = 0


@dataclass
class Rollout:
    """One attempt. stop: final, missing (no answer even when forced), length, or timeout."""

    answer: str | None = None
    stop: str = "missing"
    forced: bool = False
    turns: list[Turn] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    refused_calls: int = 0
    seconds: float = 0.0
    error: str | None = None  # an infrastructure failure: the rollout counts for nothing

    @property
    def missing(self) -> bool:
        return self.answer is None


class RolloutRunner:
    """Runs rollouts with one REPL server and one leaf. Any number may be in flight."""

    def __init__(self, config: Harness, server: ReplServer, leaf: Leaf, leaf_concurrency: int = 8):
        self.config = config
        self.server = server
        self.leaf = leaf
        self.prompts = PROMPT_SETS[config.prompts]
        self._leaf_slots = asyncio.Semaphore(leaf_concurrency)

    async def run(self, question: str, context, session: Session, max_turn_tokens: int) -> Rollout:
        """One rollout. A failure of the machinery is put in `error`; nothing the model does raises."""
        rollout = Rollout()
        began = time.monotonic()
        try:
            await _Attempt(self, question, context, session, max_turn_tokens, rollout).run()
        except InfrastructureError as error:
            rollout.error = str(error)
        finally:
            session.close()
        rollout.seconds = time.monotonic() - began
        return rollout

    async def ask_leaf(self, prompt: str) -> tuple[str, int, int]:
        """(text, prompt tokens, completion tokens); a failure is the text."""
        async with self._leaf_slots:
            try:
                reply = await self.leaf.complete(prompt)
            except InfrastructureError as error:
                return f"error: {error}", 0, 0
        return reply.text, reply.prompt_tokens, reply.completion_tokens


class _Attempt:
    """State of one rollout while it runs."""

    def __init__(self, runner: RolloutRunner, question, context, session, max_turn_tokens, rollout: Rollout):
        self.runner, self.config, self.prompts = runner, runner.config, runner.prompts
        self.question, self.context, self.session = question, context, session
        self.max_turn_tokens = max_turn_tokens
        self.rollout = rollout
        self.budget = SubcallBudget(self.config.max_subcalls)
        self.repl: Repl | None = None
        self.work_s = 0.0

    async def run(self):
        self.repl = await self.runner.server.open(self.context)
        try:
            await self._turns()
        finally:
            self.rollout.refused_calls = self.budget.refused
            if self.repl is not None:
                self.repl.kill()

    async def _turns(self):
        kind = type(self.context).__name__
        size = len(self.context) if isinstance(self.context, str) else sum(len(str(p)) for p in self.context)
        start = self.prompts.start.format(kind=kind, chars=size, question=self.question)
        messages = [Message("system", self.prompts.system), Message("user", start)]
        try:
            for _ in range(self.config.max_turns):
                messages = await self._turn("root", messages)
                if self.rollout.answer is not None:
                    return
                if self.work_s > self.config.rollout_timeout_s:
                    self.rollout.stop = "timeout"
                    return
            demand = self.prompts.finalise.format(question=self.question)
            await self._turn("finalise", [Message("user", demand)])
            self.rollout.forced = self.rollout.answer is not None
        except ContextFull:
            self.rollout.stop = "length"

    async def _turn(self, kind: str, messages: list[Message]) -> list[Message]:
        reply = await self.session.reply(messages, self.max_turn_tokens)
        usage = self.rollout.usage
        usage.root_prompt += reply.prompt_tokens
        usage.root_completion += reply.completion_tokens
        parsed = parse_reply(reply.text)
        blocks = list(parsed.blocks) if kind == "root" else []
        turn = Turn(kind, reply.text, blocks, [])
        self.rollout.turns.append(turn)
        calls, tokens = usage.leaf_calls, usage.leaf
        began = time.monotonic()
        answer = await self._run_blocks(turn)
        if answer is None and not (blocks and self.config.final_beside_code == "ignore"):
            answer = await self._text_final(parsed, turn)
        self.work_s += time.monotonic() - began
        turn.leaf_calls, turn.leaf_tokens = usage.leaf_calls - calls, usage.leaf - tokens
        if answer is not None and answer.strip():
            self.rollout.answer, self.rollout.stop = answer, "final"
        output = "\n".join(self.prompts.block_output.format(output=o) for o in turn.outputs) or self.prompts.no_code
        return [Message("user", self.prompts.observation.format(output=output, left=self.budget.left, question=self.question))]

    async def _run_blocks(self, turn: Turn) -> str | None:
        for code in turn.blocks:
            try:
                result = await self.repl.run(code, self._serve, self.config.block_timeout_s, self.config.leaf_timeout_s)
            except WorkerDied as error:
                await self._restart()
                turn.outputs.append(f"RuntimeError: {error}; a new session was started, your variables are gone")
                continue
            turn.outputs.append(cut_output(result.output, self.config.output_chars, result.total).rstrip("\n"))
            if result.final is not None:
                return result.final
        return None

    async def _text_final(self, parsed, turn: Turn) -> str | None:
        if parsed.final_var is None:
            return parsed.final
        try:
            value = await self.repl.value(parsed.final_var)
        except WorkerDied:
            await self._restart()
            value = None
        if value is None:
            turn.outputs.append(f"NameError: FINAL_VAR: no variable named '{parsed.final_var}'")
        return value

    async def _restart(self):
        self.repl.kill()
        self.repl = await self.runner.server.open(self.context)

    async def _serve(self, kind: str, prompts: list[str]) -> list[str]:
        """Subcalls of a block. At depth 1 rlm_query is a leaf call. Over budget or too long: a text in place."""
        texts: list[str | None] = [None] * len(prompts)
        limit = int(self.runner.leaf.window_tokens * WINDOW_SHARE)
        sendable = []
        for index, prompt in enumerate(prompts):
            size = self.runner.leaf.count_tokens(prompt)
            if index >= self.config.max_batch:
                texts[index] = f"error: a batch holds at most {self.config.max_batch} prompts"
            elif size > limit:
                texts[index] = f"error: prompt of {size} tokens is over the limit of {limit}; send a shorter excerpt"
            else:
                sendable.append(index)
        granted = self.budget.reserve(len(sendable))
        for index in sendable[granted:]:
            texts[index] = "error: no subcalls left"
        usage = self.rollout.usage

        async def ask(index: int):  # counts each call as it ends, also where the batch runs out of time
            texts[index], prompt_tokens, completion_tokens = await self.runner.ask_leaf(prompts[index])
            usage.leaf_calls += 1
            usage.leaf_prompt += prompt_tokens
            usage.leaf_completion += completion_tokens

        await asyncio.gather(*(ask(i) for i in sendable[:granted]))
        return texts
