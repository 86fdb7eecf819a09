"""Rows of data files and of data sets of the Hugging Face Hub: streamed, each with its place, for messages on it."""

import codecs
import csv
import gzip
import io
import json
import re
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ...errors import DataError, one_line

DELIMITERS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
CELL_CHARS = 2**31 - 1  # of delimited text; the csv module refuses more than 128 KiB unless told
ROWS_AT_ONCE = 16  # of a parquet file: a row may hold megabytes
DEEPEST = 100  # lists and objects within one another, in a JSON list of objects
WHOLE_BYTES = 2**26  # a file up to this size is read as one JSON value, to say what is wrong with it
_UNDECODED = re.compile("[\udc80-\udcff]")  # what bytes of another encoding become

Placed = tuple[str, dict]  # "a.csv, line 3" or "a.parquet, row 2", and the values by column
Where = Mapping[str, Sequence]  # column -> the values that a row may have


def file_rows(
    path: Path,
    *,
    encoding: str = "utf-8",
    delimiter: str | None = None,
    header: bool = True,
    quotes: bool = True,
    columns: Collection[str] | None = None,
    where: Where | None = None,
) -> Iterator[Placed]:
    """The rows of a .csv, .tsv, .tab, .json, .jsonl, .ndjson or .parquet file; all but the last also with .gz.

    JSON is one object a line or a list of objects, which is always UTF-8. With a `delimiter` any file is delimited text. Without
    a header columns are numbered from "1". quotes: False where a quotation mark in delimited text is a character like others.
    columns, where: of a parquet file only these columns, of rows that fit, are read. Raises DataError.
    """
    suffix = Path(path.name.lower().removesuffix(".gz")).suffix
    if delimiter or suffix in DELIMITERS:
        return _delimited_rows(path, encoding, delimiter or DELIMITERS[suffix], header, quotes)
    if suffix in (".json", ".jsonl", ".ndjson"):
        return _json_rows(path, encoding)
    if suffix == ".parquet":
        return _parquet_rows(path, columns, where)
    raise DataError(f"{path}: format {suffix or 'without suffix'} is unknown; use csv, tsv, json, jsonl or parquet, or set delimiter")


def lines(path: Path, encoding: str = "utf-8") -> Iterator[str]:
    """The lines of a text file, which may be a .gz, their ends as they are, without a byte order mark. Raises DataError."""
    advice = f"is not {encoding}; convert the file, for example with iconv, or set its encoding"
    with _opened(path) as stream:
        try:
            for number, line in enumerate(io.TextIOWrapper(stream, encoding, errors="surrogateescape", newline=""), 1):
                if _UNDECODED.search(line):
                    raise DataError(f"{path}, line {number}: {advice}")
                yield line.removeprefix("\ufeff") if number == 1 else line
        except LookupError:
            raise DataError(f"{path}: encoding {encoding!r} is unknown; use one that Python knows, such as utf-8 or iso-8859-1") from None
        except UnicodeError:  # of an encoding of more than one byte a character
            raise DataError(f"{path}: {advice}") from None


def check_columns(place: str | Path, columns: Collection[str], found: Collection[str]):
    """Raises DataError where one of the columns is not among those found."""
    for column in columns:
        if column not in found:
            has = ", ".join(map(repr, list(found)[:12])) or "none"
            raise DataError(f"{place}: has no column {column!r}; it has {has}: name one of these, or another source")


def check_object(place: str, value) -> dict:
    """The value, which must be a JSON object. Raises DataError."""
    if not isinstance(value, dict):
        raise DataError(f"{place}: is a {type(value).__name__}, not an object with fields; give one object a row")
    return value


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """The bytes of a file, unpacked. What fails while they are read becomes a DataError."""
    try:
        with gzip.open(path) if path.suffix.lower() == ".gz" else open(path, "rb") as stream:
            yield stream
    except FileNotFoundError:
        raise DataError(f"{path}: is not there; correct the path or put the file there") from None
    except (EOFError, zlib.error) as error:
        raise DataError(f"{path}: the compressed data ends early or is damaged ({error}); fetch it again") from None
    except OSError as error:  # gzip.BadGzipFile included
        reason = " ".join(str(error.strerror or error).split())
        raise DataError(f"{path}: cannot be read ({reason}); check the path and the format") from None


def _delimited_rows(path: Path, encoding: str, delimiter: str, header: bool, quotes: bool) -> Iterator[Placed]:
    csv.field_size_limit(CELL_CHARS)
    quoting = csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE
    reader = csv.reader(lines(path, encoding), delimiter=delimiter, quoting=quoting, strict=True)
    names: list[str] = []
    try:
        for cells in filter(None, reader):
            place = f"{path}, line {reader.line_num}"
            if not names:
                names = cells if header else [str(number) for number in range(1, len(cells) + 1)]
                if header:
                    _check_names(place, names)
                    continue
            if len(cells) != len(names):
                raise DataError(f"{place}: does not have {len(names)} fields, but {len(cells)}; mend its quotes, or set delimiter")
            yield place, dict(zip(names, cells, strict=True))
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: is no row of a table ({error}); mend it, or set delimiter or quotes") from None


def _check_names(place: str, names: Sequence[str]):
    """Raises DataError where a column has the name of another; those without a name are nobody's."""
    twice = sorted({name for name in names if name and names.count(name) > 1})
    if twice:
        raise DataError(f"{place}: has the column {twice[0]!r} twice; rename one of them")


