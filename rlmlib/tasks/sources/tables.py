"""Rows of tables: CSV, TSV, JSON, JSON lines and parquet files, and data sets of the Hugging Face Hub."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ...errors import DataError

CELL_CHARS = 16 * 1024 * 1024  # the csv module refuses longer cells, and from 128 KiB on unless told
DELIMITERS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}

Row = tuple[str, ...]


def read_text(path: Path, encoding: str = "utf-8") -> str:
    """A whole text file, line ends as they are, without a byte order mark. Raises DataError where it is missing, empty or of another
    encoding."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"{path}: is not there; correct the path or put the file there") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); name a readable file") from None
    try:
        text = data.decode(encoding).removeprefix("\ufeff")
    except LookupError:
        raise DataError(f"{path}: encoding {encoding!r} is unknown; use one that Python knows, such as utf-8 or iso-8859-1") from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(f"{path}: line {line} is not {encoding}; set encoding, for example to iso-8859-1") from None
    if not text.strip():
        raise DataError(f"{path}: is empty; fetch it again")
    return text


def read_table(
    path: Path,
    columns: Sequence[str],
    *,
    encoding: str = "utf-8",
    delimiter: str | None = None,
    header: bool = True,
    quotes: bool = True,
) -> Iterator[Row]:
    """The cells of the named columns, as text, a row at a time; a missing cell of JSON or parquet is "".

    The format follows from the suffix; with a `delimiter` any file is delimited text. Without a header columns are numbered from "1".
    quotes: False where a quotation mark in delimited text is a character like others. Raises DataError.
    """
    suffix = path.suffix.lower()
    if delimiter or suffix in DELIMITERS:
        rows = _delimited(path, columns, encoding, delimiter or DELIMITERS[suffix], header, quotes)
    elif suffix == ".parquet":
        rows = _parquet(path, columns)
    elif suffix in (".json", ".jsonl", ".ndjson"):
        rows = _from_objects(path, columns, _objects(path, read_text(path, encoding)))
    else:
        raise DataError(f"{path}: format {suffix or 'without suffix'} is unknown; use csv, tsv, json, jsonl or parquet, or set delimiter")
    return _not_empty(path, rows)


def read_hub(dataset: str, columns: Sequence[str], *, revision: str, split: str, config: str | None = None) -> Iterator[Row]:
    """The cells of the named columns of a Hub data set, or of a folder in its layout; class ids become the names of their classes.

    revision: a commit, or a branch such as refs/convert/parquet where the data set has a loading script. Raises DataError.
    """
    if not revision:
        raise DataError(f"{dataset}: revision is not set; pin the commit of the data set")
    from datasets import ClassLabel, load_dataset

    try:
        table = load_dataset(dataset, config, revision=revision, split=split)
    except Exception as error:  # the library lets errors of the network, of files and of many parsers through
        reason = " ".join(str(error).split())[:200]
        raise DataError(
            f"{dataset}: split {split} of revision {revision} cannot be loaded ({reason}); check the network, the id and the split, "
            "or download it and name the file"
        ) from None
    _check_columns(f"{dataset} ({split})", columns, table.column_names)
    names = {column: table.features[column].names for column in columns if isinstance(table.features[column], ClassLabel)}

    def cell(column: str, value) -> str:
        if column not in names:
            return _text(dataset, column, value)
        if value is None or not 0 <= value < len(names[column]):
            raise DataError(f"{dataset} ({split}): column {column} has no class {value}; choose a split with labels")
        return names[column][value]

    def rows() -> Iterator[Row]:
        for batch in table.select_columns(list(columns)).iter(batch_size=1000):
            for values in zip(*(batch[column] for column in columns), strict=True):
                yield tuple(cell(column, value) for column, value in zip(columns, values, strict=True))

    return _not_empty(dataset, rows())


def _delimited(path: Path, columns: Sequence[str], encoding: str, delimiter: str, header: bool, quotes: bool) -> Iterator[Row]:
    text = read_text(path, encoding)
    csv.field_size_limit(CELL_CHARS)
    quoting = csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True, quoting=quoting)
    try:
        cells = (row for row in reader if row)
        first = next(cells, [])
        names = first if header else [str(number) for number in range(1, len(first) + 1)]
        _check_columns(path, columns, names)
        places = [names.index(column) for column in columns]
        for row in cells if header else _with_first(first, cells):
            if len(row) <= max(places):
                raise DataError(f"{path}: line {reader.line_num} has {len(row)} of {len(names)} cells; mend it, or set delimiter")
            yield tuple(row[place] for place in places)
    except csv.Error as error:
        raise DataError(f"{path}: line {reader.line_num} is not well-formed ({error}); mend it, or set delimiter or quotes") from None


def _with_first(first: list[str], rest: Iterable[list[str]]) -> Iterator[list[str]]:
    yield first
    yield from rest


def _objects(path: Path, text: str) -> Iterator[dict]:
    """Of a JSON list of objects, or of one object a line."""
    if path.suffix.lower() == ".json":
        try:
            found = json.loads(text)
        except ValueError as error:
            raise DataError(f"{path}: is not JSON ({error}); fetch it again, or name it .jsonl if it has one object a line") from None
        if not isinstance(found, list):
            raise DataError(f"{path}: is a JSON {type(found).__name__}, not a list of objects; convert it to one")
        yield from found
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                yield json.loads(line)
            except ValueError as error:
                raise DataError(f"{path}: line {number} is not JSON ({error}); mend it") from None


def _from_objects(path: Path, columns: Sequence[str], objects: Iterable[dict]) -> Iterator[Row]:
    for number, found in enumerate(objects, 1):
        if not isinstance(found, dict):
            raise DataError(f"{path}: row {number} is no object; give each row as an object with the columns as keys")
        _check_columns(f"{path}: row {number}", columns, list(found))
        yield tuple(_text(path, column, found[column]) for column in columns)


def _parquet(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
    except FileNotFoundError:
        raise DataError(f"{path}: is not there; correct the path or put the file there") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"{path}: is not a parquet file ({' '.join(str(error).split())[:120]}); fetch it again") from None
    with file:
        _check_columns(path, columns, file.schema_arrow.names)
        for batch in file.iter_batches(columns=list(columns)):
            for values in zip(*(batch.column(column).to_pylist() for column in columns), strict=True):
                yield tuple(_text(path, column, value) for column, value in zip(columns, values, strict=True))


def _check_columns(where: Path | str, columns: Sequence[str], found: Sequence[str]):
    for column in columns:
        if column not in found:
            raise DataError(f"{where}: has no column {column!r}, but {', '.join(map(repr, found[:12]))}; name one of these")


def _text(where: Path | str, column: str, value) -> str:
    if isinstance(value, list | dict):
        raise DataError(f"{where}: column {column!r} holds a {type(value).__name__}; name a column of texts or numbers")
    return "" if value is None else str(value)


def _not_empty(where: Path | str, rows: Iterable[Row]) -> Iterator[Row]:
    empty = True
    for row in rows:
        empty = False
        yield row
    if empty:
        raise DataError(f"{where}: has no rows; fetch it again")
