"""What a dataset is made of: sizes, lengths, and sources, each a path in one folder or a pinned data set of the Hub."""

from pathlib import Path

from pydantic import Field, model_validator

from ... import params_file
from ...config import Mixture
from ...errors import DataError
from ...notebook import resolve
from ...params_file import PositiveInt, Section, Seed
from ..sources.classification import HubSet, KnownName, KnownSet, SetSpec, TableSet
from ..sources.documents import FileSource, HubSource, Source
from ..sources.places import is_path


class Lengths(Section):
    """Context lengths in Qwen tokens, to the nearest record, page or file: log-normal around the median."""

    low: PositiveInt = Field(32_000, description="shortest")
    median: PositiveInt = Field(437_000, description="median of each family")
    high: PositiveInt = Field(1_900_000, description="longest; deep research stays under what its distractors allow")

    @model_validator(mode="after")
    def _check(self):
        if not self.low <= self.median <= self.high:
            raise ValueError(f"low {self.low}, median {self.median} and high {self.high} must rise")
        return self


class _Place(Section):
    """Where one source is: a path below the folder of the sources, or a data set of the Hub."""

    path: str | None = Field(None, description="file or folder")
    hub: str | None = Field(None, description="id on the Hub, instead of a path")
    revision: str = Field("", description="commit of the Hub data set")
    split: str = Field("train", description="split of the Hub data set")
    config: str | None = Field(None, description="configuration of the Hub data set")
    text: str = Field("text", description="column of the texts")

    @model_validator(mode="after")
    def _check_place(self):
        if (self.path is None) == (self.hub is None):
            raise ValueError("give either path or hub")
        return self


class Records(_Place):
    """A labelled text classification set: a folder of a known format, a table (csv, tsv, json, jsonl, parquet), or the Hub."""

    format: KnownName | None = Field(None, description="known layout of the files in `path`")
    name: str = Field("", description="name in the recipes; the format's if left out")
    label: str = Field("label", description="column of the labels")
    label_names: dict[str, str] | None = Field(None, description="names of the labels by label as written")
    encoding: str = Field("utf-8", description="of a table")
    breaks: list[str] = Field([], description="what stands for a line break in the texts, as the backslash does in AG News")

    @model_validator(mode="after")
    def _check_name(self):
        if self.format is None and not self.name:
            raise ValueError("name is required where no format is given")
        return self

    def spec(self, folder: Path) -> SetSpec:
        if self.hub:
            where = (self.hub, self.revision, self.split, self.text, self.label, self.config)
            return HubSet(self.name, *where, self.label_names, tuple(self.breaks))
        if self.format:
            return KnownSet(self.format, folder / self.path, self.name)
        return TableSet(self.name, folder / self.path, self.text, self.label, self.label_names, self.encoding, breaks=tuple(self.breaks))


class Documents(_Place):
    """Texts: a file (jsonl, json, parquet, csv, tsv, with .gz too), a folder of .txt and .md, or a data set of the Hub."""

    title: str = Field("title", description="column of the titles, where there is one")
    limit: PositiveInt | None = Field(None, description="documents read at most")

    def source(self, folder: Path) -> Source:
        fields = {"limit": self.limit, "text_field": self.text, "title_field": self.title}
        if self.hub:
            return HubSource(self.hub, self.revision, self.config, self.split, **fields)
        return FileSource(folder / self.path, **fields)


class Sources(Section):
    """Where everything comes from. Paths are taken from `folder`, those of codebases from the repository's root."""

    folder: str = Field("data", description="folder of the paths below; make dataset DATA=... names another")
    records: list[Records] = Field(min_length=1, description="labelled sets, for aggregation")
    distractors: list[Documents] = Field(min_length=1, description="pages that deep research questions drown in")
    frames: str | None = Field(None, description="the FRAMES questions, csv or tsv; without them questions are made over generated pages")
    pages: list[Documents] = Field([], description="the pages that FRAMES links to; questions whose pages are not all there are left out")
    codebases: list[str] = Field(min_length=2, description="import names of installed packages, folders (./...), wheels")

    @property
    def specs(self) -> list[str]:
        """The codebases, wherever the process runs."""
        return [str(resolve(Path(spec).expanduser())) if is_path(spec) else spec for spec in self.codebases]

    def check(self):
        """Raises DataError for the first path that is not there, or data set of the Hub that is not pinned."""
        named = [("records", records.path) for records in self.records]
        named += [(field, documents.path) for field in ("distractors", "pages") for documents in getattr(self, field)]
        for field, path in [*named, ("frames", self.frames)]:
            place = None if path is None else resolve(self.folder) / path
            if place is not None and not place.exists():
                raise DataError(f"{place}: is not there (sources.{field}); put it there, or name its folder by DATA=...")
        for documents in self.distractors + self.pages:
            documents.source(resolve(self.folder))
        for spec, given in zip(self.specs, self.codebases, strict=True):
            if is_path(spec) and not Path(spec).exists():
                raise DataError(f"{given}: is not there (sources.codebases); a relative path is taken from the repository's root")


class DatasetParams(Mixture):
    """A whole dataset file."""

    name: str = Field(description="name of the dataset")
    seed: Seed = Field(42, description="seed of everything random")
    train: PositiveInt = Field(1564, description="training examples")
    eval: PositiveInt = Field(452, description="evaluation examples")
    lengths: Lengths = Lengths()
    sources: Sources

    def counts(self, split: str) -> dict[str, int]:
        """Examples of each family in a split; the shares are met to the nearest whole number, the last family takes the rest."""
        total = getattr(self, split)
        aggregation, research = round(total * self.aggregation), round(total * self.research)
        return {"aggregation": aggregation, "research": research, "coding": total - aggregation - research}


def load(path: str | Path, overrides: dict | None = None) -> DatasetParams:
    """Read a dataset file. Raises ConfigError that names each bad key."""
    return params_file.load(path, DatasetParams, overrides)
