"""Charts of how rollouts use the leaf: behaviour over training, and the tail of what they spend."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ..charts import Chart, count, percent, window
from ..drawing.axes import percent_names
from ..drawing.panels import Mark, Panel
from .looks import between, chosen, has, listed, names, seeds_told, styles

if TYPE_CHECKING:
    import pandas as pd

KINDS = {  # column: name, style; from the bottom of the stack
    "broad": ("broad calls", "base"),
    "selective": ("selective calls", "trained"),
    "code_only": ("code only", "third"),
    "blind": ("without looking", "fourth"),
}
SHOWN = ("lora", "no-penalty", "full")
INSIDE = 0.13  # thickness of a band, as a share, that a name fits in
SEEN = 0.01  # largest share of a band that gets no name if it stays below
CHARACTER = 0.012  # of a panel's width
HEIGHT = 0.8  # of a panel
QUANTILES = {"median": 0.5, "p95": 0.95}


def behaviour_phases(phases: "pd.DataFrame", groups: Sequence[str] = SHOWN) -> Chart | None:
    """Stacked shares of behaviour over steps, a panel a group. phases: of load_phases. None where there are none."""
    import pandas as pd

    if not has(phases, "group", "step", *KINDS):
        return None
    shown = chosen(phases, groups)
    labels = names(phases)
    parts = {group: shares(phases[phases["group"] == group]) for group in shown}
    panels = [_stack(f"{labels[group]} ({_seeds(phases, group)})", part) for group, part in parts.items()]
    panels[-1] = replace(panels[-1], x="step")
    frame = pd.concat([part.reset_index().assign(group=group, label=labels[group]) for group, part in parts.items()], ignore_index=True)
    span = window(max(map(len, parts.values())))
    first, last = ({g: ends(part, span)[which] for g, part in parts.items()} for which in (0, 1))
    rollouts = f", {between(phases['rollouts'])} rollouts a step and run" if "rollouts" in phases else ""
    reading = (
        f"Shares of all sampled rollouts, mean over seeds{rollouts}; smoothed over {span} steps. Broad: leaf calls took at least half as "
        "many tokens as the context has, or one was too long for the leaf. Selective: leaf calls on less. Code only: no leaf call, code "
        "ran. Without looking: neither."
    )
    return Chart("study_phases", _phases_title(first, last, labels), reading, frame, panels)


def _seeds(phases: "pd.DataFrame", group: str) -> str:
    number = phases.loc[phases["group"] == group, "seed"].nunique() if "seed" in phases else 1
    return "one seed" if number == 1 else f"{number} seeds"


def shares(part: "pd.DataFrame") -> "pd.DataFrame":
    """Mean shares [steps, KINDS] over the runs of a group, by rollouts; rows sum to 1."""
    weights = part["rollouts"] if "rollouts" in part else 1.0
    summed = part[list(KINDS)].mul(weights, axis=0).assign(step=part["step"]).groupby("step").sum()
    return summed.div(summed.sum(axis=1), axis=0)


def ends(part: "pd.DataFrame", span: int) -> tuple["pd.Series", "pd.Series"]:
    """Mean shares of the first and the last steps."""
    return part.head(span).mean(), part.tail(span).mean()


def _stack(title: str, part: "pd.DataFrame") -> Panel:
    smooth = part.rolling(window(len(part)), center=True, min_periods=1).mean()
    if len(smooth) == 1:  # a single step: as wide as one
        smooth = smooth.loc[[smooth.index[0]] * 2].set_axis([smooth.index[0], smooth.index[0] + 1])
    tops = smooth.cumsum(axis=1).clip(upper=1.0)
    bottoms, steps = tops.shift(axis=1, fill_value=0.0), list(smooth.index)
    bands, texts = [], []
    for column, (name, style) in KINDS.items():
        low, high, size = list(bottoms[column]), list(tops[column]), smooth[column].to_numpy()
        middle = [(a + b) / 2 for a, b in zip(low, high, strict=True)]
        at = _room(size, len(name))
        words = [f"step {step}: {percent(share)} {name}" for step, share in zip(steps, size, strict=True)]
        bands.append(
            Mark("area", steps, middle, style, low=low, high=high, hover=words, end=name if at is None and size.max() >= SEEN else "")
        )
        if at is not None:
            texts.append(Mark("text", [steps[at]], [middle[at]], style, texts=[name]))
    return Panel(title, "", "rollouts", [*bands, *texts], percent=True, height=HEIGHT)


def _room(size: np.ndarray, characters: int) -> int | None:
    """Place where a band is thickest and a name of so many characters does not leave the panel; None where it is too thin for one."""
    margin = min((len(size) - 1) // 2, round(len(size) * CHARACTER * characters / 2))
    inner = size[margin : len(size) - margin]
    at = int(inner.argmax())
    return margin + at if inner[at] >= INSIDE else None


def _phases_title(first: dict, last: dict, labels: dict[str, str]) -> str:
    """How broad calls change, and what most rollouts do at the end."""
    broad = [f"{percent(first[group]['broad'])} to {percent(share['broad'])} ({labels[group]})" for group, share in last.items()]
    kinds = {share.idxmax() for share in last.values()}
    if len(kinds) == 1:
        shares = sorted(float(share.max()) for share in last.values())
        ends = " to ".join(dict.fromkeys((percent(shares[0]), percent(shares[-1]))))
        return f"Broad calls go from {listed(broad)}; most end with {KINDS[kinds.pop()][0]} ({ends})"
    most: dict[str, list[str]] = {}
    for group, share in last.items():
        most.setdefault(KINDS[share.idxmax()][0], []).append(f"{percent(share.max())} of {labels[group]}")
    told = listed([f"{kind} ({', '.join(parts)})" for kind, parts in most.items()])
    return f"Broad calls go from {listed(broad)}; at the end most are {told}"


def leaf_token_tails(evaluations: "pd.DataFrame") -> Chart | None:
    """Share of held-out rollouts that spend more than so many leaf tokens, both axes log. None where there are no rollouts."""
    import pandas as pd

    kept = _heldout(evaluations)
    if not len(kept):
        return None
    shown = [group for group in chosen(kept) if (kept["group"] == group).any()]
    looks, labels, curves, marks = styles(shown), names(kept), [], []
    spent = kept.loc[kept["group"].isin(shown) & (kept["leaf_tokens"] > 0), "leaf_tokens"]
    if not len(spent):
        return None
    left = float(spent.min()) / 1.5
    for group in shown:
        tokens = np.sort(kept.loc[kept["group"] == group, "leaf_tokens"].to_numpy(dtype=float))
        curve = tail(tokens)
        found = {name: float(np.quantile(tokens, q)) for name, q in QUANTILES.items()}
        curves.append(curve.assign(group=group, label=labels[group], rollouts=len(tokens), **found))
        marks += _tail_marks(curve, tokens, found, left, looks[group], labels[group])
    frame = pd.concat(curves, ignore_index=True)
    shares = [y for mark in marks for y in mark.y]
    levels = [Mark("horizontal", [], [1 - q], "muted", light=True, texts=[name]) for name, q in QUANTILES.items() if 1 - q >= min(shares)]
    panel = Panel(
        "", "leaf tokens of a rollout (log)", "rollouts that spend more (log)", [*levels, *marks], log_x=True, log_y=True,
        y_ticks=percent_names(shares), spread=True,
    )  # fmt: skip
    return Chart("study_leaf_tails", _tails_title(frame), _tails_reading(kept, frame), frame, [panel])


def _heldout(evaluations: "pd.DataFrame") -> "pd.DataFrame":
    """Rollouts of held-out questions that the machinery did not fail, of policies."""
    if not has(evaluations, "group", "leaf_tokens"):
        return evaluations.head(0)
    kept = evaluations[evaluations["leaf_tokens"].notna()]
    for column, wanted in (("split", lambda c: c == "heldout"), ("kind", lambda c: c != "plain"), ("error", lambda c: c.isna())):
        kept = kept[wanted(kept[column])] if column in kept else kept
    return kept


def tail(tokens: np.ndarray) -> "pd.DataFrame":
    """leaf_tokens: each number of tokens that was spent, and 0; share_above: share of rollouts that spent more."""
    import pandas as pd

    values = np.unique(np.append(tokens, 0.0))
    above = 1 - np.searchsorted(np.sort(tokens), values, side="right") / len(tokens)
    return pd.DataFrame({"leaf_tokens": values, "share_above": above})


def _tail_marks(curve: "pd.DataFrame", tokens: np.ndarray, found: dict[str, float], left: float, style: str, label: str) -> list[Mark]:
    """The curve from the left edge to the dearest rollout, its median and p95 where they are above zero, and its name at its end."""
    inner = curve[(curve["leaf_tokens"] > 0) & (curve["share_above"] > 0)]
    start = float(curve["share_above"].iloc[0])
    if start == 0:
        return []
    lowest, dearest = float([start, *inner["share_above"]][-1]), float(tokens.max())
    marks = [Mark("step", [left, *inner["leaf_tokens"], dearest], [start, *inner["share_above"], lowest], style)]
    dots = [(value, 1 - QUANTILES[name], name) for name, value in found.items() if value > 0 and 1 - QUANTILES[name] >= lowest]
    if dots:
        x, y, kinds = (list(part) for part in zip(*dots, strict=True))
        texts = [f"{label}: {name} {count(value)}" for value, _, name in dots]
        marks.append(Mark("points", x, y, style, texts=texts, hover=texts, size=9))
    else:
        marks.append(Mark("points", [dearest], [lowest], style, texts=[label], size=9))
    return marks


def _tails_title(frame: "pd.DataFrame") -> str:
    rows = frame.drop_duplicates("group").to_dict("records")
    told = listed([f"{count(row['p95'])} ({row['label']})" for row in rows])
    return f"The dearest 5 % of rollouts spend more leaf tokens than {told}"


def _tails_reading(kept: "pd.DataFrame", frame: "pd.DataFrame") -> str:
    none = {row["label"]: 1 - row["share_above"] for row in frame[frame["leaf_tokens"] == 0].to_dict("records")}
    shown = kept[kept["group"].isin(set(frame["group"]))]
    seeds = seeds_told(shown.groupby("group")["seed"].nunique()) if "seed" in shown else "all seeds"
    unspent = listed([f"{percent(share)} ({label})" for label, share in none.items()])
    number = between(frame.drop_duplicates("group")["rollouts"])
    return (
        f"For each number of leaf tokens, the share of held-out rollouts that spend more; {number} rollouts a group, {seeds}. "
        "A curve further left and lower is cheaper. Dots: median and 95th percentile (p95). Rollouts that spend none have no place on a "
        f"log axis, so curves start below 100 %; none are spent by {unspent}."
    )
