"""GPUs for runs, one each. A lease is a lock on a file, so that sweeps on one machine share its GPUs and a dead one frees its own."""

import fcntl
import tempfile
from pathlib import Path

FOLDER = Path(tempfile.gettempdir()) / "rlm-gpus"


class Gpus:
    """The GPUs that a sweep may use, as in CUDA_VISIBLE_DEVICES."""

    def __init__(self, names: list[str], folder: Path = FOLDER):
        self.names, self._folder, self._held = names, folder, {}

    def take(self) -> str | None:
        """The first GPU that nobody holds, or None."""
        self._folder.mkdir(mode=0o777, parents=True, exist_ok=True)
        for name in self.names:
            if name in self._held:
                continue
            file = open(self._folder / f"{name}.lock", "a")  # noqa: SIM115 - held until it is given back
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.close()
                continue
            self._held[name] = file
            return name
        return None

    def give_back(self, name: str):
        self._held.pop(name).close()
