"""What a sweep will take, told before it starts: a row a run, with hours and dollars."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..runs import RunDir
from ..training import work
from ..training.preflight import Device, device_here
from .grid import Planned
from .states import state_of

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Cost:
    """Of one run. None: not known. Evaluations are counted by their rollouts, as training is."""

    hours: float | None
    dollars: float | None


def cost_of(planned: Planned, run: RunDir, device: Device) -> Cost:
    """An estimate of what is left of a run, from what it measured or from what was measured before it."""
    if state_of(planned, run).state == "done":
        return Cost(0.0, 0.0)
    done = work.work(planned.params, device.kind, run if run.path.exists() else None)
    config, training = planned.params.evaluation, max(1, done.rollouts * done.steps)
    evaluated = (config.heldout_examples + config.seen_examples) * (1 if planned.kind == "plain" else config.rollouts_per_example)
    share = (evaluated + (training if planned.kind == "train" else 0)) / training
    return Cost(*(None if known is None else known * share for known in (done.hours, done.dollars)))


def plan_table(runs: list[Planned], out: Path) -> "pd.DataFrame":
    """run, kind, what sets it apart, state, hours, dollars."""
    import pandas as pd

    device = device_here()
    rows = []
    for planned in runs:
        run = RunDir(out / planned.name)
        cost = cost_of(planned, run, device)
        changes = ", ".join(f"{key} {value}" for key, value in planned.changes.items())
        rows.append(
            {
                "run": planned.name,
                "kind": planned.kind,
                "changes": changes or "none",
                "state": state_of(planned, run).state,
                "hours": cost.hours,
                "dollars": cost.dollars,
            }
        )
    return pd.DataFrame(rows)


def told(table: "pd.DataFrame", at_once: int) -> str:
    """The plan in a sentence."""
    left = table[table["state"] != "done"]
    hours, dollars = left["hours"].sum() / at_once, left["dollars"].sum()
    unknown = int(left["hours"].isna().sum()), int(left["dollars"].isna().sum())
    text = f"{len(table)} runs, {len(left)} to do, {at_once} at a time: about {hours:.1f} hours and {dollars:,.2f} dollars"
    return text + (f", without {max(unknown)} runs for which nothing is known" if any(unknown) else "")
