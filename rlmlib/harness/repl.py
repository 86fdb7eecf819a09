"""The host side of a REPL: a warm server process that forks one worker a rollout.

Trust: a worker's frames are data. A frame that is malformed, too large or out of turn
ends that worker, never the host. Time limits, budgets and the answer's acceptance are
decided here. This is process isolation with resource limits, an empty environment and a
scratch folder; it is not yet a jail for hostile code.
"""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from ..errors import InfrastructureError

_CHILD = Path(__file__).with_name("repl_child.py")
_MAX_FRAME = 64 * 1024 * 1024
_INTERRUPT_GRACE_S = 1.0
_OPEN_TIMEOUT_S = 30.0

Ask = Callable[[str, list[str]], Awaitable[list[str]]]


@dataclass(frozen=True)
class BlockResult:
    """What one block did. total: characters of output before any cut; final: FINAL's value or None."""

    output: str
    total: int
    final: str | None
    failed: bool


class WorkerDied(Exception):
    """The worker is gone or spoke nonsense; its state is lost."""


class ReplServer:
    """Forks isolated Python sessions from one warm interpreter. Use as a context manager."""

    def __init__(self, memory_mb: int = 1024):
        self.memory_mb = memory_mb
        self._scratch = tempfile.mkdtemp(prefix="rlm-repl-")
        self._spawn()

    def _spawn(self):
        self._control, theirs = socket.socketpair()
        environment = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": self._scratch, "TMPDIR": self._scratch}
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_CHILD), self._scratch],
            stdin=theirs,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
            cwd=self._scratch,
            start_new_session=True,
        )
        theirs.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    async def open(self, context) -> "Repl":
        """A fresh session whose `context` is the given str, list or dict."""
        ours, theirs = socket.socketpair()
        try:
            self._fork(theirs)
        except OSError as error:
            ours.close()
            raise InfrastructureError(f"the REPL server is gone ({error}); start the run again") from None
        finally:
            theirs.close()
        reader, writer = await asyncio.open_connection(sock=ours)
        repl = Repl(reader, writer, self._scratch)
        try:
            await repl.start(context, self.memory_mb)
        except (WorkerDied, TimeoutError):
            repl.kill()
            raise InfrastructureError("a REPL worker did not start; is the machine out of memory or processes?") from None
        return repl

    def _fork(self, channel: socket.socket):
        """Have a worker forked onto `channel`; a server that model code has killed is started again."""
        try:
            socket.send_fds(self._control, [b"f"], [channel.fileno()])
        except OSError:
            self._end()
            self._spawn()
            socket.send_fds(self._control, [b"f"], [channel.fileno()])

    def _end(self):
        self._control.close()
        self._process.kill()
        self._process.wait(timeout=10)

    def close(self):
        self._end()
        shutil.rmtree(self._scratch, ignore_errors=True)


class Repl:
    """One Python session in a process of its own."""

    def __init__(self, reader, writer, scratch: str):
        self._reader, self._writer, self._scratch = reader, writer, scratch
        self._pid: int | None = None

    async def start(self, context, memory_mb: int):
        await self._send({"op": "start", "context": context, "memory_mb": memory_mb})
        ready = await asyncio.wait_for(self._receive(), _OPEN_TIMEOUT_S)
        self._pid = ready.get("pid") if isinstance(ready.get("pid"), int) else None
        if self._pid is None:
            raise WorkerDied("no process id")

    async def run(self, code: str, ask: Ask, timeout_s: float, leaf_timeout_s: float) -> BlockResult:
        """Run one block. `ask(kind, prompts)` serves its subcalls; waiting for them is not charged
        to `timeout_s`. Raises WorkerDied when the process had to be killed or died by itself."""
        await self._send({"op": "run", "code": code})
        left, leaf_left = timeout_s, leaf_timeout_s
        while True:
            began = time.monotonic()
            try:
                if left <= 0:
                    raise TimeoutError  # or a loop of subcalls that are refused at once would never end
                message = await asyncio.wait_for(self._receive(), left)
            except TimeoutError:
                message = await self._interrupt()
            left -= time.monotonic() - began
            if message.get("op") == "ask":
                began = time.monotonic()
                texts = await self._serve(ask, message, leaf_left)
                leaf_left = max(0.01, leaf_left - (time.monotonic() - began))
                await self._send({"op": "answers", "texts": texts})
                continue
            return self._result(message)

    async def value(self, name: str) -> str | None:
        """str() of a variable, or None where there is no such name."""
        await self._send({"op": "get", "name": name})
        try:
            message = await asyncio.wait_for(self._receive(), _OPEN_TIMEOUT_S)
        except TimeoutError:
            raise WorkerDied("the value could not be read") from None
        text = message.get("text")
        return text if isinstance(text, str) else None

    def kill(self):
        """End the process and what it started; free its scratch folder."""
        if self._pid is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, signal.SIGKILL)
            shutil.rmtree(os.path.join(self._scratch, str(self._pid)), ignore_errors=True)
            self._pid = None
        self._writer.close()

    async def _serve(self, ask: Ask, message: dict, timeout_s: float) -> list[str]:
        prompts, kind = message.get("prompts"), message.get("kind")
        if not isinstance(prompts, list) or not all(isinstance(p, str) for p in prompts):
            raise WorkerDied("a malformed subcall")
        try:
            return await asyncio.wait_for(ask(str(kind), prompts), timeout_s)
        except TimeoutError:
            return [f"error: no answer within {timeout_s:.0f} s"] * len(prompts)

    async def _interrupt(self) -> dict:
        """Stop a block that ran out of time: first a signal, which keeps the state, then the kill."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGINT)
        deadline = time.monotonic() + _INTERRUPT_GRACE_S
        while time.monotonic() < deadline:
            try:
                message = await asyncio.wait_for(self._receive(), deadline - time.monotonic())
            except TimeoutError:
                break
            if message.get("op") == "done":
                return message
        raise WorkerDied("the block ran over its time limit")

    def _result(self, message: dict) -> BlockResult:
        output, total, final = message.get("output"), message.get("total"), message.get("final")
        if message.get("op") != "done" or not isinstance(output, str) or not isinstance(total, int):
            raise WorkerDied("a frame out of turn")
        return BlockResult(output, total, final if isinstance(final, str) else None, bool(message.get("failed")))

    async def _send(self, message: dict):
        body = json.dumps(message).encode()
        try:
            self._writer.write(struct.pack(">I", len(body)) + body)
            await asyncio.wait_for(self._writer.drain(), _OPEN_TIMEOUT_S)
        except (OSError, TimeoutError):
            raise WorkerDied("the worker does not read") from None

    async def _receive(self) -> dict:
        try:
            (size,) = struct.unpack(">I", await self._reader.readexactly(4))
            if size > _MAX_FRAME:
                raise WorkerDied("a frame over 64 MB")
            message = json.loads(await self._reader.readexactly(size))
        except (asyncio.IncompleteReadError, OSError, ValueError, RecursionError):
            raise WorkerDied("the Python process ended") from None
        if not isinstance(message, dict):
            raise WorkerDied("a malformed frame")
        return message
