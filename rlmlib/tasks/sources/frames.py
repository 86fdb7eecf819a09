"""FRAMES: questions over two or more Wikipedia pages, and the repair of their links."""

import ast
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from ...errors import DataError
from .left_out import LeftOut, good
from .rows import Placed, file_rows, hub_file

DATASET, REVISION, FILE = "google/frames-benchmark", "58d9fb6330f3ab1316d1eca12e5e8ef23dcc22ef", "test.tsv"


@dataclass(frozen=True)
class FramesRow:
    """One question. links: as in the file, one URL each."""

    id: str
    prompt: str
    answer: str
    links: tuple[str, ...]
    reasoning_types: tuple[str, ...]


def read_frames(path: str | Path, left_out: LeftOut | None = None) -> list[FramesRow]:
    """The rows of test.tsv, or of another file of rows with the same columns. Raises DataError, naming file and field.

    left_out: where given, rows that cannot be used are counted in it, and it is an error only if none is left.
    """
    path = Path(path)
    if not path.exists():
        raise DataError(f"{path}: is not there; fetch {FILE} of {DATASET}")
    found = list(good(enumerate(file_rows(path)), _row, left_out))
    if not found:
        raise DataError(f"{path}: has no rows; fetch {FILE} of {DATASET} again")
    return found


def hub_frames(revision: str = REVISION, cache_dir: str | Path | None = None) -> list[FramesRow]:
    """The rows from the Hub, or from its cache when that has the revision."""
    return read_frames(hub_file(DATASET, FILE, revision, cache_dir))


def _row(numbered: tuple[int, Placed]) -> FramesRow:
    number, (where, row) = numbered
    fields = {name.strip().lower(): _text(value) for name, value in row.items()}
    for name in ("prompt", "answer"):
        if name not in fields:
            raise DataError(f"{where}: has no column {name.title()!r}, only {', '.join(row)}; fetch {FILE} of {DATASET}")
        if not fields[name]:
            raise DataError(f"{where}: field {name.title()!r} is empty; fetch {FILE} of {DATASET} again")
    if "wiki_links" in fields:
        cells = _listed(fields["wiki_links"], where)
    else:
        cells = [value for name, value in fields.items() if name.startswith("wikipedia_link_")]
        if not cells:
            raise DataError(f"{where}: has no column 'wiki_links', only {', '.join(row)}; fetch {FILE} of {DATASET}")
    links = tuple(url for cell in cells for url in urls_in(cell))
    if not links:
        raise DataError(f"{where}: field 'wiki_links' holds no link; remove the row")
    id = next((fields[name] for name in ("id", "unnamed: 0", "") if fields.get(name)), str(number))
    types = tuple(part.strip() for part in fields.get("reasoning_types", "").split("|") if part.strip())
    return FramesRow(id, fields["prompt"], fields["answer"], links, types)


def _text(value) -> str:
    """A cell as text; JSON and parquet have numbers, lists and nothing at all too."""
    return "" if value is None else str(value).strip()


def _listed(cell: str, where: str) -> list[str]:
    try:
        links = ast.literal_eval(cell)
    except (ValueError, SyntaxError):
        links = None
    if not isinstance(links, list) or not all(isinstance(link, str) for link in links):
        raise DataError(f"{where}: field 'wiki_links' is no list of links; fetch {FILE} of {DATASET} again")
    return links


def urls_in(cell: str) -> list[str]:
    """The URLs of a cell. Titles hold commas too, so only one before a scheme separates; a remark may follow a blank."""
    return [part.split()[0].rstrip(",") for part in re.split(r"[\s,]+(?=https?://)", cell) if part.strip(" ,")]


def title_of(url: str) -> str | None:
    """The title of the Wikipedia page that a link means; None for a link to anything else, as to w.wiki."""
    url = url.strip()
    try:
        parts = urlsplit(url if "://" in url else f"https://{url}")
    except ValueError:  # brackets that are not those of an address
        return None
    if not f".{parts.hostname}".endswith(".wikipedia.org"):
        return None
    if parts.path.startswith("/wiki/"):
        title = parts.path.removeprefix("/wiki/") + (f"?{parts.query}" if parts.query and "=" not in parts.query else "")
    else:
        query = parse_qs(parts.query)
        title = (query.get("search") or query.get("title") or [""])[0]
    return tidy_title(_decoded(title)) or None


def _decoded(title: str) -> str:
    """Without percent signs, also where they were encoded twice."""
    while (once := unquote(title)) != title:
        title = once
    return title


def tidy_title(title: str) -> str:
    """A title as Wikipedia shows it: blanks for underscores, the first letter large, one Unicode form."""
    title = " ".join(unicodedata.normalize("NFC", title).replace("_", " ").split())
    return title[:1].upper() + title[1:]


def titles(row: FramesRow, redirects: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """The pages of a question, each once. redirects: from a title, or from a link that names none, to a title."""
    redirects = redirects or {}
    found = (redirects.get(url) or title_of(url) for url in row.links)
    return tuple(dict.fromkeys(tidy_title(redirects.get(title, title)) for title in found if title))


def unresolved(row: FramesRow, redirects: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """The links of a question that name no page."""
    return tuple(url for url in row.links if url not in (redirects or {}) and title_of(url) is None)
