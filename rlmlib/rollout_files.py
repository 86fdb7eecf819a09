"""The rollouts files of a run: which there are, which rollouts in them one asks for, and pairs of two files on the same questions.

A row is a line of such a file, as engine.row writes it. Files are read one at a time: one of a large run has many megabytes.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .errors import RunError
from .harness.export import from_dict
from .harness.trajectory import Rollout
from .runs import RunDir, read_jsonl
from .viewer import line

if TYPE_CHECKING:
    import pandas as pd

OUTCOMES = ("right", "wrong", "missing", "forced", "error")
Pair = tuple[dict, dict]  # of the same question and attempt: before, after

# name -> what it sorts by; the first keeps the order of the file
ORDERS: dict[str, Callable[[dict], object]] = {
    "file": lambda r: 0,
    "outcome": lambda r: OUTCOMES.index(marks(r)[0]),
    "leaf tokens": lambda r: r["leaf_tokens"],
    "all tokens": lambda r: r["total_tokens"],
    "turns": lambda r: len(r["turns"]),
    "depth": lambda r: depth(r),
    "family": lambda r: (r["family"], r["task"]),
    "question": lambda r: (r["example"], r["index"]),
}


@dataclass(frozen=True)
class Choice:
    """Which rollouts one asks for; an empty word or None takes all. outcome: one of OUTCOMES. depth: levels of children below.

    text: in question, answer or gold answer, in any case.
    """

    outcome: str = ""
    family: str = ""
    task: str = ""
    split: str = ""
    depth: int | None = None
    leaf: bool | None = None
    text: str = ""


EVERYTHING = Choice()


def files(run: RunDir) -> list[str]:
    """Names of the files below the run's directory: evaluations, then steps in their order."""
    found = [str(p.relative_to(run.path)) for pattern in ("eval/*/*.jsonl", "rollouts/*.jsonl") for p in run.path.glob(pattern)]
    return sorted(found, key=lambda name: [(part.isdigit(), part.zfill(9)) for part in re.split(r"(\d+)", name)])


def load(run: RunDir, name: str) -> list[dict]:
    """All rows of a file. Raises RunError where there is none, or it is damaged."""
    if not (run / name).is_file():
        there = ", ".join(files(run)[:5]) or "none yet; train or evaluate first"
        raise RunError(f"{run / name}: there is no such file of rollouts; there are {there}")
    return read_jsonl(run / name)


def marks(row: dict) -> list[str]:
    """What came of a rollout: one of right, wrong, missing and error; and forced, where the answer came only when demanded."""
    if row["error"] is not None:
        return ["error"]
    told = "missing" if row["missing"] else "right" if row["correct"] else "wrong"
    return [told, "forced"] if row["forced"] else [told]


def depth(row: dict) -> int:
    """Levels of children that a rollout started: 0 where it started none."""
    below = [call["child"] for turn in row["turns"] for call in turn["calls"] if call.get("child")]
    return max((1 + depth(child) for child in below), default=0)


def matches(row: dict, choice: Choice) -> bool:
    if choice.outcome and choice.outcome not in marks(row):
        return False
    if any(wanted and row[key] != wanted for key, wanted in (("family", choice.family), ("task", choice.task), ("split", choice.split))):
        return False
    if choice.leaf is not None and (row["leaf_calls"] > 0) != choice.leaf:
        return False
    if choice.depth is not None and depth(row) != choice.depth:
        return False
    text = choice.text.casefold()
    return not text or any(text in (row[key] or "").casefold() for key in ("question", "answer", "gold"))


def chosen(rows: Sequence[dict], choice: Choice = EVERYTHING, order: str = "file", down: bool = False) -> list[dict]:
    """The rows that one asks for, sorted; equal ones stay in the order of the file. order: a key of ORDERS; down: largest first."""
    return sorted((row for row in rows if matches(row, choice)), key=ORDERS[order], reverse=down)


def pairs(before: Sequence[dict], after: Sequence[dict]) -> list[Pair]:
    """Attempts at the same question (example, index and the question itself), in the order of `before`; the first of equal ones."""
    second, found = {}, {}
    for row in after:
        second.setdefault(_key(row), row)
    for row in before:
        if _key(row) in second:
            found.setdefault(_key(row), (row, second[_key(row)]))
    return list(found.values())


def _key(row: dict) -> tuple:
    return row["example"], row["index"], row["question"]  # another seed or data set may give its ids to other questions


def chosen_pairs(found: Sequence[Pair], choice: Choice, after: str = "", order: str = "file", down: bool = False) -> list[Pair]:
    """Pairs whose first rollout one asks for and whose second has the outcome `after`; sorted by the first."""
    kept = [pair for pair in found if matches(pair[0], choice) and (not after or after in marks(pair[1]))]
    return sorted(kept, key=lambda pair: ORDERS[order](pair[0]), reverse=down)


def values(rows: Sequence[dict], key: str) -> list:
    """What a filter may choose from."""
    return sorted({depth(row) if key == "depth" else row[key] for row in rows})


def cells(row: dict) -> dict[str, str | int]:
    """A rollout in a line of a list: every text short, in one line and without characters that could disturb it."""
    return {
        "outcome": ", ".join(marks(row)),
        "leaf tokens": row["leaf_tokens"],
        "turns": len(row["turns"]),
        "family": line(row["family"], 14),
        "answer": "" if row["answer"] is None else line(row["answer"], 24),
        "gold": line(row["gold"] or "", 24),
        "question": line(row["question"], 80),
    }


def pair_cells(pair: Pair) -> dict[str, str | int]:
    """The same of a pair: what differs as 'before → after'."""
    before, after = map(cells, pair)
    changed = {"outcome": f"{before['outcome']} → {after['outcome']}"}
    changed |= {key: f"{before[key]:,} → {after[key]:,}" for key in ("leaf tokens", "turns")}
    answers = {"answer": before["answer"], "then": after["answer"]}
    return {**changed, "family": before["family"], **answers, "gold": before["gold"], "question": before["question"]}


def frame(found: Sequence[dict] | Sequence[Pair]) -> "pd.DataFrame":
    """Rollouts, or pairs of them, as a table of their cells."""
    import pandas as pd

    return pd.DataFrame([pair_cells(item) if isinstance(item, tuple) else cells(item) for item in found])


def rollout(row: dict) -> Rollout:
    """The trajectory in a row. Raises RunError."""
    return from_dict(row)


def context(run: RunDir, row: dict) -> str | None:
    """The context that a rollout read, where the run kept it."""
    path = run / f"contexts/{row['context']}.txt"
    if not re.fullmatch(r"[0-9a-f]+", row["context"] or "") or not path.is_file():
        return None
    return path.read_text(encoding="utf-8", errors="surrogatepass")
