"""Results of gpu_check.py: written, shown, and as the hardware table of README.md."""

import datetime
import json
import re
from pathlib import Path

from rlmlib.runs import environment

HERE = Path(__file__).resolve().parent
README = HERE.parent / "README.md"
MARKS = re.compile(r"(<!-- hardware: written by make gpu-check-table -->\n).*?(<!-- end -->)", re.DOTALL)
NONE = "`make gpu-check` has not been run on any GPU yet: there is no figure from one."
COLUMNS = ("card", "run", "tokens/s PEFT", "Unsloth", "TRL", "peak GB PEFT", "Unsloth", "TRL", "estimated", "parts ok")


def save(where: dict, parts: dict, beside: list[dict], folder: Path) -> Path:
    """Write gpu-CARD-DATE.json, a part after another: what was measured stays, whatever the next one does."""
    found = environment()
    result = where | {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "commit": found["revision"],
        "python": found["python"],
        "platform": found["platform"],
        "processor": found["processor"],
        "parts": parts,
        "beside_trl": beside,
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"gpu-{re.sub(r'[^a-z0-9]+', '-', where['card'].lower()).strip('-')}-{result['date']}.json"
    path.write_text(json.dumps(result, indent=1) + "\n")
    return path


def shown(part: dict) -> str:
    """A part's result for a reader."""
    lines = [f"  {part['status']} in {part['seconds']:.0f} s" + (f": {part['why']}" if part["why"] else "")]
    for row in part["checks"]:
        value = f"{row['value']:.4g}" if isinstance(row["value"], float) else row["value"]
        limits = ", ".join(f"{name} {limit}" for name, limit in row["limits"].items())
        lines.append(f"  {row['status']:5} {row['check']}: {value}" + (f" ({limits})" if limits else ""))
    return "\n".join(lines)


def table(results: list[dict]) -> str:
    """Markdown of runs on GPUs; a sentence where there are none."""
    if not results:
        return NONE
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    lines += ["| " + " | ".join(_cells(result)) + " |" for result in results]
    what = "Steps of a random Qwen3-4B with LoRA of rank 64 on four conversations of 2,500 to 16,384 tokens; memory as torch allocated it."
    return "\n".join([what, "", *lines])


def _cells(result: dict) -> list[str]:
    def value(part: str, what: str, scale: float, digits: str) -> str:
        found = [row["value"] for row in result["parts"].get(part, {}).get("checks", []) if row["check"] == what]
        return format(found[0] / scale, digits) if found else "-"

    measured = ("steps", "unsloth_steps", "trl")
    good = sum(part["status"] == "ok" for part in result["parts"].values())
    return [
        f"{result['card']}, {result['memory_gb']} GB, driver {result['driver']}, CUDA {result['cuda']}",
        f"{result['date']}, {result['commit']}",
        *(value(part, "tokens a second", 1, ",.0f") for part in measured),
        *(value(part, "peak memory, allocated, MB", 1000, ".1f") for part in measured),
        value("steps", "preflight's estimate, MB", 1000, ".1f"),
        f"{good} of {len(result['parts'])}",
    ]


def fill_in(readme: Path = README, folder: Path = HERE / "results"):
    """Write the table of all results in the folder into the README, between its two marks."""
    results = [json.loads(path.read_text()) for path in sorted(folder.glob("gpu-*.json"))]
    readme.write_text(MARKS.sub(lambda match: f"{match[1]}{table(results)}\n{match[2]}", readme.read_text()))
