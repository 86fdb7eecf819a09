"""What sets groups apart: a forest plot of paired differences, and groups by family of questions."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..charts import Chart, count, percent
from ..drawing.axes import LogPlaces, log_places
from ..drawing.panels import Mark, Panel
from .looks import between, capital, has, listed, styles

if TYPE_CHECKING:
    import pandas as pd

RIGHT, TOKENS = "right", "tokens"  # measures of the frame of differences
LOOKS = {"better": ("trained", False), "worse": ("base", False), "unclear": ("plain", True)}  # style, hollow
SAID = {  # of a measure: verdict, what one comparison does, what several do
    RIGHT: (("better", "gains right answers", "gain right answers"), ("worse", "loses some", "lose some")),
    TOKENS: (("better", "saves leaf tokens", "save leaf tokens"), ("worse", "spends more", "spend more")),
}
NOUNS = {RIGHT: "right answers", TOKENS: "leaf tokens"}
TEXT_ABOVE, SEEDS_BELOW = 0.3, 0.2  # of the distance of two rows


def differences(frame: "pd.DataFrame") -> Chart | None:
    """A forest plot. frame: of comparisons.load_differences, with columns comparison, measure, value, low, high and, where known,
    seed_values. right: differences of pass@1 as shares; tokens: ratios of mean leaf tokens. None of an empty frame."""
    if not has(frame, "comparison", "measure", "value", "low", "high"):
        return None
    kept = frame[frame["value"].notna()]
    rows = {name: -float(i) for i, name in enumerate(dict.fromkeys(kept["comparison"]))}
    if not rows:
        return None
    made = [(RIGHT, _right_panel), (TOKENS, _tokens_panel)]
    panels = [draw(part, rows) for measure, draw in made if len(part := kept[kept["measure"] == measure])]
    if not panels:
        return None
    reading = (
        "Each row compares two groups on the same questions. Left: right answers (pass@1), a difference in points. Right: leaf tokens, "
        "a ratio (log axis). Bars are 95 % intervals over questions and seeds; small dots are the single seeds. "
        "Filled: the whole interval is on one side of no difference; hollow: it is not."
    )
    return Chart("study_differences", _forest_title(kept), reading, _flat(kept), panels, columns=len(panels))


def verdict(row: dict) -> str:
    """better, worse or unclear, by the interval."""
    up, none = (row["measure"] == RIGHT), (0.0 if row["measure"] == RIGHT else 1.0)
    if row["low"] > none or row["high"] < none:
        return "better" if (row["low"] > none) == up else "worse"
    return "unclear"


def _right_panel(part: "pd.DataFrame", rows: dict[str, float]) -> Panel:
    scaled = [{**r, **{c: 100 * r[c] for c in ("value", "low", "high")}, "seeds": [100 * v for v in _seeds(r)]} for r in _records(part)]
    texts = [f"{r['value']:+.1f}".replace("-", "\u2212") for r in scaled]
    marks = [Mark("vertical", [0.0], [], "muted"), *_forest_marks(scaled, texts, rows, float)]
    return Panel("Right answers", "difference in points", "", marks, **_forest_axes(rows, rows))


def _tokens_panel(part: "pd.DataFrame", rows: dict[str, float]) -> Panel:
    """Ratios that are not finite, by a group that spends nothing, have no place and are told in words."""
    finite = [{**r, "seeds": [v for v in _seeds(r) if math.isfinite(v)]} for r in _records(part) if math.isfinite(r["value"])]
    most = max([v for r in finite for v in (r["value"], r["low"], r["high"], *r["seeds"]) if math.isfinite(v)], default=1.0)
    finite = [{**r, "high": min(r["high"], 1.5 * most)} for r in finite]
    places = log_places([1.0, *(v for r in finite for v in (r["value"], r["low"], r["high"], *r["seeds"]))])
    texts = [f"{r['value']:.2f}x" if r["value"] < 10 else f"{count(r['value'])}x" for r in finite]
    marks = [Mark("vertical", [1.0], [], "muted"), *_forest_marks(finite, texts, rows, places.at)]
    lost = [r for r in _records(part) if not math.isfinite(r["value"])]
    if lost:
        marks.append(
            Mark("text", [1.0] * len(lost), [rows[r["comparison"]] for r in lost], texts=["from zero tokens: no ratio"] * len(lost))
        )
    return Panel("Leaf tokens", "ratio (log)", "", marks, log_x=True, ticks=_times(places), **_forest_axes(rows, {}))


def _times(places: LogPlaces) -> dict[float, str]:
    return {tick: name if name == "0" else f"{tick:g}x" for tick, name in places.ticks.items()}


def _records(part: "pd.DataFrame") -> list[dict]:
    return [{**row, "verdict": verdict(row)} for row in part.to_dict("records")]


def _seeds(row: dict) -> Sequence[float]:
    found = row.get("seed_values")
    return list(found) if isinstance(found, (list, tuple)) else []


def _forest_axes(rows: dict[str, float], named: dict[str, float]) -> dict:
    """Rows of comparisons from the top; only the left panel writes their names."""
    ticks = {place: name if name in named else "" for name, place in rows.items()}
    return {"y_ticks": ticks, "height": 0.35 + 0.11 * len(rows), "headroom": 0.15, "legend": "figure"}


def _forest_marks(found: Sequence[dict], texts: Sequence[str], rows: dict[str, float], at) -> list[Mark]:
    """Single seeds, then an interval with its point and number, by verdict."""
    marks = []
    dots = [(at(v), rows[r["comparison"]] - SEEDS_BELOW) for r in found for v in r["seeds"] if len(r["seeds"]) > 1]
    if dots:
        x, y = zip(*dots, strict=True)
        marks.append(Mark("points", x, y, "plain", light=True, size=4))
    for name, (style, hollow) in LOOKS.items():
        part = [(r, text) for r, text in zip(found, texts, strict=True) if r["verdict"] == name]
        if not part:
            continue
        x, low, high = ([at(r[column]) for r, _ in part] for column in ("value", "low", "high"))
        y = [rows[r["comparison"]] for r, _ in part]
        words = [f"{r['comparison']}: {text} ({r['low']:.3g} to {r['high']:.3g})" for r, text in part]
        marks.append(Mark("points", x, y, style, name, x_low=low, x_high=high, hollow=hollow, white=True, size=9, hover=words))
        marks.append(Mark("text", x, [v + TEXT_ABOVE for v in y], style, texts=[text for _, text in part]))
    return marks


def _forest_title(kept: "pd.DataFrame") -> str:
    parts = []
    for measure, words in SAID.items():
        verdicts = [verdict(row) for row in kept[kept["measure"] == measure].to_dict("records")]
        told = [f"{n} {one if n == 1 else many}" for name, one, many in words if (n := verdicts.count(name))]
        if verdicts:
            parts.append(listed(told) or f"none clearly changes {NOUNS[measure]}")
    return f"Of {kept['comparison'].nunique()} comparisons, {'; '.join(parts)}"


def _flat(frame: "pd.DataFrame") -> "pd.DataFrame":
    """Seeds as text: a CSV has no lists."""
    if "seed_values" not in frame:
        return frame
    return frame.assign(seed_values=["; ".join(f"{v:.6g}" for v in _seeds(row)) for row in frame.to_dict("records")])


def by_family(frame: "pd.DataFrame") -> Chart | None:
    """Dots with intervals, a row a family and a style a group: accuracy, leaf tokens. frame: of comparisons.load_families."""
    cost = "leaf_tokens_mean" if "leaf_tokens_mean" in frame else "leaf_tokens"
    if not has(frame, "label", "family", "pass_at_1") or not frame["pass_at_1"].notna().any():
        return None
    families = sorted(set(frame["family"]))
    labels = list(dict.fromkeys(frame["label"]))
    looks = styles(_group_of(label) for label in labels)
    shared = {"legend": "figure", "height": 0.3 + 0.05 * len(families) * (1 + len(labels)), "y_ticks": _family_names(frame, families)}

    def marks(column: str, at) -> list[Mark]:
        found = []
        for place, label in enumerate(labels):
            part = frame[(frame["label"] == label) & frame[column].notna()]
            y = [-families.index(family) + ((len(labels) - 1) / 2 - place) * 0.8 / len(labels) for family in part["family"]]
            x, low, high = ([at(v) for v in part[c]] for c in (column, f"{column}_low", f"{column}_high"))
            if len(part):
                found.append(Mark("points", x, y, looks[_group_of(label)], label, x_low=low, x_high=high, size=9))
        return found

    panels = [Panel("Accuracy", "pass@1", "", marks("pass_at_1", float), x_percent=True, **shared)]
    if cost in frame and frame[cost].notna().any():
        places = log_places(v for c in (cost, f"{cost}_low", f"{cost}_high") for v in frame[c])
        unnamed = {**shared, "y_ticks": dict.fromkeys(shared["y_ticks"], "")}
        panels.append(Panel("Leaf tokens a rollout", "mean (log)", "", marks(cost, places.at), log_x=True, ticks=places.ticks, **unnamed))
    reading = (
        "Held-out questions by family; dots are means over questions and seeds, bars 95 % intervals over both. "
        "Families have few questions each, so intervals are wide."
    )
    return Chart("study_families", _family_title(frame), reading, frame, panels, columns=len(panels))


def _group_of(label: str) -> str:
    """The group that a label names: its style is the same as in the other charts."""
    return {"untrained": "base", "leaf alone": "plain", "LoRA": "lora"}.get(label, label.replace(" ", "-"))


def _family_names(frame: "pd.DataFrame", families: Sequence[str]) -> dict[float, str]:
    counts = frame.groupby("family")["questions"].max() if "questions" in frame else {}
    told = {family: f"{family}\n({between([counts[family]])} questions)" if family in counts else family for family in families}
    return {-float(i): told[family] for i, family in enumerate(families)}


def _family_title(frame: "pd.DataFrame") -> str:
    """Where the best trained group gains most and least over the untrained policy; else its best and worst family."""
    table = frame.pivot_table(index="family", columns="label", values="pass_at_1")
    trained = [label for label in table.columns if _group_of(label) not in ("base", "plain")]
    if not trained or "untrained" not in table:
        best = table.mean().idxmax()
        easy, hard = table[best].idxmax(), table[best].idxmin()
        return (
            f"{capital(best)}: most right answers in {easy} ({percent(table[best][easy])}), fewest in {hard} ({percent(table[best][hard])})"
        )
    best = table[trained].mean().idxmax()
    gain = (table[best] - table["untrained"]).dropna()
    if not len(gain):
        return f"{capital(best)} and the untrained policy have no family in common"
    before, after = table["untrained"], table[best]
    ends = [(family, _moved(before[family], after[family])) for family in (gain.idxmax(), gain.idxmin())]
    if (gain <= 0).all():
        return f"{capital(best)} gains in none of the families; least is lost in {ends[0][0]} ({ends[0][1]})"
    said = f"{capital(best)} gains most in {ends[0][0]} ({ends[0][1]})"
    return said if len(gain) == 1 else f"{said} and least in {ends[1][0]} ({ends[1][1]})"


def _moved(before: float, after: float) -> str:
    first, last = percent(before), percent(after)
    return f"{first} before and after" if first == last else f"{first} to {last}"
