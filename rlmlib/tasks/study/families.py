"""The three families of a dataset, made from its parameters."""

from pathlib import Path

from ...notebook import resolve
from ..sources.classification import read_records
from ..sources.codebases import listed_bytes
from ..sources.frames import read_frames, titles
from .aggregation.family import AggregationFamily
from .coding.compose import split_packages
from .coding.family import CodingFamily
from .params import DatasetParams
from .recipe import Family
from .research.family import ResearchFamily
from .research.pages import PageStore

NAMES = ("aggregation", "research", "coding")


def family(name: str, params: DatasetParams, cache: Path) -> Family:
    """One family. `cache`: folder for what is worth keeping between runs, such as token counts of pages. Raises DataError."""
    return {"aggregation": _aggregation, "research": _research, "coding": _coding}[name](params, cache)


def _aggregation(params: DatasetParams, cache: Path) -> Family:
    folder = resolve(params.sources.folder)
    return AggregationFamily([read_records(records.spec(folder)) for records in params.sources.records], seed=params.seed)


def _research(params: DatasetParams, cache: Path) -> Family:
    folder, sources = resolve(params.sources.folder), params.sources
    frames = read_frames(folder / sources.frames) if sources.frames and sources.pages else None
    linked = [title for row in frames or () for title in titles(row)]
    pages = PageStore([documents.source(folder) for documents in sources.pages], linked, cache) if frames else None
    distractors = [documents.source(folder) for documents in sources.distractors]
    return ResearchFamily(frames, pages, distractors, cache=cache, longest=params.lengths.high)


def _coding(params: DatasetParams, cache: Path) -> Family:
    sizes = {spec: listed_bytes(spec) for spec in params.sources.codebases}
    return CodingFamily(*split_packages(sizes, params.seed))
