"""The runs of a folder as tidy frames: what every chart, table and claim of a study is drawn from.

    load_runs         a row a run            load_groups       a row a configuration, its seeds together
    load_steps        a row a training step  load_phases       shares of behaviour, a row a training step
    load_evaluations  a row an evaluation rollout

A group is the runs that differ by their seed alone, also where the sweep file names them in two places.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .. import measures
from ..behaviour import behaviour, shares
from ..config import Params
from ..errors import RunError
from ..runs import RunDir, read_json, read_jsonl, write_json
from ..scoring.passk import pass_at_k, quantile
from ..sweep.states import LABELS, true_status
from .seeds import Values, interval_over_seeds

if TYPE_CHECKING:
    import pandas as pd

COUNTED = (  # of a rollout
    "split", "family", "task", "example", "index", "correct", "leaf_tokens", "total_tokens", "leaf_calls", "children", "missing",
    "forced", "error", "context", "question",
)  # fmt: skip
MEANS = tuple(measures.RATES)  # with intervals over questions and seeds
NAMES = {  # of groups that a reader knows by another name
    "base": "untrained",
    "plain": "leaf alone",
    "lora": "LoRA",
    "depth2": "depth 2",
    "depth2-warm": "depth 2, T 1",
    "depth2-bonus": "depth 2, T 1, bonus",
}


@dataclass(frozen=True)
class Run:
    """A run of a sweep, with what its folder says."""

    name: str
    group: str
    kind: str  # train, untrained or plain
    dir: RunDir
    params: Params

    @property
    def seed(self) -> int:
        return self.params.seed

    @property
    def label(self) -> str:
        """The group's name for a reader."""
        if of_grid := re.fullmatch(r"rank(\d+)-lr(.+)", self.group):
            return f"rank {of_grid[1]}, lr {of_grid[2]}"
        return NAMES.get(self.group, self.group.replace("-", " "))

    @property
    def evaluation(self) -> str:
        """Folder of its evaluation."""
        return f"eval/{LABELS[self.kind]}"

    @cached_property
    def summary(self) -> dict:
        """Of its evaluation; {} where there is none."""
        return read_json(self.dir / f"{self.evaluation}/summary.json")

    @property
    def evaluated(self) -> bool:
        """Whether its evaluation is whole and has held-out rollouts that the machinery did not fail."""
        return "heldout" in self.summary and bool(self.rows)

    @cached_property
    def rows(self) -> list[dict]:
        """Rollouts of its evaluation, once it is whole: what is counted of them, as the trajectories of many runs would fill the memory."""
        whole = read_jsonl(self.dir / f"{self.evaluation}/rollouts.jsonl") if self.summary else []
        return [
            {**{name: row[name] for name in COUNTED}, "turns": [None] * len(row["turns"]), "behaviour": behaviour(row)} for row in whole
        ]

    def heldout(self) -> list[dict]:
        return [row for row in self.rows if row["split"] == "heldout"]


Runs = str | Path | list[Run]  # a folder of runs, or what read_runs gave of it


def read_runs(folder: Runs) -> list[Run]:
    """The runs that a folder's sweep.json lists, or without one every run directory in it. Raises RunError where there is none.

    Runs that were read already are given back, with what was read of their files.
    """
    if isinstance(folder, list):
        return folder
    folder = Path(folder)
    listed = read_json(folder / "sweep.json").get("runs")
    if listed is None:
        listed = [{"name": path.parent.name, "group": path.parent.name, "kind": "train"} for path in sorted(folder.glob("*/params.json"))]
    found = [
        Run(entry["name"], entry["group"], entry["kind"], directory, directory.params)
        for entry in listed
        if ((directory := RunDir(folder / entry["name"])) / "params.json").exists()
    ]
    if not found:
        raise RunError(f"{folder}: holds no runs; make some with python -m rlmlib.sweep FILE --out {folder}")
    return merged(found)


