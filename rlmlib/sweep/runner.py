"""Runs a sweep: one process a run and stage, so many at a time, every end written down by this process, which outlives them.

Papermill's own record of a run is not true when its kernel dies, hangs or is interrupted; so status.json is written here alone.
"""

import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ..errors import ConfigError, RlmError, RunError, one_line
from ..params_file import as_yaml
from ..runs import RunDir, open_run, read_json, write_json, write_text
from ..stages import Stage, StageProcess, evaluation, training
from .grid import Planned, SweepFile, differing
from .leases import Gpus
from .states import HEARTBEAT_S, LOST, State, state_of

POLL_S = 0.5
LOCK_WAIT_S = 1.0  # a sweep takes hours: there is no use in waiting for another one
WAITING = "waits for a GPU that another sweep holds"
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

    at_once: default sweep.at_once; with gpus it is one a GPU, whatever is given. show: is given all states twice a second.
    Raises RunError before anything starts where another sweep works in `out`, or a run there has other parameters.
    """
    folder = RunDir(out)
    at_once = len(gpus.names) if gpus else sweep.at_once if at_once is None else at_once
    if at_once < 1:
        raise ConfigError(f"at_once: {at_once} runs at a time is none; give 1 or more")
    with folder.lock(LOCK_WAIT_S):
        refuse_others(runs, out)
        write_json(folder / "sweep.json", record(sweep, runs))
        waiting = [planned for planned in runs if state_of(planned, RunDir(out / planned.name)).state != "done"]
        for planned in waiting:
            _queue(planned, RunDir(out / planned.name))
        _run_all(waiting, runs, out, at_once, gpus, show)
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
    """Mark a run as waiting; what its last attempt was lost to stays readable in status.json until it starts.

    Called with the folder's lock held, so whoever kept a running one is gone, however short ago.
    """
    before = state_of(planned, run)
    told = f"was {before.state}: {before.reason}" if before.reason else ""
    why = {"queued": before.reason, "lost": LOST, "running": LOST}.get(before.state, told)
    run.path.mkdir(parents=True, exist_ok=True)
    run.set_status("queued", why)


def _run_all(waiting: list[Planned], runs, out: Path, at_once: int, gpus: Gpus | None, show):
    queue, active = list(waiting), []
    try:
        while queue or active:
            while queue and len(active) < at_once:
                gpu = gpus.take() if gpus else None
                if gpus and gpu is None:  # other sweeps have them: ask again later
                    _tell_waiting(RunDir(out / queue[0].name))
                    break
                active.append(Attempt(queue.pop(0), out, gpu))
                active[-1].start()  # in the list before it starts, so that an interruption finds it
            for attempt in list(active):
                if not attempt.advance():
                    active.remove(attempt)
                    _give_back(gpus, attempt)
            show(states(runs, out))
            time.sleep(POLL_S)
    finally:
        for attempt in active:
            attempt.interrupt()
            _give_back(gpus, attempt)
        show(states(runs, out))


def _tell_waiting(run: RunDir):
    if run.status.get("reason") != WAITING:
        run.set_status("queued", WAITING)


def _give_back(gpus: Gpus | None, attempt: "Attempt"):
    if gpus and attempt.gpu is not None:
        gpus.give_back(attempt.gpu)


class Attempt:
    """One try at one run: its stages in turn. Never raises for what goes wrong in the run; that is its status."""

    def __init__(self, planned: Planned, out: Path, gpu: str | None):
        self.planned, self.run, self.gpu = planned, RunDir(out / planned.name), gpu
        self._deadline, self._beat = time.monotonic() + planned.limit_s, 0.0
        self._stages: list[Stage] = []
        self._process: StageProcess | None = None
        self._number = 1 + len(list((self.run / "logs").glob("attempt_*")))

    def start(self):
        """Begin with the first stage that has no result yet."""
        try:
            open_run(self.run.path, self.planned.params)
            write_text(self.run / "params.yaml", as_yaml(self.planned.params))
            self._stages = [stage for stage in stages(self.planned, self.run) if not (self.run / stage.result).exists()]
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
                f"{stage}: over the limit of {self.planned.limit_s / 60:g} minutes; run the sweep again to go on, or raise limit_minutes",
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
            with contextlib.suppress(RlmError, OSError):  # a full disk, perhaps what ends the sweep: the others are to be ended too
                self._end("failed", INTERRUPTED)

    def _after_stage(self):
        self._process.end()
        try:
            if problem := self._process.problem():
                self._end("failed", f"{self._process.stage.name}: {problem}")
            else:
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
            with contextlib.suppress(RlmError, OSError):  # the run goes on; what it can't write itself, it says itself
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
