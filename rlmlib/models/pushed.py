"""A fresh folder for each version of the policy's weights, from which an engine loads them."""

import hashlib
import itertools
import platform
import shutil
import tempfile
import uuid
from pathlib import Path

from ..runs import writing


class PushedWeights:
    """Folders whose names are never used twice, so that no engine can take one version for another.

    folder: the run's own, with which one process at a time works. Whatever a killed one left is deleted.
    exchange: where they are made instead, a folder of many runs, in which only this run's are deleted.
    Without either it is a temporary folder, which only this machine sees.
    """

    def __init__(self, folder: str | Path | None = None, exchange: str | Path = ""):
        self._own = None if folder or exchange else Path(tempfile.mkdtemp(prefix="rlm-weights-"))
        self._parent = self._own or Path(exchange or folder).resolve()
        self.prefix = f"policy-{_mark(folder) if folder else uuid.uuid4().hex[:12]}-"  # of all names of this run, on this machine
        self._name, self._numbers, self._made = self.prefix + uuid.uuid4().hex[:12], itertools.count(), set()
        for left in self._parent.glob(f"{self.prefix if exchange else 'policy-'}*"):  # a run may have been moved with its own folder
            self.remove(left)

    def save(self, policy) -> Path:
        """Write policy.save_adapter into a new folder. Raises RunError where the disk does not take it."""
        folder = self._parent / f"{self._name}-{next(self._numbers)}"
        self._made.add(folder)
        with writing(folder):
            folder.mkdir(parents=True)
            policy.save_adapter(folder)
        return folder

    def remove(self, folder: Path):
        shutil.rmtree(folder, ignore_errors=True)
        self._made.discard(folder)

    def close(self):
        """Delete all that are left."""
        for folder in list(self._made):
            self.remove(folder)
        if self._own:
            shutil.rmtree(self._own, ignore_errors=True)


def _mark(folder: str | Path) -> str:
    """The same for every process that works with the folder on this machine; another machine may have one of that name."""
    return hashlib.sha256(f"{platform.node()}:{Path(folder).resolve()}".encode("utf-8", "surrogateescape")).hexdigest()[:12]
