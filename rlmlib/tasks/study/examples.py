"""A built data set as examples for training and evaluation."""

import functools
import json
import random
from pathlib import Path

from ...errors import ConfigError, DataError
from ...notebook import resolve
from ...params_file import validate
from ..base import Example, Split
from .families import Families
from .params import DatasetParams
from .recipe import Recipe
from .store import Context, ContextStore, read_recipes


def example(folder: str, split: Split, index: int, seed: int) -> Example:
    """The index-th example of a split in an order of `seed`; from the start again where there are no more.

    heldout: the data set's evaluation examples. Raises ConfigError for `seen`, which it does not have, DataError without a data set.
    """
    if split == "seen":
        raise ConfigError("evaluation.seen_examples: must be 0 with tasks.dataset, which has no questions of that kind")
    recipes, contexts = _opened(resolve(folder), "train" if split == "train" else "eval", seed)
    recipe = recipes[index % len(recipes)]
    return Example(
        id=recipe.id,
        family=recipe.family,
        task=recipe.task,
        split=split,
        question=recipe.question,
        source=Context(contexts, recipe),
        answer=recipe.answer,
        acceptable=recipe.acceptable,
        answer_type=recipe.answer_type,
    )


@functools.lru_cache(maxsize=4)
def _opened(folder: Path, split: str, seed: int) -> tuple[list[Recipe], ContextStore]:
    recipes = [recipe for recipe in read_recipes(folder) if recipe.split == split]
    if not recipes:
        raise DataError(f"{folder}: has no examples of split {split}; build the data set again")
    random.Random(f"{seed}/{split}").shuffle(recipes)
    return recipes, _contexts(folder)


@functools.lru_cache(maxsize=4)
def _contexts(folder: Path) -> ContextStore:
    return ContextStore(folder, Families(built_params(folder), folder / "cache"))


def built_params(folder: Path) -> DatasetParams:
    """The parameters that a data set was built from. Raises DataError, or ConfigError for those of another version."""
    path = folder / "params.json"
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read ({type(error).__name__}); `make dataset` writes it") from None
    return validate(values, DatasetParams, str(path))
