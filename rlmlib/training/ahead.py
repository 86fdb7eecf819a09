"""Sampling beside training: groups are begun while older ones are trained on, and new weights reach those under way.

What bounds it: beside the batch that training waits for, at most training.max_async_level batches of groups are under way or
done, so what waits in the queue is at most that many updates old; a straggler may be older, up to training.max_off_policy_steps
updates, the time it waited in the queue included. Then it is dropped, its prompt is drawn again at once, and that second time
training waits for it: long rollouts are late, but never left out for good.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from ..config import Params
from ..engine import Engine
from ..errors import InfrastructureError, TrainingError
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

    version: steps done. begun: groups begun in this run so far, those before a restart included: it seeds their sampling.
    again: prompts to begin with.
    """

    def __init__(self, engine: Engine, params: Params, curriculum: Curriculum, version: int, begun: int = 0, again: Sequence[int] = ()):
        self.engine, self.params, self.curriculum = engine, params, curriculum
        self.version, self.begun = version, begun
        self._waited_for = False  # whether training waits for a batch
        self._running: set[_Running] = set()
        self._ready: list[Group] = []
        self._dropped: list[Group] = []
        self._again = list(again)  # prompts whose group was dropped as stale
        self._failure: BaseException | None = None
        self._changed: asyncio.Event | None = None

    def __enter__(self) -> "Ahead":
        self.engine.call(self._open(), "starting to sample")
        return self

    def __exit__(self, *_):
        self.engine.call(self._close(), "ending the rollouts under way")

    def batch(self, step: int) -> Batch:
        """The oldest groups with a signal, as soon as there are enough. Raises TrainingError, or what a rollout could not survive."""
        return self.engine.call(self._batch(step), f"the groups of step {step}", timeout_s=None)  # each group has its own limit

    def trained(self, version: int):
        """The policy was updated and pushed: groups that are too old now are dropped, and others begun."""
        self.engine.call(self._trained(version), "dropping groups that are too old")

    def state(self) -> dict:
        """What a checkpoint has to keep of it. Groups under way are lost; the prompts that training waits for are begun anew."""
        return self.engine.call(self._state(), "reading the curriculum")

    def sidelined(self, step: int) -> int:
        """Prompts that are set aside at a step."""
        return self.engine.call(self._sidelined(step), "reading the curriculum")

    async def _state(self) -> dict:
        again = [running.prompt for running in self._running if running.again] + self._again
        return {"curriculum": self.curriculum.state(), "begun": self.begun, "again": again}

    async def _sidelined(self, step: int) -> int:
        return self.curriculum.sidelined(step)

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

    def _room(self) -> int:
        """Groups that may be under way or done at once: those of the batches ahead, and of the one that is waited for."""
        config = self.params.training
        batches = min(config.max_async_level, config.steps - self.version - 1) + self._waited_for
        return batches * config.prompts_per_step

    def _fill(self):
        """Begin groups while there is room."""
        while len(self._running) + len(self._ready) < self._room():
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
        self._waited_for = True
        self._fill()
        while True:
            if self._failure:
                raise self._failure
            if len(self._ready) >= config.prompts_per_step and not self._must_wait():
                break
            if len(self._dropped) >= config.max_waves * config.max_wave_prompts:
                raise TrainingError(no_signal(Batch(self._ready, self._dropped), step, config.prompts_per_step))
            await self._change()
        self._waited_for = False
        self._ready.sort(key=lambda group: (not group.again, group.version))  # stable: of like age the first that was done
        kept, self._ready = self._ready[: config.prompts_per_step], self._ready[config.prompts_per_step :]
        batch = Batch(kept, self._dropped, queued=len(self._ready))
        self._dropped = []
        self._fill()
        return batch

    async def _change(self):
        """Wait until a group has ended. Raises InfrastructureError where none does in the time that each of them has."""
        self._changed.clear()
        try:
            async with asyncio.timeout(self.engine.batch_timeout_s):
                await self._changed.wait()
        except TimeoutError:
            raise InfrastructureError(f"no group ended in {self.engine.batch_timeout_s:.0f} s; run it again") from None
