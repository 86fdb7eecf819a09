"""Whole texts, and columns of tables as text."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ...errors import DataError
from .rows import Placed, check_columns, file_rows, hub_rows, lines

Row = tuple[str, ...]


def read_text(path: Path, encoding: str = "utf-8") -> str:
    """A whole text file, line ends as they are, without a byte order mark. Raises DataError where it is missing, empty or of another
    encoding."""
    text = "".join(lines(path, encoding))
    if not text.strip():
        raise DataError(f"{path}: is empty; fetch it again")
    return text


def read_table(path: Path, columns: Sequence[str], **layout) -> Iterator[Row]:
    """The cells of the named columns of a file, as text, a row at a time; a missing cell of JSON or parquet is "".

    layout: encoding, delimiter, header and quotes, as file_rows has them. Raises DataError.
    """
    return _cells(path, columns, file_rows(path, columns=columns, **layout))


def read_hub(dataset: str, columns: Sequence[str], *, revision: str, split: str, config: str | None = None) -> Iterator[Row]:
    """The cells of the named columns of a Hub data set, as read_table gives them. Raises DataError."""
    return _cells(dataset, columns, hub_rows(dataset, revision=revision, split=split, config=config))


def _cells(source: str | Path, columns: Sequence[str], rows: Iterable[Placed]) -> Iterator[Row]:
    empty = True
    for place, row in rows:
        empty = False
        check_columns(place, columns, row)
        yield tuple(_text(place, column, row[column]) for column in columns)
    if empty:
        raise DataError(f"{source}: has no rows; fetch it again")


def _text(place: str, column: str, value) -> str:
    if isinstance(value, list | dict):
        raise DataError(f"{place}: column {column!r} holds a {type(value).__name__}; name a column of texts or numbers")
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            raise DataError(f"{place}: column {column!r} holds bytes that are no UTF-8 text; convert them") from None
    return "" if value is None else str(value)
