"""The run directory: the interface between notebooks, training, evaluation and the report.

    params.json       resolved parameters          env.json        versions, hardware, revision
    status.json       state, reason, heartbeat     progress.json   phase, done, total, eta
    metrics.jsonl     one row a training step      rollouts/step_N.jsonl   every rollout of a step
                                                   rollouts/eval_N.jsonl   of a short evaluation
    contexts/HASH.txt each context once            checkpoints/step_N/     see training.checkpoint
    eval/LABEL/       rollouts.jsonl summary.json  figures/ notebooks/ report.html summary.json
    logs/ pushed/     of stages; of the sampler    tracking.json tensorboard/      of trackers
    stop              a request to end training after the step under way

Writes are atomic (a temporary file, then a rename) or whole appended lines. A lock keeps
two processes from working in one directory.
"""

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from . import config
from .errors import RlmError, RunError, one_line

LOCK_WAIT_S = 20.0
LAST_BYTES = 1 << 16


@contextlib.contextmanager
def writing(path: Path):
    """Turn a failing write into one line that says what to do; what was finished before stays."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise RunError(f"{path}: the disk is full; free some space and run again, it goes on from the last step") from None
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
            raise RunError(f"{path}: cannot be written ({error.strerror}); make it writable or name another folder") from None
        raise


def write_text(path: Path, text: str):
    """Replace a file atomically."""
    write_bytes(path, text.encode("utf-8", "surrogatepass"))


def write_bytes(path: Path, content: bytes):
    """Replace a file atomically."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with writing(path):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(temporary, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise


def write_json(path: Path, value):
    write_text(path, json.dumps(value, indent=1, ensure_ascii=True) + "\n")


def append_jsonl(path: Path, rows: Iterable[dict]):
    """Append whole lines in one write, then sync."""
    body = "".join(json.dumps(row) + "\n" for row in rows).encode()
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        start = path.stat().st_size if path.exists() else 0
        try:
            with open(path, "ab+") as file:
                file.seek(max(0, start - 1))
                if start and file.read(1) != b"\n":  # a crash cut the last line: it goes, or it would spoil the next one
                    file.seek(0)
                    start = file.read().rfind(b"\n") + 1
                    file.truncate(start)
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            with contextlib.suppress(OSError):  # no half line stays behind
                os.truncate(path, start)
            raise


def read_jsonl(path: Path, whole: bool = False) -> list[dict]:
    """All rows. A last line cut by a crash is left out, unless the file was written as a whole. Raises RunError for other damage."""
    if not path.exists():
        return []
    rows, lines = [], path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            rows.append(json.loads(line))
        except (ValueError, RecursionError):
            if number == len(lines) and not whole:
                break
            raise RunError(f"{path}, line {number}: is damaged; restore the file, or cut it off before that line") from None
    return rows


