"""BrowseComp-Plus (Tevatron/browsecomp-plus): one hard question over k documents, some of which hold the answer.

The rows are encrypted so that nobody trains on them by accident. They are decrypted in memory only: nothing here writes or
logs a decrypted text or the canary, and no error quotes one.
"""

import ast
import base64
import hashlib
import os
import random
from collections.abc import Iterator
from pathlib import Path

from ...errors import ConfigError, DataError
from .base import BenchmarkItem, sample
from .rows import HubSet, named, rows

HUB_SET = HubSet("Tevatron/browsecomp-plus", "test", "144cff8e35b5eaef7e526346aa60774a9deb941f")
CORPUS = HubSet("Tevatron/browsecomp-plus-corpus", "train", "b27b02bc3e45511b8b82a13e6f90ce761df726f6")
QUESTIONS = 150  # the study's sample of 830
DOCUMENTS = 50
CANARY_VARIABLE = "BROWSECOMP_PLUS_CANARY"
POOL = 5  # documents kept of the corpus, times k
LISTS = ("gold_docs", "evidence_docs", "negative_docs")
COLUMNS = {"query_id": str, "query": str, "answer": str, **dict.fromkeys(LISTS, list)}
DOCUMENT = ("docid", "text", "url")

Document = tuple[str, str, str]  # docid, text, url


def load(
    source: str | Path | None = None,
    limit: int | None = QUESTIONS,
    seed: int = 0,
    *,
    k: int = DOCUMENTS,
    canary: str | None = None,
    script: str | Path | None = None,
    corpus: str | Path | None = None,
) -> Iterator[BenchmarkItem]:
    """`limit` questions, each over its gold and evidence documents and as many others, by seed, as make k.

    source: "hub" or a copy. The others are the row's own negatives, or documents of `corpus` ("hub" or a copy), as the study's
    k of 1,000 needs. canary: the password; by default that in the official decrypt_dataset.py, given as `script`, or in the
    environment variable BROWSECOMP_PLUS_CANARY. Raises DataError where a row has under k documents, or the canary is wrong.
    """
    if source is None:
        raise ConfigError("browsecomp_plus cannot be generated; name a copy of Tevatron/browsecomp-plus as source, or 'hub'")
    if k < 1:
        raise ConfigError(f"k: {k} documents are none; set 1 or more")
    key = hashlib.sha256(_canary(canary, script).encode()).digest()
    ids = [row["query_id"] for row in rows(source, HUB_SET, {"query_id": str})]
    chosen = set(sample(ids, limit, f"{seed}/browsecomp_plus"))
    pool = _pool(corpus, POOL * k, seed) if corpus is not None else []
    return _items(source, chosen, key, pool, k, seed)


def _items(source: str | Path, chosen: set[str], key: bytes, pool: list[Document], k: int, seed: int) -> Iterator[BenchmarkItem]:
    for row in rows(source, HUB_SET, COLUMNS):
        if row["query_id"] not in chosen:
            continue
        name = row["query_id"]
        place = f"{named(source, HUB_SET)}: query_id {name}"
        question, answer = (decrypt(row[column], key, f"{place}, column '{column}'") for column in ("query", "answer"))
        gold, evidence, negative = (_documents(row[column], key, f"{place}, column '{column}'") for column in LISTS)
        needed = {document[0]: document for document in gold + evidence}
        others = {document[0]: document for document in pool or negative if document[0] not in needed}
        wanted = max(0, k - len(needed))
        if len(others) < wanted:
            raise DataError(f"{place} has {len(needed) + len(others)} documents, not {k}; lower k, or name the corpus")
        rng = random.Random(f"{seed}/browsecomp_plus/{name}")
        documents = [*needed.values(), *rng.sample(list(others.values()), wanted)]
        rng.shuffle(documents)
        metadata = {"documents": len(documents), "needed": len(needed), "others": "corpus" if pool else "negatives"}
        yield BenchmarkItem(
            f"browsecomp_plus/{k}/{seed}/{name}", "browsecomp_plus", question, _context(documents), (answer,), "text", "judge", metadata
        )


def _context(documents: list[Document]) -> str:
    return "\n\n".join(f"### document {docid}: {url}\n{text}" for docid, text, url in documents)


def _documents(found: list, key: bytes, place: str) -> list[Document]:
    for number, document in enumerate(found, 1):
        for field in DOCUMENT:
            if not isinstance(document, dict) or not isinstance(document.get(field), str):
                raise DataError(f"{place}: document {number} has no text in the field '{field}'")
    return [tuple(decrypt(document[field], key, place) for field in DOCUMENT) for document in found]


def decrypt(text: str, key: bytes, place: str) -> str:
    """A text from base64 of its UTF-8 under XOR with the key, repeated. Raises DataError, which names `place` and quotes nothing."""
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:  # characters outside its alphabet, or ASCII, or a wrong length
        raise DataError(f"{place} is not base64; fetch the data set again") from None
    length = len(data)
    stream = (key * (length // len(key) + 1))[:length]
    plain = (int.from_bytes(data) ^ int.from_bytes(stream)).to_bytes(length)
    try:
        return plain.decode("utf-8")
    except UnicodeDecodeError:
        raise DataError(f"{place} is garbage when decrypted: the canary is wrong; take it from the official decrypt_dataset.py") from None


def _canary(canary: str | None, script: str | Path | None) -> str:
    if canary:
        return canary
    if script is not None:
        return canary_of(Path(script))
    if found := os.environ.get(CANARY_VARIABLE):
        return found
    raise ConfigError(f"browsecomp_plus is encrypted; set {CANARY_VARIABLE}, or give canary or script (the official decrypt_dataset.py)")


def canary_of(script: Path) -> str:
    """The text that the official script assigns to a name with "canary" in it, or has as the default of an option --canary.

    The script is read, never run. Raises DataError.
    """
    try:
        tree = ast.parse(script.read_bytes())
    except (OSError, SyntaxError, ValueError) as error:
        raise DataError(f"{script}: is no readable Python file ({type(error).__name__}); name the official decrypt_dataset.py") from None
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            names, value = [target.id for target in node.targets if isinstance(target, ast.Name)], node.value
        elif isinstance(node, ast.Call):
            names = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
            value = next((keyword.value for keyword in node.keywords if keyword.arg == "default"), None)
        else:
            continue
        if any("canary" in str(name).lower() for name in names) and isinstance(value, ast.Constant) and isinstance(value.value, str):
            return value.value
    raise DataError(f"{script}: assigns no text to a name with 'canary' in it; name the official decrypt_dataset.py")


def _pool(corpus: str | Path, size: int, seed: int) -> list[Document]:
    """At most `size` documents of the corpus, each as likely as the others, in one pass."""
    rng, kept = random.Random(f"{seed}/browsecomp_plus/corpus"), []
    for number, row in enumerate(rows(corpus, CORPUS, dict.fromkeys(DOCUMENT, str))):
        place = number if number < size else rng.randrange(number + 1)
        if place < size:
            kept[place : place + 1] = [(row["docid"], row["text"], row["url"])]
    return kept
