"""What the runs that failed were like before their end: a chart and a table."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..charts import Chart, percent
from ..drawing.axes import log_places
from ..drawing.panels import Mark, Panel
from .looks import SPARE, between, has, listed, short_name

if TYPE_CHECKING:
    import pandas as pd

ENDED = ("failed", "timeout")
BEST_OVER = 5  # steps that the best right answers of a run are a mean of
MOST = 5  # runs that are drawn
COLUMNS = ["run", "stopped at", "planned", "reason", "best step before", "right then", "entropy at end"]
MEASURES = (  # column, title, share or log
    ("reply_tokens", "Reply tokens a rollout", ""),
    ("entropy", "Entropy, nats a token (log)", "log"),
    ("missing", "No final answer", "share"),
    ("correct", "Right answers", "share"),
)


def failed_runs(runs: "pd.DataFrame") -> "pd.DataFrame":
    """Training runs that ended before their planned steps because something was wrong."""
    return runs[(runs["kind"] == "train") & runs["state"].isin(ENDED)] if has(runs, "kind", "state") else runs.head(0)


def post_mortem_table(runs: "pd.DataFrame", steps: "pd.DataFrame") -> "pd.DataFrame":
    """A row a failed run: COLUMNS. right then: the highest mean of right answers over BEST_OVER steps; best step before: their last."""
    import pandas as pd

    rows = []
    for run in failed_runs(runs).to_dict("records"):
        own = steps[steps["run"] == run["run"]].sort_values("step") if has(steps, "run", "step") else steps
        best = own["correct"].rolling(min(BEST_OVER, len(own))).mean() if len(own) else None
        values = [run["run"], run["steps_done"], run["steps"], short_reason(run["reason"])]
        if best is None or not best.notna().any():
            values += [None, None, None]
        else:
            values += [int(own.loc[best.idxmax(), "step"]), float(best.max()), float(own["entropy"].iloc[-1])]
        rows.append(dict(zip(COLUMNS, values, strict=True)))
    return pd.DataFrame(rows, columns=COLUMNS)


def short_reason(reason: str) -> str:
    """Why a run was stopped, without its step, checkpoint and advice."""
    found = re.search(r"stopped, as (.*?)(?:;|$)", reason)
    return found[1] if found else re.sub(r"^(train: )?step \d+: ", "", reason.split(";")[0])


def post_mortem(steps: "pd.DataFrame", runs: "pd.DataFrame") -> Chart | None:
    """Measures of the failed runs over their steps, with where each was stopped. None where none failed after a step."""
    failed = failed_runs(runs)
    if not len(failed) or not has(steps, "run", "step", "correct"):
        return None
    frame = steps[steps["run"].isin(failed["run"])]
    lived = failed[failed["run"].isin(frame["run"])].sort_values("steps_done", kind="stable").to_dict("records")
    if not lived:
        return None
    drawn, frame = lived[:MOST], frame[frame["run"].isin([run["run"] for run in lived[:MOST]])]
    labels = _run_names(drawn)
    there = [m for m in MEASURES if m[0] in frame and frame[m[0]].notna().any()]
    panels = [_panel(frame, drawn, labels, *measure, first=number == 0) for number, measure in enumerate(there)]
    columns = ["run", "group", "label", "seed", "step", *(column for column, *_ in there)]
    why = "; ".join(f"{labels[run['run']]}: {short_reason(run['reason'])}" for run in drawn)
    more = f" {len(lived) - MOST} that lasted longer are in the table only." if len(lived) > MOST else ""
    reading = (
        f"A line a run; vertical lines: where it was stopped. Why: {why}.{more} "
        f"At best: mean over {BEST_OVER} steps. All sampled rollouts of a step count."
    )
    return Chart("study_post_mortem", _title(lived, runs, steps), reading, frame[[c for c in columns if c in frame]], panels, columns=2)


def _title(lived: Sequence[dict], runs: "pd.DataFrame", steps: "pd.DataFrame") -> str:
    best = post_mortem_table(runs, steps)["right then"].max()
    done = [run["steps_done"] for run in lived]
    ends = listed([str(number) for number in done]) if len(done) <= MOST else between(done)
    trained = int((runs["kind"] == "train").sum())
    return (
        f"{len(lived)} of {trained} training {'run was' if trained == 1 else 'runs were'} stopped, after {ends} of "
        f"{between(run['steps'] for run in lived)} steps; at best, {percent(best)} of their answers had been right"
    )


def _run_names(lived: Sequence[dict]) -> dict[str, str]:
    """Run -> its group's short name, with the seed where several of a group failed."""
    labels = [str(run.get("label", run["run"])) for run in lived]
    return {
        run["run"]: short_name(label) + (f", seed {run['seed']}" if labels.count(label) > 1 else "")
        for run, label in zip(lived, labels, strict=True)
    }


def _panel(frame: "pd.DataFrame", lived: Sequence[dict], labels: dict, column: str, title: str, form: str, first: bool) -> Panel:
    places = log_places(frame[column]) if form == "log" else None
    marks = []
    for number, run in enumerate(lived):
        own, style = frame[frame["run"] == run["run"]].sort_values("step"), SPARE[number % len(SPARE)]
        x, y = list(own["step"]), [places.at(v) if places else v for v in own[column]]
        label, stopped = labels[run["run"]], f"stopped after {run['steps_done']}"
        name = f"{label}\n{stopped}" if first else label
        marks.append(Mark("vertical", [x[-1]], [], style, light=True, texts=[f"{label}: {stopped} steps"]))
        marks.append(Mark("line" if len(x) > 1 else "points", x, y, style))
        marks.append(Mark("points", x[-1:], y[-1:], style, texts=[name]))
    options = {"percent": form == "share", "log_y": form == "log", "y_ticks": places.ticks if places else {}}
    reach = (0, max(run["steps"] for run in lived))
    return Panel(title, "step", "", marks, x_reach=reach, spread=True, **options)
