"""A stage of a run: one notebook that papermill executes in a process of its own, and how that process ends.

It ends whole: a termination signal stops the kernel, then the process group is killed, then whatever the kernel started and left,
which is known by a variable of its environment.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

from .errors import RunError
from .notebook import ROOT, shown
from .runs import RunDir, read_json, write_json

LEAST_FREE = 1 << 20  # bytes; with less, a stage can't say why it failed
STOP_S = 15.0  # for the kernel to shut down after a termination signal
MARK = "RLM_STAGE"  # names, in the environment of all that a stage starts, whose it is
KEEP_MARK = {"SPT_NOENV": "1"}  # else setproctitle, which vLLM calls in its processes, writes their titles over it


@dataclass(frozen=True)
class Stage:
    """A notebook with its parameters, and the file in the run directory that its result is."""

    name: str
    notebook: str
    parameters: dict
    result: str


def training(run: RunDir, params_file: Path, steps: int) -> Stage:
    return Stage("train", "40_train", _common(run, params_file), f"checkpoints/step_{steps}/manifest.json")


def evaluation(run: RunDir, params_file: Path, label: str, step: int = -1, subject: str = "policy") -> Stage:
    """label: base, trained or plain; its folder in eval/. step: -1 is the policy before training."""
    parameters = {**_common(run, params_file), "label": label, "step": step, "subject": subject}
    return Stage(f"evaluate {label}", "50_evaluate", parameters, f"eval/{label}/summary.json")


def _common(run: RunDir, params_file: Path) -> dict:
    return {"params": str(params_file.resolve()), "run_dir": str(run.path.resolve())}


class StageProcess:
    """A stage that runs. Raises RunError where its log cannot be written."""

    def __init__(self, run: RunDir, stage: Stage, log: Path, environment: dict[str, str] | None = None):
        self.run, self.stage, self.log = run, stage, log
        self._mark = uuid.uuid4().hex
        self._failure = run / "logs/failure.json"
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            self._failure.parent.mkdir(parents=True, exist_ok=True)
            self._failure.unlink(missing_ok=True)
            (run / "progress.json").unlink(missing_ok=True)
            write_json(run / "logs/stage.json", {"notebook": stage.notebook, "name": stage.name, "parameters": stage.parameters})
            output = open(log, "ab")  # noqa: SIM115 - handed to the child
        except OSError as error:
            raise RunError(f"{log}: cannot be written ({error.strerror}); is the disk full or the folder read-only?") from None
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        environment = {**os.environ, **(environment or {}), "PYTHONPATH": path, MARK: self._mark, **KEEP_MARK}
        command = [sys.executable, "-m", "rlmlib.execute", str(run.path.resolve()), str(os.getpid())]
        with output:
            self._child = subprocess.Popen(
                command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, env=environment, start_new_session=True
            )

    def poll(self) -> int | None:
        """The exit code, or None while it runs."""
        return self._child.poll()

    def wait(self, timeout_s: float) -> int:
        """The exit code. Raises subprocess.TimeoutExpired."""
        return self._child.wait(timeout=timeout_s)

    def end(self):
        """Leave nothing of it running. It may have ended already."""
        self._signal(signal.SIGKILL if self._child.poll() is not None else signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(timeout=STOP_S)
        self._signal(signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(timeout=STOP_S)
        deadline = time.monotonic() + STOP_S
        while (left := marked(self._mark)) and time.monotonic() < deadline:  # again: one may have started another meanwhile
            for pid in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)

    def _signal(self, number: int):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child.pid, number)

    def problem(self) -> str | None:
        """Why it failed, in one line; None where it gave its result. Call it once it has ended."""
        code = self._child.returncode
        if not code:
            return None if (self.run / self.stage.result).exists() else f"ended without {self.stage.result}; see {shown(self.log)}"
        if told := read_json(self._failure).get("message"):
            return told
        if shutil.disk_usage(self.log.parent).free < LEAST_FREE:
            return "the disk is full, so not even the reason could be written; free some and run the same command again"
        how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
        return f"{how}; run the same command again to go on; details in {shown(self.log)}"


def marked(mark: str) -> list[int]:
    """Processes of this user whose environment names `mark` (Linux; elsewhere none are found)."""
    wanted, found = f"{MARK}={mark}".encode(), []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found
