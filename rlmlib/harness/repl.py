"""The host side of a REPL: a warm server process that forks one confined worker a rollout.

Trust: a worker's frames are data. A frame that is malformed, too large or out of turn ends that worker, never
the host. Time limits, budgets and the answer's acceptance are decided here. What confines a worker is in sandbox.py.
"""

import asyncio
import contextlib
import itertools
import json
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import ConfigError, InfrastructureError
from .channel import Channel, WorkerDied
from .contexts import ContextFiles
from .repl_child import KEEP, MAX_PROMPTS, TICKET
from .sandbox import ESSENTIAL
from .scratch import remove_tree

_CHILD = Path(__file__).with_name("repl_child.py")
_INTERRUPT_GRACE_S = 1.0
_OPEN_TIMEOUT_S = 30.0
_PREPARE_AFTER_S = 0.02  # a rollout that has just begun is not slowed down by forks; its first block comes later than this
_REMOVE_S = 0.5  # for what a worker left in its folder, while other rollouts wait; closing the server removes the rest
_CLOSE_S = 60.0
_MOST_COUNTED = 10**12  # characters of output
_SHORT_CHARS = 32 * 1024  # a context this short is sent along, a longer one is in a memory file

Ask = Callable[[str, list[str]], Awaitable[list[str]]]


@dataclass(frozen=True)
class BlockResult:
    """What one block did. total: characters of output before any cut; final: FINAL's value or None."""

    output: str
    total: int
    final: str | None
    failed: bool


class ReplServer:
    """Forks confined Python sessions from one warm interpreter. Use as a context manager.

    isolation: "strict" refuses to run where the kernel lacks seccomp or Landlock; "process" runs model code with the
    user's rights, in a process of its own, and says so. prefix: a command to run the server under (bwrap, podman ...);
    it must pass on standard input and let the scratch folder and the Python installation be seen.
    """

    def __init__(self, memory_mb: int = 1024, cpu_s: int = 3600, isolation: str = "strict", prefix: Sequence[str] = (), spares: int = 2):
        self.isolation, self.prefix = isolation, list(prefix)
        self._settings = json.dumps({"memory_mb": memory_mb, "cpu_s": cpu_s, "confine": isolation == "strict"})
        self._scratch = tempfile.mkdtemp(prefix="rlm-repl-")
        self._contexts = ContextFiles(self._scratch)
        self._numbers = itertools.count(1)  # of workers
        self._spares: deque[Repl] = deque()
        self._wanted = spares
        self._closed = False
        if isolation != "strict":
            warnings.warn("harness.isolation is 'process': model-written code runs with your rights and network", stacklevel=3)
        self._spawn()

    def _spawn(self):
        self._control, theirs = socket.socketpair()
        environment = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": self._scratch, "TMPDIR": self._scratch}
        environment["GLIBC_TUNABLES"] = "glibc.malloc.hugetlb=1"  # a long context comes in huge pages, in half the time
        try:
            self._process = subprocess.Popen(
                [*self.prefix, sys.executable, "-I", "-S", str(_CHILD), self._scratch, self._settings],
                stdin=theirs,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment,
                cwd=self._scratch,
                start_new_session=True,
            )
        except OSError as error:
            raise ConfigError(f"the REPL server cannot be started ({error}); see harness.sandbox_command") from None
        finally:
            theirs.close()
        self._tell_who_we_are()

    def _tell_who_we_are(self):
        """Hand the server this very process to watch, where the system has a descriptor for it."""
        descriptors = []
        with contextlib.suppress(AttributeError, OSError):
            descriptors.append(os.pidfd_open(os.getpid()))
        try:
            socket.send_fds(self._control, [TICKET.pack(0)], descriptors)
        except OSError:
            pass  # it has ended already, which the first fork finds
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    async def open(self, context, drafts: bool = False) -> "Repl":
        """A fresh session whose `context` is the given str, list or dict. drafts: it may answer by the dict `answer`."""
        if self._closed:
            raise InfrastructureError("the REPL server is closed; open a new one")
        short = isinstance(context, str) and len(context) <= _SHORT_CHARS and context.isascii()
        memory = None if short else self._contexts.descriptor(context)
        start = {"drafts": drafts, "context": context} if short else {"drafts": drafts, "text": isinstance(context, str)}
        try:
            while True:
                spare = self._spare()
                repl = spare or self._worker()
                try:
                    await repl.begin(start, memory)
                    return repl
                except BaseException as error:
                    repl.kill()
                    if not isinstance(error, (WorkerDied, TimeoutError, OSError)):
                        raise
                    if spare is None:
                        raise _not_started(error) from None
        finally:
            if memory is not None:
                os.close(memory)
            asyncio.get_running_loop().call_later(_PREPARE_AFTER_S, self._prepare)

    def _worker(self) -> "Repl":
        """A new worker, which has yet to confine itself."""
        number = next(self._numbers)
        folder = os.path.join(self._scratch, str(number))
        try:
            os.mkdir(folder, 0o700)
            return Repl(folder, self._fork(number), strict=self.isolation == "strict")
        except OSError as error:
            remove_tree(folder, _REMOVE_S)
            raise _not_started(error) from None

    def _spare(self) -> "Repl | None":
        """A worker in reserve that this event loop can talk to."""
        while self._spares:
            repl = self._spares.popleft()
            if repl.usable():
                return repl
            repl.kill()
        return None

    def _prepare(self):
        """Have workers and memory ready for the next rollouts."""
        self._contexts.tidy()
        with contextlib.suppress(InfrastructureError, ConfigError):  # an opening that needs a worker will tell
            while len(self._spares) < self._wanted and not self._closed:
                self._spares.append(self._worker())
                asyncio.get_running_loop().call_later(_PREPARE_AFTER_S, self._spares[-1].meet_early)

    def _fork(self, number: int) -> socket.socket:
        """A channel to a new worker, whose folder has this number; a server that was killed is started again."""
        ours, theirs = socket.socketpair()
        if hasattr(socket, "SO_PASSCRED"):
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        ours.setblocking(False)
        with theirs:
            try:
                socket.send_fds(self._control, [TICKET.pack(number)], [theirs.fileno()])
            except OSError:
                self._end()
                self._spawn()
                socket.send_fds(self._control, [TICKET.pack(number)], [theirs.fileno()])
        return ours

    def _end(self):
        self._control.close()
        self._process.kill()
        self._process.wait(timeout=10)
        while self._spares:
            self._spares.pop().kill()

    def close(self):
        self._closed = True
        self._end()
        self._contexts.close()
        until = time.monotonic() + _CLOSE_S
        while not remove_tree(self._scratch, until - time.monotonic()):  # workers end a moment after their server
            if time.monotonic() > until:
                warnings.warn(f"{self._scratch} could not be removed; remove it by hand", stacklevel=2)
                return
            time.sleep(0.02)


