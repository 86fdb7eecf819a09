"""Run a sweep file.

    python -m rlmlib.sweep params/sweeps/tiny.yaml [--out outputs/NAME] [--at-once 2 | --gpus 0,1] [--plan]

Given again, it goes on: finished runs are skipped, the others resume from their last checkpoint. Exit codes: 0 all runs are done, 1 some
are not, and the table says why, 2 an error told in one line before anything started, 130 interrupted.
"""

import argparse
import sys
from pathlib import Path

from ..command_line import DONE, end_as_by_ctrl_c, exit_code
from ..notebook import ROOT
from . import grid
from .leases import Gpus
from .live import live, summary
from .plan import plan_table, told
from .runner import refuse_others, run_sweep

INCOMPLETE = 1


def sweep(arguments: argparse.Namespace) -> list:
    """The states of all runs; of none where only the plan was asked for."""
    file, runs = grid.load(arguments.file)
    out = arguments.out or ROOT / f"outputs/{file.name}"
    refuse_others(runs, out)
    gpus = None if arguments.gpus is None else Gpus(arguments.gpus.split(","))
    at_once = len(gpus.names) if gpus else arguments.at_once or file.at_once
    table = plan_table(runs, out)
    print(table.to_string(index=False, na_rep="not known", float_format="%.2f"))
    print(told(table, at_once))
    if arguments.plan:
        return []
    with live() as show:
        states = run_sweep(file, runs, out, at_once, gpus, show)
    print(f"{out}: {summary(states)}")
    return states


def positive(text: str) -> int:
    """A number of runs. Raises argparse.ArgumentTypeError."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is no number of runs; give 1 or more")
    return int(text)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m rlmlib.sweep", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, help="sweep file")
    parser.add_argument("--out", type=Path, help="folder of the runs (default: outputs/NAME of the sweep)")
    many = parser.add_mutually_exclusive_group()
    many.add_argument("--at-once", type=positive, help="runs at a time (default: what the file says)")
    many.add_argument("--gpus", help="GPUs, one a run at a time, such as 0,1,2,3")
    parser.add_argument("--plan", action="store_true", help="only say what would be run")
    arguments = parser.parse_args(argv)
    found = []
    code = exit_code(lambda: found.extend(sweep(arguments)), arguments.out or Path("outputs"))
    return INCOMPLETE if code == DONE and any(state.state != "done" for state in found) else code


if __name__ == "__main__":
    end_as_by_ctrl_c()
    sys.exit(main())
