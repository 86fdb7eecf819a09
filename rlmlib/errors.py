"""The errors a user can meet. Each message is one line that says what to do next.

A bad rollout is data, not a crash: what a model does wrong is recorded in the
rollout and never raised. These errors are for what stops a run.
"""

# What torch, CUDA's libraries, the C++ runtime and vLLM say in errors of many types
OUT_OF_MEMORY = (
    "out of memory",
    "can't allocate memory",
    "cannot allocate memory",
    "alloc_failed",
    "bad_alloc",
    "kv cache",
    "cache blocks",
)


class RlmError(Exception):
    """Base of every error that a command line prints as one line, without a traceback. told: another process has said it already."""

    told = False


class ConfigError(RlmError):
    """A parameter is unknown, of the wrong type, or does not fit another one."""


class DataError(RlmError):
    """A source of data is missing, unreadable or not of its format. Names the file and the field."""


class RunError(RlmError):
    """A run directory cannot be read, written, locked or resumed."""


class CheckpointError(RunError):
    """A checkpoint is incomplete or its bytes are not those that were written."""


class TrainingError(RlmError):
    """Training cannot go on: no learning signal, or a diverging policy."""


class Stopped(RlmError):
    """Training ended early because someone asked for it (RunDir.ask_to_stop). Run again, it goes on."""


class RankError(TrainingError):
    """Another rank of a training run has ended. told: it has said why itself, or rank 0 will."""

    def __init__(self, message: str, told: bool):
        super().__init__(message)
        self.told = told


class InfrastructureError(RlmError):
    """A worker, leaf or sampler failed. Never counted as a wrong answer."""


def one_line(error: Exception, most_chars: int = 500) -> str:
    """An error as one line. Its type is named where the message was not written for a reader."""
    text = " ".join(str(error).split())[:most_chars]
    return text if isinstance(error, RlmError) else f"{type(error).__name__}: {text}"


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error, or one that led to it, says that memory is short."""
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, MemoryError) or any(sign in str(error).lower() for sign in OUT_OF_MEMORY):
            return True
        error = error.__cause__ or error.__context__
    return False
