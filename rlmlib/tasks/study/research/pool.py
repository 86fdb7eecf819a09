"""The documents of a source as pieces of a context, with exact token counts, kept in one file of a cache folder.

To count two million tokens takes seconds and a compressed or streamed source has no random access. So a source is read
once, into an SQLite file that is named after its fingerprint; a changed source gets another file.
"""

import hashlib
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import numpy as np

from ....errors import DataError
from ...sources.documents import Document, Source
from ...sources.frames import tidy_title, title_of
from ...sources.left_out import LeftOut
from .. import tokens

LAYOUT = 2  # of pieces and of the file; raise it when either changes
TITLE_CHARS = 100  # of a heading that is made from the first line of a text

_TABLES = (
    "create table documents (n integer primary key, title text, piece text, tokens integer, digest integer)",
    "create table notes (line text)",
)


def piece(title: str, text: str) -> str:
    """A page as it stands in a context. Only a heading begins with "=====", so pages can be told apart."""
    text = "\n".join(f" {line}" if line.startswith("=====") else line for line in text.split("\n"))
    return f"===== page: {' '.join(title.split())} =====\n{text}\n"


def heading(document: Document) -> str:
    """Its title, that in its link, or the start of its first line, so that pages from the web look like all others."""
    line = " ".join(document.text.split("\n", 1)[0].split())
    if len(line) > TITLE_CHARS:
        line = line[:TITLE_CHARS].rsplit(" ", 1)[0]
    return document.title or title_of(document.url) or line


class Pool:
    """The pieces of a source by number, from 0. tokens, digests: arrays, one entry a piece; the same text has the same digest.

    notes: what was left out of the source, a line each.
    """

    def __init__(self, source: Source, cache: str | Path, may_be_empty: bool = False):
        self.name, self.fingerprint = source.name, source.fingerprint()
        key = hashlib.sha256(f"{self.fingerprint} {LAYOUT} {tokens.TOKENIZER}".encode()).hexdigest()
        self.path = Path(cache) / f"documents-{key[:24]}.sqlite"
        if not self.path.exists():
            _build(self.path, source)
        with self._open() as db:
            rows = db.execute("select tokens, digest from documents order by n").fetchall()
            self.notes = [f"{self.name}: {line}" for (line,) in db.execute("select line from notes")]
        if not rows and not may_be_empty:
            raise DataError(f"{self.name}: holds no document with text; check the file and its text field")
        self.tokens, self.digests = np.array(rows, dtype=np.int64).reshape(-1, 2).T

    def pieces(self, numbers: Iterable[int]) -> list[str]:
        """The pieces of these numbers, in their order."""
        with self._open() as db:
            return [db.execute("select piece from documents where n = ?", (int(n),)).fetchone()[0] for n in numbers]

    def titled(self, titles: Iterable[str]) -> dict[int, str]:
        """The numbers of the pieces that have one of these titles, and which; in the order of the titles."""
        with self._open() as db:
            query = "select n from documents where title = ? order by n"
            return {n: title for title in titles for (n,) in db.execute(query, (tidy_title(title),))}

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A connection of its own for each use: threads and forked processes share none."""
        try:
            with closing(sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=ro", uri=True)) as db:
                yield db
        except sqlite3.DatabaseError as error:
            raise DataError(f"{self.path}: the cache is damaged ({error}); delete this file, it is made again") from None


def _build(path: Path, source: Source):
    unfinished = path.with_suffix(f".{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.unlink(missing_ok=True)
        with closing(sqlite3.connect(unfinished)) as db:
            for table in _TABLES:
                db.execute(table)
            left_out = LeftOut()
            db.executemany("insert into documents values (?, ?, ?, ?, ?)", _rows(source, left_out))
            if left_out.count:
                db.execute("insert into notes values (?)", (left_out.note().encode("utf-8", "replace").decode(),))
            db.execute("create index titles on documents (title)")
            db.commit()
        os.replace(unfinished, path)
    except (OSError, sqlite3.OperationalError) as error:
        raise DataError(f"{path.parent}: the cache cannot be written ({error}); make room or give another folder") from None
    finally:
        with suppress(OSError):  # it has been renamed, or never was
            unfinished.unlink()


def _rows(source: Source, left_out: LeftOut) -> Iterator[tuple]:
    for n, document in enumerate(source.documents(left_out)):
        title = heading(document)
        text = piece(title, document.text)
        digest = int.from_bytes(hashlib.sha256(document.text.encode()).digest()[:8], "big") >> 1  # SQLite has signed integers
        yield n, tidy_title(title), text, tokens.count(text), digest
