"""Rows of a data set in the layout of its authors: from a file, a folder, or the Hub, one at a time and checked."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import DataError

HUB = "hub"
SUFFIXES = (".parquet", ".jsonl", ".json")
ROWS_AT_ONCE = 16  # of a parquet file: a row may hold megabytes

Columns = Mapping[str, type | tuple[type, ...]]  # name -> the types its values may have
Where = Mapping[str, Sequence]  # name -> the values that a row may have


@dataclass(frozen=True)
class HubSet:
    """A data set of parquet files on the Hub. revision: a commit, so that a score can be had again."""

    repo: str
    split: str
    revision: str


def rows(source: str | Path, hub: HubSet, columns: Columns, where: Where | None = None) -> Iterator[dict]:
    """The named columns of all rows that fit `where`, in order.

    source: "hub"; a .parquet, .jsonl or .json file (a list of objects); or a folder of such files named SPLIT*.
    Raises DataError, which names file and column, where a source or a column is missing, a value of another type, or nothing fits.
    """
    where = where or {}
    found = False
    for name, number, row in _read(source, hub, columns, where):
        if not isinstance(row, dict):
            raise DataError(f"{name}: row {number} is no object with fields; the columns are {', '.join(columns)}")
        for column, kinds in columns.items():
            if column not in row:
                raise DataError(f"{name}: row {number} has no column '{column}'; it has {', '.join(map(str, row)) or 'none'}")
            if not isinstance(row[column], kinds):
                wanted = " or ".join(kind.__name__ for kind in (kinds if isinstance(kinds, tuple) else (kinds,)))
                raise DataError(f"{name}: row {number}, column '{column}' is {type(row[column]).__name__}, not {wanted}")
        if all(row[column] in values for column, values in where.items()):
            found = True
            yield {column: row[column] for column in columns}
    if not found:
        wanted = "; ".join(f"{column} in {list(values)}" for column, values in where.items())
        raise DataError(f"{named(source, hub)}: has no rows{f' with {wanted}' if wanted else ''}; name another source")


def named(source: str | Path, hub: HubSet) -> str:
    """A source in an error message."""
    return hub.repo if source == HUB else str(source)


def files(source: str | Path, split: str) -> list[Path]:
    """The files of a split: the file itself, or those in a folder whose names begin with the split's."""
    path = Path(source)
    if path.is_dir():
        found = sorted(p for p in path.rglob(f"{split}*") if p.suffix in SUFFIXES)
        if not found:
            raise DataError(f"{path}: holds no file {split}*.parquet, {split}*.jsonl or {split}*.json")
        return found
    if not path.is_file():
        raise DataError(f"{path}: is not there; name a file or folder, or 'hub'")
    if path.suffix not in SUFFIXES:
        raise DataError(f"{path}: is none of {', '.join(SUFFIXES)}; convert it first")
    return [path]


def _read(source, hub: HubSet, columns: Columns, where: Where) -> Iterator[tuple[str, int, object]]:
    """(file, number of the row, row) of all rows. Parquet rows that do not fit are passed over where they lie."""
    if source == HUB:
        yield from ((hub.repo, number, row) for number, row in enumerate(_hub(hub, columns, where), 1))
        return
    readers = {".parquet": lambda path: _parquet(path, columns, where), ".jsonl": _jsonl, ".json": _json}
    for path in files(source, hub.split):
        try:
            yield from ((str(path), number, row) for number, row in readers[path.suffix](path))
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"{path}: cannot be read ({_first_line(error)}); fetch it again") from None


def _hub(hub: HubSet, columns: Columns, where: Where) -> Iterator[dict]:
    from datasets import load_dataset

    only = {"columns": list(columns), "filters": _filters(where)}  # what does not fit is not fetched
    try:
        yield from load_dataset(hub.repo, split=hub.split, revision=hub.revision, streaming=True, **only)
    except Exception as error:  # each layer below has errors of its own: datasets, huggingface_hub, httpx, pyarrow
        raise _unreachable(hub.repo, error) from None


def hub_file(repo: str, name: str, revision: str) -> Path:
    """One file of a data set on the Hub, kept in the cache of huggingface_hub. Raises DataError."""
    from huggingface_hub import hf_hub_download

    try:
        return Path(hf_hub_download(repo, name, repo_type="dataset", revision=revision))
    except Exception as error:  # as above
        raise _unreachable(f"{repo}: {name}", error) from None


def _unreachable(what: str, error: Exception) -> DataError:
    why = f"{type(error).__name__}: {_first_line(error)}"
    return DataError(f"{what} cannot be read from the Hub ({why}); check the network, or name a local copy")


def _filters(where: Where) -> list[tuple[str, str, list]] | None:
    return [(column, "in", list(values)) for column, values in where.items()] or None


def _parquet(path: Path, columns: Columns, where: Where) -> Iterator[tuple[int, dict]]:
    import pyarrow as pa
    import pyarrow.dataset
    import pyarrow.parquet

    try:
        table = pyarrow.dataset.dataset(path)
        if missing := [column for column in columns if column not in table.schema.names]:
            raise DataError(f"{path}: has no column '{missing[0]}'; it has {', '.join(table.schema.names)}")
        chosen = pyarrow.parquet.filters_to_expression(_filters(where)) if where else None
        number = 0
        for batch in table.to_batches(columns=list(columns), filter=chosen, batch_size=ROWS_AT_ONCE):
            for row in batch.to_pylist():
                number += 1
                yield number, row
    except pa.ArrowException as error:
        raise DataError(f"{path}: is no readable parquet file ({_first_line(error)}); fetch it again") from None


def _jsonl(path: Path) -> Iterator[tuple[int, dict]]:
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                yield number, json.loads(line)
            except ValueError:
                raise DataError(f"{path}: line {number} is no JSON; fetch the file again") from None


def _json(path: Path) -> Iterator[tuple[int, dict]]:
    """Streamed: such a file may be larger than memory."""
    import ijson

    with open(path, "rb") as file:
        try:
            yield from enumerate(ijson.items(file, "item", use_float=True), 1)
        except ijson.JSONError as error:
            raise DataError(f"{path}: is no JSON list of objects ({_first_line(error)}); fetch it again") from None


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]
