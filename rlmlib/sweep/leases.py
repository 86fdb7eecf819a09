"""GPUs for runs, one each. A lease is a lock on a file, so that sweeps on one machine share its GPUs and a dead one frees its own."""

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from ..errors import ConfigError

FOLDER = Path(tempfile.gettempdir()) / "rlm-gpus"


class Gpus:
    """The GPUs that a sweep may use, as in CUDA_VISIBLE_DEVICES. Raises ConfigError for a name that is empty or there twice."""

    def __init__(self, names: Sequence[str], folder: Path = FOLDER):
        self.names, self._folder, self._held = [str(name).strip() for name in names], folder, {}
        if not all(self.names) or len(set(self.names)) < len(self.names):
            raise ConfigError(f"gpus: {','.join(self.names)}: name each GPU once, such as 0,1,2,3")

    def take(self) -> str | None:
        """The first GPU that nobody holds, or None."""
        for name in self.names:
            if name in self._held:
                continue
            file = self._open(name)
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

    def _open(self, name: str) -> IO:
        """The file of a GPU, made where it is missing. Reading it is enough for a lock: another user may have made it."""
        path = self._folder / f"{name.replace('/', '_')}.lock"
        with contextlib.suppress(FileExistsError):
            self._folder.mkdir(parents=True)
            self._folder.chmod(0o1777)  # for all users, none of whom may delete another's file; mkdir's own mode would be cut by the umask
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            path.chmod(0o644)
        return open(path)
