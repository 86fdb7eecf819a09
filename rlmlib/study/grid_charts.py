"""The grid of LoRA runs, rank by learning rate: accuracy, cost, and which runs reached their end."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..charts import Chart, count, percent
from ..drawing.panels import Mark, Panel
from .looks import between, has, rate_name
from .post_mortem_charts import ENDED, short_reason

if TYPE_CHECKING:
    import pandas as pd

OTHERS = ("depth", "beta_max", "child_bonus", "hidden_labels")  # what the runs of the grid have in common
MEASURES = ("pass_at_1", "leaf_tokens_mean")
EXTRA = ("rank", "lr", "run", "seed", "state", "steps", "steps_done", "reason")


def lora_grid(runs: "pd.DataFrame") -> Chart | None:
    """Three heat maps, rank by learning rate. runs: of load_runs. None where fewer than two places of a grid were tried."""
    grid = grid_runs(runs)
    if not len(grid) or len(grid[["rank", "lr"]].drop_duplicates()) < 2:
        return None
    panels = [
        _panel(grid, "Right answers (pass@1)", _measured("pass_at_1", percent), first=True),
        _panel(grid, "Mean leaf tokens (log colour)", _measured("leaf_tokens_mean", count), log_values=True),
        _panel(grid, "Steps done", _survived),
    ]
    kept = [c for c in (*EXTRA, *(f"{m}{part}" for m in MEASURES for part in ("", "_low", "_high"))) if c in grid]
    frame = grid[kept].assign(reason=[short_reason(str(why)) for why in grid["reason"]]).sort_values(["rank", "lr"])
    seeds = between(part["seed"].nunique() for _, part in grid.groupby(["rank", "lr"]))
    reading = (
        f"Each cell is a rank of LoRA at a learning rate: {seeds} seed{'' if seeds == '1' else 's'} each, held-out questions; of several "
        "seeds the mean. Darker is more. "
        "Hatched: a run was stopped before its end, as it diverged or failed."
    )
    return Chart("study_lora_grid", _title(grid), reading, frame, panels, columns=len(panels))


def grid_runs(runs: "pd.DataFrame") -> "pd.DataFrame":
    """LoRA training runs that have in common what most of them have; only rank, learning rate and seed set them apart."""
    if not has(runs, "kind", "tuning", "rank", "lr", "state"):
        return runs.head(0)
    found = runs[(runs["kind"] == "train") & (runs["tuning"] == "lora") & runs["rank"].notna()]
    others = [name for name in OTHERS if name in found]
    if not len(found) or not others:
        return found
    keys = [tuple(row) for row in found[others].astype(object).to_numpy()]
    usual = max(dict.fromkeys(keys), key=keys.count)
    return found[[key == usual for key in keys]]


def _panel(grid: "pd.DataFrame", title: str, cell: Callable, first: bool = False, **options) -> Panel:
    """cell: the runs of a place -> (value or None, text)."""
    ranks, rates = (sorted(set(grid[name])) for name in ("rank", "lr"))
    places = [(rates.index(lr), ranks.index(rank), grid[(grid["rank"] == rank) & (grid["lr"] == lr)]) for rank in ranks for lr in rates]
    cells = [cell(part) if len(part) else (None, "not run") for *_, part in places]
    mark = Mark(
        "cells", [x for x, *_ in places], [y for _, y, _ in places], texts=[text for _, text in cells],
        values=[value for value, _ in cells], hatched=[bool(part["state"].isin(ENDED).any()) for *_, part in places],
        hover=[_told(part, ranks[y], rates[x]) for x, y, part in places],
    )  # fmt: skip
    ticks = {"ticks": {i: rate_name(lr) for i, lr in enumerate(rates)}, "y_ticks": {float(i): f"{r:g}" for i, r in enumerate(ranks)}}
    return Panel(title, "learning rate", "rank" if first else "", [mark], **ticks, **options)


def _told(part: "pd.DataFrame", rank: float, lr: float) -> str:
    lines = [f"{row['run']}: {row['state']}, {row['steps_done']} of {row['steps']} steps" for row in part.to_dict("records")]
    return "<br>".join([f"rank {rank:g}, lr {rate_name(lr)}", *lines])


def _measured(column: str, form: Callable[[float], str]) -> Callable:
    def cell(part: "pd.DataFrame") -> tuple[float | None, str]:
        known = part[column].dropna() if column in part else part["rank"].head(0)
        if not len(known):
            return None, _why(part)
        lost = int(part["state"].isin(ENDED).sum())
        more = f"\n{lost} of {len(part)} stopped" if lost else f"\n{len(known)} seeds" if len(known) > 1 else ""
        return float(known.mean()), f"{form(known.mean())}{more}"

    return cell


def _why(part: "pd.DataFrame") -> str:
    """Why a place has no measure."""
    states = set(part["state"])
    if states & set(ENDED):
        return f"stopped\nat step {between(part['steps_done'])}"
    return "no score" if "done" in states else ", ".join(sorted(states))


def _survived(part: "pd.DataFrame") -> tuple[float, str]:
    shares = part["steps_done"] / part["steps"]
    lost = part[part["state"].isin(ENDED)]
    if len(part) == 1 and len(lost):
        return float(shares.mean()), f"stopped\nat step {between(lost['steps_done'])}\nof {between(lost['steps'])}"
    said = f"{between(part['steps_done'])} of {between(part['steps'])}"
    if len(lost):
        said += f"\n{len(lost)} of {len(part)} stopped\nat step {between(lost['steps_done'])}"
    return float(shares.mean()), said


def _title(grid: "pd.DataFrame") -> str:
    """Which place is best, and how many runs were lost. How much rate and rank matter is for claims.py to say."""
    lost = int(grid["state"].isin(ENDED).sum())
    stopped = f"{lost} of {len(grid)} runs stopped early" if lost else f"none of {len(grid)} runs stopped early"
    if lost == len(grid):
        return f"All {lost} runs of the grid stopped early"
    if "pass_at_1" not in grid or not grid["pass_at_1"].notna().any():
        return f"No run of the grid is evaluated yet; {stopped}"
    means = grid.groupby(["rank", "lr"])["pass_at_1"].mean()
    rank, lr = means.idxmax()
    return f"Rank {rank:g} at lr {rate_name(lr)} is right most often ({percent(means.max())}); {stopped}"
