"""The turn loop: one question over one context, from the first message to the answer, children included."""

import asyncio
import json
import math
import time
from collections.abc import Awaitable, Callable

from ..config import Harness
from ..errors import ConfigError, InfrastructureError, RlmError
from ..models.base import ContextFull, Leaf, Message, ModelError, Reply, Session
from .budget import Budget, Limits
from .prompts import PROMPT_SETS
from .protocol import cut_output, parse_reply
from .repl import Repl, ReplServer, WorkerDied
from .trajectory import REFUSALS, Call, Rollout, Tokens, Turn

WINDOW_SHARE = 0.85  # a leaf prompt may fill this share of its window (the study's rule)
MARGIN_S = 30.0  # or half: of a worker's deadline that code and subcalls may not use, so that slow code never looks like a failed worker
STOP_S = 2.0  # for a block at its time limit to end by itself, which keeps what it printed
KEPT_REFUSALS = 100  # refused calls of a rollout that are kept one by one; the others are counted
KEPT_PROMPT_CHARS = 20_000  # of a subcall's prompt in the record
ERROR_CHARS = 500


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

        The session is closed in any case. Raises ConfigError for a context that is no str, list, tuple or dict.
        """
        config = self.config
        limits = Limits(config.max_subcalls, config.max_delegated_tokens, config.max_total_tokens, config.max_dollars, config.wall_clock_s)
        conversation = _Conversation(self, question, context, session, max_turn_tokens, Budget(limits))
        rollout = conversation.rollout
        try:
            await conversation.run()
        except (InfrastructureError, OSError) as error:
            rollout.error = failure_text(error)
        return rollout


class _Stopped(Exception):
    """The budget ended while a reply was waited for. Its argument is the stop of the rollout."""


class _Conversation:
    """One root or child while it runs."""

    def __init__(self, runner: RolloutRunner, question, context, session: Session, max_turn_tokens: int, budget: Budget, depth: int = 0):
        self.runner, self.config, self.prompts = runner, runner.config, runner.prompts
        self.question, self.context, self.session = question, context, session
        self.max_turn_tokens, self.budget, self.depth = max_turn_tokens, budget, depth
        self.rollout = Rollout(depth=depth, question=question, sequence=getattr(session, "sequence", None))
        self.repl: Repl | None = None
        self.work_s = 0.0  # seconds of REPL and subcalls, of the turns before this one
        deadline_s = self.config.deadline_s
        self.work_limit_s = min(self.config.rollout_timeout_s, deadline_s - min(MARGIN_S, deadline_s / 2))
        self.work_until = math.inf  # when this turn's work has to end
        self.refusals = 0  # kept so far
        self.name = getattr(session, "name", "policy")
        self.child_slots = asyncio.Semaphore(self.config.concurrent_children)  # of its own: a shared one would deadlock at depth 3

    async def run(self) -> Rollout:
        began = time.monotonic()
        try:
            await self._open()
            await self._turns()
        finally:
            try:
                if self.repl is not None:
                    self.repl.kill()
            finally:
                self.session.close()
            self.rollout.seconds = time.monotonic() - began
        return self.rollout

    async def _open(self):
        check_context(self.context)
        try:
            self.repl = await self.runner.server.open(self.context, self.config.final == "answer_dict")
        except OSError as error:
            raise InfrastructureError(f"a REPL cannot be opened ({error}); raise 'ulimit -n' or run fewer rollouts at once") from None

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
        except _Stopped as stop:
            self.rollout.stop = str(stop)

    def _over(self) -> str | None:
        """The limit that ends this conversation before its turns are used up, or None."""
        if self.work_s >= self.work_limit_s:
            return "timeout"
        spent = self.budget.spent()
        return f"budget:{spent}" if spent else None

    def _time_left(self) -> float:
        """Seconds for code and subcalls before the rollout's own limits end it."""
        return max(0.0, min(self.work_until - time.monotonic(), self.budget.seconds_left()))

    async def _reply(self, messages: list[Message]) -> Reply:
        """The next reply, charged. It is cut off at the wall clock. Raises _Stopped where the budget ends first."""
        hold = cost = None
        try:
            async with asyncio.timeout(self.budget.seconds_left()) as clock:
                hold = await self.budget.hold_dollars(self.name)
                if hold is None:
                    raise _Stopped("budget:dollars")
                reply = await self.session.reply(messages, self.max_turn_tokens)
            cost = _cost(reply)
            self.budget.charge(cost)
            return reply
        except TimeoutError:
            if clock.expired():
                raise _Stopped("budget:seconds") from None
            raise
        finally:
            if hold is not None:
                self.budget.release(hold, self.name, cost)

    async def _turn(self, kind: str, messages: list[Message]) -> list[Message]:
        began = time.monotonic()
        reply = await self._reply(messages)
        parsed = parse_reply(reply.text)
        blocks = list(parsed.blocks) if kind != "finalise" else []
        turn = Turn(kind, reply.text or "", blocks, model=self.name, tokens=_cost(reply))
        self.rollout.turns.append(turn)
        work_began = time.monotonic()
        self.work_until = work_began + self.work_limit_s - self.work_s
        answer = await self._run_blocks(turn)
        code_ran = self.config.final_beside_code == "accept" and self._time_left() > 0
        if answer is None and (code_ran or not blocks):
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
            left = self._time_left()
            if not left:
                break
            block_s, leaf_s = min(self.config.block_timeout_s, left), min(self.config.leaf_timeout_s, left)
            try:
                async with asyncio.timeout(left + STOP_S):  # the two are counted apart and may add up to more
                    result = await self.repl.run(code, self._serve, block_s, leaf_s)
            except (WorkerDied, TimeoutError) as error:
                await self._restart()
                why = str(error) or "the block ran over its time limit"
                turn.outputs.append(f"RuntimeError: {why}; a new session was started, your variables are gone")
                continue
            turn.outputs.append(cut_output(result.output, self.config.output_chars, result.total).rstrip("\n"))
            if result.final is not None:
                return result.final
        return None

    async def _text_final(self, parsed, turn: Turn) -> str | None:
        if parsed.final_var is None:
            return parsed.final
        try:
            async with asyncio.timeout(self._time_left()):
                value = await self.repl.value(parsed.final_var)
        except (WorkerDied, TimeoutError):
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
        work = [self._prepare(prompt, children) for prompt in prompts[: self.config.max_batch]]
        self._record([call for call, _ in work])
        surplus = self._refuse_surplus(prompts, children)
        timeout_s = min(timeout_s, self._time_left())
        await _within(timeout_s, [self._answer(call, answer) for call, answer in work if answer])
        return [call.text for call, _ in work] + surplus

    def _prepare(self, prompt: str, children: bool) -> tuple[Call, Callable[[], Awaitable] | None]:
        """A call, and how to answer it; refused ones, which are not sent, have their text already."""
        leaf, call = self.runner.leaf, self._call(prompt, children)
        size, limit = (0, 0) if children else (leaf.count_tokens(prompt), int(leaf.window_tokens * WINDOW_SHARE))
        if size > limit:
            call.error, call.text = "too_long", f"error: prompt of {size} tokens is over the limit of {limit}; send a shorter excerpt"
        elif not self.budget.reserve_call(reserved := 0 if children else size + leaf.max_tokens):
            _refuse(call, self.budget.tripped)
        else:
            call.error, call.text = "late", "error: no answer in time"  # until there is one
            return call, (lambda: self._child_in_turn(call, prompt)) if children else (lambda: self._leaf(call, prompt, size, reserved))
        return call, None

    def _call(self, prompt: str, children: bool) -> Call:
        kind, model = ("child", "policy") if children else ("leaf", self.runner.leaf.name)
        return Call(kind, model, kept_prompt(prompt))

    def _refuse_surplus(self, prompts: list[str], children: bool) -> list[str]:
        """What stands in place of the answers that a batch is too long for."""
        largest = self.config.max_batch
        count = max(0, len(prompts) - largest)
        text = f"error: a batch holds at most {largest} prompts"
        kept = [self._call(prompt, children) for prompt in prompts[largest : largest + KEPT_REFUSALS - self.refusals]]
        for call in kept:
            call.error, call.text = "batch", text
        self._record(kept)
        self.rollout.refused_unkept += count - len(kept)
        return [text] * count

    def _record(self, calls: list[Call]):
        """Keep the calls of a block, but only count refused ones beyond the first: a block can make any number of them."""
        for call in calls:
            refused = call.error in REFUSALS
            if refused and self.refusals >= KEPT_REFUSALS:
                self.rollout.refused_unkept += 1
            else:
                self.rollout.turns[-1].calls.append(call)
                self.refusals += refused

    @staticmethod
    async def _answer(call: Call, answer: Callable[[], Awaitable]):
        began = time.monotonic()
        try:
            await answer()
        finally:
            call.seconds = time.monotonic() - began

    async def _leaf(self, call: Call, prompt: str, size: int, reserved: int):
        """Send it once it has its turn, unless the budget ran out by then."""
        leaf, budget, hold = self.runner.leaf, self.budget, None
        estimate = leaf.most_dollars(size) if hasattr(leaf, "most_dollars") else None
        try:
            hold = await budget.hold_dollars(leaf.name, estimate)
            if hold is None:
                return _refuse(call, "dollars")
            async with self.runner.leaf_slots:
                if over := budget.exceeded():
                    return _refuse(call, over)
                call.tokens, call.attempts = Tokens(size), 1  # should it be cancelled once it is sent
                await _send(leaf, call, prompt)
        finally:
            if call.error == "budget":
                budget.give_back(reserved)
            else:
                budget.settle_call(reserved, call.tokens)
            if hold is not None:
                budget.release(hold, leaf.name, call.tokens if call.error is None else None)

    async def _child_in_turn(self, call: Call, prompt: str):
        async with self.child_slots:
            if over := self.budget.exceeded():
                _refuse(call, over)
                self.budget.give_back(0)
            else:
                await self._child(call, prompt)

    async def _child(self, call: Call, prompt: str):
        session = self.session.child()
        question = self.prompts.child_question
        child = _Conversation(self.runner, question, prompt, session, self.max_turn_tokens, self.budget, self.depth + 1)
        call.child, call.model, call.attempts = child.rollout, child.name, 1
        try:
            rollout = await child.run()
        except Exception as error:  # noqa: BLE001 - one failing child never fails its batch
            child.rollout.error = failure_text(error)
            call.error, call.text = "failed", f"error: {child.rollout.error}"
        else:
            call.error = None
            call.text = rollout.answer if rollout.answer is not None else f"error: the child ended without an answer ({rollout.stop})"
        finally:
            call.tokens = child.rollout.usage.root


