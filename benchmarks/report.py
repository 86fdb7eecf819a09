"""The result of a run: targets, a table, a file. Pure, but for `save` and what it asks of the machine."""

import datetime
import json
import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path

from rlmlib.runs import environment

ALIKE = 1.25  # a turn over 8 MB may take this many times one over 8 KB and still count as the same

Rows = dict[str, dict[str, dict]]  # row -> contender -> {"median", "n"} and "p95", or "low" and "high"


@dataclass(frozen=True)
class Page:
    """Where a benchmark's results go: results/NAME.json, and a table between two marks of `file`."""

    name: str
    target: str  # of make
    file: str
    columns: tuple[str, ...]  # contenders
    beside: tuple[str, ...]  # those that ours is divided by


HARNESS = Page("harness", "bench-harness", "README.md", ("ours", "rlms", "fresh", "dspy"), ("rlms", "dspy"))


def ratio(rows: Rows, top: tuple[str, str], bottom: tuple[str, str]) -> float | None:
    """Median of one (row, contender) over that of another; None where either was not measured, or the other is 0."""
    try:
        return rows[top[0]][top[1]]["median"] / rows[bottom[0]][bottom[1]]["median"]
    except (KeyError, ZeroDivisionError):
        return None


def targets(rows: Rows) -> list[dict]:
    """What was aimed at, what was found and whether it is met; a target that could not be measured is not met."""
    found = []

    def at_most(what: str, value: float | None, limit: float):
        found.append({"target": what, "limit": limit, "value": value, "met": value is not None and value <= limit})

    def median(row: str) -> float | None:
        return rows.get(row, {}).get("ours", {}).get("median")

    def beside(row: str, other: str, other_row: str | None = None) -> float | None:
        return ratio(rows, (row, "ours"), (other_row or row, other))

    small, big = "turn `x = 1`, 8 KB, ms", "turn `x = 1`, 8 MB, ms"
    at_most("worker ready, ms", median("worker ready, ms"), 15)
    at_most("private memory with 8 KB, MB", median("private memory, 8 KB, MB"), 15)
    at_most("private memory with 8 MB, MB", median("private memory, 8 MB, MB"), 15)
    at_most("open on 8 KB, times rlms", beside("open, 8 KB, ms", "rlms"), 1)
    at_most("open on 8 MB, times rlms", beside("open, 8 MB, ms", "rlms"), 1)
    at_most("turn, times rlms", beside(small, "rlms"), 4)
    at_most("turn that prints, times rlms", beside("turn that prints, 8 KB, ms", "rlms"), 4)
    at_most("turn on 8 MB, times that on 8 KB", beside(big, "ours", small), ALIKE)
    at_most("turn, share of a fresh interpreter", beside(small, "fresh"), 1 / 20)
    return found


def cpu_model() -> str:
    """As Linux names it."""
    try:
        found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return found[1] if found else platform.processor()


def as_json(rows: Rows, reached: list[dict], versions: dict[str, str], left_out: dict[str, str]) -> dict:
    return {
        "commit": environment()["revision"],
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "nice": os.nice(0),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "versions": versions,
        "left_out": left_out,
        "rows": {row: {name: rounded(cell) for name, cell in cells.items()} for row, cells in rows.items()},
        "targets": reached,
    }


def rounded(cell: dict) -> dict:
    return {key: float(f"{value:.4g}") if isinstance(value, float) else value for key, value in cell.items()}


def table(result: dict, page: Page = HARNESS) -> str:
    """Markdown: medians with the 95th percentile or the range in brackets, then the targets."""
    lines = [" | ".join(["|", *page.columns, *(f"ours / {other}" for other in page.beside)]) + " |"]
    lines.append("|" + "---|" * (1 + len(page.columns) + len(page.beside)))
    for row, cells in result["rows"].items():
        shown = [_cell(cells[name]) if name in cells else "" for name in page.columns]
        quotients = [ratio(result["rows"], (row, "ours"), (row, other)) for other in page.beside]
        lines.append(" | ".join([f"| {row}", *shown, *("" if q is None else f"{q:.2g}" for q in quotients)]) + " |")
    lines += ["", "| target | limit | found | |", "|---|---|---|---|"]
    for t in result["targets"]:
        value = "not measured" if t["value"] is None else f"{t['value']:.3g}"
        limit = f"at {t.get('kind', 'most')} {t['limit']:.3g}"
        lines.append(f"| {t['target']} | {limit} | {value} | {'met' if t['met'] else 'not met'} |")
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    where = f"{result['date']}, {result['cpu']} with {result['cores']} cores, load {result['load']}, nice {result['nice']}"
    return "\n".join([*lines, "", f"{where}, Linux {result['kernel']}, Python {result['python']}; {versions}; commit {result['commit']}."])


def _cell(cell: dict) -> str:
    spread = f"{cell['p95']:.3g}" if "p95" in cell else f"{cell['low']:.3g} to {cell['high']:.3g}"
    return f"{cell['median']:.3g} ({spread})"


def save(result: dict, folder: Path, page: Page = HARNESS):
    """Write results/NAME.json, and the table into its page between the two marks."""
    (folder / "results").mkdir(exist_ok=True)
    (folder / f"results/{page.name}.json").write_text(json.dumps(result, indent=1) + "\n")
    marks = re.compile(rf"(<!-- table: written by make {page.target} SAVE=1 -->\n).*?(<!-- end -->)", re.DOTALL)
    text = folder / page.file
    text.write_text(marks.sub(lambda match: f"{match[1]}{table(result, page)}\n{match[2]}", text.read_text()))
