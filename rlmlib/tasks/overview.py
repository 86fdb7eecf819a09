"""Tables of tasks: what the questions are, how long their contexts, how each answer is checked, what the splits share."""

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..answer_types import AnswerType
from ..config import Judge, Params
from ..scoring.static import STATIC_ONLY
from ..tables import brief
from .base import Split
from .mixture import of_families
from .study.recipe import Recipe, sha256
from .study.tokens import count

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ["family", "task", "split", "tokens", "answer_type", "checked_by", "question", "answer", "context"]
SPLITS: tuple[Split, ...] = ("train", "heldout")
ANSWER_CHARS = 40  # shown: lists of names can be long
QUARTILES = {"min": "shortest", "25%": "25 %", "50%": "median", "75%": "75 %", "max": "longest"}


def of_offline(params: Params, number: int, seed: int) -> "pd.DataFrame":
    """`number` examples of the offline families in each split, one row each. context: its sha256. seconds: what it took to build."""
    import pandas as pd

    rows = []
    for split in SPLITS:
        for index in range(number):
            began = time.perf_counter()
            made = of_families(params.tasks, split, index, seed)
            seconds = time.perf_counter() - began
            kind = "number" if made.answer.isdigit() else "text"
            checked = checked_by(made.answer_type, made.family, params.judge)
            texts = (made.question, made.answer, sha256(made.context))
            rows.append((made.family, made.task, split, count(made.context), kind, checked, *texts, seconds))
    return pd.DataFrame(rows, columns=[*COLUMNS, "seconds"])


def of_recipes(recipes: Iterable[Recipe], params: Params) -> "pd.DataFrame":
    """The recipes of a built data set, one row each. context: its sha256."""
    import pandas as pd

    rows = []
    for recipe in recipes:
        checked = checked_by(recipe.answer_type, recipe.family, params.judge)
        texts = (recipe.question, recipe.answer, recipe.sha256)
        rows.append((recipe.family, recipe.task, recipe.split, recipe.tokens, recipe.answer_type, checked, *texts))
    return pd.DataFrame(rows, columns=COLUMNS)


def checked_by(answer_type: AnswerType | None, family: str, judge: Judge) -> str:
    """How training and evaluation check an answer: an exact match or the rule of its type, and a judge for what that leaves open."""
    rule = "exact match" if answer_type is None else "rule of its type"
    judged = judge.engine != "none" and family in judge.families and answer_type not in STATIC_ONLY
    return f"{rule}, then the judge" if judged else rule


def lengths(frame: "pd.DataFrame") -> "pd.DataFrame":
    """Context lengths in tokens, a row a family and one for all."""
    found = frame.groupby("family")["tokens"].describe()
    found.loc["all"] = frame["tokens"].describe()
    return found[["count", *QUARTILES]].round().astype(int).rename(columns={"count": "examples", **QUARTILES}).reset_index()


def samples(frame: "pd.DataFrame", seed: int = 0) -> "pd.DataFrame":
    """One question of each task, with the first ANSWER_CHARS of its gold answer."""
    chosen = frame.groupby(["family", "task"]).sample(1, random_state=seed)
    answers = [brief(answer, ANSWER_CHARS) for answer in chosen["answer"]]
    return chosen.assign(answer=answers)[["family", "task", "answer_type", "question", "answer"]].reset_index(drop=True)


def checking(frame: "pd.DataFrame") -> "pd.DataFrame":
    """How many answers of each type there are, and how they are checked."""
    return frame.groupby(["family", "answer_type", "checked_by"]).size().rename("examples").reset_index()


def build_seconds(frame: "pd.DataFrame") -> "pd.DataFrame":
    """Seconds to build an example, a row a family. frame: of `of_offline`."""
    found = frame.groupby("family")["seconds"].agg(["count", "median", "max"])
    return found.rename(columns={"count": "examples", "median": "median seconds", "max": "longest, seconds"}).reset_index()


def splits(frame: "pd.DataFrame") -> "pd.DataFrame":
    """What each split holds, and how many of its examples have a task, a question or a context that another split has too."""
    import pandas as pd

    rows = []
    for (split, family), part in frame.groupby(["split", "family"], sort=False):
        other = frame[frame["split"] != split]
        shared = {f"{what} elsewhere": int(part[what].isin(set(other[what])).sum()) for what in ("task", "question", "context")}
        rows.append({"split": split, "family": family, "examples": len(part), "tasks": part["task"].nunique(), **shared})
    return pd.DataFrame(rows).sort_values(["split", "family"], ascending=[False, True], ignore_index=True)
