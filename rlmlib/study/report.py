"""The report of a study: one page over all runs of a folder, its charts as files, and its numbers as tables.

    python -m rlmlib.study.report outputs/tiny-study [--out FOLDER] [--pictures]

Written to OUT: report.html, figures/NAME.{json,svg,png,csv}, runs.csv, groups.csv, claims.csv, steps.csv. Exit codes: 0 done, 2 an error
told in one line.
"""

import argparse
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from .. import page
from ..charts import Chart
from ..command_line import exit_code
from ..notebook import shown
from ..runs import read_json, write_text
from ..wording import duration, interval, share, tokens
from . import behaviour_charts, comparisons, cost_charts, difference_charts, frames, grid_charts, post_mortem_charts, training_charts
from .claims import claims
from .verdicts import NOT_RUN

if TYPE_CHECKING:
    import pandas as pd

SHOWN = ("lora", "no-penalty", "full")  # groups of the charts over steps
SECTIONS = (  # heading, names of charts
    ("Accuracy against cost", ("study_cost_accuracy",)),
    ("Training", ("study_dynamics",)),
    ("Rank and learning rate", ("study_lora_grid",)),
    ("Behaviour", ("study_phases", "study_leaf_tails")),
    ("More than one attempt", ("study_pass_at_k",)),
    ("What makes a difference", ("study_differences", "study_families")),
    ("Depth 2", ("study_depth",)),
    ("Runs that had to be stopped", ("study_post_mortem",)),
)
COLUMNS = (  # measure, heading, form
    ("pass_at_1", "pass@1", share),
    ("pass_at_10", "pass@10", share),
    ("leaf_tokens_mean", "leaf tokens, mean", tokens),
    ("total_tokens_mean", "all tokens, mean", tokens),
    ("missing_final", "no final answer", share),
)


@dataclass(frozen=True)
class Study:
    """The frames of a folder of runs, each made when it is first asked for; files are read once."""

    folder: Path

    @cached_property
    def read(self) -> list[frames.Run]:
        return frames.read_runs(self.folder)

    @cached_property
    def runs(self) -> "pd.DataFrame":
        return frames.load_runs(self.read)

    @cached_property
    def groups(self) -> "pd.DataFrame":
        return frames.load_groups(self.read)

    @cached_property
    def steps(self) -> "pd.DataFrame":
        return frames.load_steps(self.read)

    @cached_property
    def phases(self) -> "pd.DataFrame":
        return frames.load_phases(self.read)

    @cached_property
    def evaluations(self) -> "pd.DataFrame":
        return frames.load_evaluations(self.read)

    @cached_property
    def claims(self) -> "pd.DataFrame":
        return claims(self.read)

    @cached_property
    def charts(self) -> dict[str, Chart]:
        """Every chart that the folder has data for, by name."""
        return all_charts(self)

    @property
    def name(self) -> str:
        return read_json(self.folder / "sweep.json").get("name", self.folder.name)


def render(folder: str | Path, out: str | Path | None = None, interactive: bool = True) -> Path:
    """Write the report of a folder of runs to OUT (default: the folder itself); returns report.html.

    interactive: with Plotly in the page, once (5 MB); else its charts are pictures. Raises RunError where the folder holds no runs.
    """
    return write(Study(Path(folder)), Path(out or folder), interactive)


def write(study: Study, out: Path, interactive: bool = True) -> Path:
    """The same of a study whose files may have been read already."""
    for chart in study.charts.values():
        chart.save(out / "figures")
    for name in ("runs", "groups", "claims", "steps"):
        write_text(out / f"{name}.csv", getattr(study, name).to_csv(index=False))
    write_text(out / "report.html", page.render("study.html.j2", **contents(study, interactive)))
    return out / "report.html"


def all_charts(study: Study) -> dict[str, Chart]:
    shown = [group for group in SHOWN if group in set(study.groups.get("group", ()))]
    made = [
        cost_charts.cost_accuracy_of_groups(study.groups),
        cost_charts.pass_at_k_of_groups(study.groups),
        difference_charts.differences(comparisons.load_differences(study.read)),
        difference_charts.by_family(comparisons.load_families(study.read)),
        training_charts.dynamics_of_groups(study.steps, shown),
        training_charts.depth_two(study.steps, study.groups),
        post_mortem_charts.post_mortem(study.steps, study.runs),
        grid_charts.lora_grid(study.runs),
        behaviour_charts.behaviour_phases(study.phases, shown),
        behaviour_charts.leaf_token_tails(study.evaluations),
    ]
    return {chart.name: chart for chart in made if chart is not None}


def contents(study: Study, interactive: bool) -> dict:
    """What the template shows."""
    views = {name: page.view(chart, interactive) for name, chart in study.charts.items()}
    sections = [(heading, [views[name] for name in names if name in views]) for heading, names in SECTIONS]
    parts = page.interactive_parts(study.charts.values()) if interactive else {"plotly_js": "", "specs": ""}
    return {
        "name": study.name,
        "headline": headline(study),
        "how": how(study),
        "table": group_table(study.groups).to_dict("records"),
        "costs": cost_table(study.groups).to_dict("records"),
        "claims": study.claims.to_dict("records"),
        "sections": [section for section in sections if section[1]],
        "post_mortem": post_mortem_charts.post_mortem_table(study.runs, study.steps).to_dict("records"),
        "runs": run_table(study.runs).to_dict("records"),
        "environments": environments(study),
        "interactive": interactive,
        **parts,
    }


