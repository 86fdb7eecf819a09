"""Labelled text classification sets: texts with one label each, from the files of known sets, a table or the Hub."""

import functools
import hashlib
import html
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from ...errors import DataError
from .classification_formats import FORMATS, KnownName, Pairs
from .tables import read_hub, read_table


class Record(NamedTuple):
    """id: of the text in normal form, the same in every set that holds the text. text: one line, single blanks."""

    id: str
    text: str
    label: str


@dataclass(frozen=True)
class LabelledSet:
    """Records in the order of the source, each text once. labels: in use, sorted. known: the known set it is, by its name or format.

    left_out: what was dropped or put right, a line each, with its count.
    """

    name: str
    records: tuple[Record, ...]
    labels: tuple[str, ...]
    left_out: list[str] = field(default_factory=list)
    known: str = ""

    @functools.cached_property
    def sha256(self) -> str:
        """Of all records in order: another one means other contexts."""
        digest = hashlib.sha256()
        for record in self.records:
            digest.update("\t".join(record).encode("utf-8"))
            digest.update(b"\n")
        return digest.hexdigest()


@dataclass(frozen=True)
class KnownSet:
    """A set in the files that its authors publish; of several files those that are there are read. `name` defaults to the format."""

    format: KnownName
    folder: Path
    name: str = ""


@dataclass(frozen=True)
class TableSet:
    """A set in one file. label_names: names by label as written, {"0": "negative"}; without it labels are their own names.

    breaks: what stands for a line break in the texts, as the backslash does in AG News. The rest: see read_table.
    """

    name: str
    path: Path
    text: str
    label: str
    label_names: Mapping[str, str] | None = None
    encoding: str = "utf-8"
    delimiter: str | None = None
    header: bool = True
    quotes: bool = True
    breaks: tuple[str, ...] = ()


@dataclass(frozen=True)
class HubSet:
    """A set of the Hub at a pinned revision. Class ids become class names, which `label_names` may rename."""

    name: str
    dataset: str
    revision: str
    split: str
    text: str = "text"
    label: str = "label"
    config: str | None = None
    label_names: Mapping[str, str] | None = None
    breaks: tuple[str, ...] = ()


SetSpec = KnownSet | TableSet | HubSet


def read_records(spec: SetSpec) -> LabelledSet:
    """The records of a set, cleaned. Raises DataError, which names the file and what is wrong in it."""
    if isinstance(spec, KnownSet):
        return _read_known(spec)
    if isinstance(spec, TableSet):
        path = Path(spec.path)
        how = {"encoding": spec.encoding, "delimiter": spec.delimiter, "header": spec.header, "quotes": spec.quotes}
        pairs, where = read_table(path, (spec.text, spec.label), **how), str(path)
    else:
        how = {"revision": spec.revision, "split": spec.split, "config": spec.config}
        pairs, where = read_hub(spec.dataset, (spec.text, spec.label), **how), f"{spec.dataset} ({spec.split})"
    return _cleaned(spec.name, where, _named(where, pairs, spec.label_names), spec.breaks)


def _read_known(spec: KnownSet) -> LabelledSet:
    known, folder, name = FORMATS.get(spec.format), Path(spec.folder), spec.name or spec.format
    if known is None:
        raise DataError(f"{folder}: format {spec.format!r} is unknown; use one of {', '.join(FORMATS)}, or a table")
    paths = [folder / file for file in known.files if (folder / file).exists()]
    if not paths:
        raise DataError(f"{folder}: holds none of {', '.join(known.files)}; put the files of {spec.format} there")

    def pairs() -> Pairs:
        for path in paths:
            yield from _named(str(path), known.pairs(path), known.names)

    missing = [f"{name}: {file} is not in {folder.name}" for file in known.files if folder / file not in paths]
    found = _cleaned(name, str(folder), pairs(), known.breaks)
    return replace(found, left_out=missing + found.left_out, known=spec.format)


def _named(where: str, pairs: Iterable[tuple[str, str]], names: Mapping[str, str] | None) -> Pairs:
    names = names and {str(label): name for label, name in names.items()}
    for number, (text, label) in enumerate(pairs, 1):
        if names is not None and label not in names:
            raise DataError(f"{where}: record {number} has the unknown label {label!r}; name it in label_names ({', '.join(names)[:80]})")
        if not label.strip():
            raise DataError(f"{where}: record {number} has no label; give it one or leave it out")
        yield text, names[label] if names else " ".join(label.split())


# --- cleaning

# " #39;", " quot;": entities whose "&" became a blank, as in AG News; "&#38 ;", whose ";" was split off, as in subj
_BROKEN_ENTITY = re.compile(r"(?: |(?<![&\w]))((?:#\d{2,4}|quot|amp|lt|gt|nbsp);)")
_SPLIT_ENTITY = re.compile(r"(&#?\w+) ;")
_TAG = re.compile(r"</?(?:a|b|br|em|font|i|img|li|p|nobr|strong|table|td|tr|ul)\b[^<>]*>", re.IGNORECASE)


def without_html(text: str) -> str:
    """Entities as characters, broken ones too, and common tags gone. "<DELL.O>" stays."""
    if ";" not in text and "<" not in text:
        return text
    return _TAG.sub(" ", html.unescape(_SPLIT_ENTITY.sub(r"\1;", _BROKEN_ENTITY.sub(r"&\1", text))))


@functools.cache
def _unspoken() -> dict[int, None]:
    """Punctuation and white space of all Unicode, for str.translate."""
    return {code: None for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code))[0] in "PZ"}


def text_id(text: str) -> str:
    """16 hex digits, the same for texts that differ in case, punctuation, white space or compatible characters only.

    So a sentence has one id in two sets that tokenise it differently, as SST-2 and MR do.
    """
    normal = unicodedata.normalize("NFKC", text).casefold()
    return hashlib.sha256((normal.translate(_unspoken()) or normal).encode("utf-8")).hexdigest()[:16]


def _cleaned(name: str, where: str, pairs: Iterable[tuple[str, str]], breaks: tuple[str, ...]) -> LabelledSet:
    found: dict[str, Record] = {}
    conflicting: dict[str, None] = {}
    counts = Counter()
    for raw, label in pairs:
        for mark in breaks:
            raw = raw.replace(mark, " ")
        plain = without_html(raw)
        text = " ".join(plain.encode("utf-8", "replace").decode("utf-8").split())  # a lone surrogate becomes "?"
        counts["texts with HTML put right"] += plain != raw
        counts["texts with white space collapsed"] += text != plain
        if not text:
            counts["empty texts dropped"] += 1
            continue
        record = Record(text_id(text), text, label)
        known = found.setdefault(record.id, record)
        if known.label != label:
            conflicting[record.id] = None
        elif known is not record:
            counts["texts dropped that were there already"] += 1
    for text in conflicting:
        del found[text]
    counts["texts dropped that have two labels or more"] = len(conflicting)
    labels = tuple(sorted({record.label for record in found.values()}))
    if len(labels) < 2:
        raise DataError(f"{where}: has {len(labels)} label(s) among {len(found)} usable records; name a set with two labels or more")
    left_out = [f"{name}: {count} {what}" for what, count in counts.items() if count]
    return LabelledSet(name, tuple(found.values()), labels, left_out, known=name)
