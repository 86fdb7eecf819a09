"""A built dataset on disk: its recipes, and contexts that are built when asked for and then kept."""

import dataclasses
import gzip
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ...errors import DataError, RunError
from ...runs import read_jsonl, rewrite_jsonl, writing
from .recipe import Family, Recipe, sha256

RECIPES = "recipes.jsonl"
LEVEL = 1  # of gzip: a third of the size at 100 MB a second
RECENT = 8  # contexts kept in memory: the rollouts of a group ask for theirs one after another


def write_recipes(folder: Path, recipes: list[Recipe]):
    rewrite_jsonl(folder / RECIPES, (dataclasses.asdict(recipe) for recipe in recipes))


def read_recipes(folder: Path) -> list[Recipe]:
    """All recipes of a dataset. Raises DataError where there is none, or one that is not as `make dataset` writes it."""
    path = folder / RECIPES
    if not path.exists():
        raise DataError(f"{path}: is not there; `make dataset` builds it")
    try:
        return [recipe_of(row) for row in read_jsonl(path, whole=True)]
    except (TypeError, KeyError, RunError) as error:
        raise DataError(f"{path}: is not a recipes file ({error}); `make dataset` writes it again from its parts") from None


def recipe_of(row: dict) -> Recipe:
    """A recipe from its row of JSON."""
    return Recipe(**{**row, "acceptable": tuple(row["acceptable"])})


class ContextStore:
    """Contexts by recipe. A file DIR/contexts/HASH.txt.gz is kept of each unless `keep` is False; its hash is checked either way.

    The last RECENT ones are kept in memory. Threads and processes may share a folder.
    """

    def __init__(self, folder: Path, families: Mapping[str, Family], keep: bool = True):
        self.folder, self.families, self.keep = folder / "contexts", families, keep
        self._recent: dict[str, str] = {}
        self._lock = threading.Lock()

    def text(self, recipe: Recipe) -> str:
        """The context of a recipe. Raises DataError where the sources have changed since it was made."""
        with self._lock:
            text = self._recent.pop(recipe.sha256, None) or self._read_or_built(recipe)
            self._recent[recipe.sha256] = text
            while len(self._recent) > RECENT:
                del self._recent[next(iter(self._recent))]
            return text

    def texts(self, recipes: list[Recipe]) -> Iterator[tuple[Recipe, str]]:
        return ((recipe, self.text(recipe)) for recipe in recipes)

    def _read_or_built(self, recipe: Recipe) -> str:
        path = self.folder / f"{recipe.sha256}.txt.gz"
        text = self._kept(path, recipe)
        if text is None:
            text = self.families[recipe.family].context(recipe)
            if sha256(text) != recipe.sha256:
                raise DataError(f"{recipe.id}: its sources give another context than when it was made; build the dataset again")
            if self.keep:
                self._write(path, text)
        return text

    def _kept(self, path: Path, recipe: Recipe) -> str | None:
        try:
            with gzip.open(path, "rt", encoding="utf-8", errors="surrogatepass", newline="") as file:
                text = file.read()
        except (OSError, EOFError, UnicodeDecodeError):  # not there, or cut short: it is built again
            return None
        return text if sha256(text) == recipe.sha256 else None

    def _write(self, path: Path, text: str):
        unfinished = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with gzip.open(unfinished, "wt", encoding="utf-8", errors="surrogatepass", newline="", compresslevel=LEVEL) as file:
                file.write(text)
            unfinished.replace(path)


@dataclass(frozen=True)
class Context:
    """The context of a recipe, for whoever calls it."""

    store: ContextStore
    recipe: Recipe = field(hash=False)

    def __call__(self) -> str:
        return self.store.text(self.recipe)
