"""The aggregation family: recipes over labelled sets, and the contexts that they stand for."""

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence

from ....answer_types import AnswerType
from ....errors import ConfigError, DataError
from ...sources.classification import LabelledSet
from ...sources.left_out import usable
from ..recipe import Recipe, RecipeSplit, sha256
from .pool import SEPARATOR, Pool
from .questions import draw_question
from .records import FEWEST, context, fill, header_tokens, mean_line_tokens, posts
from .tally import Reading, Tally
from .wording import Kind, Variant, ask

Shares = Mapping[Variant, float]

SHARES: Shares = {"shown": 0.34, "hidden": 0.33, "semantic": 0.33}
ANSWER_TYPES: dict[Kind, AnswerType] = {
    "number": "number",
    "label": "label",
    "user": "label",
    "date": "date",
    "month": "date",
    "comparison": "label",
    "choice": "choice",
}
LINES_A_USER = (3.2, 20.0)  # mean, drawn in this range
MOST_TIMES = 16  # that a text stands in one context, on average, each time with a user and a date of its own
FEWEST_USERS, MOST_USERS = 5, 50_000


class AggregationFamily:
    """Questions over one set each. Every text belongs to training or to evaluation for good, by its hash and `seed`.

    labels: shares of the variants: written in the lines ("shown"), listed but not written ("hidden"), or not even named
    ("semantic"). exact: records whose labels must be read for an exact number, at most, where they are not written. lead: of the
    most frequent one over the next there, as a share, for one who errs in a few records is to find it still.
    """

    name = "aggregation"

    def __init__(self, sets: Sequence[LabelledSet], labels: Shares = SHARES, seed: int = 0, exact: int = 200, lead: float = 0.1):
        unknown = [variant for variant in labels if variant not in SHARES]
        if unknown or min(labels.values(), default=0) < 0 or sum(labels.values()) <= 0:
            raise ConfigError(f"aggregation: labels {dict(labels)} are no shares of {', '.join(SHARES)}; give each 0 or more")
        if exact < 1 or lead < 0:
            raise ConfigError(f"aggregation: exact {exact} and lead {lead} do not fit; set exact to 1 or more, lead to 0 or more")
        if not sets:
            raise DataError("aggregation: has no labelled set; name one or more")
        if len({labelled.name for labelled in sets}) < len(sets):
            raise ConfigError("aggregation: two sets have the same name; give each its own")
        self.labels, self.seed = dict(labels), seed
        self.readings: dict[Variant, Reading] = {"shown": Reading(), "hidden": Reading(exact, lead), "semantic": Reading(exact, lead)}
        self.warnings: list[str] = []
        self.notes = [note for labelled in sets for note in labelled.left_out]
        self._pools: dict[tuple[str, RecipeSplit, int], Pool] = {}
        self.sets = {labelled.name: labelled for labelled in sets}
        self.sets = {labelled.name: labelled for labelled in usable(sets, self._checked, self.warnings)}

    def recipes(self, split: RecipeSplit, targets: Sequence[int], seed: int) -> Iterator[Recipe]:
        """One recipe a target, in order. Large targets go to sets with many records or long ones rather than to small sets."""
        for index, target in enumerate(targets):
            yield self._recipe(split, index, target, seed)

    def available(self, split: RecipeSplit) -> int:
        """Tokens of the largest set, times how often a text may come again."""
        return round(MOST_TIMES * max(held(self._pool(name, split, self.seed)) for name in self.sets))

    def context(self, recipe: Recipe) -> str:
        """The text of a recipe's context. Raises DataError where its set is not there or another one."""
        parts = recipe.parts
        labelled = self.sets.get(parts["set"])
        if labelled is None:
            raise DataError(f"{recipe.id}: its set {parts['set']} is not there; add it, or build the dataset again")
        if labelled.sha256 != parts["set_sha256"]:
            raise DataError(f"{recipe.id}: its set {labelled.name} has changed since; restore it, or build the dataset again")
        pool = self._pool(labelled.name, recipe.split, parts["split_seed"])
        drawn = list(itertools.islice(posts(pool, parts["seed"], parts["users"]), parts["records"]))
        return context(pool, drawn, parts["variant"])

    def _recipe(self, split: RecipeSplit, index: int, target: int, seed: int) -> Recipe:
        drawn_from = f"{seed}/aggregation/{split}/{index}"
        rng = random.Random(f"{drawn_from}/plan")
        (variant,) = rng.choices(list(SHARES), [self.labels.get(variant, 0) for variant in SHARES])
        pool = self._choose(split, variant, target, rng)
        users = round(target / mean_line_tokens(pool) / rng.uniform(*LINES_A_USER))
        users = min(MOST_USERS, max(FEWEST_USERS, users))
        drawn, tokens = fill(pool, drawn_from, users, variant, target)
        tally = Tally(drawn, pool.labels)
        question = draw_question(tally, variant, self.readings[variant], rng)
        if question is None:
            raise DataError(f"{pool.set.name}: no question has a clear answer over {len(drawn)} records; leave the set out")
        task, found = question
        return Recipe(
            id=f"aggregation-{split}-{index:05d}",
            family="aggregation",
            task=task.name,
            split=split,
            question=ask(task.name, task.answer, found.arguments, pool.set.known, variant, split, rng),
            answer=found.answer,
            answer_type=ANSWER_TYPES[task.answer],
            acceptable=found.acceptable,
            parts={
                "set": pool.set.name,
                "set_sha256": pool.set.sha256,
                "split_seed": self.seed,
                "seed": drawn_from,
                "variant": variant,
                "users": users,
                "records": len(drawn),
            },
            tokens=tokens,
            sha256=sha256(context(pool, drawn, variant)),
            metadata={
                "judge": False,
                "set": pool.set.name,
                "variant": variant,
                "task_group": task.group,
                "asked": {"task": task.name, **found.arguments},
                "n_records": len(drawn),
                "n_users": len(tally.users),
            },
        )

    def _choose(self, split: RecipeSplit, variant: Variant, target: int, rng: random.Random) -> Pool:
        """A set, the likelier the less its texts must be repeated; one that is too small or too wordy only for want of others."""
        pools = [self._pool(name, split, self.seed) for name in self.sets]
        ranges = [(header_tokens(pool, variant, FEWEST) + FEWEST * mean_line_tokens(pool), MOST_TIMES * held(pool)) for pool in pools]
        chances = [
            min(1.0, held(pool) / target) if shortest <= target <= longest else 0.0
            for pool, (shortest, longest) in zip(pools, ranges, strict=True)
        ]
        if any(chances):
            return rng.choices(pools, chances)[0]
        misses = [max(shortest - target, target - longest) for shortest, longest in ranges]
        return pools[misses.index(min(misses))]

    def _pool(self, name: str, split: RecipeSplit, seed: int) -> Pool:
        key = (name, split, seed)
        if key not in self._pools:
            self._pools[key] = Pool(self.sets[name], split, seed)
        return self._pools[key]

    def _checked(self, labelled: LabelledSet) -> LabelledSet:
        """The set. Raises DataError for one that cannot be asked about; notes what is left out of it."""
        if any(SEPARATOR in label for label in labelled.labels):
            raise DataError(f"{labelled.name}: a label holds {SEPARATOR!r}, which separates the parts of a line; rename it")
        if held := sum(SEPARATOR in record.text for record in labelled.records):
            self.notes.append(f"{labelled.name}: {held} texts not used that hold {SEPARATOR!r}")
        for split in ("train", "eval"):
            pool = self._pool(labelled.name, split, self.seed)
            if len(pool.labels) < 2:
                raise DataError(f"{labelled.name}: has {pool.size} records of {len(pool.labels)} labels for {split}; use a larger set")
            if absent := [label for label in labelled.labels if label not in pool.labels]:
                self.notes.append(f"{labelled.name}: no records for {split} of the labels {', '.join(absent)}")
        return labelled


def held(pool: Pool) -> float:
    """Tokens of the lines of all records, about."""
    return pool.size * mean_line_tokens(pool)