def merged(runs: list[Run]) -> list[Run]:
    """The same runs, those of one configuration in one group. Of several names the shortest stays: those of a grid are long."""
    names: dict[tuple, str] = {}
    for run in runs:
        key = configuration(run)
        names[key] = min(names.get(key, run.group), run.group, key=len)
    return [Run(run.name, names[configuration(run)], run.kind, run.dir, run.params) for run in runs]


def configuration(run: Run) -> tuple[str, str]:
    """What a run is, its name and seed aside."""
    return run.kind, json.dumps(run.params.model_copy(update={"name": "", "seed": 0}).model_dump(), sort_keys=True)


def by_group(runs: list[Run]) -> dict[str, list[Run]]:
    """Runs by group, groups and seeds in their order of appearance."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(run.group, []).append(run)
    return found


# --- frames ----------------------------------------------------------------------------------


def load_runs(folder: Runs) -> "pd.DataFrame":
    """A row a run: configuration, state and, where it was evaluated, the held-out measures with their intervals over questions."""
    import pandas as pd

    return pd.DataFrame([run_row(run) for run in read_runs(folder)])


def run_row(run: Run) -> dict:
    params, metrics = run.params, run.dir.metrics
    state, reason = true_status(run.dir)
    if not run.dir.status and run.evaluated:  # by a notebook alone, which keeps no status
        state = "done"
    lora = params.policy.tuning == "lora"
    return {
        "run": run.name,
        "group": run.group,
        "label": run.label,
        "kind": run.kind,
        "seed": run.seed,
        "state": state,
        "reason": reason,
        "tuning": params.policy.tuning,
        "rank": params.policy.lora.rank if lora else None,
        "lr": params.training.lr,
        "depth": params.harness.depth,
        "beta_max": params.reward.beta_max,
        "child_bonus": params.reward.child_bonus,
        "hidden_labels": params.tasks.hidden_labels,
        "steps": params.training.steps if run.kind == "train" else 0,
        "steps_done": len(metrics),
        "train_seconds": sum(row["sample_seconds"] + row["train_seconds"] for row in metrics),
        "eval_seconds": run.summary.get("seconds"),
        "greedy_pass_at_1": run.summary.get("greedy", {}).get("heldout", {}).get("pass_at_1", [None])[0],
        "seen_pass_at_1": run.summary.get("seen", {}).get("pass_at_1", [None])[0],
        **flattened(measures.summarise_split(run.heldout(), params) if run.evaluated else {}),
    }


def flattened(measured: dict) -> dict:
    """{NAME, NAME_low, NAME_high} of {NAME: (value, low, high)}; plain numbers stay; nested parts are left out."""
    found = {}
    for name, value in measured.items():
        if isinstance(value, tuple):
            found |= {name: value[0], f"{name}_low": value[1], f"{name}_high": value[2]}
        elif not isinstance(value, dict):
            found[name] = value
    return found


def load_groups(folder: Runs) -> "pd.DataFrame":
    """A row a group that was evaluated: held-out means over its seeds, with intervals over questions and seeds (see seeds.py)."""
    import pandas as pd

    rows = []
    for group, runs in by_group(read_runs(folder)).items():
        evaluated = [run for run in runs if run.evaluated]
        if evaluated:
            rows.append({**described(group, evaluated), **group_measures(evaluated)})
    return pd.DataFrame(rows)


def described(group: str, runs: list[Run]) -> dict:
    return {
        "group": group,
        "label": runs[0].label,
        "kind": runs[0].kind,
        "runs": len(runs),
        "seeds": ", ".join(str(run.seed) for run in sorted(runs, key=lambda run: run.seed)),
    }


def group_measures(runs: list[Run]) -> dict:
    """Means of RATES and pass@k over the seeds of a group; quantiles of the rollouts of all of them together."""
    found = {}
    for name in [*MEANS, *pass_names(runs)]:
        value, low, high = interval_over_seeds([values_of(run, name) for run in runs], runs[0].params)
        found |= {name: value, f"{name}_low": low, f"{name}_high": high}
    rows = [row for run in runs for row in run.heldout()]
    kept = [row for row in rows if row["error"] is None]
    tokens = [row["leaf_tokens"] for row in kept]
    found |= {f"leaf_tokens_{name}": quantile(tokens, q) for name, q in measures.QUANTILES.items()}
    found |= {"leaf_tokens_max": max(tokens), "error_rate": 1 - len(kept) / len(rows)}
    return found | {"n_rollouts": len(kept), "n_examples": len({asked(row) for row in kept})}


def pass_names(runs: list[Run]) -> list[str]:
    """pass_at_1 to pass_at_n, n of the run with the fewest rollouts an example."""
    n = min(min(len(rows) for rows in measures.by_example(run.heldout()).values()) for run in runs)
    return [f"pass_at_{k}" for k in range(1, n + 1)]


def values_of(run: Run, name: str) -> Values:
    """A measure of each held-out example of a run: its mean over rollouts, or its pass@k. Keys: see `asked`."""
    groups = {asked(rows[0]): rows for rows in measures.by_example(run.heldout()).values()}
    if name.startswith("pass_at_"):
        k = int(name.removeprefix("pass_at_"))
        values = {e: pass_at_k(len(g), sum(r["correct"] for r in g), k) for e, g in groups.items()}
    else:
        values = {e: float(np.mean([measures.RATES[name](r) for r in g])) for e, g in groups.items()}
    return Values(values, {e: g[0]["family"] for e, g in groups.items()})


def asked(row: dict) -> str:
    """What a rollout was asked. The name of an example does not say it: heldout-00003 is another question with another seed."""
    return "\n".join((row["example"], row["context"] or "", row["question"]))


def load_steps(folder: Runs) -> "pd.DataFrame":
    """All rows of metrics.jsonl, with run, group, label and seed."""
    import pandas as pd

    return pd.DataFrame([{**identity(run), **row} for run in read_runs(folder) for row in run.dir.metrics])


def load_phases(folder: Runs) -> "pd.DataFrame":
    """Shares of behaviour among the sampled rollouts of each training step (see behaviour.py). Kept in the run as phases.json."""
    import pandas as pd

    return pd.DataFrame([{**identity(run), **row} for run in read_runs(folder) for row in phases(run.dir)])


def phases(run: RunDir) -> list[dict]:
    """A row a step: step, rollouts that the machinery did not fail, and their shares. A step without any has no row.

    Rollouts files are large, so what was counted is kept beside them; a step is counted again where its file is newer.
    """
    path = run / "phases.json"
    counted = read_json(path).get("steps", {})
    known = path.stat().st_mtime if counted else 0.0
    steps = [str(row["step"]) for row in run.metrics]
    fresh = {step: phase(run, step) for step in steps if step not in counted or changed_since(run / f"rollouts/step_{step}.jsonl", known)}
    if fresh:
        counted |= fresh
        write_json(path, {"steps": counted})
    return [{"step": int(step), **counted[step]} for step in steps if counted[step]]


def changed_since(path: Path, when: float) -> bool:
    return path.exists() and path.stat().st_mtime > when


def sampled(run: RunDir, step: int | str) -> list[dict]:
    """Rollouts of a training step that the machinery did not fail."""
    return [row for row in read_jsonl(run / f"rollouts/step_{step}.jsonl") if row["error"] is None]


def phase(run: RunDir, step: int | str) -> dict:
    """Rollouts of a step and their shares; {} of none."""
    rows = sampled(run, step)
    return {"rollouts": len(rows), **shares(rows)} if rows else {}


def load_evaluations(folder: Runs) -> "pd.DataFrame":
    """A row an evaluation rollout of every run: identity, question, outcome, cost and behaviour."""
    import pandas as pd

    return pd.DataFrame(list(_evaluations(read_runs(folder))))


def _evaluations(runs: list[Run]) -> Iterator[dict]:
    columns = [name for name in (*COUNTED, "behaviour") if name not in ("context", "question")]
    for run in runs:
        for row in run.rows:
            yield {**identity(run), "kind": run.kind, **{name: row[name] for name in columns}}


def identity(run: Run) -> dict:
    return {"run": run.name, "group": run.group, "label": run.label, "seed": run.seed}
