"""The coding family: recipes of questions over Python codebases, and their contexts."""

import platform
import random
from collections import Counter
from collections.abc import Iterator, Sequence

from ....errors import DataError
from ...sources.codebases import MAX_BYTES, MAX_FILE_BYTES, Codebase, SourceFile, read_codebase
from ...sources.left_out import usable
from ...sources.places import codebase_name
from ..recipe import Recipe, RecipeSplit, sha256
from .analysis import index, read_module
from .compose import Share, draw, files_of, share
from .template import EASY_SHARE, Case, Template, pick
from .templates_class import TEMPLATES as CLASS_TEMPLATES
from .templates_codebase import TEMPLATES as CODEBASE_TEMPLATES
from .templates_file import TEMPLATES as FILE_TEMPLATES
from .templates_function import TEMPLATES as FUNCTION_TEMPLATES
from .twins import LEAST_LINES, twins
from .view import View

TEMPLATES = tuple(sorted((*FILE_TEMPLATES, *FUNCTION_TEMPLATES, *CLASS_TEMPLATES, *CODEBASE_TEMPLATES), key=lambda item: item.id))
HELD_OUT = frozenset({"T04", "T11", "T15", "T18", "T24", "T26"})  # asked in eval only
CONTEXTS_TRIED = 20
FOLDER_SHARE = 0.5  # of the questions that may be limited to a folder of the context
FILES_TRIED = 25  # of a context, for a question on one file


