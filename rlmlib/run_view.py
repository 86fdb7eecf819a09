"""What the files of a run say about it while it works: state, step, pace, time left. Whichever process trains it."""

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .charts import DYNAMICS, count, percent
from .runs import RunDir, read_json, read_jsonl
from .wording import duration

if TYPE_CHECKING:
    import pandas as pd

START_S = 120.0  # from "running" in the status to the lock: imports, ranks that wait for one another, the next stage of a demo
CLOCK_S = 5.0  # that the clock of a file server may differ by
PACE_STEPS = 5  # steps that seconds a step is a mean of
LOG_TAIL = 4096  # bytes
ENDED = ("done", "failed", "timeout", "stopped")
WORKING = ("starting", "running", "stopping")
OTHER_COLUMNS = ("reward", "mismatch_kl_kept", "grad_norm", "lag_max", "max_logprob_gap")


@dataclass(frozen=True)
class View:
    """A run at a moment.

    state: not started, not running, queued, starting, running, stopping, stopped, done, failed, timeout or lost.
    phase: what progress.json counts, such as train; done, total: its units. left_s: seconds to its end, where known.
    rows: of metrics.jsonl.
    """

    state: str
    reason: str
    phase: str
    done: int
    total: int
    left_s: float | None
    rows: list[dict]

    @property
    def startable(self) -> bool:
        return self.state not in WORKING and self.done < self.total

    @property
    def stoppable(self) -> bool:
        """Whether a request would be met: by training, once it holds the directory."""
        return self.state == "running" and not self.phase.startswith("evaluate")


class Rows:
    """The rows of a growing .jsonl file, read again only where it has changed. A last line that is half written is left out."""

    def __init__(self, path: Path):
        self.path, self.rows = path, []
        self._seen = None

    @property
    def written(self) -> float:
        """When the file was changed last, in seconds since the epoch; 0 where there is none."""
        return self._seen[2] / 1e9 if self._seen else 0.0

    def read(self) -> list[dict]:
        """The same list as before where nothing has changed. Raises RunError where a line before the last is damaged."""
        try:
            found = os.stat(self.path)
            seen = (found.st_ino, found.st_size, found.st_mtime_ns)
            if seen != self._seen:
                self.rows, self._seen = read_jsonl(self.path), seen
        except OSError:  # not there yet, or deleted to start over
            self.rows, self._seen = [], None
        return self.rows


def look(run: RunDir, metrics: Rows, steps: int, alive: bool | None = None, now: float | None = None) -> View:
    """The run as its files say.

    steps: planned. alive: whether the process that the reader started works; None where it started none. now: seconds since the epoch.
    Raises RunError where metrics.jsonl is damaged.
    """
    rows, now = metrics.read(), time.time() if now is None else now
    trained = rows[-1]["step"] + 1 if rows else 0
    state, reason = _state(run, trained >= steps, alive, metrics.written, now)
    progress = read_json(run / "progress.json") if state in WORKING else {}
    phase, done, total = str(progress.get("phase", "train")), progress.get("done", 0), progress.get("total", 0)
    if phase == "train":
        done, total = trained, steps
    left = _left(run, progress, rows, total - done, now) if state == "running" else None
    return View(state, reason, phase, done, total, left, rows)


def _state(run: RunDir, complete: bool, alive: bool | None, written: float, now: float) -> tuple[str, str]:
    """(state, reason). The lock is believed before the status, as it dies with its holder, and rows before an older status."""
    if run.holder:
        return ("stopping" if run.stop_asked else "running"), ""
    if alive:
        return "starting", ""
    status = run.status
    state, reason, told = status.get("state", ""), str(status.get("reason", "")), status.get("heartbeat") or 0.0
    if state == "running":
        fresh = alive is None and now - max(told, written) < START_S
        return ("starting", "") if fresh else ("lost", "its process ended without a word; Start goes on from the last checkpoint")
    if state and told > written - CLOCK_S:
        return ("stopped" if "stopped as asked" in reason else state), reason
    return ("done" if complete else "not running" if written else "not started"), ""


def _left(run: RunDir, progress: dict, rows: list[dict], units: int, now: float) -> float | None:
    """Seconds to the end of a phase: as it says itself, else by the pace of the last steps."""
    if progress.get("eta_s") is not None:
        with contextlib.suppress(OSError):
            return max(0.0, progress["eta_s"] - (now - (run / "progress.json").stat().st_mtime))
    pace = seconds_a_step(rows)
    return pace * units if progress.get("phase") == "train" and pace is not None else None


def seconds_a_step(rows: list[dict]) -> float | None:
    """Mean over the last PACE_STEPS rows; None where there is none."""
    last = rows[-PACE_STEPS:]
    return sum(r["sample_seconds"] + r["train_seconds"] for r in last) / len(last) if last else None


def facts(view: View) -> list[str]:
    """The run in a line, in parts, the state first."""
    amount = f"{view.done} of {view.total}"
    parts = [view.state, f"{amount} steps" if view.phase == "train" else f"{view.phase}: {amount}"]
    parts += [f"{duration(view.left_s)} left"] if view.left_s is not None else []
    if view.rows:
        row = view.rows[-1]
        parts.append(f"{count(seconds_a_step(view.rows))} s a step")
        parts.append(f"last step: {percent(row['correct'])} right, {count(row['leaf_tokens_mean'])} leaf tokens a rollout")
    return parts


def last_line(log: Path) -> str:
    """The last line of a log that says something; empty where there is none."""
    with contextlib.suppress(OSError), open(log, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - LOG_TAIL))
        lines = [line for line in file.read().decode(errors="replace").splitlines() if line.strip()]
        return lines[-1].strip().removeprefix("error: ") if lines else ""
    return ""


def training_frame(run: RunDir) -> "pd.DataFrame":
    """The rows of metrics.jsonl by step. Before the first one it has the usual columns and no rows."""
    import pandas as pd

    rows = run.metrics
    names = [*DYNAMICS, *OTHER_COLUMNS]
    return (pd.DataFrame(rows) if rows else pd.DataFrame(columns=names, dtype=float)).set_index("step")