async def _send(leaf: Leaf, call: Call, prompt: str):
    """One leaf call. Whatever a leaf raises becomes the text of its call."""
    try:
        reply = await leaf.complete(prompt)
    except Exception as error:  # noqa: BLE001 - a leaf is anybody's code, and one failing call never fails its batch
        call.error, call.text, call.tokens = "failed", f"error: {failure_text(error)}", Tokens()
        if isinstance(error, ModelError):
            call.attempts = error.attempts
            call.tokens = Tokens(error.prompt_tokens, error.completion_tokens, dollars=error.dollars)
    else:
        call.text, call.attempts, call.error, call.tokens = reply.text, reply.attempts, None, _cost(reply)


def _refuse(call: Call, kind: str):
    """Tell the model which limit of the budget keeps a call from being sent."""
    why = "subcalls" if kind == "subcalls" else f"budget of {kind.replace('_', ' ')}"
    call.error, call.text = "budget", f"error: no {why} left"


def _cost(reply: Reply) -> Tokens:
    return Tokens(reply.prompt_tokens, reply.completion_tokens, reply.thinking_tokens, reply.dollars)


def kept_prompt(prompt: str) -> str:
    """A subcall's prompt for the record: a long one is cut to its first characters, with the true length behind them."""
    if len(prompt) <= KEPT_PROMPT_CHARS:
        return prompt
    return f"{prompt[:KEPT_PROMPT_CHARS]}\n[... the first {KEPT_PROMPT_CHARS:,} of {len(prompt):,} characters]"


def failure_text(error: Exception) -> str:
    """An error as one line. Its type is named where the message was not written for a reader."""
    text = " ".join(str(error).split())[:ERROR_CHARS]
    return text if isinstance(error, RlmError) else f"{type(error).__name__}: {text}"


def check_context(context):
    """Raises ConfigError for a context that is no str, list, tuple or dict."""
    if not isinstance(context, str | list | tuple | dict):
        raise ConfigError(f"a context is a str, list or dict, not {type(context).__name__}; convert it first")


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
