"""Every chart of the project. One function a chart: a tidy frame in, a Chart out.

A Chart holds the numbers, a title that states what they say, a sentence that tells how to read
it, and gives an interactive Plotly figure and a static SVG twin of the same panels.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from .drawing import CONFIG, plotly_figure, static_png, static_svg
from .drawing.panels import Mark, Panel
from .runs import write_bytes, write_text

if TYPE_CHECKING:
    import pandas as pd

LABELS = {"base": "before training", "trained": "after training"}
DYNAMICS = (
    "step", "correct", "llm_usage", "all_wrong", "leaf_tokens_mean", "missing", "forced", "entropy", "dropped_high",
    "dropped_low", "sample_seconds", "train_seconds",
)  # fmt: skip


@dataclass(frozen=True)
class Chart:
    """A picture with its numbers. `figure` and `svg` are drawn when first asked for."""

    name: str
    title: str
    reading: str
    frame: "pd.DataFrame"
    panels: Sequence[Panel]
    columns: int = 1

    @cached_property
    def figure(self):
        """The interactive Plotly figure."""
        return plotly_figure(self.panels, self.columns, self.title)

    @cached_property
    def svg(self) -> str:
        """The static twin, one <svg> element."""
        return static_svg(self.panels, self.columns, self.title, self.name)

    def save(self, folder: Path):
        """Write NAME.json (Plotly), NAME.svg, NAME.png and NAME.csv (the numbers)."""
        write_bytes(folder / f"{self.name}.png", static_png(self.panels, self.columns, self.title, self.name))
        write_text(folder / f"{self.name}.json", self.figure.to_json())
        write_text(folder / f"{self.name}.svg", self.svg)
        write_text(folder / f"{self.name}.csv", self.frame.to_csv(index=False))

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        """One notebook output in two forms: Plotly where it can run, else the SVG (GitHub, nbconvert, no JavaScript)."""
        import json

        plotly = {**json.loads(self.figure.to_json()), "config": CONFIG}
        return {"application/vnd.plotly.v1+json": plotly, "image/svg+xml": self.svg, "text/plain": f"{self.title}. {self.reading}"}


def percent(value: float) -> str:
    return f"{100 * value:.0f} %" if abs(value) >= 0.1 or value == 0 else f"{100 * value:.1f} %"


def count(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 10 else f"{value:.3g}"


def change(what: str, before: float, after: float, form=percent) -> str:
    """'what rose from A to B', in the numbers' own words."""
    if form(before) == form(after):
        return f"{what} stayed at {form(after)}"
    return f"{what} {'rose' if after > before else 'fell'} from {form(before)} to {form(after)}"


