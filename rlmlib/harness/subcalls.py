"""The subcalls of one root or child: leaf calls and children, each reserved, refused, sent, charged and recorded."""

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

from ..config import Harness
from ..errors import one_line
from ..models.base import Leaf, ModelError, Reply
from .budget import Budget
from .trajectory import REFUSALS, Call, Rollout, Tokens

WINDOW_SHARE = 0.85  # a leaf prompt may fill this share of its window (the study's rule)
KEPT_REFUSALS = 100  # refused calls of a conversation that are kept one by one; the others are counted
KEPT_PROMPT_CHARS = 20_000  # of a subcall's prompt in the record


class Child(Protocol):
    """A conversation that can be run once."""

    name: str
    rollout: Rollout

    async def run(self) -> Rollout: ...


class Subcalls:
    """Serves what the blocks of one conversation ask for, and records it in the newest turn of its rollout.

    time_left: seconds that subcalls may still take. new_child: a child over a prompt; None where children are not allowed
    and a leaf answers in their place.
    """

    def __init__(
        self,
        config: Harness,
        leaf: Leaf,
        leaf_slots: contextlib.AbstractAsyncContextManager,
        budget: Budget,
        rollout: Rollout,
        time_left: Callable[[], float],
        new_child: Callable[[str], Child] | None,
    ):
        self._config, self._leaf_model, self._leaf_slots = config, leaf, leaf_slots
        self._budget, self._rollout = budget, rollout
        self._time_left, self._new_child = time_left, new_child
        self._refusals = 0  # kept so far
        self._child_slots = asyncio.Semaphore(config.concurrent_children)  # of its own: a shared one would deadlock at depth 3

    async def serve(self, kind: str, prompts: list[str], timeout_s: float) -> list[str]:
        """Answers for a block, in order. Where there is none, a text that says why stands in its place."""
        if kind == "budget":
            return [json.dumps(self._budget.left())]
        children = kind == "rlm" and self._new_child is not None
        work = [self._prepare(prompt, children) for prompt in prompts[: self._config.max_batch]]
        self._record([call for call, _ in work])
        surplus = self._refuse_surplus(prompts, children)
        timeout_s = min(timeout_s, self._time_left())
        await _within(timeout_s, [self._answer(call, answer) for call, answer in work if answer])
        return [call.text for call, _ in work] + surplus

    def _prepare(self, prompt: str, children: bool) -> tuple[Call, Callable[[], Awaitable] | None]:
        """A call, and how to answer it; refused ones, which are not sent, have their text already."""
        leaf, call = self._leaf_model, self._call(prompt, children)
        size, limit = (0, 0) if children else (leaf.count_tokens(prompt), int(leaf.window_tokens * WINDOW_SHARE))
        if size > limit:
            call.error, call.text = "too_long", f"error: prompt of {size} tokens is over the limit of {limit}; send a shorter excerpt"
        elif not self._budget.reserve_call(reserved := 0 if children else size + leaf.max_tokens):
            _refuse(call, self._budget.tripped)
        else:
            call.error, call.text = "late", "error: no answer in time"  # until there is one
            return call, (lambda: self._child_in_turn(call, prompt)) if children else (lambda: self._leaf(call, prompt, size, reserved))
        return call, None

    def _call(self, prompt: str, children: bool) -> Call:
        kind, model = ("child", "policy") if children else ("leaf", self._leaf_model.name)
        return Call(kind, model, kept_prompt(prompt))

    def _refuse_surplus(self, prompts: list[str], children: bool) -> list[str]:
        """What stands in place of the answers that a batch is too long for."""
        largest = self._config.max_batch
        count = max(0, len(prompts) - largest)
        text = f"error: a batch holds at most {largest} prompts"
        kept = [self._call(prompt, children) for prompt in prompts[largest : largest + KEPT_REFUSALS - self._refusals]]
        for call in kept:
            call.error, call.text = "batch", text
        self._record(kept)
        self._rollout.refused_unkept += count - len(kept)
        return [text] * count

    def _record(self, calls: list[Call]):
        """Keep the calls of a block, but only count refused ones beyond the first: a block can make any number of them."""
        for call in calls:
            refused = call.error in REFUSALS
            if refused and self._refusals >= KEPT_REFUSALS:
                self._rollout.refused_unkept += 1
            else:
                self._rollout.turns[-1].calls.append(call)
                self._refusals += refused

    @staticmethod
    async def _answer(call: Call, answer: Callable[[], Awaitable]):
        began = time.monotonic()
        try:
            await answer()
        finally:
            call.seconds = time.monotonic() - began

    async def _leaf(self, call: Call, prompt: str, size: int, reserved: int):
        """Send it once it has its turn, unless the budget ran out by then."""
        leaf, budget, hold = self._leaf_model, self._budget, None
        estimate = leaf.most_dollars(size) if hasattr(leaf, "most_dollars") else None
        try:
            hold = await budget.hold_dollars(leaf.name, estimate)
            if hold is None:
                return _refuse(call, "dollars")
            async with self._leaf_slots:
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
        async with self._child_slots:
            if over := self._budget.exceeded():
                _refuse(call, over)
                self._budget.give_back(0)
            else:
                await self._child(call, prompt)

    async def _child(self, call: Call, prompt: str):
        child = self._new_child(prompt)
        call.child, call.model, call.attempts = child.rollout, child.name, 1
        try:
            rollout = await child.run()
        except Exception as error:  # noqa: BLE001 - one failing child never fails its batch
            child.rollout.error = one_line(error)
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
        call.error, call.text, call.tokens = "failed", f"error: {one_line(error)}", Tokens()
        if isinstance(error, ModelError):
            call.attempts = error.attempts
            call.tokens = Tokens(error.prompt_tokens, error.completion_tokens, dollars=error.dollars)
    else:
        call.text, call.attempts, call.error, call.tokens = reply.text, reply.attempts, None, cost_of(reply)
        call.sequence = reply.sequence


def _refuse(call: Call, kind: str):
    """Tell the model which limit of the budget keeps a call from being sent."""
    why = "subcalls" if kind == "subcalls" else f"budget of {kind.replace('_', ' ')}"
    call.error, call.text = "budget", f"error: no {why} left"


def cost_of(reply: Reply) -> Tokens:
    """What a reply cost."""
    return Tokens(reply.prompt_tokens, reply.completion_tokens, reply.thinking_tokens, reply.dollars)


def kept_prompt(prompt: str) -> str:
    """A subcall's prompt for the record: a long one is cut to its first characters, with the true length behind them."""
    if len(prompt) <= KEPT_PROMPT_CHARS:
        return prompt
    return f"{prompt[:KEPT_PROMPT_CHARS]}\n[... the first {KEPT_PROMPT_CHARS:,} of {len(prompt):,} characters]"


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
