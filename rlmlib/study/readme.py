"""The results in README.md, written from a published study so that they cannot drift from it.

    python -m rlmlib.study.readme [--study outputs/published/tiny-study] [--check]

What stands between the two marks is replaced. --check changes nothing; exit code 1 where README.md says something else.
"""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ..command_line import DONE, exit_code
from ..errors import RunError
from ..notebook import ROOT
from ..runs import read_json, write_text
from ..wording import interval, share

if TYPE_CHECKING:
    import pandas as pd

BEGIN, END = "<!-- study: written by make study-readme -->", "<!-- end of study -->"
FIGURE = "figures/study_cost_accuracy.png"
STALE = 1


def written(readme: str, study: Path) -> str:
    """README.md with the results of a published study. Raises RunError where the marks are missing."""
    head, begin, rest = readme.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise RunError(f"README.md: has no lines '{BEGIN}' and '{END}'; put them where the results belong")
    return f"{head}{BEGIN}\n{block(study)}\n{END}{tail}"


def block(study: Path) -> str:
    """The results in Markdown. Raises RunError where the study is not published."""
    import pandas as pd

    told = read_json(study / "provenance.json")
    if not told:
        raise RunError(f"{study}: holds no published study; make one with make study-publish")
    groups, claims = (pd.read_csv(study / f"{name}.csv") for name in ("groups", "claims"))
    place = study.relative_to(ROOT) if study.is_relative_to(ROOT) else study
    seeds = ", ".join(map(str, told["seeds"]))
    commits = ", ".join(commit[:12] for commit in told["commits"])
    return "\n\n".join(
        [
            f"![Right answers against leaf tokens, by group of runs]({place}/{FIGURE})",
            group_lines(groups),
            f"`{told['command']}`: {told['runs']} runs, seeds {seeds}, {int(groups['n_examples'].max())} held-out questions, "
            f"{told['wall_hours']:.1f} hours on {' and '.join(told['processors'])}, commit {commits}. Brackets are 95 % intervals over "
            f"resampled questions and seeds. The whole report: `{place}/report.html`; every evaluation rollout: "
            f"`{place}/evaluations.csv.gz`.",
            claim_lines(claims),
        ]
    )


def group_lines(groups: "pd.DataFrame") -> str:
    """A Markdown table: a row a group, the most accurate first."""
    lines = ["| | seeds | right (pass@1) | leaf tokens a rollout | all tokens | no final answer |", "| --- | --- | --- | --- | --- | --- |"]
    for group in groups.sort_values("pass_at_1", ascending=False, kind="stable").to_dict("records"):
        cells = [group["label"], str(group["seeds"])]
        forms = (("pass_at_1", share), ("leaf_tokens_mean", plain), ("total_tokens_mean", plain), ("missing_final", share))
        cells += [interval([group[name], group[f"{name}_low"], group[f"{name}_high"]], form) for name, form in forms]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def plain(value: float) -> str:
    return f"{value:,.0f}"


def claim_lines(claims: "pd.DataFrame") -> str:
    """A Markdown table: a row a claim."""
    lines = ["| the write-up's claim | write-up | here | verdict |", "| --- | --- | --- | --- |"]
    for claim in claims.fillna("").to_dict("records"):
        lines.append(f"| {claim['claim']} | {claim['theirs']} | {claim['ours']} | {claim['verdict']} |")
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m rlmlib.study.readme", description=__doc__.split("\n")[0])
    parser.add_argument("--study", type=Path, default=ROOT / "outputs/published/tiny-study", help="published study")
    parser.add_argument("--check", action="store_true", help="only say whether README.md is up to date")
    arguments = parser.parse_args(argv)
    path, stale = ROOT / "README.md", []

    def command():
        found = written(path.read_text(), arguments.study.resolve())
        if found == path.read_text():
            print("README.md is up to date")
        elif arguments.check:
            stale.append(path)
            print("README.md differs from the published study: run make study-readme")
        else:
            write_text(path, found)
            print("README.md: results written")

    code = exit_code(command, path)
    return STALE if code == DONE and stale else code


if __name__ == "__main__":
    sys.exit(main())