def window(rows: int) -> int:
    """Steps that a smoothed line averages over, and that 'first' and 'last' stand for."""
    return max(1, min(10, rows // 5))


def training_dynamics(frame: "pd.DataFrame") -> Chart:
    """Small multiples over steps. frame: the rows of metrics.jsonl."""
    span = window(len(frame))
    first, last = (part["correct"].mean() for part in (frame.head(span), frame.tail(span)))
    title = f"{change('Right answers in training', first, last)} over {len(frame)} steps"
    if len(frame) == 1:
        title = f"Right answers in the first training step: {percent(last)}"
    kind = "line" if len(frame) > 1 else "points"

    def panel(title: str, series: dict[str, tuple[str, str]], **options) -> Panel:
        marks = []
        for column, (label, style) in series.items():
            smooth = frame[column].rolling(span, center=True, min_periods=1).mean()
            marks += [Mark(kind, frame["step"], frame[column], style, light=True), Mark(kind, frame["step"], smooth, style, label)]
        return Panel(title, "", "", marks, **options)

    spent_log = bool((frame["leaf_tokens_mean"] > 0).all())
    panels = [
        panel("Right answers", {"correct": ("", "trained")}, percent=True),
        panel("Rollouts that ask the leaf", {"llm_usage": ("", "trained")}, percent=True),
        panel("Groups, none right", {"all_wrong": ("", "trained")}, percent=True),
        panel("Leaf tokens" + (" (log)" if spent_log else ""), {"leaf_tokens_mean": ("", "trained")}, log_y=spent_log),
        panel("Final answers", {"missing": ("missing", "trained"), "forced": ("forced", "base")}, percent=True),
        panel("Entropy, nats a token", {"entropy": ("", "trained")}),
        panel("Tokens left out", {"dropped_high": ("rose", "trained"), "dropped_low": ("fell", "base")}, percent=True),
        panel("Seconds a step", {"sample_seconds": ("sampling", "trained"), "train_seconds": ("update", "base")}),
    ]
    panels = panels[:4] + [replace(p, x="step") for p in panels[4:]]
    reading = (
        f"Each panel is one measure over the steps of training; thin lines are the steps, thick lines a mean over {span}. "
        "All sampled rollouts count. Tokens left out: those whose probability had moved too far, up or down, for a safe update."
    )
    return Chart("training_dynamics", title, reading, frame[list(DYNAMICS)], panels, columns=4)


def step_scatter(frame: "pd.DataFrame") -> Chart:
    """Right answers against leaf tokens, a dot a step. frame: the rows of metrics.jsonl."""
    chosen = frame[["step", "leaf_tokens_mean", "correct", "llm_usage"]]
    ends = {chosen.index[0]: "first step", chosen.index[-1]: "last step"}
    texts = [ends.get(index, "") for index in chosen.index]
    log = bool((chosen["leaf_tokens_mean"] > 0).all())
    points = Mark("points", chosen["leaf_tokens_mean"], chosen["correct"], texts=texts, values=chosen["llm_usage"])
    panel = Panel(
        "", "mean leaf tokens a rollout" + (" (log)" if log else ""), "right answers", [points], log_x=log, percent=True,
        values="rollouts that ask the leaf", headroom=0.1,
    )  # fmt: skip
    related = chosen["leaf_tokens_mean"].corr(chosen["correct"], method="pearson") if len(chosen) > 2 else math.nan
    if math.isnan(related):
        title = "Right answers and leaf tokens of each training step"
    elif abs(related) < 0.3:
        title = f"Over the steps, right answers and leaf tokens hardly move together (r = {related:.2f})"
    else:
        title = f"Steps with more right answers spend {'more' if related > 0 else 'fewer'} leaf tokens (r = {related:.2f})"
    reading = "Each dot is a training step; up and to the left is better. Darker dots ask the leaf in a larger share of rollouts."
    return Chart("step_scatter", title, reading, chosen, [panel])


def cost_accuracy(frame: "pd.DataFrame") -> Chart:
    """frame: label, split, pass_at_1, pass_low, pass_high, tokens, tokens_low, tokens_high."""
    marks = []
    lower = set(frame.sort_values("pass_at_1", kind="stable").groupby("label").head(1).index)  # names stand apart from one another
    for point in frame.itertuples():
        name = f"{LABELS[point.label]}, {'held-out' if point.split == 'heldout' else 'seen'}"
        marks.append(
            Mark(
                "points",
                [point.tokens],
                [point.pass_at_1],
                point.label,
                low=[point.pass_low],
                high=[point.pass_high],
                x_low=[point.tokens_low],
                x_high=[point.tokens_high],
                texts=[name],
                hollow=point.split == "seen",
                below=point.Index in lower,
            )  # fmt: skip
        )
    log = bool((frame["tokens_low"] > 0).all())
    panel = Panel("", "mean leaf tokens a rollout" + (" (log)" if log else ""), "pass@1", marks, log_x=log, percent=True, headroom=0.12)
    reading = (
        "Up is more accurate, left is cheaper; bars are 95 % intervals. "
        "Filled: held-out questions (names and wordings never trained on). Hollow: new questions in wordings that training used."
    )
    held = frame[frame["split"] == "heldout"].set_index("label")
    if {"base", "trained"} <= set(held.index):
        before, after = held.loc["base"], held.loc["trained"]
        title = (
            f"{change('Held-out accuracy', before.pass_at_1, after.pass_at_1)} and "
            f"{change('leaf tokens', before.tokens, after.tokens, count)}"
        )
    else:
        only = held.iloc[0]
        title = f"Held-out accuracy {LABELS[held.index[0]]} is {percent(only.pass_at_1)} at {count(only.tokens)} leaf tokens"
    return Chart("cost_accuracy", title, reading, frame, [panel])


def pass_at_k(frame: "pd.DataFrame") -> Chart:
    """frame: label, k, value, low, high."""
    marks = []
    for label, part in frame.groupby("label", sort=False):
        marks.append(Mark("band", part["k"], part["value"], label, low=part["low"], high=part["high"]))
        marks.append(Mark("line", part["k"], part["value"], label, LABELS[label]))
        marks.append(Mark("points", part["k"], part["value"], label))
    ks = sorted(set(frame["k"]))
    panel = Panel("", "k, attempts at a question", "at least one is right", marks, percent=True, ticks={k: str(k) for k in ks})
    last = frame[frame["k"] == ks[-1]].set_index("label")["value"]
    if {"base", "trained"} <= set(last.index):
        title = change(f"The chance that one of {ks[-1]} attempts is right", last["base"], last["trained"])
    else:
        title = f"One of {ks[-1]} attempts is right for {percent(last.iloc[0])} of held-out questions ({LABELS[last.index[0]]})"
    reading = (
        "Share of held-out questions with a right answer among k attempts (unbiased estimate, 95 % bands). "
        "A gap at k = 1 that closes at larger k means that training re-weights what the base could already do."
    )
    return Chart("pass_at_k", title, reading, frame, [panel])


def token_distribution(frame: "pd.DataFrame") -> Chart:
    """frame: label, leaf_tokens; one row a rollout. The chart's own frame is the two step curves."""
    import pandas as pd

    curves, marks, zeros, tails = [], [], [], []
    spent = frame.loc[frame["leaf_tokens"] > 0, "leaf_tokens"]
    left, right = (10.0 ** math.floor(math.log10(spent.min())), spent.max()) if len(spent) else (1, 10)
    for label, part in frame.groupby("label", sort=False):
        shares = part["leaf_tokens"].value_counts(normalize=True).sort_index().cumsum()
        shares.iloc[-1] = 1.0
        none = float((part["leaf_tokens"] == 0).mean())
        positive = shares[shares.index > 0]
        marks.append(Mark("step", [left, *positive.index, right], [none, *positive, 1.0], label, LABELS[label]))
        curves.append(pd.DataFrame({"label": label, "leaf_tokens": shares.index, "share_at_most": shares.to_numpy()}))
        zeros.append(f"{percent(none)} {LABELS[label]}")
        tails.append((label, float(part["leaf_tokens"].quantile(0.95))))
    panel = Panel("", "leaf tokens of a rollout (log)", "rollouts at or under it", marks, log_x=True, percent=True)
    words = " and ".join(f"{count(tail)} {LABELS[label]}" for label, tail in tails)
    title = f"The dearest 5 % of rollouts spend more leaf tokens than {words}"
    reading = (
        "Share of held-out rollouts that spent at most so many leaf tokens; a curve further left is cheaper, "
        "a long flat end is a heavy tail. "
        f"Rollouts without any leaf call have no place on a log axis: they are the height at the left edge ({' and '.join(zeros)})."
    )
    return Chart("token_distribution", title, reading, pd.concat(curves, ignore_index=True), [panel])


def by_family(frame: "pd.DataFrame") -> Chart:
    """frame: label, family, and pass_at_1 and leaf_tokens with _low and _high."""
    families = sorted(set(frame["family"]))
    labels = list(dict.fromkeys(frame["label"]))
    ticks = dict(enumerate(families))

    def panel(title: str, y: str, column: str, form, **options) -> Panel:
        marks = []
        for place, label in enumerate(labels):
            part = frame[frame["label"] == label].set_index("family").reindex(families).dropna(subset=[column])
            offset = (place - (len(labels) - 1) / 2) * 0.38
            x = [families.index(f) + offset for f in part.index]
            low, high = part[f"{column}_low"], part[f"{column}_high"]
            texts = [form(v) for v in part[column]]
            marks.append(Mark("bars", x, part[column], label, LABELS[label], low=list(low), high=list(high), texts=texts, width=0.34))
        return Panel(title, "", y, marks, ticks=ticks, headroom=0.1, **options)

    panels = [
        panel("Accuracy", "pass@1", "pass_at_1", percent, percent=True),
        panel("Leaf tokens a rollout", "mean tokens", "leaf_tokens", count),
    ]
    if set(labels) == {"base", "trained"}:
        wide = frame.pivot(index="family", columns="label", values="pass_at_1").dropna()
        gain = wide["trained"] - wide["base"]
        best = gain.idxmax()
        title = f"Largest change in accuracy: {change(best, wide['base'][best], wide['trained'][best])}"
        if (gain <= 0).all():
            title = "Accuracy rose in none of the families"
    else:
        best = frame.loc[frame["pass_at_1"].idxmax()]
        title = f"{LABELS[labels[0]].capitalize()}, {best.family} is the easiest family ({percent(best.pass_at_1)})"
    reading = "Held-out questions by family, with 95 % intervals over questions. Families have few questions each, so intervals are wide."
    return Chart("by_family", title, reading, frame, panels, columns=2)


def leaf_accuracy(frame: "pd.DataFrame") -> Chart:
    """Accuracy of the leaf over the length of its excerpt. frame: excerpt_chars, family, accuracy, low, high, tokens."""
    styles = ("trained", "base", "third", "fourth")
    marks = []
    for number, (family, part) in enumerate(frame.groupby("family")):
        part, style = part.sort_values("excerpt_chars"), styles[number % len(styles)]
        marks.append(Mark("band", part["excerpt_chars"], part["accuracy"], style, low=part["low"], high=part["high"]))
        marks.append(Mark("line", part["excerpt_chars"], part["accuracy"], style, str(family)))
        marks.append(Mark("points", part["excerpt_chars"], part["accuracy"], style))
    panel = Panel("", "characters of the excerpt (log)", "leaf answers right", marks, log_x=True, percent=True)
    shortest, longest = frame["excerpt_chars"].min(), frame["excerpt_chars"].max()
    means = frame.groupby("excerpt_chars")["accuracy"].mean()
    words = change("Leaf accuracy", means[shortest], means[longest])
    title = f"{words} between excerpts of {count(shortest)} and {count(longest)} characters"
    reading = "Share of right answers when the leaf gets an excerpt of a length that holds the answer; bands are 95 % intervals."
    return Chart("leaf_accuracy", title, reading, frame, [panel])