class Repl:
    """One Python session in a process of its own."""

    def __init__(self, folder: str, sock: socket.socket, strict: bool):
        self._folder, self._strict = folder, strict
        self._channel = Channel(sock)
        self._pid: int | None = None
        self._pidfd: int | None = None  # names this very process, however soon its number is used again
        self._lacking = list(ESSENTIAL)
        self._loaded = False

    def meet(self, ready: dict):
        """Take note of who the worker is and what it is held by, which it says before any model code runs."""
        sender = self._channel.sender
        if sender is not None and hasattr(os, "pidfd_open"):
            self._pidfd = os.pidfd_open(sender)
        self._lacking = [layer for layer in ESSENTIAL if layer not in ready["holds"]]
        self._pid = sender or int(ready["pid"])

    def meet_early(self):
        """Do so now where the worker has come so far: it is then ready to begin."""
        with contextlib.suppress(WorkerDied, OSError):
            if self._pid is None and (ready := self._channel.received()) is not None:
                self.meet(ready)

    async def begin(self, start: dict, memory: int | None):
        """Give the worker its context: within `start`, or in the memory file `memory`."""
        if self._pid is None:
            self.meet(await self._channel.receive(_OPEN_TIMEOUT_S))
        if self._strict and self._lacking:
            raise ConfigError(
                f"this system has no {' and no '.join(self._lacking)} to confine model-written code with; use Linux 5.13 or newer, "
                "or set harness.isolation: process to run it with your own rights"
            )
        if self._ended():
            raise WorkerDied("the Python process ended")
        self._channel.send(start, [] if memory is None else [memory])
        self._loaded = memory is None

    def _ended(self, within_ms: int = 0) -> bool:
        if self._pidfd is None:
            return False
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        return bool(poll.poll(within_ms))

    def usable(self) -> bool:
        return self._channel.of_running_loop()

    async def _load(self):
        """Wait until the worker holds its context, which it reads while the model is at its first reply."""
        if self._loaded:
            return
        try:
            await self._channel.receive(_OPEN_TIMEOUT_S, soon=True)
        except (WorkerDied, TimeoutError):
            raise InfrastructureError(
                "a REPL worker did not get to hold its context; raise harness.memory_mb if it is large, or free memory"
            ) from None
        self._loaded = True

    async def run(self, code: str, ask: Ask, timeout_s: float, leaf_timeout_s: float) -> BlockResult:
        """Run one block. `ask(kind, prompts)` serves its subcalls; waiting for them is not charged
        to `timeout_s`. Raises WorkerDied when the process had to be killed or died by itself."""
        block = secrets.randbits(53)  # a number that counts would let a block forge the ends of later ones
        self._channel.send({"op": "run", "code": code, "block": block})
        await self._load()
        left, leaf_left = timeout_s, leaf_timeout_s
        soon = True  # later frames go through the event loop, so that a loop of refused subcalls does not starve it
        while True:
            began = time.monotonic()
            try:
                if left <= 0:
                    raise TimeoutError  # or a loop of subcalls that are refused at once would never end
                message = await self._channel.receive(left, soon)
            except TimeoutError:
                message = await self._interrupt()
            soon = False
            left -= time.monotonic() - began
            if message.get("op") != "ask":
                return _result(message, block)
            began = time.monotonic()
            texts = await _serve(ask, message, leaf_left)
            leaf_left = max(0.01, leaf_left - (time.monotonic() - began))
            self._channel.send({"op": "answers", "texts": texts})

    async def value(self, name: str) -> str | None:
        """str() of a variable, or None where there is no such name."""
        self._channel.send({"op": "get", "name": name})
        await self._load()
        try:
            message = await self._channel.receive(_OPEN_TIMEOUT_S)
        except TimeoutError:
            raise WorkerDied("the value could not be read") from None
        text = message.get("text")
        return text if isinstance(text, str) else None

    def kill(self):
        """End the process and what it started; remove its scratch folder."""
        if self._pid is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if not self._strict:  # a confined worker can start no process
                    os.killpg(self._pid, signal.SIGKILL)
                self._signal(signal.SIGKILL)
            self._pid = None
        self._channel.close()  # which ends a worker that was never met; it does not live without its folder either
        try:
            os.rmdir(self._folder)  # where it had namespaces, its files were never here
        except FileNotFoundError:
            pass
        except OSError:
            self._ended(within_ms=int(1000 * _REMOVE_S))  # or it makes new files meanwhile
            remove_tree(self._folder, _REMOVE_S)
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None

    def _signal(self, number: int):
        if self._pidfd is not None:
            signal.pidfd_send_signal(self._pidfd, number)
        else:
            os.kill(self._pid, number)

    async def _interrupt(self) -> dict:
        """Stop a block that ran out of time: first a signal, which keeps the state, then the kill."""
        with contextlib.suppress(ProcessLookupError):
            self._signal(signal.SIGINT)
        deadline = time.monotonic() + _INTERRUPT_GRACE_S
        while (left := deadline - time.monotonic()) > 0:
            try:
                message = await self._channel.receive(left)
            except TimeoutError:
                break
            if message.get("op") == "done":
                return message
        raise WorkerDied("the block ran over its time limit")


def _not_started(error: Exception) -> InfrastructureError:
    return InfrastructureError(f"a REPL worker did not start ({error}); is the machine out of memory or processes, or `ulimit` low?")


async def _serve(ask: Ask, message: dict, timeout_s: float) -> list[str]:
    prompts, kind = message.get("prompts"), message.get("kind")
    if not isinstance(prompts, list) or len(prompts) > MAX_PROMPTS or not all(isinstance(p, str) for p in prompts):
        raise WorkerDied("a malformed subcall")
    return await ask(str(kind), prompts, timeout_s)


def _result(message: dict, block: int) -> BlockResult:
    """The end of this very block: a forged end leaves the true one for the next block, which then notices."""
    output, total, final = message.get("output"), message.get("total"), message.get("final")
    if message.get("op") != "done" or message.get("block") != block or not isinstance(output, str) or not isinstance(total, int):
        raise WorkerDied("a frame out of turn")
    counted = min(max(total, len(output)), _MOST_COUNTED)  # model code can set the count, and what was kept
    return BlockResult(output[: 2 * KEEP], counted, final if isinstance(final, str) else None, bool(message.get("failed")))
