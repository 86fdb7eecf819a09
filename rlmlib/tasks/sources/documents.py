"""Documents of a file, a folder or a data set of the Hub, one after another and never all in memory.

A source has a name for people, a fingerprint that changes whenever its documents may have changed, and gives its
documents in the same order every time.
"""

import csv
import gzip
import hashlib
import io
import json
import re
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote

from ...errors import DataError

TEXT_SUFFIXES = (".txt", ".md")
ID_FIELDS = ("id", "_id", "docid")
URL_FIELDS = ("url", "original_link", "link")  # the second: as FRAMES gives it, before a redirect


@dataclass(frozen=True)
class Document:
    """A text with what is known of it: title and url are "" where the source has none."""

    id: str
    title: str
    text: str
    url: str = ""


class Source(Protocol):
    """Where documents come from."""

    name: str

    def fingerprint(self) -> str:
        """Hexadecimal digest of all that decides which documents come, and in which order."""

    def documents(self) -> Iterator[Document]:
        """The documents, those without text left out. Raises DataError."""


@dataclass(frozen=True)
class FileSource:
    """A local .jsonl, .json, .parquet, .csv or .tsv (all but parquet also with .gz), or a folder of .txt and .md files.

    limit: documents read at most. text_field, title_field: of the rows; a folder's titles are its file names,
    with %2F for a slash.
    """

    path: str | Path
    limit: int | None = None
    text_field: str = "text"
    title_field: str = "title"

    @property
    def name(self) -> str:
        return Path(self.path).name

    def fingerprint(self) -> str:
        path = Path(self.path)
        files = _text_files(path) if path.is_dir() else [path]
        parts = [f"{self.limit} {self.text_field} {self.title_field}"]
        for file in files:
            try:
                with open(file, "rb") as stream:
                    parts.append(f"{file.relative_to(path)} {hashlib.file_digest(stream, 'sha256').hexdigest()}")
            except OSError as error:
                raise DataError(f"{file}: cannot be read ({error.strerror}); check the path") from None
        return _digest(*parts)

    def documents(self) -> Iterator[Document]:
        path = Path(self.path)
        found = _from_folder(path) if path.is_dir() else self._from_rows(path)
        return islice(found, self.limit)

    def _from_rows(self, path: Path) -> Iterator[Document]:
        for number, row in enumerate(rows(path), 1):
            yield from documents_of(row, f"{path}, row {number}", str(number), self.text_field, self.title_field)


@dataclass(frozen=True)
class HubSource:
    """A data set of the Hugging Face Hub, streamed. revision: a commit of 40 digits, so that the same documents come again.

    data_files: some files of it only, for example one shard of C4. limit: documents read at most.
    """

    dataset: str
    revision: str
    config: str | None = None
    split: str = "train"
    data_files: tuple[str, ...] = ()
    limit: int | None = None
    text_field: str = "text"
    title_field: str = "title"

    def __post_init__(self):
        if not re.fullmatch(r"[0-9a-f]{40}", self.revision):
            raise DataError(f"{self.dataset}: revision {self.revision!r} is no commit; give one of 40 digits")

    @property
    def name(self) -> str:
        return f"{self.dataset}@{self.revision[:8]}"

    def fingerprint(self) -> str:
        return _digest(repr(self))

    def documents(self) -> Iterator[Document]:
        return islice(self._all_documents(), self.limit)

    def _all_documents(self) -> Iterator[Document]:
        for number, row in enumerate(self._rows(), 1):
            yield from documents_of(row, f"{self.name}, row {number}", str(number), self.text_field, self.title_field)

    def _rows(self) -> Iterator[dict]:
        from datasets import load_dataset

        try:
            yield from load_dataset(
                self.dataset,
                self.config,
                split=self.split,
                revision=self.revision,
                data_files=list(self.data_files) or None,
                streaming=True,
            )
        except Exception as error:  # of the library or of any of those below it
            raise DataError(hub_failure(self.name, error)) from error


def hub_failure(name: str, error: Exception) -> str:
    """One line on a data set that the Hub did not give."""
    reason = " ".join(str(error).split())[:200] or type(error).__name__
    return f"{name}: the Hub did not give it ({reason}); check the network, the name and the revision, or use a local copy"


