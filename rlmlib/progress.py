"""Progress of a long phase: a bar where it runs, and a small file for whoever watches from outside."""

import json
import time
from collections.abc import Callable
from pathlib import Path

from .runs import write_text


class Progress:
    """Counts `total` units of a phase into progress.json; `show` gets a line each time."""

    def __init__(self, path: Path, phase: str, total: int, done: int = 0, show: Callable[[str], None] | None = None):
        self.path, self.phase, self.total, self.done = path, phase, total, done
        self._show = show
        self._began, self._start = time.monotonic(), done
        self._write("")

    def update(self, done: int, note: str = ""):
        self.done = done
        self._write(note)

    @property
    def eta_s(self) -> float | None:
        """Seconds to the end at the pace so far; None before the first unit."""
        fresh = self.done - self._start
        if fresh <= 0:
            return None
        return (time.monotonic() - self._began) / fresh * (self.total - self.done)

    def _write(self, note: str):
        eta = self.eta_s
        state = {"phase": self.phase, "done": self.done, "total": self.total, "eta_s": eta, "note": note}
        write_text(self.path, json.dumps(state))
        if self._show:
            left = f", {eta:.0f} s left" if eta is not None else ""
            self._show(f"{self.phase} {self.done}/{self.total}{left} {note}".rstrip())
