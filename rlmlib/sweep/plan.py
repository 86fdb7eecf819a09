"""What a sweep will take, told before it starts: a row a run, with hours and dollars."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..runs import RunDir
from .grid import Planned
from .states import state_of

if TYPE_CHECKING:
    import pandas as pd

    from ..training.preflight import Device


@dataclass(frozen=True)
class Cost:
    """Of one run. None: not known. Evaluations are counted by their rollouts, as training is."""

    hours: float | None
    dollars: float | None


def cost_of(planned: Planned, run: RunDir, device: "Device") -> Cost:
    """An estimate of what is left of a run, from what it measured or from what was measured before it."""
    from ..training import work  # loads torch: a file with a mistake is refused without that

    if state_of(planned, run).state == "done":
        return Cost(0.0, 0.0)
    left = work.work(planned.params, device.kind, run if run.path.exists() else None)
    priced = left if left.steps else work.work(planned.params, device.kind)  # trained already: nothing left to measure it by
    rollouts = evaluated(planned) + (left.rollouts * left.steps if planned.kind == "train" else 0)
    share = rollouts / (priced.rollouts * priced.steps)
    return Cost(*(None if known is None else known * share for known in (priced.hours, priced.dollars)))


def evaluated(planned: Planned) -> int:
    """Rollouts of a run's evaluation."""
    config = planned.params.evaluation
    each = 1 if planned.kind == "plain" else config.rollouts_per_example + config.greedy
    return (config.heldout_examples + config.seen_examples) * each


def plan_table(runs: list[Planned], out: Path) -> "pd.DataFrame":
    """run, kind, what sets it apart, state, hours, dollars."""
    import pandas as pd

    from ..training.preflight import device_here

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
    return pd.DataFrame(rows).astype({"hours": float, "dollars": float})


def told(table: "pd.DataFrame", at_once: int) -> str:
    """The plan in a sentence. Hours are of the wall clock."""
    left = table[table["state"] != "done"]
    hours, dollars = left["hours"].dropna(), left["dollars"].dropna()
    wall = max(hours.sum() / at_once, hours.max()) if len(hours) else 0.0  # one run is not split
    spent = [_amount(f"{wall:.1f}", "hours", len(hours), len(left)), _amount(f"{dollars.sum():,.2f}", "dollars", len(dollars), len(left))]
    return f"{_runs(len(table))}, {len(left)} to do, {at_once} at a time: {', '.join(spent)}"


def _amount(number: str, unit: str, known: int, runs: int) -> str:
    """known: runs that the number is of."""
    if known == runs:
        return f"about {number} {unit}"
    return f"about {number} {unit} (not known for {_runs(runs - known)})" if known else f"{unit} not known"


def _runs(number: int) -> str:
    return f"{number} run" if number == 1 else f"{number} runs"
