"""How a command ends: what goes wrong is told in one line, and an exit code says the rest."""

import signal
import sys
from collections.abc import Callable
from pathlib import Path

from .errors import RlmError

DONE, FAILED, INTERRUPTED = 0, 2, 130


def exit_code(command: Callable[[], None], out: Path) -> int:
    """0: done; 2: an error, told in one line; 130: interrupted. out: the folder that an error of the system without a file is about."""
    try:
        command()
    except RlmError as error:
        if not error.told:
            print(f"error: {error}", file=sys.stderr)
        return FAILED
    except OSError as error:
        print(f"error: {error.filename or out}: {error.strerror or error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("interrupted; run the same command again to go on", file=sys.stderr)
        return INTERRUPTED
    return DONE


def end_as_by_ctrl_c():
    """From now on a termination signal ends this process as Ctrl-C does: what it started is ended first, and its status is kept."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
