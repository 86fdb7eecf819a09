"""Tables of tasks: what the questions of a data set are, how long their contexts, how each is checked."""

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..config import Tasks
from .base import Split
from .mixture import of_families
from .study.recipe import Recipe
from .study.tokens import count

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ["family", "task", "split", "tokens", "answer_type", "checked_by", "question", "answer", "seconds"]


def of_offline(config: Tasks, split: Split, number: int, seed: int) -> "pd.DataFrame":
    """`number` examples of the offline families, one row each with the seconds that it took to build."""
    import pandas as pd

    rows = []
    for index in range(number):
        began = time.perf_counter()
        made = of_families(config, split, index, seed)
        seconds = time.perf_counter() - began
        kind = "number" if made.answer.isdigit() else "text"
        rows.append((made.family, made.task, split, count(made.context), kind, "exact match", made.question, made.answer, seconds))
    return pd.DataFrame(rows, columns=COLUMNS)


def of_recipes(recipes: Iterable[Recipe]) -> "pd.DataFrame":
    """The recipes of a built data set; the seconds are of the whole build and not known of each."""
    import pandas as pd

    checked = {True: "static, then the judge", False: "static only"}
    rows = [
        (r.family, r.task, r.split, r.tokens, r.answer_type, checked[bool(r.metadata.get("judge"))], r.question, r.answer, float("nan"))
        for r in recipes
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def lengths(frame: "pd.DataFrame") -> "pd.DataFrame":
    """Context lengths in tokens, a row a family and one for all."""
    found = frame.groupby("family")["tokens"].describe(percentiles=[0.25, 0.5, 0.75]).rename(columns={"50%": "median"})
    found.loc["all"] = frame["tokens"].describe().rename({"50%": "median"})
    return found[["count", "min", "25%", "median", "75%", "max"]].round().astype(int)


def samples(frame: "pd.DataFrame", seed: int = 0) -> "pd.DataFrame":
    """One question of each task, with its gold answer."""
    chosen = frame.groupby(["family", "task"]).sample(1, random_state=seed)
    return chosen[["family", "task", "question", "answer", "answer_type", "checked_by"]].reset_index(drop=True)
