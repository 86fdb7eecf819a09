"""An evaluation's measures as tables for a notebook: with intervals, by family and task, greedy beside sampled, less the base."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from .config import Params
from .measures import RATES, SPLITS, paired_difference
from .runs import RunDir, read_jsonl
from .wording import interval, share, signed, tokens

if TYPE_CHECKING:
    import pandas as pd

SHARES = ("correct", "llm_usage", "child_usage", "missing_final", "forced_final", "error_rate")
BY_PART = ("pass_at_1", "leaf_tokens_mean", "total_tokens_mean", "leaf_calls", "llm_usage", "missing_final")


def form_of(measure: str) -> Callable[[float], str]:
    """How a value of a measure is written: a share, tokens, or a plain number."""
    if measure.startswith("pass_at_") or measure in SHARES:
        return share
    return tokens if "tokens" in measure else "{:.2f}".format


def with_intervals(summary: dict) -> "pd.DataFrame":
    """A row a measure, a column a split: 'value [low, high]'. Largest values and counts have no interval."""
    import pandas as pd

    splits = [split for split in SPLITS if split in summary]
    rows = []
    for name, value in summary[splits[0]].items():
        if isinstance(value, dict):
            continue
        form = form_of(name)
        cells = (summary[split].get(name) for split in splits)
        texts = [
            interval(cell, form) if isinstance(cell, list | tuple) else form(cell) if isinstance(cell, float) else cell for cell in cells
        ]
        rows.append({"measure": name, **dict(zip(splits, texts, strict=True))})
    return pd.DataFrame(rows)


def by_part(split: dict, kind: str) -> "pd.DataFrame":
    """A row a family or task of a split's summary. kind: families or tasks. low and high: of pass@1."""
    import pandas as pd

    return pd.DataFrame(
        {
            kind: name,
            "questions": part["n_examples"],
            **{measure: part[measure][0] for measure in BY_PART},
            "low": part["pass_at_1"][1],
            "high": part["pass_at_1"][2],
            **{f"leaf_tokens_{q}": part[f"leaf_tokens_{q}"] for q in ("median", "p95", "max")},
        }
        for name, part in split[kind].items()
    )


def greedy_beside_sampled(summary: dict) -> "pd.DataFrame":
    """A row a split: pass@1 and leaf tokens of sampled rollouts, and of one greedy rollout a question; a note where none was run."""
    import pandas as pd

    greedy = summary.get("greedy", {})
    if not greedy:
        return pd.DataFrame({"note": ["evaluation.greedy is off: no greedy rollout was run"]})
    return pd.DataFrame(
        {
            "split": split,
            "sampled, pass@1": summary[split]["pass_at_1"][0],
            "greedy, pass@1": greedy[split]["pass_at_1"][0],
            "sampled, leaf tokens": summary[split]["leaf_tokens_mean"][0],
            "greedy, leaf tokens": greedy[split]["leaf_tokens_mean"][0],
        }
        for split in SPLITS
        if split in summary and split in greedy
    )


def less_base(run: RunDir, label: str, params: Params) -> "pd.DataFrame":
    """A row a measure: what an evaluation has more than eval/base on the same questions, with intervals; a note without a base."""
    import pandas as pd

    base, other = ([r for r in read_jsonl(run / f"eval/{name}/rollouts.jsonl") if r["split"] == "heldout"] for name in ("base", label))
    if not base or label == "base":
        return pd.DataFrame({"note": ["there is nothing to compare: eval/base has not been made here, or is this evaluation itself"]})
    differences = {name: paired_difference(base, other, params, name) for name in RATES}
    return pd.DataFrame({"measure": name, "less base": signed(triple, form_of(name))} for name, triple in differences.items())
