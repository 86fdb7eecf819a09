"""Contexts in memory files: written once, read by each worker, however large."""

import os
import pickle
import sys
import tempfile
from collections import deque
from types import FunctionType

from ..errors import ConfigError

_KEPT, _KEPT_BYTES = 4, 256 * 1024 * 1024  # the rollouts of a group, and retries, share one copy; the newest is kept in any case
_MOST = 8  # before `tidy` is called: to let go of a long one takes a millisecond
_SLICE_CHARS = 64 * 1024  # written in turn, so that no second copy of a long text is made on the way


class ContextFiles:
    """Memory files of the newest contexts; `scratch` is a folder for systems without such files."""

    def __init__(self, scratch: str):
        self._scratch = scratch
        self._kept: deque[tuple[str, int, int]] = deque()  # (context, descriptor, bytes), newest last

    def descriptor(self, context) -> int:
        """A new descriptor, which the caller closes, of a file with the context: UTF-8 for a str, else a pickle.

        Raises ConfigError where it holds what a worker cannot have.
        """
        for kept, descriptor, _ in self._kept:
            if kept is context:
                return os.dup(descriptor)
        descriptor = self._empty_file()
        try:
            with open(descriptor, "wb", buffering=0, closefd=False) as file:
                if not isinstance(context, str):  # not kept: it may be changed before it comes again
                    _pickle(context, file)
                    return descriptor
                for start in range(0, len(context), _SLICE_CHARS):
                    file.write(context[start : start + _SLICE_CHARS].encode("utf-8", "surrogatepass"))
                size = file.tell()
        except BaseException:
            os.close(descriptor)
            raise
        self._kept.append((context, descriptor, size))
        self._keep(_MOST)
        return os.dup(descriptor)

    def tidy(self):
        """Let go of all but the newest contexts."""
        self._keep(_KEPT)
        while len(self._kept) > 1 and sum(size for *_, size in self._kept) > _KEPT_BYTES:
            self._keep(len(self._kept) - 1)

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


class _Plain(pickle.Pickler):
    """Refuses what only the host can make again: a worker has the standard library and nothing else."""

    def reducer_override(self, value):
        kind = value if isinstance(value, type) else type(value)
        if isinstance(value, FunctionType) or kind.__module__.partition(".")[0] not in sys.stdlib_module_names:
            raise ConfigError(f"context: holds a {kind.__module__}.{kind.__qualname__}; give str, numbers, lists and dicts")
        return NotImplemented


def _pickle(context, file):
    try:
        _Plain(file, protocol=5).dump(context)
    except RecursionError:
        raise ConfigError("context: is nested too deeply; flatten it") from None
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise ConfigError(f"context: cannot be given to a worker ({error}); give str, numbers, lists and dicts") from None
