"""The study's mixture of families, drawn reproducibly: example i of a split is the same everywhere."""

import dataclasses
import functools
import random

from ..config import Tasks
from . import aggregation, coding, research
from .base import Example, Split


def example(config: Tasks, split: Split, index: int, seed: int) -> Example:
    """The index-th example of a split: of the data set where there is one, else of the offline families."""
    if config.dataset:
        from .study.examples import example as of_dataset

        return of_dataset(config.dataset, split, index, seed)
    return _kept(config, split, index, seed)


def of_families(config: Tasks, split: Split, index: int, seed: int) -> Example:
    """Made by an offline family. A pure function of its arguments and the standard library's source."""
    rng = random.Random(f"{seed}/{split}/{index}")
    chars = (config.min_chars, config.max_chars)
    draw = rng.random()
    if draw < config.aggregation:
        made = aggregation.make(rng, split, chars, config.hidden_labels)
    elif draw < config.aggregation + config.research:
        made = research.make(rng, split, chars, config.two_hop)
    else:
        made = coding.make(rng, split, chars)
    return dataclasses.replace(made, id=f"{split}-{index:05d}")


_kept = functools.lru_cache(maxsize=1024)(of_families)  # training draws the same prompts again and again


def examples(config: Tasks, split: Split, count: int, seed: int) -> list[Example]:
    return [example(config, split, index, seed) for index in range(count)]
