"""One bad item does not cost all others: it is passed over, counted and told."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from ...errors import DataError

Item, Made = TypeVar("Item"), TypeVar("Made")


class LeftOut:
    """How many rows of a source could not be used, and why the first could not."""

    def __init__(self):
        self.count, self.first = 0, None

    def add(self, error: DataError):
        self.count, self.first = self.count + 1, self.first or error

    def note(self) -> str:
        """A line, "" where nothing was left out."""
        return f"{self.count:,} row(s) left out; the first: {self.first}" if self.count else ""


def good(rows: Iterable[Item], make: Callable[[Item], Made], left_out: LeftOut | None) -> Iterator[Made]:
    """What `make` gives of each row; those that it refuses are left out. Raises its DataError without `left_out`, or if none is good."""
    any_good = False
    for row in rows:
        try:
            made = make(row)
        except DataError as error:
            if left_out is None:
                raise
            left_out.add(error)
        else:
            any_good = True
            yield made
    if left_out is not None and left_out.first and not any_good:
        raise left_out.first


def usable(items: Iterable[Item], read: Callable[[Item], Made], warnings: list[str]) -> list[Made]:
    """What could be read of several items; a warning tells of each other one. Raises the first DataError where none could be read."""
    found, first = [], None
    for item in items:
        try:
            found.append(read(item))
        except DataError as error:
            first = first or error
            warnings.append(f"left out: {error}")
    if first and not found:
        raise first
    return found
