"""The turn loop: one question over one context, from the first message to the answer, children included."""

import asyncio
import contextlib
import math
import time
from collections.abc import Callable

from ..config import Harness
from ..errors import ConfigError, InfrastructureError, one_line
from ..models.base import ContextFull, Leaf, Message, Reply, Session
from .budget import Budget, Limits
from .prompts import PROMPT_SETS
from .protocol import cut_output, parse_reply
from .repl import Repl, ReplServer, WorkerDied
from .subcalls import Subcalls, cost_of
from .trajectory import Rollout, Turn

MARGIN_S = 30.0  # or half: of a worker's deadline that code and subcalls may not use, so that slow code never looks like a failed worker
STOP_S = 2.0  # for a block at its time limit to end by itself, which keeps what it printed


def server_of(config: Harness) -> ReplServer:
    """The REPL server that a harness config asks for."""
    cpu_s = int((config.max_turns + 1) * config.block_timeout_s) + 60  # a last resort: blocks have their own limit
    return ReplServer(config.memory_mb, cpu_s, config.isolation, config.sandbox_command)


class RolloutRunner:
    """Runs rollouts with one REPL server and one leaf. Any number may be in flight.

    leaf: one leaf, or what gives one for a session (models.policy_leaf.PolicyLeaf, where the policy answers its own subcalls).
    """

    def __init__(self, config: Harness, server: ReplServer, leaf: Leaf | Callable[[Session], Leaf], leaf_concurrency: int = 8):
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
            rollout.error = one_line(error)
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
        self.name = getattr(session, "name", "policy")
        child = self._child if depth + 1 < self.config.depth else None
        leaf, slots = runner.leaf, runner.leaf_slots
        if callable(leaf):  # the sampler waits for all conversations, and would wait for ever for those in line behind others
            leaf, slots = leaf(session), contextlib.nullcontext()
        self.subcalls = Subcalls(self.config, leaf, slots, budget, self.rollout, self._time_left, child)

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
            cost = cost_of(reply)
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
        turn = Turn(kind, reply.text or "", blocks, model=self.name, tokens=cost_of(reply))
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
                    result = await self.repl.run(code, self.subcalls.serve, block_s, leaf_s)
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

    def _child(self, prompt: str) -> "_Conversation":
        """A child over a prompt. It draws on the same budget."""
        session, question = self.session.child(), self.prompts.child_question
        return _Conversation(self.runner, question, prompt, session, self.max_turn_tokens, self.budget, self.depth + 1)


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
