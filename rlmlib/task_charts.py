"""Charts of tasks and benchmarks: how long the contexts are, and what their length does to a score."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from .charts import Chart, change, count, percent
from .drawing.axes import short
from .drawing.panels import Mark, Panel

if TYPE_CHECKING:
    import pandas as pd

BINS = 16
EXACT = 4  # most lengths of a panel that have room to be written in full
SCORES = ["benchmark", "length", "n", "score", "low", "high"]
TOKENS = "tokens of the context (log)"


def context_lengths(frame: "pd.DataFrame") -> Chart:
    """frame: family, tokens; one row an example. A histogram a family over the same logarithmic bins, all on the same axes."""
    import pandas as pd

    low, high, median = frame["tokens"].min(), frame["tokens"].max(), frame["tokens"].median()
    edges = np.geomspace(max(1, low * 0.999), max(high * 1.001, low + 2), BINS + 1)
    families = {str(name): part["tokens"] for name, part in frame.groupby("family")}
    found = {name: np.histogram(tokens, edges)[0] for name, tokens in families.items()}
    most = max(counts.max() for counts in found.values())
    bins = {"from_tokens": edges[:-1].round().astype(int), "to_tokens": edges[1:].round().astype(int)}
    parts = [pd.DataFrame({"family": name, **bins, "examples": counts}) for name, counts in found.items()]
    panels = [_histogram(name, tokens, edges, found[name], most) for name, tokens in families.items()]
    panels[-1] = replace(panels[-1], x=TOKENS)
    title = f"Half of the contexts have at most {count(median)} tokens; the longest has {count(high)}"
    if low == high:
        title = f"All contexts have {count(high)} tokens"
    reading = f"Lengths of {len(frame):,} contexts in Qwen tokens, a panel a family, in {BINS} bins of equal ratio; dashed: the median."
    return Chart("context_lengths", title, reading, pd.concat(parts, ignore_index=True), panels)


def _histogram(name: str, tokens: "pd.Series", edges: np.ndarray, found: np.ndarray, most: int) -> Panel:
    middle = tokens.median()
    marks = [
        Mark("step", [edges[0], *edges], [0, *found, 0], "trained"),
        Mark("line", [middle, middle], [0, most], "base"),
        Mark("points", [middle], [most], "base", texts=[f"median {count(middle)}"], size=6),
    ]
    return Panel(f"{name} (n = {len(tokens):,})", "", "examples", marks, log_x=True, whole=True, reach=float(most), headroom=0.15)


def score_by_length(summary: Sequence[dict]) -> Chart | None:
    """summary: rows of `run.summarise`. A panel a benchmark with lengths and scores, all on the same y axis; None where there is none."""
    import pandas as pd

    rows = [{column: row[column] for column in SCORES} for row in summary if row["length"] is not None and row["n"]]
    if not rows:
        return None
    frame = pd.DataFrame(rows)
    parts = {str(name): part.sort_values("length") for name, part in frame.groupby("benchmark", sort=False)}
    lengths = max(map(len, parts.values()))
    form = short if lengths > EXACT else "{:,}".format
    panels = [_scores(name, part, form) for name, part in parts.items()]
    reading = "Mean score of the n items at each length, by the benchmark's own rule; bars are 95 % intervals over items."
    columns = min(len(panels), 3 if lengths <= EXACT else 2)
    return Chart("score_by_length", _said(parts), reading, frame, panels, columns)


def _scores(name: str, part: "pd.DataFrame", form: Callable[[int], str]) -> Panel:
    x, y = part["length"], part["score"]
    inner = [""] * (len(part) - 2)
    texts = [percent(y.iloc[0]), *inner, percent(y.iloc[-1])][: len(part)]  # the ends, which the title speaks of
    marks = [Mark("line", x, y, "trained"), Mark("points", x, y, "trained", low=part["low"], high=part["high"], texts=texts)]
    number = " to ".join(str(n) for n in sorted({part["n"].min(), part["n"].max()}))
    ticks = {length: form(length) for length in x}
    return Panel(f"{name} (n = {number})", TOKENS, "mean score", marks, log_x=True, percent=True, reach=1.0, ticks=ticks, headroom=0.08)


def _said(parts: dict[str, "pd.DataFrame"]) -> str:
    """The scores at the ends of each benchmark. Only intervals that lie apart make a rise or a fall."""
    spans = {(int(part["length"].min()), int(part["length"].max())) for part in parts.values()}
    if len(spans) == 1:
        return f"{_span(*spans.pop())}: {', '.join(_ends(name, part) for name, part in parts.items())}"
    said = (f"{_ends(name, part)} ({_span(part['length'].min(), part['length'].max())})" for name, part in parts.items())
    return "Scores: " + ", ".join(said)


def _span(first: int, last: int) -> str:
    return f"{count(first)} tokens" if first == last else f"{count(first)} to {count(last)} tokens"


def _ends(name: str, part: "pd.DataFrame") -> str:
    first, last = part.iloc[0], part.iloc[-1]
    if len(part) == 1:
        return f"{name} scored {percent(last.score)}"
    if percent(first.score) == percent(last.score) or first.high < last.low or last.high < first.low:
        return change(name, first.score, last.score)
    return f"{name} showed no clear change ({percent(first.score)}, {percent(last.score)})"
