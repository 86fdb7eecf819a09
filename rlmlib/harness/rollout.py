"""The turn loop: one question over one context, from the first message to the answer, children included."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable

from ..config import Harness
from ..errors import ConfigError, InfrastructureError
from ..models.base import ContextFull, Leaf, Message, ModelError, Session
from .budget import Budget, Limits
from .prompts import PROMPT_SETS
from .protocol import cut_output, parse_reply
from .repl import Repl, ReplServer, WorkerDied
from .trajectory import Call, Rollout, Tokens, Turn

WINDOW_SHARE = 0.85  # a leaf prompt may fill this share of its window (the study's rule)


def server_of(config: Harness) -> ReplServer:
    """The REPL server that a harness config asks for."""
    cpu_s = int((config.max_turns + 1) * config.block_timeout_s) + 60  # a last resort: blocks have their own limit
    return ReplServer(config.memory_mb, cpu_s, config.isolation, config.sandbox_command)


class RolloutRunner:
    """Runs rollouts with one REPL server and one leaf. Any number may be in flight."""

    def __init__(self, config: Harness, server: ReplServer, leaf: Leaf, leaf_concurrency: int = 8):
        self.config = config
        self.server = server
        self.leaf = leaf
        self.prompts = PROMPT_SETS[config.prompts]
        self.leaf_slots = asyncio.Semaphore(leaf_concurrency)

    async def run(self, question: str, context, session: Session, max_turn_tokens: int) -> Rollout:
        """One rollout. A failure of the machinery is put in `error`; nothing the model does raises.

        Raises ConfigError for a context that is no str, list, tuple or dict.
        """
        config = self.config
        if not isinstance(context, str | list | tuple | dict):
            raise ConfigError(f"a context is a str, list or dict, not {type(context).__name__}; convert it first")
        limits = Limits(config.max_subcalls, config.max_delegated_tokens, config.max_total_tokens, config.max_dollars, config.wall_clock_s)
        conversation = _Conversation(self, question, context, session, max_turn_tokens, Budget(limits))
        rollout = conversation.rollout
        try:
            await conversation.run()
        except InfrastructureError as error:
            rollout.error = str(error)
        return rollout


class _Conversation:
    """One root or child while it runs."""

    def __init__(self, runner: RolloutRunner, question, context, session: Session, max_turn_tokens: int, budget: Budget, depth: int = 0):
        self.runner, self.config, self.prompts = runner, runner.config, runner.prompts
        self.question, self.context, self.session = question, context, session
        self.max_turn_tokens, self.budget, self.depth = max_turn_tokens, budget, depth
        self.rollout = Rollout(depth=depth, question=question, sequence=getattr(session, "sequence", None))
        self.repl: Repl | None = None
        self.work_s = 0.0  # seconds of REPL and subcalls
        self.name = getattr(session, "name", "policy")
        self.child_slots = asyncio.Semaphore(self.config.concurrent_children)  # of its own: a shared one would deadlock at depth 3

    async def run(self) -> Rollout:
        began = time.monotonic()
        try:
            await self._open()
            await self._turns()
        finally:
            if self.repl is not None:
                self.repl.kill()
            self.session.close()
            self.rollout.seconds = time.monotonic() - began
        return self.rollout

    async def _open(self):
        self.repl = await self.runner.server.open(self.context, self.config.final == "answer_dict")

    async def _turns(self):
        kind = type(self.context).__name__
        start = self.prompts.start.format(kind=kind, chars=characters(self.context), question=self.question)
        messages = [
            Message("system", self.prompts.system_for(self.config.depth > self.depth + 1, self.config.final)),
            Message("user", start),
        ]
        try:
            for _ in range(self.config.max_turns):
                messages = await self._turn("child" if self.depth else "root", messages)
                if self.rollout.answer is not None:
                    return
                if over := self._over():
                    self.rollout.stop = over
                    return
            demand = self.prompts.finalise.format(question=self.question)
            await self._turn("finalise", [Message("user", f"{messages[0].content}\n{demand}")])
            self.rollout.forced = self.rollout.answer is not None
        except ContextFull:
            self.rollout.stop = "length"

    def _over(self) -> str | None:
        """The limit that ends this conversation before its turns are used up, or None."""
        if self.work_s > self.config.rollout_timeout_s:
            return "timeout"
        spent = self.budget.spent()
        return f"budget:{spent}" if spent else None

    async def _turn(self, kind: str, messages: list[Message]) -> list[Message]:
        began = time.monotonic()
        reply = await self.session.reply(messages, self.max_turn_tokens)
        tokens = Tokens(reply.prompt_tokens, reply.completion_tokens, reply.thinking_tokens, reply.dollars)
        self.budget.charge(tokens)
        parsed = parse_reply(reply.text)
        blocks = list(parsed.blocks) if kind != "finalise" else []
        turn = Turn(kind, reply.text or "", blocks, model=self.name, tokens=tokens)
        self.rollout.turns.append(turn)
        work_began = time.monotonic()
        answer = await self._run_blocks(turn)
        if answer is None and not (blocks and self.config.final_beside_code == "ignore"):
            answer = await self._text_final(parsed, turn)
        self.work_s += time.monotonic() - work_began
        if answer is not None and answer.strip():
            self.rollout.answer, self.rollout.stop = answer, "final"
        elif answer is not None:
            turn.outputs.append("ValueError: that answer is empty; give one that is not")
        turn.seconds = time.monotonic() - began
        output = "\n".join(self.prompts.block_output.format(output=o) for o in turn.outputs) if turn.outputs else self.prompts.no_code
        return [Message("user", self.prompts.observation.format(output=output, left=self.budget.subcalls_left, question=self.question))]

    async def _run_blocks(self, turn: Turn) -> str | None:
        for code in turn.blocks:
            left = self.budget.seconds_left()
            if not left:
                break
            try:
                result = await self.repl.run(code, self._serve, min(self.config.block_timeout_s, left), self.config.leaf_timeout_s)
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
        await self._open()

    # --- subcalls

    async def _serve(self, kind: str, prompts: list[str], timeout_s: float) -> list[str]:
        """Answers for a block, in order. Where there is none, a text that says why stands in its place."""
        if kind == "budget":
            return [json.dumps(self.budget.left())]
        children = kind == "rlm" and self.depth + 1 < self.config.depth
        calls, answers = [], []
        for index, prompt in enumerate(prompts):
            call, answer = self._prepare(prompt, index, children)
            calls.append(call)
            answers.append(answer)
        self.rollout.turns[-1].calls += calls
        timeout_s = min(timeout_s, self.budget.seconds_left())
        await _within(timeout_s, [self._answer(call, answer) for call, answer in zip(calls, answers, strict=True) if answer])
        return [call.text for call in calls]

    def _prepare(self, prompt: str, index: int, children: bool) -> tuple[Call, Callable[[], Awaitable] | None]:
        """A call, and how to answer it; refused ones, which are not sent, have their text already."""
        leaf = self.runner.leaf
        call = Call("child", "policy", prompt) if children else Call("leaf", leaf.name, prompt)
        size, limit = (0, 0) if children else (leaf.count_tokens(prompt), int(leaf.window_tokens * WINDOW_SHARE))
        if index >= self.config.max_batch:
            call.error, call.text = "batch", f"error: a batch holds at most {self.config.max_batch} prompts"
        elif size > limit:
            call.error, call.text = "too_long", f"error: prompt of {size} tokens is over the limit of {limit}; send a shorter excerpt"
        elif not self.budget.reserve_call(reserved := 0 if children else size + leaf.max_tokens):
            why = "subcalls" if self.budget.tripped == "subcalls" else f"budget of {self.budget.tripped}".replace("_", " ")
            call.error, call.text = "budget", f"error: no {why} left"
        else:
            call.error, call.text = "late", "error: no answer in time"  # until there is one
            return call, (lambda: self._child_in_turn(call)) if children else (lambda: self._leaf(call, reserved))
        return call, None

    @staticmethod
    async def _answer(call: Call, answer: Callable[[], Awaitable]):
        began = time.monotonic()
        try:
            await answer()
        finally:
            call.seconds = time.monotonic() - began

    async def _leaf(self, call: Call, reserved: int):
        leaf, tokens = self.runner.leaf, Tokens()
        try:
            async with self.runner.leaf_slots:
                tokens, call.attempts = Tokens(leaf.count_tokens(call.prompt)), 1  # should it be cancelled once it is sent
                reply = await leaf.complete(call.prompt)
            tokens = Tokens(reply.prompt_tokens, reply.completion_tokens, reply.thinking_tokens, reply.dollars)
            call.text, call.attempts, call.error = reply.text, reply.attempts, None
        except ModelError as error:
            tokens = Tokens(error.prompt_tokens, error.completion_tokens, dollars=error.dollars)
            call.error, call.text, call.attempts = "failed", f"error: {error}", error.attempts
        except InfrastructureError as error:
            tokens = Tokens()
            call.error, call.text = "failed", f"error: {error}"
        finally:
            call.tokens = tokens
            self.budget.settle_call(reserved, tokens)

    async def _child_in_turn(self, call: Call):
        async with self.child_slots:
            await self._child(call)

    async def _child(self, call: Call):
        session = self.session.child()
        question = self.prompts.child_question
        child = _Conversation(self.runner, question, call.prompt, session, self.max_turn_tokens, self.budget, self.depth + 1)
        call.child, call.model, call.attempts = child.rollout, child.name, 1
        try:
            rollout = await child.run()
        except InfrastructureError as error:  # one failing child never fails its batch
            child.rollout.error = str(error)
            call.error, call.text = "failed", f"error: {error}"
        else:
            call.error = None
            call.text = rollout.answer if rollout.answer is not None else f"error: the child ended without an answer ({rollout.stop})"
        finally:
            call.tokens = child.rollout.usage.root


def characters(context: str | list | tuple | dict) -> int:
    """Characters of a context; of a list or dict those of its parts, keys included."""
    if isinstance(context, str):
        return len(context)
    parts = [*context, *context.values()] if isinstance(context, dict) else context
    return sum(len(str(part)) for part in parts)


async def _within(timeout_s: float, work: list[Awaitable]):
    """Run all at once; what is not done in time is cancelled. Raises what one of them raised."""
    tasks = [asyncio.ensure_future(w) for w in work]
    if not tasks:
        return
    try:
        done, _ = await asyncio.wait(tasks, timeout=timeout_s)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
