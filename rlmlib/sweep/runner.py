"""Runs a sweep: one process a run and stage, so many at a time, every end written down by this process, which outlives them.

Papermill's own record of a run is not true when its kernel dies, hangs or is interrupted; so status.json is written here alone.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ..errors import RlmError, RunError, one_line
from ..runs import RunDir, open_run, read_json, write_json
from ..stages import Stage, StageProcess, evaluation, training
from .grid import Planned, SweepFile, differing, write_params
from .leases import Gpus
from .states import HEARTBEAT_S, LOST, State, state_of

POLL_S = 0.5
INTERRUPTED = "interrupted; run the sweep again to go on"


def run_sweep(
    sweep: SweepFile,
    runs: Sequence[Planned],
    out: Path,
    at_once: int | None = None,
    gpus: Gpus | None = None,
    show: Callable[[list[State]], None] = lambda states: None,
) -> list[State]:
    """Run what is not done yet; returns the state of every run. Given again, it goes on: finished runs are left alone.

    at_once: default sweep.at_once, or one a GPU. show: is given all states twice a second.
    Raises RunError before anything starts where another sweep works in `out`, or a run there has other parameters.
    """
    folder = RunDir(out)
    with folder.lock():
        refuse_others(runs, out)
        write_json(folder / "sweep.json", record(sweep, runs))
        waiting = [planned for planned in runs if state_of(planned, RunDir(out / planned.name)).state != "done"]
        for planned in waiting:
            _queue(planned, RunDir(out / planned.name))
        _run_all(waiting, runs, out, at_once or (len(gpus.names) if gpus else sweep.at_once), sweep.limit_minutes * 60, gpus, show)
    return states(runs, out)


def states(runs: Sequence[Planned], out: Path) -> list[State]:
    return [state_of(planned, RunDir(out / planned.name)) for planned in runs]


def record(sweep: SweepFile, runs: Sequence[Planned]) -> dict:
    """sweep.json: which runs belong together, for whoever reads the folder."""
    listed = [{"name": r.name, "group": r.group, "kind": r.kind, "seed": r.seed, "changes": r.changes} for r in runs]
    return {"name": sweep.name, "base": sweep.base, "set": sweep.set, "axes": sweep.axes, "runs": listed}


def refuse_others(runs: Sequence[Planned], out: Path):
    """Raises RunError where a run's folder holds a run with other parameters: nothing is ever overwritten."""
    for planned in runs:
        there = read_json(out / planned.name / "params.json")
        if there and (changed := differing(planned, there)):
            raise RunError(
                f"{out / planned.name}: holds a run with other parameters ({', '.join(changed)}); name another folder, or delete it"
            )


def _queue(planned: Planned, run: RunDir):
    """Mark a run as waiting; what its last attempt was lost to stays readable in status.json until it starts."""
    before = state_of(planned, run)
    why = {"queued": before.reason, "lost": LOST}.get(before.state, f"was {before.state}: {before.reason}" if before.reason else "")
    run.path.mkdir(parents=True, exist_ok=True)
    run.set_status("queued", why)


def _run_all(waiting: list[Planned], runs, out: Path, at_once: int, limit_s: float, gpus: Gpus | None, show):
    queue, active = list(waiting), []
    try:
        while queue or active:
            while queue and len(active) < at_once:
                gpu = gpus.take() if gpus else None
                if gpus and gpu is None:
                    break  # another sweep has them all: ask again later
                active.append(Attempt(queue.pop(0), out, limit_s, gpu))
            for attempt in list(active):
                if not attempt.advance():
                    active.remove(attempt)
                    if attempt.gpu is not None:
                        gpus.give_back(attempt.gpu)
            show(states(runs, out))
            time.sleep(POLL_S)
    finally:
        for attempt in active:
            attempt.interrupt()
        show(states(runs, out))


class Attempt:
    """One try at one run: its stages in turn. Never raises for what goes wrong in the run; that is its status."""

    def __init__(self, planned: Planned, out: Path, limit_s: float, gpu: str | None):
        self.planned, self.run, self.gpu = planned, RunDir(out / planned.name), gpu
        self._deadline, self._limit_s, self._beat = time.monotonic() + limit_s, limit_s, 0.0
        self._stages: list[Stage] = []
        self._process: StageProcess | None = None
        self._number = 1 + len(list((self.run / "logs").glob("attempt_*")))
        try:
            open_run(self.run.path, planned.params)
            write_params(planned.params, self.run / "params.yaml")
            self._stages = [stage for stage in stages(planned, self.run) if not (self.run / stage.result).exists()]
            self._next()
        except (RlmError, OSError) as error:
            self._end("failed", one_line(error))

    def advance(self) -> bool:
        """Look after it; False once it has ended."""
        if self._process is None:
            return False
        code = self._process.poll()
        if code is None and time.monotonic() > self._deadline:
            stage = self._process.stage.name
            self._process.end()
            self._end(
                "timeout",
                f"{stage}: over the limit of {self._limit_s / 60:g} minutes; run the sweep again to go on, or raise limit_minutes",
            )
        elif code is None:
            self._alive()
        else:
            self._after_stage()
        return self._process is not None

    def interrupt(self):
        """End it now; the next sweep goes on from its last checkpoint."""
        if self._process is not None:
            self._process.end()
            self._end("failed", INTERRUPTED)

    def _after_stage(self):
        self._process.end()
        if problem := self._process.problem():
            self._end("failed", f"{self._process.stage.name}: {problem}")
            return
        try:
            self._next()
        except (RlmError, OSError) as error:
            self._end("failed", one_line(error))

    def _next(self):
        if not self._stages:
            self._end("done", "")
            return
        stage = self._stages.pop(0)
        environment = {} if self.gpu is None else {"CUDA_VISIBLE_DEVICES": self.gpu}
        log = self.run / f"logs/attempt_{self._number}/{stage.name.replace(' ', '_')}.log"
        self._process = StageProcess(self.run, stage, log, environment)
        self._beat = 0.0
        self._alive()

    def _alive(self):
        if time.monotonic() - self._beat > HEARTBEAT_S:
            self._beat = time.monotonic()
            self.run.set_status("running", self._process.stage.name)

    def _end(self, state: str, reason: str):
        self._process = None
        self.run.set_status(state, reason)


def stages(planned: Planned, run: RunDir) -> list[Stage]:
    """What a run consists of, by its kind."""
    params, steps = run / "params.yaml", planned.params.training.steps
    if planned.kind == "untrained":
        return [evaluation(run, params, "base")]
    if planned.kind == "plain":
        return [evaluation(run, params, "plain", subject="leaf")]
    return [training(run, params, steps), evaluation(run, params, "trained", steps)]
