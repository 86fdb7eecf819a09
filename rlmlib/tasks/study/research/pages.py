"""The pages that questions are about, found by title."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...sources.documents import Document, Source
from ...sources.frames import tidy_title, title_of
from ...sources.left_out import LeftOut, usable
from .pool import Pool


@dataclass(frozen=True)
class Titled:
    """Those documents of a source that have one of the titles: a few thousand of a whole Wikipedia."""

    source: Source
    titles: frozenset[str]

    @property
    def name(self) -> str:
        return f"the pages in {self.source.name}"

    def fingerprint(self) -> str:
        return hashlib.sha256("\n".join([self.source.fingerprint(), *sorted(self.titles)]).encode()).hexdigest()

    def documents(self, left_out: LeftOut | None = None) -> Iterator[Document]:
        """Under the wanted title: a page may be known by its link where its own title is another."""
        for document in self.source.documents(left_out):
            for title in (document.title, title_of(document.url)):
                if title and tidy_title(title) in self.titles:
                    yield replace(document, title=tidy_title(title))
                    break


class PageStore:
    """The pages with the wanted titles from some sources: dumps, folders, or the pages published with FRAMES.

    Of several pages with one title the first counts, and of several sources the first that has it. warnings: a line for each
    source, or row of one, that could not be used.
    """

    def __init__(self, sources: Sequence[Source], wanted: Iterable[str], cache: str | Path):
        titles = sorted(set(map(tidy_title, wanted)))
        self.warnings: list[str] = []
        self.pools = usable(sources, lambda source: Pool(Titled(source, frozenset(titles)), cache, may_be_empty=True), self.warnings)
        self.warnings += [note for pool in self.pools for note in pool.notes]
        self._places: dict[str, tuple[Pool, int]] = {}
        for pool in self.pools:
            for n, title in pool.titled(titles).items():
                self._places.setdefault(title, (pool, n))

    def __contains__(self, title: str) -> bool:
        return tidy_title(title) in self._places

    def tokens(self, titles: Sequence[str]) -> int:
        """Of these pages together, headings included. Raises KeyError for one that is not there."""
        return sum(int(pool.tokens[n]) for pool, n in self._of(titles))

    def pieces(self, titles: Sequence[str]) -> list[str]:
        """These pages as pieces of a context. Raises KeyError for one that is not there."""
        return [pool.pieces([n])[0] for pool, n in self._of(titles)]

    def _of(self, titles: Sequence[str]) -> list[tuple[Pool, int]]:
        return [self._places[tidy_title(title)] for title in titles]
