"""What every notebook needs: the repository's root, resolved paths, and one line for an expected error."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def resolve(path: str | Path) -> Path:
    """An absolute path; relative ones are meant from the repository's root, wherever the kernel runs."""
    path = Path(path)
    return path if path.is_absolute() else ROOT / path


def shown(path: str | Path) -> str:
    """A path as a reader would type it: relative to the root where it lies below it."""
    path = Path(path)
    return os.path.relpath(path, ROOT) if path.is_relative_to(ROOT) else str(path)


class StatusLine:
    """One line of output that is replaced in place; silent outside IPython."""

    def __init__(self):
        from IPython import get_ipython

        self._handle = None
        self._live = get_ipython() is not None

    def __call__(self, text: str):
        if not self._live:
            return
        from IPython.display import display

        if self._handle is None:
            self._handle = display(_Line(text), display_id=True)
        else:
            self._handle.update(_Line(text))


class _Line:
    def __init__(self, text: str):
        self.text = text

    def __repr__(self):
        return self.text