def last_jsonl(path: Path) -> dict:
    """The last whole row of a file, without reading all of it; {} where there is none. Rows are at most LAST_BYTES long."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 2 * LAST_BYTES))
            lines = file.read().split(b"\n")
    except OSError:
        return {}
    for line in reversed(lines[:-1]):  # what follows the last line break is not whole
        with contextlib.suppress(ValueError):
            found = json.loads(line)
            if isinstance(found, dict):
                return found
    return {}


def rewrite_jsonl(path: Path, rows: Iterable[dict]):
    write_text(path, "".join(json.dumps(row) + "\n" for row in rows))


class RunDir:
    """One run. `open_run` makes or resumes it."""

    def __init__(self, path: str | Path):
        self.path = Path(path)

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    @property
    def params(self) -> config.Params:
        try:
            values = json.loads((self / "params.json").read_text())
        except (OSError, ValueError) as error:
            raise RunError(f"{self.path}: not a run directory ({error}); train or evaluate into it first") from None
        return config.validate(values, str(self / "params.json"))

    @property
    def metrics(self) -> list[dict]:
        return read_jsonl(self / "metrics.jsonl")

    @property
    def status(self) -> dict:
        return read_json(self / "status.json")

    def set_status(self, state: str, reason: str = ""):
        """state: queued, running, done, failed, timeout or lost."""
        write_json(self / "status.json", {"state": state, "reason": reason, "heartbeat": time.time()})

    def ask_to_stop(self):
        """Training in this directory, by whatever process, ends with a checkpoint after the step under way."""
        write_text(self / "stop", f"asked by process {os.getpid()}\n")

    @property
    def stop_asked(self) -> bool:
        return (self / "stop").exists()

    def forget_stop(self):
        """The request was met, or is older than the run that would meet it."""
        with writing(self / "stop"):
            (self / "stop").unlink(missing_ok=True)

    def store_context(self, context: str) -> str:
        """Keep a context once; returns its name (first 16 hex digits of its sha256)."""
        name = hashlib.sha256(context.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        path = self / f"contexts/{name}.txt"
        if not path.exists():
            write_text(path, context)
        return name

    @property
    def holder(self) -> str | None:
        """The process that works in the directory (its number, or "unknown"); None where none does."""
        with contextlib.suppress(OSError), open(self / ".lock") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return file.read().strip() or "unknown"
        return None

    @contextlib.contextmanager
    def lock(self, wait_s: float = LOCK_WAIT_S) -> Iterator[None]:
        """Hold the directory for this process. A lock dies with its holder, however it ends."""
        path = self / ".lock"
        with writing(path):
            self.path.mkdir(parents=True, exist_ok=True)
            file = open(path, "a+")  # noqa: SIM115 - held until the end of the block
        deadline = time.monotonic() + wait_s
        try:
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        file.seek(0)
                        holder = file.read().strip() or "unknown"
                        raise RunError(f"{self.path}: process {holder} is working here; wait for it or end it first") from None
                    time.sleep(0.2)
            file.seek(0)
            file.truncate()
            file.write(str(os.getpid()))
            file.flush()
            yield
        finally:
            file.close()


@contextlib.contextmanager
def status_kept(run: RunDir, doing: str) -> Iterator[None]:
    """status.json says running, then done, or failed and why. Raises RunError where another process works in the directory."""
    with run.lock():
        run.set_status("running", doing)
    try:
        yield
    except BaseException as error:
        reason = one_line(error) if isinstance(error, Exception) else "interrupted"
        with contextlib.suppress(RlmError, OSError):
            run.set_status("failed", reason)
        raise
    run.set_status("done")


def read_json(path: Path) -> dict:
    """The object in a file; {} where there is none that can be read."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def open_run(path: str | Path, params: config.Params, fresh: bool = False) -> RunDir:
    """A run directory for these parameters: new, or the same run to go on with.

    Raises RunError when the directory holds a run with other parameters, or cannot be written.
    """
    run = RunDir(path)
    if fresh and run.path.exists():
        _clear(run)
    with writing(run.path):
        run.path.mkdir(parents=True, exist_ok=True)
    values = params.model_dump()
    there = read_json(run / "params.json")
    if not there and (run / "params.json").exists():
        raise RunError(f"{run / 'params.json'}: cannot be read; restore it, or start over (FRESH=1)")
    if there and there != values:
        changed = ", ".join(sorted(changed_keys(there, values)))
        raise RunError(f"{run.path}: holds a run with other parameters ({changed}); choose another folder or start over (FRESH=1)")
    if not there:
        write_json(run / "params.json", values)
        write_json(run / "env.json", environment())
    return run


def _clear(run: RunDir):
    """Delete a run directory, but nothing that does not look like one."""
    with writing(run.path):
        empty = all(entry.match(".*.tmp") for entry in run.path.iterdir())  # a write that was killed leaves one
    if not empty and not (run / "params.json").exists():
        raise RunError(f"{run.path}: is not empty and holds no run; nothing was deleted, choose another folder")
    with run.lock(), writing(run.path):
        marks = (".lock", "params.json")  # what shows that this is a run goes last, should this be interrupted
        for entry in run.path.iterdir():
            if entry.name not in marks:
                shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        (run / "params.json").unlink(missing_ok=True)


def changed_keys(old: dict, new: dict, prefix: str = "") -> Iterator[str]:
    """Dotted names of what differs in two nested dicts."""
    for key in old.keys() | new.keys():
        before, after = old.get(key), new.get(key)
        if isinstance(before, dict) and isinstance(after, dict):
            yield from changed_keys(before, after, f"{prefix}{key}.")
        elif before != after:
            yield f"{prefix}{key}"


def environment() -> dict:
    """Versions, hardware and revision, for env.json and the report."""
    from importlib import metadata

    versions = {}
    for package in ("torch", "transformers", "peft", "tokenizers", "numpy", "papermill", "plotly"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return {
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "revision": _revision(),
        "packages": versions,
    }


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def _revision() -> str:
    """Commit of the code, with a mark when the working tree differs from it."""
    try:
        result = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return result.stdout.strip() or "unknown"
