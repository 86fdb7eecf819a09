"""An event loop in a thread of its own, so that async code can be called from a script and from a notebook alike."""

import asyncio
import contextlib
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future

from .errors import InfrastructureError

STOP_S = 10.0


class BackgroundLoop:
    """Runs coroutines from synchronous code."""

    def __init__(self, name: str = "rollouts"):
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()
        self._name, self._process, self._closed = name, os.getpid(), False

    def run(self, work: Coroutine, timeout_s: float | None, what: str):
        """The coroutine's result. An interrupt cancels the work.

        Raises InfrastructureError on a hang, after `close`, and in a process forked from the one that opened it.
        """
        future = self.start(work)
        try:
            return future.result(timeout=timeout_s)
        except TimeoutError:
            if future.done():  # the work itself ran out of time
                raise
            future.cancel()
            raise InfrastructureError(f"{what} hung for {timeout_s:.0f} s; run it again") from None
        except BaseException:  # an interrupt in a notebook must not leave work running
            future.cancel()
            raise

    def start(self, work: Coroutine) -> Future:
        """Begin the coroutine. Raises InfrastructureError after `close` and in a forked process, as `run` does."""
        if why := self._unusable():
            work.close()
            raise InfrastructureError(f"{self._name}: {why}")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _unusable(self) -> str | None:
        if os.getpid() != self._process:
            return "was opened before os.fork, and a forked process has no threads; open a new one in it"
        return "is closed; open a new one" if self._closed else None

    def close(self):
        """End the loop. What is still under way is cancelled, and gets a moment to clean up. May be called again."""
        if self._unusable():
            return
        self._closed = True
        if threading.current_thread() is self._thread:  # closed by the garbage collector, which runs in any thread
            self._loop.call_soon(self._loop.stop)
            return
        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(_cancel_the_rest(), self._loop).result(timeout=STOP_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=STOP_S)
        if not self._thread.is_alive():
            self._loop.close()


async def _cancel_the_rest():
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    if rest:
        await asyncio.wait(rest, timeout=STOP_S / 2)