def rows(path: Path) -> Iterator[dict]:
    """The rows of a file as dictionaries, read by the ending of its name."""
    name = path.name.lower().removesuffix(".gz")
    try:
        if name.endswith(".parquet"):
            yield from _parquet_rows(path)
        elif name.endswith((".csv", ".tsv")):
            with _open(path) as stream:
                yield from table_rows(io.TextIOWrapper(stream, "utf-8-sig", newline=""), str(path), "," if name.endswith(".csv") else "\t")
        elif name.endswith((".jsonl", ".ndjson", ".json")):
            with _open(path) as stream:
                yield from _json_rows(stream, path)
        else:
            raise DataError(f"{path}: format unknown; give .jsonl, .json, .parquet, .csv, .tsv or a folder of .txt and .md files")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: is not UTF-8 (byte {error.object[error.start]:#04x}); convert it, for example with iconv") from None
    except (EOFError, zlib.error) as error:
        raise DataError(f"{path}: the compressed data ends early or is damaged ({error}); fetch it again") from None
    except OSError as error:  # gzip.BadGzipFile included
        raise DataError(f"{path}: cannot be read ({error.strerror or error}); check the path and the format") from None


def _open(path: Path):
    return gzip.open(path, "rb") if path.name.lower().endswith(".gz") else open(path, "rb")


def table_rows(lines, where: str, delimiter: str) -> Iterator[dict]:
    """The rows of a table with a header line."""
    csv.field_size_limit(sys.maxsize)  # the default, 128 KiB, is shorter than many a page
    reader = csv.DictReader(lines, delimiter=delimiter)
    try:
        for row in reader:
            if None in row or None in row.values():
                raise DataError(f"{where}, line {reader.line_num}: does not have {len(reader.fieldnames)} fields; mend its quotes")
            yield row
    except csv.Error as error:
        raise DataError(f"{where}, line {reader.line_num}: is no row of a table ({error}); mend this line") from None


def _json_rows(stream, path: Path) -> Iterator[dict]:
    """One object a line, or the objects of one list."""
    start = stream.read(64).removeprefix(b"\xef\xbb\xbf").lstrip()
    stream.seek(0)
    if start.startswith(b"["):
        import ijson

        try:
            for number, row in enumerate(ijson.items(stream, "item", use_float=True), 1):
                yield _object(row, f"{path}, item {number}")
        except ijson.JSONError as error:
            raise DataError(f"{path}: is no JSON list ({' '.join(str(error).split())[:100]}); fetch it again") from None
        return
    for number, line in enumerate(stream, 1):
        if line.strip():
            try:
                row = json.loads(line.decode("utf-8-sig"))
            except UnicodeDecodeError:
                raise DataError(f"{path}, line {number}: is not UTF-8; convert the file, for example with iconv") from None
            except ValueError as error:
                raise DataError(f"{path}, line {number}: is not JSON ({error}); mend or remove the line") from None
            yield _object(row, f"{path}, line {number}")


def _object(row, where: str) -> dict:
    if not isinstance(row, dict):
        raise DataError(f"{where}: is a {type(row).__name__}, not an object with fields; give one object a document")
    return row


def _parquet_rows(path: Path) -> Iterator[dict]:
    import pyarrow
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=64):
                yield from batch.to_pylist()
    except pyarrow.ArrowInvalid as error:
        raise DataError(f"{path}: is no parquet file ({' '.join(str(error).split())[:100]}); fetch it again") from None


def _text_files(folder: Path) -> list[Path]:
    found = [path for path in folder.rglob("*") if path.suffix.lower() in TEXT_SUFFIXES and path.is_file()]
    return sorted(found, key=lambda path: path.relative_to(folder).as_posix())


def _from_folder(folder: Path) -> Iterator[Document]:
    for path in _text_files(folder):
        try:
            text = clean(path.read_text(encoding="utf-8-sig"))
        except UnicodeDecodeError:
            raise DataError(f"{path}: is not UTF-8; convert it, for example with iconv") from None
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror}); check its permissions") from None
        if text:
            yield Document(path.relative_to(folder).as_posix(), unquote(path.stem).replace("_", " "), text)


def documents_of(row: dict, where: str, number: str, text_field: str = "text", title_field: str = "title") -> Iterator[Document]:
    """The documents of a row: itself, the pages in its `wiki_items`, or the paragraphs of a HotpotQA `context`."""
    if isinstance(row.get("wiki_items"), list):
        for i, item in enumerate(row["wiki_items"], 1):
            place = f"{where}, field 'wiki_items', item {i}"
            yield from documents_of(_object(item, place), place, f"{number}-{i}", text_field, title_field)
        return
    if "question" in row and isinstance(row.get("context"), list | dict):
        for i, (title, sentences) in enumerate(_paragraphs(row["context"], where), 1):
            yield Document(f"{number}-{i}", clean(title), clean("".join(sentences)))
        return
    if text_field not in row:
        raise DataError(f"{where}: has no field {text_field!r}, only {', '.join(map(str, row))}; set text_field")
    text = row[text_field]
    if not isinstance(text, str | None):
        raise DataError(f"{where}: field {text_field!r} is a {type(text).__name__}, not a text; set text_field")
    if text := clean(text or ""):
        url = _first(row, URL_FIELDS)
        yield Document(_first(row, ID_FIELDS) or url or number, clean(_first(row, (title_field,))), text, url)


def _first(row: dict, fields: tuple[str, ...]) -> str:
    """The first of these fields that holds a text or a number, as text."""
    return next((str(row[field]) for field in fields if isinstance(row.get(field), str | int)), "")


def _paragraphs(context: list | dict, where: str) -> list[tuple[str, list[str]]]:
    """Title and sentences, from the two layouts in which HotpotQA goes round."""
    try:
        pairs = zip(context["title"], context["sentences"], strict=True) if isinstance(context, dict) else context
        return [(str(title), [str(sentence) for sentence in sentences]) for title, sentences in pairs]
    except (KeyError, TypeError, ValueError):
        raise DataError(f"{where}: field 'context' has no titles with sentences; is the file HotpotQA's?") from None


def clean(text: str) -> str:
    """Line ends as "\\n", no blanks at the ends, and nothing that UTF-8 cannot hold."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").strip()
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
