"""The files of known text classification sets, as their authors publish them: a reader per layout."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from ...errors import DataError
from .tables import read_table, read_text

Pairs = Iterator[tuple[str, str]]  # of text and label
KnownName = Literal[
    "trec", "ag_news", "banking77", "clinc150", "sms_spam", "mr", "subj", "cr", "mpqa", "sst2", "emotion", "reuters_r8", "newsgroups20"
]


class Format(NamedTuple):
    """files: names, of which those that are there are read. pairs: texts and labels of one. names: of labels, by label as written.

    breaks: what stands for a line break in the texts.
    """

    files: tuple[str, ...]
    pairs: Callable[[Path], Pairs]
    names: Mapping[str, str] | None = None
    breaks: tuple[str, ...] = ()


def _trec(path: Path) -> Pairs:
    return _matches(path, read_text(path, "iso-8859-1"), r"([A-Z]+):\w+ (.*)")


def _digit_first(path: Path, encoding: str = "iso-8859-1") -> Pairs:
    return _matches(path, read_text(path, encoding), r"(\d) ?(.*)")


def _digit_first_utf8(path: Path) -> Pairs:
    return _digit_first(path, "utf-8")


def _sms(path: Path) -> Pairs:
    """One message a line, but some messages hold line ends: a line that begins with no label belongs to the one before."""
    return _matches(path, read_text(path), r"(ham|spam)\t(.*(?:\n(?!ham\t|spam\t).+)*)")


def _tab_first(path: Path) -> Pairs:
    """Label, tab, text; with or without the three header lines of Orange."""
    text = read_text(path)
    lines = text.split("\n")
    if lines[0].split() == ["Category", "Text"]:
        text = "\n".join(lines[3:])
    return _matches(path, text, r"([^\t\n]+)\t(.*)")


def _ag_news(path: Path) -> Pairs:
    return ((f"{title} {text}", label) for label, title, text in read_table(path, ("1", "2", "3"), header=False))


def _banking(path: Path) -> Pairs:
    return read_table(path, ("text", "category"))


def _clinc(path: Path) -> Pairs:
    """All parts, those with requests that are out of scope too."""
    try:
        parts = json.loads(read_text(path))
        yield from ((str(text), "out_of_scope" if label == "oos" else str(label)) for rows in parts.values() for text, label in rows)
    except (ValueError, TypeError, AttributeError) as error:
        raise DataError(f"{path}: is not an object of lists of [text, label] ({error}); fetch it again") from None


def _emotion(path: Path) -> Pairs:
    labels_path = path.with_name(path.name.replace("_text", "_labels"))
    texts, labels = (read_text(file).rstrip("\n").split("\n") for file in (path, labels_path))
    if len(texts) != len(labels):
        raise DataError(f"{labels_path}: has {len(labels)} labels for the {len(texts)} texts of {path.name}; fetch both again")
    return zip(texts, (label.strip() for label in labels), strict=True)


def _matches(path: Path, text: str, pattern: str) -> Pairs:
    """Label and text of each line by a pattern, which may take further lines along. Empty lines are passed over."""
    compiled, place = re.compile(pattern), 0
    while place < len(text):
        match = compiled.match(text, place)
        if match:
            yield match[2], match[1]
            place = match.end() + 1
        else:
            end = text.find("\n", place)
            line = text[place : end if end >= 0 else len(text)]
            if line.strip():
                number = text.count("\n", 0, place) + 1
                raise DataError(f"{path}: line {number} has no label in its place ({line[:40]!r}); fetch the file again")
            place += len(line) + 1


_SIDES = {"0": "negative", "1": "positive"}
_TREC = {"ABBR": "abbreviation", "ENTY": "entity", "DESC": "description", "HUM": "person", "LOC": "place", "NUM": "number"}
_R8 = {
    "acq": "acquisitions",
    "crude": "crude oil",
    "earn": "earnings",
    "grain": "grain",
    "interest": "interest rates",
    "money-fx": "foreign exchange",
    "ship": "shipping",
    "trade": "trade",
}
FORMATS: dict[KnownName, Format] = {
    "trec": Format(("train_5500.label", "TREC_10.label"), _trec, _TREC),
    "ag_news": Format(("train.csv", "test.csv"), _ag_news, {"1": "World", "2": "Sports", "3": "Business", "4": "Sci/Tech"}, breaks=("\\",)),
    "banking77": Format(("train.csv", "test.csv"), _banking),
    "clinc150": Format(("data_full.json",), _clinc),
    "sms_spam": Format(("SMSSpamCollection",), _sms),
    "mr": Format(("rt-polarity.all",), _digit_first, _SIDES),
    "subj": Format(("subj.all",), _digit_first, {"0": "subjective", "1": "objective"}),
    "cr": Format(("custrev.all",), _digit_first, _SIDES),
    "mpqa": Format(("mpqa.all",), _digit_first, _SIDES),
    "sst2": Format(("stsa.binary.train", "stsa.binary.dev", "stsa.binary.test"), _digit_first_utf8, _SIDES),
    "emotion": Format(
        ("train_text.txt", "val_text.txt", "test_text.txt"),
        _emotion,
        {"0": "anger", "1": "joy", "2": "optimism", "3": "sadness"},
        breaks=("\\n", "\\r"),
    ),
    "reuters_r8": Format(("reuters-r8-train.tab", "reuters-r8-test.tab"), _tab_first, _R8),
    "newsgroups20": Format(("20newsgroups-train.tab", "20newsgroups-test.tab", "sample.tsv"), _tab_first),
}
