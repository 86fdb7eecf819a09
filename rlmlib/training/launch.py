"""Train a run without a notebook, in one process or in several that share each step.

    python -m rlmlib.training.launch --params params/tiny.yaml --out outputs/tiny [--fresh] [--resume auto|never]
    torchrun --nproc-per-node 4 -m rlmlib.training.launch --params params/qwen3-4b-node.yaml --out outputs/node

It goes on from the newest checkpoint, so it can be killed at any moment and given again. Exit codes: 0 done, 2 an error
told in one line, 130 interrupted. torchrun adds a report of its own and turns every code that is not 0 into 1.
"""

import argparse
import os
import sys
from pathlib import Path

from .. import config
from ..command_line import end_as_by_ctrl_c, exit_code
from ..errors import RunError
from ..notebook import shown
from ..runs import open_run, status_kept
from . import checkpoint
from .follow import follow
from .loop import train
from .preflight import preflight
from .ranks import connect
from .trainers import import_first, load_policy


def launch(arguments: argparse.Namespace):
    """This rank's part of the run. Raises RlmError with the reason in one line."""
    if not is_leader():
        with connect() as ranks:
            params = config.load(arguments.params)
            follow(load_policy(params), params.training, ranks)
        return
    params = config.load(arguments.params)  # before the ranks meet: a mistake in it is told once
    run = open_run(arguments.out, params, arguments.fresh)
    if arguments.resume == "never" and (done := checkpoint.steps(run)):
        raise RunError(f"{run.path}: has checkpoints up to step {done[-1]}; go on with --resume auto, or start over with --fresh")
    with status_kept(run, "train"), connect() as ranks:
        import_first(params)
        print(preflight(params, run, ranks=ranks.size))
        train(params, run, show=print, ranks=ranks)
    print(f"trained: {shown(run / f'checkpoints/step_{params.training.steps}')}")


def is_leader() -> bool:
    """Whether this process is rank 0 of torchrun, or was not started by it."""
    return os.environ.get("RANK", "0") == "0"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m rlmlib.training.launch", description=__doc__.split("\n")[0])
    parser.add_argument("--params", type=Path, required=True, help="params file")
    parser.add_argument("--out", type=Path, required=True, help="run directory to make or to go on with")
    parser.add_argument("--fresh", action="store_true", help="delete the run directory first")
    parser.add_argument("--resume", choices=["auto", "never"], default="auto", help="go on from the newest checkpoint (default), or refuse")
    arguments = parser.parse_args(argv)
    return exit_code(lambda: launch(arguments), arguments.out)


if __name__ == "__main__":
    if is_leader():  # torchrun sends it when another rank has failed, and this one has a run to leave in order
        end_as_by_ctrl_c()
    sys.exit(main())
