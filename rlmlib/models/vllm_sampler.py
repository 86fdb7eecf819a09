"""vLLM in this process: one thread runs its engine, and conversations ask it from their event loop.

Whatever happens to the engine happens in that thread, in the order in which it was asked for: a reply that is asked for after a
push is sampled from the pushed weights, and one that runs at that time ends under the weights with which it began.
"""

import asyncio
import contextlib
import itertools
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ..config import Params
from ..errors import InfrastructureError, one_line
from .chat import ChatFormat
from .conversation import PushedSampler, TokenSession
from .pushed import PushedWeights
from .vllm_engine import Adapter, Finished, VllmEngine, make_llm

START_S = 1800.0  # loading weights and capturing graphs, in the worst case
PUSH_S = 600.0  # loading one version, once the replies that must end first have ended
CLOSE_S = 60.0


@dataclass(eq=False)
class _Asked:
    """A reply that is waited for in an event loop."""

    ids: list[int]
    max_tokens: int
    seed: int
    reply: asyncio.Future
    adapter: Adapter | None = None

    def answer(self, result: tuple | Exception):
        """Hand it over, from any thread."""

        def deliver():
            if not self.reply.done():
                (self.reply.set_exception if isinstance(result, Exception) else self.reply.set_result)(result)

        with contextlib.suppress(RuntimeError):  # its event loop has ended
            self.reply.get_loop().call_soon_threadsafe(deliver)


