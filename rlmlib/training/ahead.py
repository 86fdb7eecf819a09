"""Sampling beside training: groups are begun while older ones are trained on, and new weights reach those under way.

What bounds it: at most training.max_async_level batches of groups are under way or waiting, so what waits in the queue is at
most that many updates old; a straggler may be older, up to training.max_off_policy_steps updates, the time it waited in the
queue included. Then it is dropped, its prompt is drawn again at once, and that second time training waits for it: long
rollouts are late, but never left out for good.
"""

import asyncio
from dataclasses import dataclass

from ..config import Params
from ..engine import Engine
from ..errors import TrainingError
from .curriculum import Curriculum
from .groups import Batch, Group, has_signal, jobs_of, no_signal, score

ASYNC_STREAM = 1 << 20  # sets the sampling keys apart from those of TakeTurns


@dataclass(eq=False)
class _Running:
    """A group under way. again: its prompt was dropped as stale before, so training waits for it now."""

    prompt: int
    version: int
    again: bool
    task: asyncio.Task | None = None


class Ahead:
    """The source of batches of training.max_async_level 1 and more. Use as a context manager.

    begun: groups begun in this run so far, those before a restart included: it seeds their sampling.
    """

    def __init__(self, engine: Engine, params: Params, curriculum: Curriculum, version: int, begun: int = 0):
        self.engine, self.params, self.curriculum = engine, params, curriculum
        self.version, self.begun = version, begun
        self._room = params.training.prompts_per_step * params.training.max_async_level
        self._running: set[_Running] = set()
        self._ready: list[Group] = []
        self._dropped: list[Group] = []
        self._again: list[int] = []  # prompts whose group was dropped as stale
        self._failure: BaseException | None = None
        self._changed: asyncio.Event | None = None

    def __enter__(self) -> "Ahead":
        self.engine.call(self._open(), "starting to sample")
        return self

    def __exit__(self, *_):
        self.engine.call(self._close(), "ending the rollouts under way")

    def batch(self, step: int) -> Batch:
        """The oldest groups with a signal, as soon as there are enough. Raises TrainingError, or what a rollout could not survive."""
        return self.engine.call(self._batch(step), f"the groups of step {step}")

    def trained(self, version: int):
        """The policy was updated and pushed: groups that are too old now are dropped, and others begun."""
        self.engine.call(self._trained(version), "dropping groups that are too old")

    def state(self) -> dict:
        """What a checkpoint has to keep of it. Groups under way are begun anew after a restart."""
        return self.engine.call(self._state(), "reading the curriculum")

    async def _state(self) -> dict:
        return {"curriculum": self.curriculum.state(), "begun": self.begun}

    async def _open(self):
        self._changed = asyncio.Event()
        self._judging = self.engine.judging()
        await self._judging.__aenter__()
        self._fill()

    async def _close(self):
        tasks = [running.task for running in self._running]
        self._running.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._judging.__aexit__(None, None, None)

    async def _trained(self, version: int):
        self.version = version
        self._drop_stale()
        self._fill()

    def _fill(self):
        """Begin groups while there is room."""
        while len(self._running) + len(self._ready) < self._room:
            again = bool(self._again)
            prompt = self._again.pop(0) if again else self.curriculum.draw(1, self.version)[0]
            running = _Running(prompt, self.version, again)
            running.task = asyncio.create_task(self._group(running, (ASYNC_STREAM, self.begun)))
            self._running.add(running)
            self.begun += 1

    async def _group(self, running: _Running, key: tuple[int, ...]):
        try:
            jobs = await asyncio.to_thread(jobs_of, self.params, running.prompt, key)  # a long context takes a while to build
            attempts = await self.engine.attempts(jobs)
            group = score(running.prompt, attempts, self.params, running.version)
            group.again = running.again
        except Exception as error:  # noqa: BLE001 - raised where the batch is waited for
            self._failure = self._failure or error
            self._changed.set()
            return
        if running not in self._running:  # dropped while it ended
            return
        self._running.discard(running)
        if group.verdict in ("all_wrong", "failed"):
            self.curriculum.sideline(group.prompt, self.version)
        (self._ready if has_signal(group, self.params.training) else self._dropped).append(group)
        self._fill()
        self._changed.set()

    def _lag(self, group: Group | _Running) -> int:
        return self.version - group.version

    def _drop_stale(self):
        limit = self.params.training.max_off_policy_steps
        for running in [r for r in self._running if self._lag(r) >= limit]:
            self._running.discard(running)
            running.task.cancel()
            self._drop(Group(running.prompt, [], [], "stale", running.version, running.again))
        for group in [g for g in self._ready if self._lag(g) >= limit]:
            self._ready.remove(group)
            group.verdict = "stale"
            self._drop(group)

    def _drop(self, group: Group):
        self._dropped.append(group)
        if not group.again:
            self._again.append(group.prompt)

    def _must_wait(self) -> bool:
        """Whether the next update would make a group stale that was dropped for that before."""
        last = self.params.training.max_off_policy_steps - 1
        return any(running.again and self._lag(running) >= last for running in self._running)

    async def _batch(self, step: int) -> Batch:
        config = self.params.training
        while True:
            if self._failure:
                raise self._failure
            if len(self._ready) >= config.prompts_per_step and not self._must_wait():
                break
            if len(self._dropped) >= config.max_waves * config.max_wave_prompts:
                raise TrainingError(no_signal(Batch(self._ready, self._dropped), step, config.prompts_per_step))
            self._changed.clear()
            await self._changed.wait()
        self._ready.sort(key=lambda group: (not group.again, group.version))  # stable: of like age the first that was done
        kept, self._ready = self._ready[: config.prompts_per_step], self._ready[config.prompts_per_step :]
        batch = Batch(kept, self._dropped, queued=len(self._ready))
        self._dropped = []
        self._fill()
        return batch
