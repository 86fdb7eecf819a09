"""One way to all benchmarks: their names, and the items of each."""

import inspect
from collections.abc import Iterator
from pathlib import Path

from ...errors import ConfigError
from . import browsecomp, codeqa, niah, oolong, oolong_pairs
from .base import BenchmarkItem

LOADERS = {
    "s_niah": niah.load,
    "oolong": oolong.load,
    "oolong_pairs": oolong_pairs.load,
    "codeqa": codeqa.load,
    "browsecomp_plus": browsecomp.load,
}


def load(name: str, source: str | Path | None = None, limit: int | None = None, seed: int = 0, **options) -> Iterator[BenchmarkItem]:
    """Items of a benchmark, in a fixed order, built as they are asked for.

    source: "hub", a file or folder in the authors' layout, or None for what is generated. limit: items of each length, or of
    the set where it has no lengths; a sample by seed. options: see `load` of the benchmark's module.
    Raises ConfigError for another name or option, DataError for a source that cannot be used.
    """
    if name not in LOADERS:
        raise ConfigError(f"benchmark '{name}' is none; use one of {', '.join(LOADERS)}")
    known = list(inspect.signature(LOADERS[name]).parameters)[3:]
    if unknown := [option for option in options if option not in known]:
        raise ConfigError(f"{name} has no option '{unknown[0]}'; it has {', '.join(known) or 'none'}")
    if limit is not None and limit < 1:
        raise ConfigError(f"limit: {limit} items are none; set 1 or more, or None for all")
    return LOADERS[name](source, limit, seed, **options)
