"""Runs one notebook by papermill for a run directory; the child process of a stage (stages.py): of the demo, or of a sweep.

    python -m rlmlib.execute RUN_DIR PARENT_PID            reads RUN_DIR/logs/stage.json

The executed notebook goes to RUN_DIR/notebooks/. An error is left in logs/failure.json as
one line. A termination signal ends the kernel too, and so does the death of the parent.
"""

import ctypes
import json
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from .errors import RlmError
from .notebook import ROOT
from .runs import RunDir, write_json

START_TIMEOUT_S = 300
PR_SET_PDEATHSIG = 1
EXPECTED = {"RlmError", "ConfigError", "RunError", "CheckpointError", "TrainingError", "InfrastructureError", "DataError", "Stopped"}


def execute(notebook: Path, output: Path, parameters: dict):
    """Run a notebook; unknown parameters are refused. Raises RlmError with one line."""
    import papermill
    from traitlets.config import Config

    known = papermill.inspect_notebook(str(notebook))
    unknown = sorted(set(parameters) - set(known))
    if unknown:
        raise RlmError(f"{notebook.name} has no parameter {', '.join(unknown)}; it knows {', '.join(known)}")
    output.parent.mkdir(parents=True, exist_ok=True)
    partial = output.with_name(f".{output.name}")
    sockets = tempfile.mkdtemp(prefix="rlm-kernel-")  # of its own, or kernels that run side by side hear one another
    try:
        papermill.execute_notebook(
            str(notebook),
            str(partial),
            parameters,
            cwd=str(ROOT),
            kernel_name="python3",
            progress_bar=False,
            start_timeout=START_TIMEOUT_S,
            coalesce_streams=True,
            config=Config({"KernelManager": {"transport": "ipc", "ip": f"{sockets}/kernel"}}),
        )
    except papermill.PapermillExecutionError as error:
        known = error.ename in EXPECTED
        first_line = str(error.evalue).strip().split("\n")[0]
        where = "" if known else f"{error.ename} in {notebook.name}: "
        seen = "" if known else f"; the notebook as it ended is {output}"
        raise RlmError(where + first_line + seen) from None
    finally:
        shutil.rmtree(sockets, ignore_errors=True)
        if partial.exists():
            os.replace(partial, output)


def die_with(parent: int):
    """Get a termination signal when the parent process ends, however it does (Linux). Else a killed demo would train on unseen."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:  # it has ended already
        raise KeyboardInterrupt


def main() -> int:
    def terminate(*_):
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, terminate)
    die_with(int(sys.argv[2]))
    run = RunDir(sys.argv[1])
    stage = json.loads((run / "logs/stage.json").read_text())
    output = run / f"notebooks/{stage['notebook']}_{stage['name'].replace(' ', '_')}.ipynb"
    try:
        execute(ROOT / f"notebooks/{stage['notebook']}.ipynb", output, stage["parameters"])
    except RlmError as error:
        message = str(error)
    except OSError as error:
        message = f"{error.filename or run.path}: {error.strerror or error}"
    except RuntimeError as error:  # nbclient's DeadKernelError
        message = f"the kernel died ({error}); out of memory? Run the same command again to go on"
    else:
        return 0
    write_json(run / "logs/failure.json", {"message": " ".join(message.split())})
    return 2


if __name__ == "__main__":
    sys.exit(main())
