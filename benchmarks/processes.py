"""A measurement in a process of its own: started, waited for with a limit, and ended with all that it started."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from venv_of_peers import Unavailable, environment

LINES_SHOWN = 15
ERROR_LINE = re.compile(r"[\w.]*(Error|Exception|Unavailable|Interrupt)\b")


def answer_of(script: Path, name: str, request: dict, limit_s: float, python: str = sys.executable, **variables: str) -> dict:
    """The result of `python SCRIPT NAME REQUEST`, the last line of its output. Raises Unavailable, with what it said last.

    variables: of its environment, added to ours without secrets.
    """
    process = subprocess.Popen(
        [python, str(script), name, json.dumps(request)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment() | variables,
        start_new_session=True,
    )
    try:
        said, complaints = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{name}: no result in {limit_s:.0f} s") from None
    finally:  # engines have processes of their own, which hold the GPU's memory
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.returncode:
        lines = complaints.strip().splitlines() or [f"its process ended with {process.returncode}"]
        print(*lines[-LINES_SHOWN:], sep="\n", file=sys.stderr)
        why = next((line for line in reversed(lines) if ERROR_LINE.match(line)), lines[-1])
        raise Unavailable(f"{name}: {why[:300]}")
    return json.loads(said.strip().splitlines()[-1])