class VllmSampler(PushedSampler):
    """Replies are batched by the engine as they come and go. Safe to use from several event loops and threads.

    A reply that nobody waits for any more, for it was cancelled, ran out of time or its session was closed, is aborted.
    """

    def __init__(
        self, make_engine: Callable[[], VllmEngine], chat: ChatFormat, max_sequence: int, weights: PushedWeights, reply_timeout_s: float
    ):
        """make_engine is called in the engine's thread. Raises what it raises."""
        self.chat, self.max_sequence, self.version = chat, max_sequence, 0
        self._weights, self._reply_timeout_s = weights, reply_timeout_s
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._guard, self._failure = threading.Lock(), None
        self._waiting: dict[TokenSession, _Asked] = {}
        self._closing = threading.Event()
        # Those below belong to the thread.
        self._names = itertools.count()
        self._running: dict[str, _Asked] = {}
        self._adapter: Adapter | None = None
        self._retired: list[Adapter] = []
        ready = Future()
        self._thread = threading.Thread(target=self._run, args=(make_engine, ready), name="vllm", daemon=True)
        self._thread.start()
        try:
            self._result(ready, START_S, "starting vLLM")
        except BaseException:
            weights.close()
            raise

    def leave(self, session: TokenSession):
        if asked := self._waiting.pop(session, None):
            asked.reply.cancel()

    async def generate(self, session: TokenSession, max_tokens: int) -> tuple[list[int], list[float]]:
        reply = asyncio.get_running_loop().create_future()
        asked = _Asked(list(session.sequence.ids), max_tokens, int(session.random.integers(1 << 31)), reply)
        self._waiting[session] = asked
        try:
            self._submit(partial(self._begin, asked))
            async with asyncio.timeout(self._reply_timeout_s):
                return await reply
        except TimeoutError:
            raise InfrastructureError(
                f"vLLM gave no reply within {self._reply_timeout_s:g} s; raise harness.deadline_s or lower policy.vllm.max_running"
            ) from None
        finally:
            self._waiting.pop(session, None)
            reply.cancel()

    def _push(self, policy, version: int):
        folder, done, loaded = self._weights.save(policy), Future(), False
        step = partial(self._switch, Adapter(version, folder)) if policy.adapted else partial(self._reload, version, folder)
        try:
            self._submit(partial(step, done))
            self._result(done, self._reply_timeout_s + PUSH_S, "pushing weights to vLLM")
            loaded = True
        finally:
            if not (loaded and policy.adapted):  # an adapter may be read again as long as it is used
                self._weights.remove(folder)

    def close(self):
        """End the engine. Replies that run end with InfrastructureError. May be called again."""
        self._closing.set()
        self._work.put(lambda: None)
        self._thread.join(CLOSE_S)
        self._weights.close()

    def _submit(self, step: Callable[[], None]):
        with self._guard:
            if self._failure:
                raise InfrastructureError(self._failure)
            self._work.put(step)

    @staticmethod
    def _result(done: Future, timeout_s: float, what: str):
        try:
            return done.result(timeout_s)
        except TimeoutError:
            raise InfrastructureError(f"{what} hung for {timeout_s:.0f} s; start the run again, it goes on from the last step") from None

    # --- The rest runs in the engine's thread.

    def _run(self, make_engine: Callable[[], VllmEngine], ready: Future):
        try:
            self._engine = make_engine()
        except BaseException as error:  # noqa: BLE001 - raised by the constructor
            ready.set_exception(error)
            return
        ready.set_result(None)
        failure = "the vLLM sampler is closed; open a new one"
        try:
            while not self._closing.is_set():
                self._take_work()
                self._step()
        except Exception as error:  # noqa: BLE001 - handed to every waiting reply
            failure = _failed(error)
        self._end(failure)

    def _take_work(self):
        """Do what was asked for; where nothing runs, wait for it."""
        block = not self._running
        with contextlib.suppress(queue.Empty):
            while True:
                step = self._work.get(block)
                try:
                    step()
                except Exception as error:
                    self._refuse(step, InfrastructureError(_failed(error)))
                    raise
                block = False

    def _begin(self, asked: _Asked):
        if asked.reply.done():
            return
        name, asked.adapter = f"reply-{next(self._names)}", self._adapter
        try:
            self._engine.add(name, asked.ids, asked.max_tokens, asked.seed, asked.adapter)
        except ValueError as error:  # of this request, not of the engine
            asked.answer(InfrastructureError(f"vLLM refused a request ({one_line(error)})"))
        else:
            self._running[name] = asked

    def _step(self):
        for name in [name for name, asked in self._running.items() if asked.reply.done()]:
            self._engine.abort(name)
            del self._running[name]
        for finished in self._engine.step() if self._running else ():
            self._deliver(finished)
        self._drop_unused()

    def _deliver(self, finished: Finished):
        asked = self._running.pop(finished.name, None)
        if asked is not None:
            asked.answer(InfrastructureError(finished.problem) if finished.problem else (finished.ids, finished.logprobs))

    def _switch(self, adapter: Adapter, done: Future):
        try:
            self._engine.load_adapter(adapter)
        except Exception as error:  # noqa: BLE001 - handed to whoever pushed; the last adapter goes on
            done.set_exception(InfrastructureError(f"vLLM did not load the adapter of version {adapter.version} ({one_line(error)})"))
            return
        if self._adapter:
            self._retired.append(self._adapter)
        self._adapter, self.version = adapter, adapter.version
        self._drop_unused()
        done.set_result(None)

    def _drop_unused(self):
        used = {asked.adapter for asked in self._running.values()} if self._retired else ()
        for adapter in [old for old in self._retired if old not in used]:
            self._retired.remove(adapter)
            self._engine.drop_adapter(adapter)
            self._weights.remove(adapter.folder)

    def _reload(self, version: int, folder: Path, done: Future):
        try:
            while self._running and not self._closing.is_set():
                self._step()
            self._engine.reload(folder)
        except Exception as error:
            done.set_exception(InfrastructureError(f"vLLM did not load the weights of version {version} ({one_line(error)})"))
            raise  # its weights may be half old and half new
        self.version = version
        done.set_result(None)

    def _end(self, why: str):
        with self._guard:
            self._failure = why
        failure = InfrastructureError(why)
        for asked in self._running.values():
            asked.answer(failure)
        self._running.clear()
        with contextlib.suppress(queue.Empty):
            while True:
                step = self._work.get_nowait()
                self._refuse(step, failure)
        with contextlib.suppress(Exception):
            self._engine.close()

    @staticmethod
    def _refuse(step: Callable[[], None], failure: InfrastructureError):
        """Fail a step that will not be done."""
        for waiting in getattr(step, "args", ()):
            if isinstance(waiting, _Asked):
                waiting.answer(failure)
            elif isinstance(waiting, Future) and not waiting.done():
                waiting.set_exception(failure)


def _failed(error: Exception) -> str:
    return f"vLLM failed ({one_line(error)}); start the run again, it goes on from the last step"


def build(params: Params, policy, folder: Path | None = None) -> VllmSampler:
    """An engine that samples from the policy's present weights; the policy's own, where its trainer has made one (Unsloth).

    folder: for the weights that are pushed; None: a temporary one.
    """
    limits = params.sampling
    weights = PushedWeights(folder)
    base = weights.save(policy) if params.policy.tuning == "full" else policy.base
    theirs = getattr(policy.model, "vllm_engine", None)

    def make_engine() -> VllmEngine:
        llm = theirs or make_llm(params, base, policy.model.config, policy.adapted)
        return VllmEngine(llm, limits.temperature, policy.chat.end_id, limits.max_sequence_tokens, ours=theirs is None)

    sampler = VllmSampler(make_engine, policy.chat, limits.max_sequence_tokens, weights, params.harness.deadline_s)
    if policy.adapted:
        try:
            sampler.load_first(policy)
        except BaseException:
            sampler.close()
            raise
    return sampler
