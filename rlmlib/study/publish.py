"""A finished study, small enough for a repository: the page with its charts as pictures, the numbers, and every rollout's outcome.

    python -m rlmlib.study.publish outputs/tiny-study [--out outputs/published/tiny-study]

Written: what study.report writes, without Plotly; PNG files of the charts; evaluations.csv.gz, a line an evaluation rollout, from which
the figures can be recomputed; provenance.json (command, commits, seeds, machine, time). Exit codes: 0 done, 2 an error told in one line.
"""

import argparse
import gzip
import io
import sys
from pathlib import Path

from ..command_line import exit_code
from ..errors import RunError
from ..notebook import ROOT, shown
from ..runs import read_json, write_bytes, write_json
from .frames import Run
from .report import Study, write

LARGEST = 5_000_000  # bytes of a file
COMMAND = "make study"
COLUMNS = ("run", "group", "seed", "split", "family", "task", "example", "index", "correct", "leaf_tokens", "total_tokens", "leaf_calls",
           "children", "missing", "forced", "error", "behaviour")  # fmt: skip


def publish(folder: Path, out: Path) -> list[Path]:
    """Write it; returns the files. Raises RunError where the folder holds no runs, or a file is too large to be committed."""
    study = Study(folder)
    write(study, out, interactive=False)
    for specification in (out / "figures").glob("*.json"):  # for Plotly, which the page is without
        specification.unlink()
    write_bytes(out / "evaluations.csv.gz", packed(study.evaluations[list(COLUMNS)].to_csv(index=False)))
    write_json(out / "provenance.json", provenance(study.read))
    files = sorted(path for path in out.rglob("*") if path.is_file())
    if large := [path for path in files if path.stat().st_size > LARGEST]:
        raise RunError(f"{large[0]}: is over {LARGEST / 1e6:.0f} MB; publish fewer runs")
    return files


def packed(text: str) -> bytes:
    """gzip, the same bytes for the same text."""
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as file:
        file.write(text.encode())
    return buffer.getvalue()


def provenance(runs: list[Run]) -> dict:
    """Where the numbers come from."""
    told = [read_json(run.dir / "env.json") for run in runs]
    began = min((run.dir / "env.json").stat().st_mtime for run in runs)
    ended = max(run.dir.status.get("heartbeat", began) for run in runs)
    return {
        "command": COMMAND,
        "commits": sorted({env.get("revision", "unknown") for env in told}),
        "seeds": sorted({run.seed for run in runs}),
        "runs": len(runs),
        "processors": sorted({f"{env.get('cores')} cores, {env.get('processor')}" for env in told}),
        "python": sorted({env.get("python", "unknown") for env in told}),
        "packages": told[0].get("packages", {}),
        "wall_hours": round((ended - began) / 3600, 2),
    }


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m rlmlib.study.publish", description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="folder of the runs")
    parser.add_argument("--out", type=Path, help="default: outputs/published/NAME")
    arguments = parser.parse_args(argv)
    out = arguments.out or ROOT / f"outputs/published/{arguments.folder.name}"
    return exit_code(lambda: print(f"{len(publish(arguments.folder, out))} files in {shown(out)}"), out)


if __name__ == "__main__":
    sys.exit(main())
