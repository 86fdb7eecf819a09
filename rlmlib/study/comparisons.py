"""Frames of what sets groups apart: differences to the untrained base, the penalty on and off, families of questions."""

from collections.abc import Sequence
from operator import sub
from typing import TYPE_CHECKING

from .evidence import Evidence, evidence
from .frames import Run, Runs, read_runs, values_of
from .seeds import Values, interval_over_seeds, shared_examples

if TYPE_CHECKING:
    import pandas as pd

HEADLINE = ("lora", "no-penalty", "full", "shown", "hidden", "depth2")  # groups that are compared with the base
PAIRS = (
    ("lora", "no-penalty", "penalty on, less off"),
    ("full", "lora", "full, less LoRA"),
    ("hidden", "shown", "labels hidden, less shown"),
    ("depth2-bonus", "depth2-warm", "bonus for children, less none"),
)


def load_differences(folder: Runs) -> "pd.DataFrame":
    """A row a comparison and measure: comparison, measure, value, low, high, seed_values.

    right: difference of pass@1; tokens: ratio of mean leaf tokens. seed_values: those of the seeds that both have, an untrained
    policy's one run standing for all seeds. Groups that were not asked the same questions are not compared.
    """
    import pandas as pd

    found = evidence(read_runs(folder))
    return pd.DataFrame([row for first, second, name in comparisons(found) for row in compared(found, first, second, name)])


def comparisons(found: Evidence) -> list[tuple[str, str, str]]:
    """(first group, second group, what to call it) of all comparisons whose runs are there, and were asked the same questions."""
    to_base = [(group, "base", f"{found.groups[group][0].label}, less untrained") for group in HEADLINE if group in found.groups]
    wanted = [*to_base, *PAIRS]
    return [(first, second, name) for first, second, name in wanted if found.comparable(first, second)]


def compared(found: Evidence, first: str, second: str, name: str) -> list[dict]:
    """The two rows of a comparison."""
    rows = []
    forms = ("right", "correct", found.difference, sub), ("tokens", "leaf_tokens_mean", found.ratio, _over)
    for measure, key, form, single in forms:
        value, low, high = form(first, second, key)
        singles = list(found.by_seed(first, second, key, single).values())
        rows.append({"comparison": name, "measure": measure, "value": value, "low": low, "high": high, "seed_values": singles})
    return rows


def _over(first: float, second: float) -> float:
    return first / second if second else float("inf")


def load_families(folder: Runs, groups: Sequence[str] = ("base", "lora", "no-penalty", "full")) -> "pd.DataFrame":
    """A row a group and family: label, family, questions, and pass_at_1 and leaf_tokens_mean with _low and _high."""
    import pandas as pd

    found = evidence(read_runs(folder))
    return pd.DataFrame([row for group in groups if group in found.groups for row in _families(found.runs(group))])


def _families(runs: list[Run]) -> list[dict]:
    families = sorted(set.intersection(*(set(values_of(run, "correct").families.values()) for run in runs)))
    return [{"label": runs[0].label, "family": family, **_family(runs, family)} for family in families]


def _family(runs: list[Run], family: str) -> dict:
    found = {}
    for name, measure in (("pass_at_1", "correct"), ("leaf_tokens_mean", "leaf_tokens_mean")):
        values = [of_family(values_of(run, measure), family) for run in runs]
        value, low, high = interval_over_seeds(values, runs[0].params)
        found |= {name: value, f"{name}_low": low, f"{name}_high": high, "questions": len(shared_examples(values))}
    return found


def of_family(values: Values, family: str) -> Values:
    """The examples of one family."""
    kept = {example: value for example, value in values.by_example.items() if values.families[example] == family}
    return Values(kept, {example: family for example in kept})
