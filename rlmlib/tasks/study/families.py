"""The three families of a dataset, made from its parameters."""

from contextlib import ExitStack
from pathlib import Path

from ...errors import DataError
from ...notebook import resolve
from ..sources.classification import read_records
from ..sources.frames import read_frames, titles
from ..sources.left_out import LeftOut, usable
from ..sources.places import locate
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


class Families(dict[str, Family]):
    """The families by name, each made when it is first asked for: to read one's sources takes seconds and memory."""

    def __init__(self, params: DatasetParams, cache: Path):
        super().__init__()
        self._params, self._cache = params, cache

    def __missing__(self, name: str) -> Family:
        self[name] = family(name, self._params, self._cache)
        return self[name]


def _aggregation(params: DatasetParams, cache: Path) -> Family:
    folder, warnings = resolve(params.sources.folder), []
    sets = usable(params.sources.records, lambda records: read_records(records.spec(folder)), warnings)
    made = AggregationFamily(sets, seed=params.seed)
    made.warnings[:0] = warnings
    return made


def _research(params: DatasetParams, cache: Path) -> Family:
    folder, sources, left_out = resolve(params.sources.folder), params.sources, LeftOut()
    frames = read_frames(folder / sources.frames, left_out) if sources.frames and sources.pages else None
    linked = [title for row in frames or () for title in titles(row)]
    pages = PageStore([documents.source(folder) for documents in sources.pages], linked, cache) if frames else None
    distractors = [documents.source(folder) for documents in sources.distractors]
    made = ResearchFamily(frames, pages, distractors, cache=cache, longest=params.lengths.high)
    made.warnings[:0] = [f"frames: {left_out.note()}"] if left_out.count else []
    return made


def _coding(params: DatasetParams, cache: Path) -> Family:
    warnings = []
    specs = usable(params.sources.specs, _located, warnings)
    if len(specs) < 2:
        raise DataError(f"sources.codebases: {len(specs)} can be read; two are needed, one for each split ({'; '.join(warnings)})")
    made = CodingFamily(*split_packages(specs, params.seed))
    made.warnings[:0] = warnings
    return made


def _located(spec: str) -> str:
    with ExitStack() as stack:
        locate(spec, stack)
    return spec
