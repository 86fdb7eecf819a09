"""Charts of training: what groups of runs do step by step, and how often they start children."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..charts import Chart, change, count, percent, window
from ..drawing.axes import log_places
from ..drawing.panels import Mark, Panel
from .looks import capital, chosen, has, listed, names, questions_told, seeds_told, styles
from .post_mortem_charts import post_mortem, post_mortem_table

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["depth_two", "dynamics_of_groups", "post_mortem", "post_mortem_table"]

COLUMNS = 4
SHOWN = ("lora", "no-penalty", "full")
DEPTH_TWO = ("depth2", "depth2-warm", "depth2-bonus")
THIN = 0.5  # opacity of the single seeds
SECONDS = "seconds"  # a step, sampling and update together
IDENTITY = ("group", "label", "run", "seed", "step")


@dataclass(frozen=True)
class Measure:
    """A panel. form: share, log, plain, or units (small numbers, in a power of 1000)."""

    column: str
    title: str
    form: str


MEASURES = (
    Measure("correct", "Right answers", "share"),
    Measure("llm_usage", "Rollouts that ask the leaf", "share"),
    Measure("all_wrong", "Groups, none right", "share"),
    Measure("all_right", "Groups, all right", "share"),
    Measure("leaf_tokens_mean", "Leaf tokens (log)", "log"),
    Measure("total_tokens", "All tokens (log)", "log"),
    Measure("turns", "Turns", "plain"),
    Measure("missing", "No final answer", "share"),
    Measure("forced", "Forced final answer", "share"),
    Measure("entropy", "Entropy, nats a token", "plain"),
    Measure("mismatch_kl_kept", "Mismatch KL", "units"),
    Measure(SECONDS, "Seconds a step", "plain"),
)


def dynamics_of_groups(steps: "pd.DataFrame", groups: Sequence[str] = SHOWN) -> Chart | None:
    """Small multiples over steps: a thick line a group, its mean over seeds, and a thin one a seed. steps: of load_steps."""
    if not has(steps, "group", "step", "correct"):
        return None
    shown = chosen(steps, groups)
    frame = steps[steps["group"].isin(shown)]
    if {"sample_seconds", "train_seconds"} <= set(frame.columns):
        frame = frame.assign(**{SECONDS: frame["sample_seconds"] + frame["train_seconds"]})
    there = [m for m in MEASURES if m.column in frame and frame[m.column].notna().any()]
    span = window(frame["step"].nunique())
    looks, labels = styles(shown), names(frame)
    panels = []
    for number, measure in enumerate(there):
        below = "step" if number + COLUMNS >= len(there) else ""
        panels.append(_panel(frame, measure, shown, looks, labels if number == 0 else {}, span, below))
    columns = [c for c in IDENTITY if c in frame] + [m.column for m in there]
    reading = (
        f"Each panel is one measure over the steps of training. Thick lines: mean over the seeds of a group, and over {span} steps; "
        f"thin lines: the single seeds ({seeds_told(frame.groupby('group')['seed'].nunique())}). All sampled rollouts of a step count. "
        "Groups: of rollouts to one prompt. Mismatch KL: of trainer and sampler, in nats a token, on the tokens that are kept."
    )
    return Chart("study_dynamics", _dynamics_title(frame, shown, labels, span), reading, frame[columns], panels, columns=COLUMNS)


def _panel(frame, measure: Measure, shown: Sequence[str], looks: dict, labels: dict, span: int, below: str) -> Panel:
    unit, at, options, title = 1.0, float, {}, measure.title
    if measure.form == "share":
        options = {"percent": True}
    elif measure.form == "log":
        places = log_places(frame[measure.column])
        at, options = places.at, {"log_y": True, "y_ticks": places.ticks}
    elif measure.form == "units":
        unit, name = _unit(frame[measure.column].abs().max())
        title = f"{measure.title}, {name}"
    kind = "line" if frame["step"].nunique() > 1 else "points"
    thin, thick = [], []
    for group in shown:
        part = frame[frame["group"] == group]
        for _, run in part.groupby("seed"):
            y = [at(v / unit) for v in run[measure.column]]
            thin.append(Mark(kind, list(run["step"]), y, looks[group], light=True, opacity=THIN, size=5))
        mean = smoothed(part, measure.column, span)
        thick.append(Mark(kind, list(mean.index), [at(v / unit) for v in mean], looks[group], labels.get(group, "")))
    return Panel(title, below, "", [*thin, *thick], legend="figure", **options)


def smoothed(part: "pd.DataFrame", column: str, span: int) -> "pd.Series":
    """Mean over runs at each step, then over `span` steps around it. Index: the steps."""
    return part.groupby("step")[column].mean().rolling(span, center=True, min_periods=1).mean()


def _unit(largest: float) -> tuple[float, str]:
    """The power of 1000 in which a number has one to three digits, and what to call it."""
    if not largest > 0:
        return 1.0, "nats"
    power = min(0, 3 * math.floor(math.log10(largest) / 3))
    raised = str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return 10.0**power, f"10{raised} nats" if power else "nats"


def _dynamics_title(frame: "pd.DataFrame", shown: Sequence[str], labels: dict[str, str], span: int) -> str:
    """Who ends with the most right answers, and what leaf tokens everyone ends with."""
    ends = {group: _ends(frame[frame["group"] == group], "correct", span) for group in shown}
    spent = {group: _ends(frame[frame["group"] == group], "leaf_tokens_mean", span) for group in shown if "leaf_tokens_mean" in frame}
    best = max(shown, key=lambda group: ends[group][1])
    if frame["step"].nunique() == 1:
        told = listed([f"{percent(ends[group][1])} ({labels[group]})" for group in shown])
        return f"Right answers in the first step: {told}"
    if len(shown) == 1:
        tokens = f", {change('leaf tokens', *spent[best], count)}" if spent else ""
        return f"{capital(labels[best])}: {change('right answers', *ends[best])}{tokens}"
    first, last = map(percent, ends[best])
    told = listed([f"{count(spent[group][1])} ({labels[group]})" for group in shown if group in spent])
    said = f"{capital(labels[best])} ends training with the most right answers ({last}, from {first})"
    return f"{said}; leaf tokens end at {told}" if told else said


def _ends(part: "pd.DataFrame", column: str, span: int) -> tuple[float, float]:
    """Means over the first and the last `span` steps of a group."""
    mean = part.groupby("step")[column].mean()
    return float(mean.head(span).mean()), float(mean.tail(span).mean())


def depth_two(steps: "pd.DataFrame", groups: "pd.DataFrame") -> Chart | None:
    """Children over the steps of the groups that may start any, and how many held-out rollouts do. None where there are none."""
    import pandas as pd

    shown = [group for group in DEPTH_TWO if any(has(f, "group") and group in set(f["group"]) for f in (steps, groups))]
    sampled = steps[steps["group"].isin(shown)] if has(steps, "group", "children") else pd.DataFrame()
    used = groups[groups["group"].isin(shown) & groups["child_usage"].notna()] if has(groups, "group", "child_usage") else pd.DataFrame()
    if not len(sampled) and not len(used):
        return None
    looks, panels = styles(shown), []
    if len(sampled):
        panels.append(_children_panel(sampled, looks))
    if len(used):
        panels.append(_usage_panel(used, looks))
    frame = pd.concat([_tidy_children(sampled), _tidy_usage(used)], ignore_index=True)
    seeds = sampled.groupby("group")["seed"].nunique() if len(sampled) else used["runs"]
    evaluated = f"; {questions_told(used)}, 95 % intervals over questions and seeds" if len(used) else ""
    reading = (
        f"Children are rollouts of the policy's own that a rollout starts ({seeds_told(seeds)}). Over the steps of training: mean number "
        f"a sampled rollout; thick lines are means over seeds and steps, thin lines single seeds{evaluated}."
    )
    return Chart("study_depth", _depth_title(sampled, used), reading, frame, panels, columns=len(panels))


def _children_panel(sampled: "pd.DataFrame", looks: dict[str, str]) -> Panel:
    span, labels = window(sampled["step"].nunique()), names(sampled)
    thin, thick = [], []
    for group, part in sampled.groupby("group"):
        for _, run in part.groupby("seed"):
            thin.append(Mark("line", list(run["step"]), list(run["children"]), looks[group], light=True, opacity=THIN))
        mean = smoothed(part, "children", span)
        thick.append(Mark("line", list(mean.index), list(mean), looks[group], end=labels[group]))
    return Panel("In training", "step", "children a rollout", [*thin, *thick])


def _usage_panel(used: "pd.DataFrame", looks: dict[str, str]) -> Panel:
    marks = []
    for place, row in enumerate(used.to_dict("records")):
        x, style = row["child_usage"], looks[row["group"]]
        spans = {"x_low": [row["child_usage_low"]], "x_high": [row["child_usage_high"]]}
        marks.append(Mark("points", [x], [-place], style, texts=[percent(x)], **spans))
    ticks = {-float(place): label for place, label in enumerate(used["label"])}
    return Panel("Held-out questions", "rollouts that start a child", "", marks, x_percent=True, y_ticks=ticks, spread=True)


def _tidy_children(sampled: "pd.DataFrame") -> "pd.DataFrame":
    if not len(sampled):
        return sampled
    return sampled[["group", "label", "seed", "step"]].assign(measure="children a rollout", value=sampled["children"])


def _tidy_usage(used: "pd.DataFrame") -> "pd.DataFrame":
    if not len(used):
        return used
    values = {"value": used["child_usage"], "low": used["child_usage_low"], "high": used["child_usage_high"]}
    return used[["group", "label"]].assign(measure="held-out rollouts that start a child", **values)


def _depth_title(sampled: "pd.DataFrame", used: "pd.DataFrame") -> str:
    if len(used):
        rows = used.sort_values("child_usage", ascending=False).to_dict("records")
        if not used["child_usage"].any():
            return f"At depth 2, no held-out rollout starts a child{f', in any of {len(rows)} groups' if len(rows) > 1 else ''}"
        told = [f"{percent(row['child_usage'])} of {row['label']}" for row in rows]
        return f"Held-out rollouts that start a child: {listed(told)}"
    span = window(sampled["step"].nunique())
    told = [f"{label} {_ends(part, 'children', span)[1]:.2g}" for label, part in sampled.groupby("label")]
    return f"Children a rollout at the end of training: {listed(told)}"
