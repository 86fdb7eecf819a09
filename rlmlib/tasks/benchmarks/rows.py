"""Rows of a data set in the layout of its authors: from a file, a folder, or the Hub, one at a time and checked."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ...errors import DataError
from ..sources.rows import Placed, Where, check_columns, file_rows, hub_file, hub_rows

__all__ = ["HUB", "HubSet", "hub_file", "named", "rows"]

HUB = "hub"
SUFFIXES = (".parquet", ".jsonl", ".json")

Columns = Mapping[str, type | tuple[type, ...]]  # name -> the types its values may have


@dataclass(frozen=True)
class HubSet:
    """A data set of parquet files on the Hub. revision: a commit, so that a score can be had again."""

    repo: str
    split: str
    revision: str


def rows(source: str | Path, hub: HubSet, columns: Columns, where: Where | None = None) -> Iterator[dict]:
    """The named columns of all rows that fit `where`, in order.

    source: "hub"; a file that file_rows reads; or a folder of .parquet, .jsonl or .json files named SPLIT*.
    Raises DataError, which names file and column, where a source or a column is missing, a value of another type, or nothing fits.
    """
    where = where or {}
    found = False
    for place, row in _read(source, hub, columns, where):
        check_columns(place, columns, row)
        for column, kinds in columns.items():
            if not isinstance(row[column], kinds):
                wanted = " or ".join(kind.__name__ for kind in (kinds if isinstance(kinds, tuple) else (kinds,)))
                raise DataError(f"{place}: column '{column}' is {type(row[column]).__name__}, not {wanted}; fetch the data set again")
        if all(row[column] in values for column, values in where.items()):
            found = True
            yield {column: row[column] for column in columns}
    if not found:
        wanted = "; ".join(f"{column} in {list(values)}" for column, values in where.items())
        raise DataError(f"{named(source, hub)}: has no rows{f' with {wanted}' if wanted else ''}; name another source")


def named(source: str | Path, hub: HubSet) -> str:
    """A source in an error message."""
    return hub.repo if source == HUB else str(source)


def _read(source: str | Path, hub: HubSet, columns: Columns, where: Where) -> Iterator[Placed]:
    """All rows, or those that fit where they are parquet."""
    if source == HUB:
        yield from hub_rows(hub.repo, revision=hub.revision, split=hub.split, columns=columns, where=where)
        return
    path = Path(source)
    for file in _files_of(path, hub.split) if path.is_dir() else [path]:
        yield from file_rows(file, columns=columns, where=where)


def _files_of(folder: Path, split: str) -> list[Path]:
    found = sorted(path for path in folder.rglob(f"{split}*") if path.suffix in SUFFIXES)
    if not found:
        raise DataError(f"{folder}: holds no file {split}*.parquet, {split}*.jsonl or {split}*.json; name another folder, or 'hub'")
    return found
