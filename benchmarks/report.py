"""The result of a run: targets, a table, a file. Pure, but for `save` and what it asks of the machine."""

import datetime
import json
import os
import platform
import re
from pathlib import Path

NAMES = ("ours", "rlms", "fresh", "dspy")
TABLE = re.compile(r"(<!-- table: written by make bench-harness SAVE=1 -->\n).*?(<!-- end -->)", re.DOTALL)
ALIKE = 1.25  # a turn over 8 MB may take this many times one over 8 KB and still count as the same

Rows = dict[str, dict[str, dict]]  # row -> contender -> {"median", "p95", "n"}


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


def table(result: dict) -> str:
    """Markdown: medians with the 95th percentile in brackets, then the targets."""
    lines = ["| | ours | rlms | fresh | dspy | ours / rlms | ours / dspy |", "|" + "---|" * 7]
    for row, cells in result["rows"].items():
        shown = [f"{cells[name]['median']:.3g} ({cells[name]['p95']:.3g})" if name in cells else "" for name in NAMES]
        quotients = [ratio(result["rows"], (row, "ours"), (row, other)) for other in ("rlms", "dspy")]
        lines.append(" | ".join([f"| {row}", *shown, *("" if q is None else f"{q:.2g}" for q in quotients)]) + " |")
    lines += ["", "| target | at most | found | |", "|---|---|---|---|"]
    for t in result["targets"]:
        value = "not measured" if t["value"] is None else f"{t['value']:.3g}"
        lines.append(f"| {t['target']} | {t['limit']:.3g} | {value} | {'met' if t['met'] else 'not met'} |")
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    where = f"{result['date']}, {result['cpu']} with {result['cores']} cores, load {result['load']}, nice {result['nice']}"
    return "\n".join([*lines, "", f"{where}, Linux {result['kernel']}, Python {result['python']}; {versions}."])


def save(result: dict, folder: Path):
    """Write results/harness.json, and the table into README.md between its two marks."""
    (folder / "results").mkdir(exist_ok=True)
    (folder / "results/harness.json").write_text(json.dumps(result, indent=1) + "\n")
    readme = folder / "README.md"
    readme.write_text(TABLE.sub(lambda match: f"{match[1]}{table(result)}\n{match[2]}", readme.read_text()))