class CodingFamily:
    """Questions over codebases, given as specs. `read_codebase` says what a spec is and what the limits mean.

    Codebases are read when they are first needed. Raises DataError where one is given twice.
    """

    name = "coding"

    def __init__(
        self,
        train: Sequence[str],
        evaluation: Sequence[str],
        *,
        tests: bool = False,
        max_file_bytes: int = MAX_FILE_BYTES,
        max_bytes: int = MAX_BYTES,
    ):
        self.warnings: list[str] = []
        self.notes: list[str] = []
        self._pools: dict[str, list[Codebase]] = {}  # by split, those that can be read
        self._specs: dict[str, dict[str, str]] = {"train": {}, "eval": {}}  # by split: codebase name -> spec
        self._limits = {"tests": tests, "max_file_bytes": max_file_bytes, "max_bytes": max_bytes}
        self._codebases: dict[str, Codebase] = {}
        self._owners: dict[str, str] = {}  # of paths: the codebase
        named: dict[str, str] = {}
        for split, specs in (("train", train), ("eval", evaluation)):
            for spec in specs:
                name = codebase_name(spec)
                if name in named:
                    raise DataError(f"coding: {named[name]!r} and {spec!r} are both called {name!r}; give each codebase once, in one split")
                named[name] = self._specs[split][name] = spec

    def recipes(self, split: RecipeSplit, targets: Sequence[int], seed: int) -> Iterator[Recipe]:
        """One recipe a target, templates in balance. Raises DataError where the codebases give no question."""
        if not self._specs[split]:
            raise DataError(f"coding: no codebase for split {split!r}; give folders, wheels or packages for it")
        pool = self._pool(split)
        templates = [template for template in TEMPLATES if split == "eval" or template.id not in HELD_OUT]
        used, asked = Counter(), set()
        for number, target in enumerate(targets):
            for attempt in range(CONTEXTS_TRIED):
                context_seed = f"{seed}/coding/{split}/{number}/{attempt}"
                shares = draw(pool, target, context_seed)
                found = shares and self._ask(files_of(shares), split, templates, used, asked, random.Random(f"{context_seed}/question"))
                if found:
                    break
            else:
                raise DataError(f"coding: no question found on {split} codebases at {target:,} tokens; give more or larger codebases")
            yield self._recipe(f"coding-{split}-{seed}-{number:04}", split, shares, context_seed, *found)

    def available(self, split: RecipeSplit) -> int:
        """Tokens of all codebases of a split."""
        return sum(file.tokens for codebase in self._pool(split) for file in codebase.files)

    def context(self, recipe: Recipe) -> str:
        """The text of a recipe's context. Raises DataError that names a codebase which is missing or has changed."""
        try:
            seed = recipe.parts["seed"]
            wanted = [(part["name"], part["version"], part["budget"], part["sha256"]) for part in recipe.parts["codebases"]]
        except (KeyError, TypeError):
            raise DataError(f"recipe {recipe.id}: field parts is not one of the coding family; make the recipes again") from None
        return _text(files_of([self._share(recipe, seed, *part) for part in wanted]))

    def _share(self, recipe: Recipe, seed: str, name: str, version: str, budget: int, digest: str) -> Share:
        """A part of a recipe's context, made again."""
        if name not in self._specs["train"] | self._specs["eval"]:
            raise DataError(f"recipe {recipe.id}: codebase {name!r} is not among those given; add it, version {version or 'unknown'}")
        codebase = self._codebase(name)
        if codebase.version != version:
            raise DataError(
                f"recipe {recipe.id}: codebase {name!r} has version {codebase.version or 'unknown'}, the recipe was made of "
                f"{version or 'unknown'}; give that version or make the recipes again"
            )
        found = share(codebase, budget, seed)
        if found.sha256 != digest:
            raise DataError(
                f"recipe {recipe.id}: the files of codebase {name!r} are not those it was made of; give the same files, limits and "
                f"Python ({recipe.metadata.get('python')}) or make the recipes again"
            )
        return found

    def _pool(self, split: RecipeSplit) -> list[Codebase]:
        """The codebases of a split that can be read. Once both are, what they have in common is noted."""
        if split not in self._pools:
            self._pools[split] = usable(sorted(self._specs[split]), self._codebase, self.warnings)
            for codebase in self._pools[split]:
                self._claim(codebase)
            if len(self._pools) == 2:
                files = ([file for codebase in self._pools[side] for file in codebase.files] for side in ("train", "eval"))
                found = twins(*files)
                self.notes += [f"functions of {LEAST_LINES} lines or more in both splits: {len(found)} ({found[0]})"] if found else []
        return self._pools[split]

    def _claim(self, codebase: Codebase):
        """Raises DataError where a file is in another codebase too."""
        for file in codebase.files:
            owner = self._owners.setdefault(file.path, codebase.name)
            if owner != codebase.name:
                raise DataError(f"coding: {file.path} is in codebases {owner!r} and {codebase.name!r}; give only one of them")

    def _codebase(self, name: str) -> Codebase:
        if name not in self._codebases:
            codebase = read_codebase((self._specs["train"] | self._specs["eval"])[name], facts=index, **self._limits)
            self.notes += [f"{name} {codebase.version}".strip() + f": left out {line}" for line in codebase.left_out]
            self._codebases[name] = codebase
        return self._codebases[name]

    def _ask(
        self, files, split: RecipeSplit, templates, used: Counter, asked: set, rng: random.Random
    ) -> tuple[Template, Case, int] | None:
        """A template, a case and a phrasing: of the template that is most behind its share and has a case here."""
        digest = sha256("\n".join(file.path for file in files))
        for template in sorted(templates, key=lambda item: (used[item.id] / item.weight, rng.random())):

            def key(case: Case, template=template) -> tuple:
                return (template.id, *sorted(case.target.items()), digest if template.foldered else "")

            case = self._case(template, files, rng, lambda case, key=key: key(case) in asked)
            if case:
                asked.add(key(case))
                used[template.id] += 1
                return template, case, rng.choice(phrasings_of(template, split))
        return None

    def _case(self, template: Template, files: Sequence[SourceFile], rng: random.Random, asked) -> Case | None:
        easy = rng.random() < EASY_SHARE
        if template.of_view:
            view = View({file.path: file.facts for file in files})
            folders = view.folders() if template.foldered and rng.random() < FOLDER_SHARE else []
            return pick(template.of_view(View(view.files, rng.choice(folders)) if folders else view), rng, asked, easy)
        holding = [file for file in files if template.word in file.text]
        for file in rng.sample(holding, min(len(holding), FILES_TRIED)):
            case = pick(template.of_file(read_module(file.path, file.text)), rng, asked, easy)
            if case:
                return case
        return None

    def _recipe(
        self, id_: str, split: RecipeSplit, shares: list[Share], seed: str, template: Template, case: Case, phrasing: int
    ) -> Recipe:
        files = files_of(shares)
        parts = [
            {"name": part.codebase.name, "version": part.codebase.version, "budget": part.budget, "sha256": part.sha256} for part in shares
        ]
        metadata = {
            "template": template.id,
            "held_out_template": template.id in HELD_OUT,
            "target": case.target,
            "phrasing": phrasing,
            "codebases": [{"name": part["name"], "version": part["version"]} for part in parts],
            "files": len(files),
            "python": platform.python_version(),
        }
        return Recipe(
            id=id_,
            family="coding",
            task=template.task,
            split=split,
            question=template.question(case, phrasing),
            answer=case.gold,
            answer_type=template.answer_type,
            parts={"seed": seed, "codebases": parts},
            tokens=sum(file.tokens for file in files),
            sha256=sha256(_text(files)),
            metadata=metadata,
        )


def phrasings_of(template: Template, split: RecipeSplit) -> range:
    """Of a template that both splits ask, the last wording is eval's alone, so that no question stands in both."""
    count = len(template.phrasings)
    if template.id in HELD_OUT:
        return range(count)
    return range(count - 1, count) if split == "eval" else range(count - 1)


def _text(files: Sequence[SourceFile]) -> str:
    return "".join(file.piece for file in files)