def _json_rows(path: Path, encoding: str) -> Iterator[Placed]:
    with _opened(path) as stream:
        start = stream.read(64)
    is_list = start.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"[")
    for place, value in _json_items(path, start.index(b"[")) if is_list else _json_lines(path, encoding):
        yield place, check_object(place, value)


def _json_items(path: Path, start: int) -> Iterator[tuple[str, object]]:
    """Of the list that begins at a byte. Streamed: such a file may be larger than memory."""
    import ijson

    with _opened(path) as stream:
        stream.seek(start)
        builder, depth, number = ijson.ObjectBuilder(), 0, 0
        try:
            for event, value in ijson.basic_parse(stream, use_float=True):
                depth -= event in ("end_map", "end_array")
                if depth > 0:
                    builder.event(event, value)
                depth += event in ("start_map", "start_array")
                if depth > DEEPEST:  # the builder's memory grows with depth
                    raise DataError(f"{path}, row {number + 1}: is nested more than {DEEPEST} deep; give rows of texts and numbers")
                if depth == 1 and event != "start_array":
                    number += 1
                    yield f"{path}, row {number}", builder.value
                    builder = ijson.ObjectBuilder()
        except (ijson.JSONError, UnicodeError) as error:
            raise DataError(f"{path}: is no JSON list of objects ({one_line(error, 200)}); fetch it again") from None


def _json_lines(path: Path, encoding: str) -> Iterator[tuple[str, object]]:
    for number, line in enumerate(lines(path, encoding), 1):
        place = f"{path}, line {number}"
        if line.strip():
            try:
                yield place, json.loads(line)
            except (ValueError, RecursionError) as error:
                if number == 1 and _is_one_value(path):
                    raise DataError(f"{path}: is one JSON value over many lines; give one object a line, or a list of objects") from None
                raise DataError(f"{place}: is not JSON ({one_line(error)}); give one object a line, or a list of objects") from None


def _is_one_value(path: Path) -> bool:
    with _opened(path) as stream:
        text = stream.read(WHOLE_BYTES)
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _parquet_rows(path: Path, columns: Collection[str] | None, where: Where | None) -> Iterator[Placed]:
    import pyarrow as pa
    import pyarrow.dataset
    import pyarrow.parquet

    with _opened(path):  # pyarrow opens it again by its name, but says less of a file that cannot be read
        try:
            table = pyarrow.dataset.dataset(path)
            check_columns(path, columns or (), table.schema.names)
            chosen = pyarrow.parquet.filters_to_expression(_filters(where)) if where else None
            batches = table.to_batches(columns=columns and list(columns), filter=chosen, batch_size=ROWS_AT_ONCE)
            for number, row in enumerate((row for batch in batches for row in batch.to_pylist()), 1):
                yield f"{path}, row {number}", row
        except (pa.ArrowException, ValueError, OverflowError) as error:  # the latter: texts that are no UTF-8, dates beyond Python's
            raise DataError(f"{path}: is no readable parquet file ({one_line(error, 200)}); fetch it again") from None


def _filters(where: Where) -> list[tuple[str, str, list]]:
    return [(column, "in", list(values)) for column, values in where.items()]


# --- the Hub


def hub_rows(
    dataset: str,
    *,
    revision: str,
    split: str,
    config: str | None = None,
    data_files: Sequence[str] = (),
    columns: Collection[str] | None = None,
    where: Where | None = None,
) -> Iterator[Placed]:
    """The rows of a data set, or of a folder in its layout; class ids become the names of their classes, None where there is none.

    revision: a commit, or a branch such as refs/convert/parquet where the data set has a loading script. data_files: some of its
    files only. columns, where: only these columns, of rows that fit, are fetched; of data sets of parquet files. Raises DataError.
    """
    if not revision:
        raise DataError(f"{dataset}: revision is not set; pin the commit of the data set")
    from datasets import ClassLabel, load_dataset

    name = f"{dataset}@{revision[:8]}, split {split}"
    options = {"data_files": list(data_files) or None, "columns": columns and list(columns), "filters": where and _filters(where)}
    given = {option: value for option, value in options.items() if value}
    try:
        table = load_dataset(dataset, config, split=split, revision=revision, streaming=True, **given)
        classes = {column: kind.names for column, kind in (table.features or {}).items() if isinstance(kind, ClassLabel)}
        for number, row in enumerate(table, 1):
            yield f"{name}, row {number}", row | {column: _class_name(names, row[column]) for column, names in classes.items()}
    except Exception as error:  # each layer below has errors of its own: datasets, huggingface_hub, httpx, pyarrow
        raise _unreachable(name, error) from None


def hub_file(dataset: str, file: str, revision: str, cache_dir: str | Path | None = None) -> Path:
    """One file of a data set, kept in the cache of huggingface_hub. Raises DataError."""
    from huggingface_hub import hf_hub_download

    try:
        return Path(hf_hub_download(dataset, file, repo_type="dataset", revision=revision, cache_dir=cache_dir))
    except Exception as error:  # as above
        raise _unreachable(f"{dataset}@{revision[:8]}, {file}", error) from None


def _class_name(names: Sequence[str], number: int | None) -> str | None:
    return names[number] if number is not None and 0 <= number < len(names) else None


def _unreachable(name: str, error: Exception) -> DataError:
    advice = "check the network, the name and the revision, or name a local copy"
    return DataError(f"{name}: cannot be read from the Hub ({one_line(error, 200)}); {advice}")
