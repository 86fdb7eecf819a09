"""The deep research family: FRAMES questions with their pages, or questions over generated pages, among distractors."""

import dataclasses
import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ....errors import DataError
from ...sources.documents import Source
from ...sources.frames import FramesRow, tidy_title, titles, unresolved
from ...sources.left_out import usable
from .. import tokens
from ..recipe import Recipe, RecipeSplit, sha256
from .drown import Distractors, arranged
from .frames_questions import answer_type, splits
from .generated import WorldSpec, world_size
from .kinds import HELD_OUT
from .pages import PageStore
from .pool import Pool
from .questions import Question

QUESTIONS = "the FRAMES questions"  # as a source: their pages are no distractors


@dataclass(frozen=True)
class Asked:
    """A question with the pages that go with it, before distractors are added. fields: those of the recipe, as given there."""

    pieces: list[str]
    tokens: int
    parts: dict
    metadata: dict
    fields: dict


class ResearchFamily:
    """Recipes and contexts of deep research.

    frames, pages: questions and the store of their pages; without them, and where they run out, questions are generated.
    distractors: sources of other pages. cache: folder for their token counts. longest: tokens of the longest context to come.
    near: share of the target that the generated world takes, whose other pages are the near distractors.
    redirects: of Wikipedia titles and links, see `titles`.
    """

    name = "research"

    def __init__(
        self,
        frames: Sequence[FramesRow] | None = None,
        pages: PageStore | None = None,
        distractors: Sequence[Source] = (),
        *,
        cache: str | Path,
        longest: int = 2_000_000,
        near: float = 0.1,
        redirects: Mapping[str, str] | None = None,
    ):
        if not distractors:
            raise DataError("research: no distractors; give at least one source of pages")
        if frames and pages is None:
            raise DataError("research: frames without pages; give a PageStore of their pages, or leave frames out")
        self.notes: list[str] = []
        self._longest, self._near, self._pages = longest, near, pages
        self.warnings = list(pages.warnings) if pages else []
        pools = usable(distractors, lambda source: Pool(source, cache), self.warnings)
        self.warnings += [note for pool in pools for note in pool.notes]
        self._titles = {row.id: titles(row, redirects) for row in frames or ()}
        self._splits = splits(self._titles)
        self._rows = [row for row in frames or () if self._complete(row, redirects)]
        barred = sorted({title for found in self._titles.values() for title in found})
        self._distractors = Distractors(pools, barred, longest)
        self._sources = self._fingerprints(pools, barred)
        self._note(len(frames or ()))

    def available(self, split: RecipeSplit) -> int:
        """Tokens of all the distractors that a split may use: no context can be longer than these and its own pages."""
        return self._distractors.available(self._distractors.side(split))

    def recipes(self, split: RecipeSplit, targets: Sequence[int], seed: int) -> Iterator[Recipe]:
        """One recipe a target. Each FRAMES question is used once, with a target that its pages fit in."""
        most = max(targets, default=0)
        if most > self._longest:
            raise DataError(f"research: target of {most:,} tokens is above longest, {self._longest:,}; raise longest")
        if most > self.available(split):
            raise DataError(f"research: {split} distractors hold {self.available(split):,} tokens, a target is {most:,}; add a source")
        return self._recipes(split, targets, seed)

    def context(self, recipe: Recipe) -> str:
        """The text of a recipe's context. Raises DataError that names a source which is missing or has changed."""
        parts = recipe.parts
        self._check_sources(recipe)
        own = _pages_of_world(parts["world"]) if "world" in parts else self._pages.pieces(parts["gold"])
        numbers = self._distractors.draw(parts["side"], parts["budget"], f"{parts['seed']}/distractors")
        text = arranged(own, self._distractors.pieces(numbers), f"{parts['seed']}/places")
        if sha256(text) != recipe.sha256:
            raise DataError(f"recipe {recipe.id}: this version of rlmlib builds another context; make the recipes again")
        return text

    def _recipes(self, split: RecipeSplit, targets: Sequence[int], seed: int) -> Iterator[Recipe]:
        rows = self._matched(split, targets, seed)
        generated = 0
        for number, target in enumerate(targets):
            place = f"{seed}/research/{split}/{number}"
            if number in rows:
                asked = self._of_frames(rows[number])
            else:
                asked = self._of_world(split, generated, target, place)
                generated += 1
            yield self._drowned(f"research-{split}-{seed}-{number:05}", split, asked, target, place)

    def _matched(self, split: RecipeSplit, targets: Sequence[int], seed: int) -> dict[int, FramesRow]:
        """A FRAMES question for each place in `targets` that one fits, as long as there are any."""
        rng = random.Random(f"{seed}/research/{split}/frames")
        rows = [row for row in self._rows if self._splits[row.id] == split]
        places = list(range(len(targets)))
        rng.shuffle(rows)
        rng.shuffle(places)
        sizes = {row.id: self._pages.tokens(self._titles[row.id]) for row in rows}
        matched: dict[int, FramesRow] = {}
        for place in places:
            fitting = next((i for i, row in enumerate(rows) if sizes[row.id] <= targets[place]), None)
            if fitting is not None:
                matched[place] = rows.pop(fitting)
        return matched

    def _of_frames(self, row: FramesRow) -> Asked:
        gold = list(self._titles[row.id])
        return Asked(
            pieces=self._pages.pieces(gold),
            tokens=self._pages.tokens(gold),
            parts={"question": row.id, "gold": gold},
            metadata={"generated": False, "judge": True, "reasoning_types": list(row.reasoning_types)},
            fields={
                "task": "frames",
                "question": row.prompt,
                "answer": row.answer,
                "answer_type": answer_type(row.prompt, row.answer),
            },
        )

    def _of_world(self, split: RecipeSplit, number: int, target: int, place: str) -> Asked:
        spec, question, pieces = self._asked_world(split, number, target, place)
        held_out = question.kind in HELD_OUT
        return Asked(
            pieces=pieces,
            tokens=sum(map(tokens.count, pieces)),
            parts={"world": dataclasses.asdict(spec), "gold": list(question.gold)},
            metadata={
                "generated": True,
                "judge": False,
                "held_out_template": held_out,
                "hops": question.hops,
                "query": question.query,
                "world_pages": spec.pages,
            },
            fields={
                "task": question.kind,
                "question": question.text,
                "answer": question.answer,
                "answer_type": question.answer_type,
                "acceptable": question.acceptable,
            },
        )

    def _asked_world(self, split: RecipeSplit, number: int, target: int, place: str) -> tuple[WorldSpec, Question, list[str]]:
        """The first world of this place that a question can be asked about, and its pages."""
        for attempt in itertools.count():
            spec = WorldSpec(split, f"{place}/world/{attempt}", world_size(round(self._near * target)))
            world = spec.world()
            if question := spec.question(world, number):
                return spec, question, spec.pieces(world)

    def _drowned(self, id_: str, split: RecipeSplit, asked: Asked, target: int, place: str) -> Recipe:
        """The recipe, with distractors up to the target."""
        side, budget = self._distractors.side(split), target - asked.tokens
        numbers = self._distractors.draw(side, budget, f"{place}/distractors")
        text = arranged(asked.pieces, self._distractors.pieces(numbers), f"{place}/places")
        gold = asked.parts["gold"]
        return Recipe(
            id=id_,
            family="research",
            split=split,
            parts=asked.parts | {"seed": place, "side": side, "budget": budget, "distractors": len(numbers), "sources": self._sources},
            tokens=asked.tokens + self._distractors.tokens(numbers),
            sha256=sha256(text),
            metadata=asked.metadata
            | {"n_pages": len(gold), "gold_pages": gold, "distractors": len(numbers), "shared_distractors": self._distractors.shared},
            **asked.fields,
        )

    def _complete(self, row: FramesRow, redirects: Mapping[str, str] | None) -> bool:
        return not unresolved(row, redirects) and all(title in self._pages for title in self._titles[row.id])

    def _fingerprints(self, pools: Sequence[Pool], barred: Sequence[str]) -> dict[str, str]:
        """Of each source, by its name."""
        found: dict[str, str] = {}
        for pool in [*pools, *(self._pages.pools if self._rows else ())]:
            if found.setdefault(pool.name, pool.fingerprint) != pool.fingerprint:
                raise DataError(f"research: two sources are called {pool.name!r}; rename one of the files")
        return found | ({QUESTIONS: sha256("\n".join(map(tidy_title, barred)))} if barred else {})

    def _check_sources(self, recipe: Recipe):
        made_from = recipe.parts["sources"]
        for name in [*made_from, *self._sources]:
            made, now = made_from.get(name), self._sources.get(name)
            if now is None:
                raise DataError(f"recipe {recipe.id}: was made from {name}, which is not given; add this source")
            if made is None:
                raise DataError(f"recipe {recipe.id}: was made without {name}; leave this source out")
            if made != now:
                raise DataError(f"recipe {recipe.id}: {name} has changed since (sha256 {made[:12]}, now {now[:12]}); get the old one back")

    def _note(self, frames: int):
        if frames:
            asked = [self._splits[row.id] for row in self._rows]
            self.warnings.append(
                f"frames: {asked.count('train')} questions for train, {asked.count('eval')} for eval; any more are generated"
            )
        if missing := frames - len(self._rows):
            self.warnings.append(f"frames: {missing} of {frames} questions left out, as their pages are not all there")
        if self._distractors.repeated:
            self.notes.append(f"distractors: {self._distractors.repeated} pages left out, as their text came before")
        if self._distractors.barred:
            self.notes.append(f"distractors: {self._distractors.barred} pages left out, as FRAMES questions are about them")
        if self._distractors.shared:
            held = self._distractors.available("shared")
            self.warnings.append(f"distractors: train and eval share them, {held:,} tokens; a split takes {4 * self._longest:,} or more")


def _pages_of_world(world: dict) -> list[str]:
    spec = WorldSpec(**world)
    return spec.pieces(spec.world())
