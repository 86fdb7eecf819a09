"""A fresh folder for each version of the policy's weights, from which an engine loads them."""

import itertools
import shutil
import tempfile
import uuid
from pathlib import Path

from ..runs import writing


class PushedWeights:
    """Folders whose names are never used twice, so that no engine can take one version for another.

    parent: where they are made; None: a temporary folder, which only this machine sees.
    """

    def __init__(self, parent: str | Path | None = None):
        self._own = None if parent else Path(tempfile.mkdtemp(prefix="rlm-weights-"))
        self._parent = self._own or Path(parent).resolve()
        self._name, self._numbers, self._made = f"policy-{uuid.uuid4().hex[:12]}", itertools.count(), set()

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
