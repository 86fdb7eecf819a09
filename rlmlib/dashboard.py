"""A run while it trains, in JupyterLab: what its files say, its curves, and buttons to start and to stop it.

It only reads the run directory, so it works for a run of any process: one that Start begins, a sweep's, a command line's.
Static twin: charts.training_dynamics.
"""

import asyncio
import contextlib
import html
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from .charts import training_dynamics
from .errors import RlmError, RunError, one_line
from .notebook import ROOT, shown
from .params_file import as_yaml
from .run_view import ENDED, WORKING, Rows, View, facts, last_line, look
from .runs import RunDir, write_text, writing

if TYPE_CHECKING:
    import ipywidgets

POLL_S = 1.0
REDRAW_S = 2.0  # between two drawings of the curves; each takes some tenths of a second, in which the kernel does nothing else
LOG = "logs/train.log"
STOPPING = "asked to stop: the run ends after the step under way, with a checkpoint; Start goes on from there"
NO_STEP = "The curves begin with the first finished step."

_newest: dict[Path, "Dashboard"] = {}  # of each run: a cell that is run again must not leave its old view at work


def dashboard(run: RunDir, params: Path | None = None) -> "ipywidgets.VBox":
    """Widgets that follow a run, with buttons to start and to stop it. params: its params file (default: as in the run directory)."""
    key = run.path.resolve()
    if key in _newest:
        _newest[key].leave()
    view = _newest[key] = Dashboard(run, params)
    view.refresh()
    view.keep_watching()
    return view.box


class Dashboard:
    """The widgets of a run: `box`. `refresh` shows what is new; `keep_watching` does so again and again."""

    def __init__(self, run: RunDir, params: Path | None = None, clock: Callable[[], float] = time.monotonic):
        import ipywidgets as w

        self.run, self.params, self._clock = run, params, clock
        self._metrics, self._steps = Rows(run / "metrics.jsonl"), 0
        self._process: subprocess.Popen | None = None
        self._task: asyncio.Task | None = None
        self._note, self._drawn, self._drawn_at = "", None, float("-inf")
        self.line, self.note, self.chart = w.HTML(), w.HTML(), w.HTML(NO_STEP)
        self.start = w.Button(description="Start", icon="play", tooltip="train in a process of its own, from the last checkpoint on")
        self.stop = w.Button(description="Stop", icon="stop", tooltip="end after the step under way, with a checkpoint")
        self.start.on_click(lambda _: self._act(self._start))
        self.stop.on_click(lambda _: self._act(self.run.ask_to_stop))
        self.box = w.VBox([self.line, w.HBox([self.start, self.stop]), self.note, self.chart])

    def refresh(self) -> bool:
        """Show what the files say now. Returns whether that may still change by itself."""
        try:
            view = self._look()
        except (RlmError, OSError) as error:
            self.note.value = html.escape(one_line(error))
            return True
        head, *rest = map(html.escape, facts(view))
        self.line.value = f"{html.escape(shown(self.run.path))}: " + " · ".join([f"<b>{head}</b>", *rest])
        self.start.disabled, self.stop.disabled = not view.startable, not view.stoppable
        self.note.value = html.escape(STOPPING if view.state == "stopping" else self._note or view.reason)
        self._draw(view)
        return view.state not in ENDED

    def _look(self) -> View:
        self._steps = self._steps or self.run.params.training.steps
        code = self._process.poll() if self._process else None
        if code is not None:
            killed = f"killed by signal {-code}; Start goes on from the last checkpoint"
            self._note = killed if code < 0 else last_line(self.run / LOG) if code else ""
        return look(self.run, self._metrics, self._steps, code is None if self._process else None)

    def _draw(self, view: View):
        """Draw the curves where there is a new row, and at most every REDRAW_S but at the end."""
        early = view.state in WORKING and self._clock() - self._drawn_at < REDRAW_S
        if view.rows is self._drawn or early:
            return
        try:
            self.chart.value = picture(view.rows) if view.rows else NO_STEP
        except Exception as error:  # noqa: BLE001 - a chart that cannot be drawn must not end the watching of a run
            self.chart.value = html.escape(f"The curves cannot be drawn: {one_line(error)}")
        self._drawn, self._drawn_at = view.rows, self._clock()

    def _act(self, act: Callable[[], None]):
        """What a button does. What goes wrong is told below the buttons."""
        try:
            self._note = ""
            act()
        except (RlmError, OSError) as error:
            self._note = one_line(error)
        self.refresh()
        self.keep_watching()

    def _start(self):
        if self._look().state in WORKING:
            raise RunError(f"{shown(self.run.path)}: process {self.run.holder or 'that was just started'} works here; wait, or stop it")
        self._process = launch(self.run, self.params)
        self._note = f"started as process {self._process.pid}; what it prints goes to {shown(self.run / LOG)}"

    def keep_watching(self):
        """Refresh until the run has ended or the widget is closed, in the event loop that runs here, if any."""
        with contextlib.suppress(RuntimeError):
            loop = asyncio.get_running_loop()
            if self._task is None or self._task.done():
                self._task = loop.create_task(self.watch())

    async def watch(self):
        while self.box.comm is not None and self.refresh():
            await asyncio.sleep(POLL_S)

    def leave(self):
        """End the watching, as another view of the run has begun."""
        if self._task is not None:
            self._task.cancel()
        self._note = "This view stands still, as a newer one of the same run was opened."
        self.note.value = self._note


def picture(rows: list[dict]) -> str:
    """The curves as one <svg>."""
    import pandas as pd

    return training_dynamics(pd.DataFrame(rows)).svg


# --- starting a run ----------------------------------------------------------------------------


def launch(run: RunDir, params: Path | None = None) -> subprocess.Popen:
    """Train in a process of its own, which outlives this one; it writes to logs/train.log. Raises RunError."""
    where = ["--params", str((params or params_file(run)).resolve()), "--out", str(run.path.resolve())]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))}
    log = run / LOG
    with writing(log):
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "ab") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "rlmlib.training.launch", *where],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=ROOT,
                env=environment,
                start_new_session=True,
            )


def params_file(run: RunDir) -> Path:
    """The run's own params as a file that a command line takes. Raises RunError where the directory holds no run."""
    path = run / "logs/params.yaml"
    write_text(path, as_yaml(run.params))
    return path
