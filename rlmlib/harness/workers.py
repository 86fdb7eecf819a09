"""A pool of workers, one rollout each: a deadline, bounded attempts, and a fresh worker after a failure."""

import asyncio
from collections.abc import Awaitable, Callable

from .trajectory import Rollout

STOP_S = 10.0  # for an attempt that was cancelled to clean up; what it still does after that is nobody's

Attempt = Callable[[int], Awaitable[Rollout]]  # the number of the attempt -> a rollout in a worker of its own


class WorkerPool:
    """At most `workers` rollouts at once.

    An attempt that outlives `deadline_s` seconds is cancelled, its worker killed and its result, should one still come,
    thrown away. It is then tried again in a new worker, as is one that failed for its machinery, `attempts` times in all.
    """

    def __init__(self, workers: int, deadline_s: float, attempts: int):
        self.deadline_s, self.attempts = deadline_s, attempts
        self._slots = asyncio.Semaphore(workers)

    async def run(self, attempt: Attempt) -> Rollout:
        """The first rollout that ended by itself, or the last failure. `failures` holds why the others did not count."""
        failures: list[str] = []
        async with self._slots:
            for number in range(self.attempts):
                rollout = await self._once(attempt, number)
                if rollout.error is None:
                    break
                failures.append(rollout.error)
        rollout.failures = failures if rollout.error is None else failures[:-1]
        return rollout

    async def _once(self, attempt: Attempt, number: int) -> Rollout:
        task = asyncio.ensure_future(attempt(number))
        try:
            await asyncio.wait({task}, timeout=self.deadline_s)
            if task.done():
                return task.result()
            return Rollout(stop="timeout", error=f"the rollout took over {self.deadline_s:.0f} s; see harness.deadline_s")
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task}, timeout=STOP_S)
            if task.done() and not task.cancelled():
                task.exception()  # looked at, so that a late failure is not reported as one that nobody saw
