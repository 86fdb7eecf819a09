"""The queue before the judge model: few calls at once, a bounded line, one call for equal questions.

A *flight* is the judging of one key; *askers* are the futures that wait for it. Who submits to a full queue waits for
room, which slows the source down instead of piling work up. A flight that nobody waits for any more is cancelled.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from .verdict import Verdict

CLOSE_S = 10.0  # for cancelled calls to end

Job = Callable[[], Awaitable[Verdict]]


@dataclass
class _Flight:
    task: asyncio.Task
    askers: list[asyncio.Future] = field(default_factory=list)


def settled(verdict: Verdict) -> asyncio.Future[Verdict]:
    """A future that is done already."""
    future = asyncio.get_running_loop().create_future()
    future.set_result(verdict)
    return future


class JudgeQueue:
    """Belongs to the event loop it is used in. wait_s limits the wait for room, and again that for a free worker."""

    def __init__(self, concurrency: int, waiting: int, wait_s: float):
        self.wait_s = wait_s
        self._room = asyncio.Semaphore(concurrency + waiting)
        self._workers = asyncio.Semaphore(concurrency)
        self._flights: dict[str, _Flight] = {}  # those that an equal question can join
        self._tasks: set[asyncio.Task] = set()  # those and the cancelled ones that have not ended
        self._closed = False

    async def submit(self, key: str, job: Job) -> asyncio.Future[Verdict]:
        """Returns once the job is in the queue, or joined to a running one of the same key. Cancel the future to withdraw."""
        if key not in self._flights:
            if not await _acquired(self._room, self.wait_s):
                return settled(Verdict.unknown(f"the judge's queue was full for {self.wait_s:g} s; sample less at once or raise wait_s"))
            if self._closed:
                self._room.release()
                return settled(_withdrawn())
            if key in self._flights:  # an equal question came in while this one waited
                self._room.release()
            else:
                self._start(key, job)
        return self._join(key, self._flights[key])

    async def close(self):
        """Cancel what is left; those who still wait are told that there is no verdict."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSE_S)

    def _start(self, key: str, job: Job):
        task = asyncio.create_task(self._run(job))
        flight = self._flights[key] = _Flight(task)
        self._tasks.add(task)
        task.add_done_callback(lambda _: self._land(key, flight))

    async def _run(self, job: Job) -> Verdict:
        if not await _acquired(self._workers, self.wait_s):
            return Verdict.unknown(f"no judge was free for {self.wait_s:g} s; raise its concurrency or wait_s")
        try:
            return await job()
        finally:
            self._workers.release()

    def _join(self, key: str, flight: _Flight) -> asyncio.Future[Verdict]:
        asker = asyncio.get_running_loop().create_future()
        flight.askers.append(asker)
        asker.add_done_callback(lambda _: self._leave(key, flight, asker))
        return asker

    def _leave(self, key: str, flight: _Flight, asker: asyncio.Future):
        flight.askers.remove(asker)
        if not flight.askers and not flight.task.done():
            del self._flights[key]  # at once: nobody may join a flight that is being cancelled
            flight.task.cancel()

    def _land(self, key: str, flight: _Flight):
        self._room.release()
        self._tasks.discard(flight.task)
        if self._flights.get(key) is flight:
            del self._flights[key]
        error = None if flight.task.cancelled() else flight.task.exception()
        if error is None:
            verdict = _withdrawn() if flight.task.cancelled() else flight.task.result()
        for asker in flight.askers:
            if asker.done():
                continue
            if error is not None:
                asker.set_exception(error)
            else:
                asker.set_result(verdict)
                verdict = verdict.shared()  # the first one bears the cost


def _withdrawn() -> Verdict:
    return Verdict.unknown("the judge was closed before its verdict; keep it open until all verdicts are in")


async def _acquired(semaphore: asyncio.Semaphore, wait_s: float) -> bool:
    try:
        async with asyncio.timeout(wait_s):
            return await semaphore.acquire()
    except TimeoutError:
        return False
