"""Documents of a file, a folder or a data set of the Hub, one after another and never all in memory.

A source has a name for people, a fingerprint that changes whenever its documents may have changed, and gives its
documents in the same order every time.
"""

import hashlib
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote

from ...errors import DataError
from .left_out import LeftOut, good
from .rows import Placed, check_object, file_rows, hub_rows, lines

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

    def documents(self, left_out: LeftOut | None = None) -> Iterator[Document]:
        """The documents, those with an empty text left out. Raises DataError.

        left_out: where given, rows without a text are counted in it, and it is an error only if no row has one.
        """


@dataclass(frozen=True)
class FileSource:
    """A local file that file_rows reads (.jsonl, .json, .parquet, .csv, .tsv, ...), or a folder of .txt and .md files.

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

    def documents(self, left_out: LeftOut | None = None) -> Iterator[Document]:
        path = Path(self.path)
        found = _from_folder(path) if path.is_dir() else _from_rows(file_rows(path), self.text_field, self.title_field, left_out)
        return itertools.islice(found, self.limit)


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

    def documents(self, left_out: LeftOut | None = None) -> Iterator[Document]:
        which = {"revision": self.revision, "split": self.split, "config": self.config, "data_files": self.data_files}
        return itertools.islice(_from_rows(hub_rows(self.dataset, **which), self.text_field, self.title_field, left_out), self.limit)


def _from_rows(rows: Iterable[Placed], text_field: str, title_field: str, left_out: LeftOut | None) -> Iterator[Document]:
    def of_row(numbered: tuple[int, Placed]) -> list[Document]:
        number, (place, row) = numbered
        return list(documents_of(row, place, str(number), text_field, title_field))

    return itertools.chain.from_iterable(good(enumerate(rows, 1), of_row, left_out))


def _text_files(folder: Path) -> list[Path]:
    found = [path for path in folder.rglob("*") if path.suffix.lower() in TEXT_SUFFIXES and path.is_file()]
    return sorted(found, key=lambda path: path.relative_to(folder).as_posix())


def _from_folder(folder: Path) -> Iterator[Document]:
    for path in _text_files(folder):
        text = clean("".join(lines(path)))
        if text:
            yield Document(clean(path.relative_to(folder).as_posix()), clean(unquote(path.stem).replace("_", " ")), text)


def documents_of(row: dict, where: str, number: str, text_field: str = "text", title_field: str = "title") -> Iterator[Document]:
    """The documents of a row: itself, the pages in its `wiki_items`, or the paragraphs of a HotpotQA `context`."""
    if isinstance(row.get("wiki_items"), list):
        for i, item in enumerate(row["wiki_items"], 1):
            place = f"{where}, field 'wiki_items', item {i}"
            yield from documents_of(check_object(place, item), place, f"{number}-{i}", text_field, title_field)
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
        yield Document(_first(row, ID_FIELDS) or url or number, _first(row, (title_field,)), text, url)


def _first(row: dict, fields: tuple[str, ...]) -> str:
    """The first of these fields that holds a text or a number, as clean text."""
    return next((clean(str(row[field])) for field in fields if isinstance(row.get(field), str | int)), "")


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
