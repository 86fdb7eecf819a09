"""Charts of tasks and benchmarks: how long the contexts are, and what their length does to a score."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .charts import Chart, change, count, percent
from .drawing import Mark, Panel

if TYPE_CHECKING:
    import pandas as pd

BINS = 16
SCORES = ["benchmark", "length", "n", "score", "low", "high"]


def context_lengths(frame: "pd.DataFrame") -> Chart:
    """frame: family, tokens; one row an example. A histogram a family over the same logarithmic bins."""
    import pandas as pd

    low, high = frame["tokens"].min(), frame["tokens"].max()
    edges = np.geomspace(max(1, low * 0.999), max(high * 1.001, low + 2), BINS + 1)
    parts, panels = [], []
    for family, part in frame.groupby("family"):
        found, _ = np.histogram(part["tokens"], edges)
        parts.append(pd.DataFrame({"family": family, "from_tokens": edges[:-1].round(), "examples": found}))
        outline = Mark("step", [edges[0], *edges], [0, *found, 0], "trained")
        panels.append(Panel(family, "Qwen tokens (log)", "examples", [outline], log_x=True))
    median = frame["tokens"].median()
    title = f"Half of the contexts are longer than {count(median)} tokens; the longest has {count(high)}"
    reading = f"Lengths of {len(frame):,} contexts, a panel a family, in {BINS} bins of equal ratio."
    return Chart("context_lengths", title, reading, pd.concat(parts, ignore_index=True), panels)


def score_by_length(summary: Sequence[dict]) -> Chart | None:
    """summary: rows of `run.summarise`. The title speaks of the first benchmark with lengths and scores; None where there is none."""
    import pandas as pd

    rows = [{column: row[column] for column in SCORES} for row in summary if row["length"] is not None and row["n"]]
    if not rows:
        return None
    frame = pd.DataFrame(rows)
    parts = {str(name): part.sort_values("length") for name, part in frame.groupby("benchmark", sort=False)}
    panels = [_panel(name, part, first=place == 0) for place, (name, part) in enumerate(parts.items())]
    items = " to ".join(sorted({str(frame.n.min()), str(frame.n.max())}, key=int))
    reading = f"Mean score of {items} items at each length, by the benchmark's own rule; bars are 95 % intervals over items."
    return Chart("score_by_length", _title(*next(iter(parts.items()))), reading, frame, panels, columns=min(3, len(panels)))


def _panel(name: str, part, first: bool) -> Panel:
    x, y = part["length"], part["score"]
    marks = [Mark("line", x, y, "trained"), Mark("points", x, y, "trained", low=part["low"], high=part["high"])]
    return Panel(name, "tokens of the context (log)", "score" if first else "", marks, log_x=True, percent=True)


def _title(name: str, part) -> str:
    first, last = part.iloc[0], part.iloc[-1]
    if len(part) == 1:
        return f"{name}: score {percent(last.score)} at {count(last.length)} tokens"
    return f"{name}: {change('score', first.score, last.score)} between {count(first.length)} and {count(last.length)} tokens"
