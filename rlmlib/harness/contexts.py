"""Contexts in memory files: written once, read by each worker, however large."""

import os
import pickle
import tempfile
from collections import deque

_KEPT = 4  # the rollouts of a group, and retries, share one copy
_MOST = 8  # before `tidy` is called: to let go of a long one takes a millisecond
_SLICE_CHARS = 64 * 1024  # written in turn, so that no second copy of a long text is made on the way


class ContextFiles:
    """Memory files of the newest contexts; `scratch` is a folder for systems without such files."""

    def __init__(self, scratch: str):
        self._scratch = scratch
        self._kept: deque[tuple[object, int]] = deque()  # (context, descriptor), newest last

    def descriptor(self, context) -> int:
        """A new descriptor, which the caller closes, of a file with the context: UTF-8 for a str, else a pickle."""
        for kept, descriptor in self._kept:
            if kept is context:
                return os.dup(descriptor)
        descriptor = self._empty_file()
        try:
            with open(descriptor, "wb", buffering=0, closefd=False) as file:
                if isinstance(context, str):
                    for start in range(0, len(context), _SLICE_CHARS):
                        file.write(context[start : start + _SLICE_CHARS].encode("utf-8", "surrogatepass"))
                else:
                    pickle.dump(context, file, protocol=5)
        except BaseException:
            os.close(descriptor)
            raise
        self._kept.append((context, descriptor))
        self._keep(_MOST)
        return os.dup(descriptor)

    def tidy(self):
        """Let go of all but the newest contexts."""
        self._keep(_KEPT)

    def close(self):
        self._keep(0)

    def _keep(self, count: int):
        while len(self._kept) > count:
            os.close(self._kept.popleft()[1])

    def _empty_file(self) -> int:
        if hasattr(os, "memfd_create"):
            return os.memfd_create("context")
        with tempfile.TemporaryFile(dir=self._scratch) as file:
            return os.dup(file.fileno())
