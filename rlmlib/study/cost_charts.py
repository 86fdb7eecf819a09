"""Charts of what accuracy costs: groups on accuracy and leaf tokens, pass@k, differences between groups, families of questions."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..charts import Chart, count, percent
from ..drawing.axes import LogPlaces, log_places
from ..drawing.panels import Mark, Panel
from .difference_charts import by_family, differences
from .looks import ALONE, BASE, HEADLINE, capital, chosen, has, listed, names, questions_told, seeds_told, styles

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["by_family", "cost_accuracy_of_groups", "differences", "pareto_front", "pass_at_k_of_groups"]

KS = (1, 5, 10)  # attempts, a panel each
COST = "leaf_tokens_mean"
NAMED = 4  # most groups on the front that the title names
TOKENS = "mean leaf tokens a rollout (log)"


def pareto_front(tokens: Sequence[float], right: Sequence[float]) -> list[int]:
    """Places of the points that no other dominates, from the cheapest to the dearest.

    A point dominates another if it is right at least as often for at most as many tokens, and better in one of them. Of equal points
    all are on the front. Points with a missing number (NaN) are not.
    """
    known = [i for i, (t, r) in enumerate(zip(tokens, right, strict=True)) if t == t and r == r]
    order = sorted(known, key=lambda i: (tokens[i], -right[i]))
    front: list[int] = []
    for i in order:
        best = front[-1] if front else None
        if best is None or right[i] > right[best] or (right[i] == right[best] and tokens[i] == tokens[best]):
            front.append(i)
    return front


def cost_accuracy_of_groups(groups: "pd.DataFrame") -> Chart | None:
    """Accuracy against leaf tokens, a point a group and a panel for each of KS. groups: of load_groups. None where nothing was measured."""
    ks = [k for k in KS if has(groups, f"pass_at_{k}", COST) and (groups[f"pass_at_{k}"].notna() & groups[COST].notna()).any()]
    if not ks:
        return None
    places = log_places(v for part in ("", "_low", "_high") for v in groups[f"{COST}{part}"] if v == v)
    panels = [_cost_panel(groups, k, places, first=k == ks[0]) for k in ks]
    measured = [f"pass_at_{k}{part}" for k in ks for part in ("", "_low", "_high")]
    columns = ["group", "label", "runs", "seeds", COST, f"{COST}_low", f"{COST}_high", *measured]
    frame = groups[[c for c in columns if c in groups]].assign(on_front=_on_front(groups, ks[0]))
    reading = (
        f"Mean over {questions_told(groups)} and seeds ({seeds_told(groups['runs'])}); lines through a point are 95 % intervals over "
        "questions and seeds. Up is more accurate, left is cheaper. The stepped line joins the groups that no other beats in both; "
        "hollow groups are beaten. r: rank of LoRA, lr: learning rate. "
        "pass@k: chance that one of k attempts is right, while tokens are those of one attempt."
    )
    return Chart("study_cost_accuracy", _cost_title(groups, ks[0]), reading, frame, panels, columns=max(1, len(ks) - 1))


def _on_front(groups: "pd.DataFrame", k: int) -> list[bool]:
    front = set(pareto_front(list(groups[COST]), list(groups[f"pass_at_{k}"])))
    return [i in front for i in range(len(groups))]


def _cost_panel(groups: "pd.DataFrame", k: int, places: LogPlaces, first: bool) -> Panel:
    """first: the wide panel, in which every group has its name; the others name the headline, the baselines and the best group."""
    column = f"pass_at_{k}"
    known = groups.assign(on_front=_on_front(groups, k))
    unpriced = known[known[column].notna() & known[COST].isna()].to_dict("records")
    known = known[known[column].notna() & known[COST].notna()]
    looks = styles(group for group in (*HEADLINE, ALONE) if group in set(groups["group"]))
    texts, marks = _texts(known, column, first), [_front_line(known, column, places)]
    for row in known.to_dict("records"):
        style = looks.get(row["group"], "plain" if row["on_front"] else "muted")
        marks += _point(row, column, style, texts[row["group"]], places, not (row["on_front"] or row["group"] in (BASE, ALONE)))
    for row in unpriced:  # measured without tokens: a level to be above
        marks.append(Mark("horizontal", [], [row[column]], looks.get(row["group"], "plain"), end=row["label"]))
    options = {"wide": True, "height": 1.75} if first else {}
    return Panel(
        f"pass@{k}", TOKENS, "right answers", marks, log_x=True, percent=True, ticks=places.ticks, zero=False, spread=True, **options
    )  # fmt: skip


def _texts(known: "pd.DataFrame", column: str, everyone: bool) -> dict[str, str]:
    """What is written at the point of each group; of groups with the very same numbers the first has the names of all."""
    labels, best = names(known), known.loc[known[column].idxmax(), "group"]
    found, spots = {}, {}
    for group, *spot in known[["group", COST, column]].itertuples(index=False):
        at = spots.setdefault(tuple(spot), group)
        wanted = everyone or group in (*HEADLINE, ALONE, best)
        found[group] = labels[group] if wanted and at == group else ""
        if wanted and at != group:
            found[at] = "\n".join(part for part in (found[at], labels[group]) if part)
    return found


def _front_line(known: "pd.DataFrame", column: str, places: LogPlaces) -> Mark:
    front = known[known["on_front"]].sort_values([COST, column])
    x = [places.at(v) for v in front[COST]]
    edge = places.at(known[COST].max())
    return Mark("step", [*x, edge], [*front[column], front[column].max()], "plain")


def _point(row: dict, column: str, style: str, name: str, places: LogPlaces, beaten: bool) -> list[Mark]:
    """The interval of a group both ways, then its point."""
    x, y = [places.at(row[COST])], [row[column]]
    spans = {"low": [row[f"{column}_low"]], "high": [row[f"{column}_high"]]}
    spans |= {"x_low": [places.at(row[f"{COST}_low"])], "x_high": [places.at(row[f"{COST}_high"])]}
    words = (
        f"{row['label']}: {percent(y[0])} ({percent(spans['low'][0])} to {percent(spans['high'][0])})"
        f"<br>{count(row[COST])} leaf tokens ({count(row[f'{COST}_low'])} to {count(row[f'{COST}_high'])})"
    )
    look = {"hollow": True, "white": True, "size": 8} if beaten else {"size": 11}
    return [
        Mark("points", x, y, style, light=True, size=1, **spans),
        Mark("points", x, y, style, texts=[name], hover=[words], **look),
    ]


def _cost_title(groups: "pd.DataFrame", k: int) -> str:
    """The best group, against the untrained policy where there is one, and who is on the front."""
    column = f"pass_at_{k}"
    known = groups[groups[column].notna() & groups[COST].notna()]
    rows = {row["group"]: row for row in known.to_dict("records")}
    trained = [row for row in rows.values() if row["group"] not in (BASE, ALONE)]
    base = rows.get(BASE)
    if not trained or len(rows) == 1:
        only = base or next(iter(rows.values()))
        return f"{capital(only['label'])}: {percent(only[column])} right answers for {count(only[COST])} leaf tokens a rollout"
    best = max(trained, key=lambda row: row[column])
    if base is None:
        said = f"{best['label']} is right most often: {percent(best[column])} for {count(best[COST])} leaf tokens a rollout"
    elif best[column] <= base[column]:
        said = f"No trained group is right more often than the untrained policy ({percent(base[column])})"
    else:
        said = (
            f"{capital(best['label'])} is right most often, {percent(best[column])} for {count(best[COST])} leaf tokens a rollout; "
            f"untrained: {percent(base[column])} for {count(base[COST])}"
        )
    on_front = [known["label"].iloc[i] for i in pareto_front(list(known[COST]), list(known[column]))]
    told = listed(on_front) if len(on_front) <= NAMED else f"{len(on_front)} of {len(known)} groups"
    return f"{capital(said)}. On the front: {told}"


def pass_at_k_of_groups(groups: "pd.DataFrame") -> Chart | None:
    """Curves of pass@k over k for the headline groups. groups: of load_groups. None where no group has more than one attempt."""
    import pandas as pd

    if not has(groups, "group", "pass_at_2"):
        return None
    several = groups[groups["pass_at_2"].notna()]
    shown = chosen(several)
    if not shown:
        return None
    rows, looks, marks = [], styles(shown), []
    for row in several.set_index("group", drop=False).loc[shown].to_dict("records"):
        curve = _curve(row)
        rows += curve
        x, y, low, high = ([point[name] for point in curve] for name in ("k", "value", "low", "high"))
        style = looks[row["group"]]
        marks += [
            Mark("band", x, y, style, low=low, high=high),
            Mark("line", x, y, style, end=row["label"]),
            Mark("points", x, y, style, size=7),
        ]
    frame = pd.DataFrame(rows)
    ks = sorted(set(frame["k"]))
    panel = Panel("", "k, attempts at a question", "at least one is right", marks, percent=True, ticks={k: str(k) for k in ks})
    reading = (
        f"Share of {questions_told(several)} with a right answer among k attempts: the unbiased estimate, mean over seeds "
        f"({seeds_told(several.set_index('group').loc[shown, 'runs'])}); bands are 95 % intervals over questions and seeds. "
        "A lead at k = 1 that is gone at larger k means that training re-weights what the policy could do before."
    )
    return Chart("study_pass_at_k", _pass_title(frame), reading, frame, [panel])


def _curve(row: dict) -> list[dict]:
    """pass@k of a group for each k that it has."""
    found, k = [], 1
    while (value := row.get(f"pass_at_{k}", math.nan)) == value:
        low, high = row[f"pass_at_{k}_low"], row[f"pass_at_{k}_high"]
        found.append({"group": row["group"], "label": row["label"], "k": k, "value": value, "low": low, "high": high})
        k += 1
    return found


def _pass_title(frame: "pd.DataFrame") -> str:
    """Who leads at one attempt and who at the most, and by how much over the untrained policy."""
    table = frame.pivot(index="label", columns="k", values="value").dropna(axis=1)
    last = max(table.columns)
    first_label, last_label = table[1].idxmax(), table[last].idxmax()
    base = next(iter(frame.loc[frame["group"] == BASE, "label"]), None)
    trained = [label for label in table.index if label != base]
    if base is None or not trained:
        same = f"also at {last} ({percent(table[last].max())})"
        other = f"at {last} {last_label} ({percent(table[last].max())})"
        return f"At one attempt {first_label} leads ({percent(table[1].max())}), {same if first_label == last_label else other}"
    best = table.loc[trained, 1].idxmax()
    first, then = (round(100 * (table.loc[best, k] - table.loc[base, k])) for k in (1, last))
    told = f"{_verb(first)} {base} by {abs(first)} points" if first else f"is level with {base}"
    if _verb(first) == _verb(then):
        end = f"and by {abs(then)} at k = {last}" if then else f"and at k = {last}"
    else:
        end = f"but {_verb(then)} by {abs(then)} at k = {last}" if then else f"but is level at k = {last}"
    return f"{capital(best)} {told} at k = 1 {end}"


def _verb(points: int) -> str:
    return "leads" if points > 0 else "trails" if points < 0 else "is level with"