def headline(study: Study) -> str:
    """What the study says, in a sentence or two that are made from its numbers."""
    found = study.groups.set_index("group")
    if not {"base", "lora"} <= set(found.index):
        return f"{len(study.runs)} runs, {(study.runs['state'] == 'done').sum()} of them done."
    base, lora = found.loc["base"], found.loc["lora"]
    said = (
        f"Training takes right answers from {share(base.pass_at_1)} to {share(lora.pass_at_1)} "
        f"and leaf tokens a rollout from {tokens(base.leaf_tokens_mean)} to {tokens(lora.leaf_tokens_mean)}."
    )
    opened = study.claims[study.claims["claim"].str.startswith("Open: what does the cost penalty")]
    if len(opened) and opened.iloc[0].verdict != NOT_RUN:
        said += f" The cost penalty: {opened.iloc[0].verdict}."
    return said


def how(study: Study) -> dict:
    """Questions, seeds and time of the study, in words."""
    runs, groups = study.runs, study.groups
    trained = runs[runs["kind"] == "train"]
    return {
        "runs": len(runs),
        "states": ", ".join(f"{count} {state}" for state, count in runs["state"].value_counts().items()),
        "questions": int(groups["n_examples"].max()) if len(groups) else 0,
        "rollouts": f"{int(groups['n_rollouts'].sum()):,}" if len(groups) else "0",
        "seeds": ", ".join(map(str, sorted(runs["seed"].unique()))),
        "train_time": duration(trained["train_seconds"].sum()),
        "eval_time": duration(runs["eval_seconds"].fillna(0).sum()),
        "reference": reference(study),
        "temperatures": " and ".join(f"{t:g}" for t in sorted({run.params.sampling.temperature for run in study.read if run.evaluated})),
        "single": list(groups[groups["runs"] == 1]["label"]) if len(groups) else [],
        "base": next((run.params for run in study.read), None),
    }


def reference(study: Study) -> str:
    """Rank and rate of the runs that are called LoRA."""
    found = [run.params for run in study.read if run.group == "lora"]
    return f"rank {found[0].policy.lora.rank}, lr {found[0].training.lr:g}" if found else "not run"


def group_table(groups: "pd.DataFrame") -> "pd.DataFrame":
    """The study's table: a row a group, each measure 'value [low, high]'."""
    import pandas as pd

    rows = []
    for group in groups.sort_values("pass_at_1", ascending=False).to_dict("records") if len(groups) else ():
        row = {"group": group["label"], "seeds": group["seeds"]}
        for name, heading, form in COLUMNS:
            known = group.get(name) is not None and group[name] == group[name]
            row[heading] = interval([group[name], group[f"{name}_low"], group[f"{name}_high"]], form) if known else "–"
        rows.append(row)
    return pd.DataFrame(rows)


def cost_table(groups: "pd.DataFrame") -> "pd.DataFrame":
    """Where the tokens go: a row a group, over all of its held-out rollouts."""
    import pandas as pd

    return pd.DataFrame(
        {
            "group": group["label"],
            "rollouts": f"{int(group['n_rollouts']):,}",
            "leaf calls": f"{group['leaf_calls']:.2f}",
            "ask the leaf": share(group["llm_usage"]),
            **{f"leaf tokens, {part}": tokens(group[f"leaf_tokens_{part}"]) for part in ("median", "p90", "p95", "p99", "max")},
            "forced final": share(group["forced_final"]),
            "with a child": share(group["child_usage"]),
            "turns": f"{group['turns']:.1f}",
        }
        for group in (groups.sort_values("pass_at_1", ascending=False).to_dict("records") if len(groups) else ())
    )


def run_table(runs: "pd.DataFrame") -> "pd.DataFrame":
    """A row a run: how it ended and what it measured."""
    import pandas as pd

    def text(value, form) -> str:
        return "–" if value is None or value != value else form(value)

    return pd.DataFrame(
        {
            "run": run["run"],
            "state": run["state"],
            "steps": f"{run['steps_done']} of {run['steps']}" if run["kind"] == "train" else "–",
            "pass@1": text(run.get("pass_at_1"), share),
            "greedy": text(run["greedy_pass_at_1"], share),
            "seen wordings": text(run["seen_pass_at_1"], share),
            "leaf tokens": text(run.get("leaf_tokens_mean"), tokens),
            "training": text(run["train_seconds"] or None, duration),
            "why": run["reason"],
        }
        for run in runs.to_dict("records")
    )


def environments(study: Study) -> list[dict]:
    """Machine, code and versions that the runs were made with; a row for each that differs."""
    found = {}
    for run in study.read:
        told = read_json(run.dir / "env.json")
        row = {name: told.get(name) for name in ("revision", "python", "processor", "cores")}
        row["packages"] = ", ".join(f"{name} {version}" for name, version in told.get("packages", {}).items())
        found.setdefault(tuple(row.values()), {**row, "runs": 0})["runs"] += 1
    return list(found.values())


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m rlmlib.study.report", description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="folder of the runs")
    parser.add_argument("--out", type=Path, help="default: the folder of the runs")
    parser.add_argument("--pictures", action="store_true", help="charts as pictures only, without Plotly")
    arguments = parser.parse_args(argv)
    return exit_code(lambda: print(shown(render(arguments.folder, arguments.out, not arguments.pictures))), arguments.folder)


if __name__ == "__main__":
    sys.exit(main())
