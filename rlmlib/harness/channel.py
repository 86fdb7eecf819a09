"""The host's end of a worker's socket: frames of 4 bytes of length, then JSON.

Trust: what comes in is data. A frame that is malformed, too large or out of turn ends the channel, never the host.
A frame may be large by its texts only, as a list of lists takes 20 times its bytes when it is parsed.
"""

import asyncio
import json
import os
import socket
import struct
import time
from collections import deque
from collections.abc import Sequence

from .repl_child import MAX_FRAME

_MAX_STRUCTURE = 64 * 1024  # quotes, and bytes outside of texts
_READ_BYTES = 64 * 1024  # more makes malloc map and unmap pages for every frame
_BRIEFLY_S = 700e-6  # a small block takes 100 microseconds, the first of a session 600
_MAX_UNREAD = 4  # frames that nobody waits for


class WorkerDied(Exception):
    """The worker is gone or spoke nonsense; its state is lost."""


class Channel:
    """A socket that takes and gives messages in turn.

    It reads and writes the socket itself, as asyncio's transports cost as much as a small block.
    sender: the worker's process id as the kernel tells it, which no worker can forge; None where it does not tell.
    """

    def __init__(self, sock: socket.socket):
        self._sock, self._loop = sock, asyncio.get_running_loop()
        self._buffer = bytearray()
        self._unsent = memoryview(b"")
        self._frames: deque[bytes] = deque()
        self._waiter: asyncio.Future | None = None
        self._why: str | None = None  # why the channel is of no more use
        self.sender: int | None = None
        self._loop.add_reader(sock, self._read)

    def _read(self):
        try:
            data = self._sock.recv(_READ_BYTES) if self.sender else self._first_bytes()
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            return self._fail("the Python process ended")
        self._buffer += data
        while len(self._buffer) >= 4:
            (size,) = struct.unpack_from(">I", self._buffer)
            if size > MAX_FRAME:
                return self._fail(f"a frame over {MAX_FRAME >> 20} MB")
            if len(self._buffer) < 4 + size:
                break
            self._frames.append(bytes(self._buffer[4 : 4 + size]))
            del self._buffer[: 4 + size]
        if len(self._frames) > _MAX_UNREAD:
            return self._fail("frames out of turn")
        if self._frames and self._waiter and not self._waiter.done():
            self._waiter.set_result(None)

    def _first_bytes(self) -> bytes:
        data, ancillary, *_ = self._sock.recvmsg(_READ_BYTES, socket.CMSG_SPACE(12))
        for level, kind, credentials in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
                self.sender = struct.unpack("3i", credentials)[0]
        return data

    def _fail(self, why: str):
        if self._why is None:
            self._why = why
            self._loop.remove_reader(self._sock)
            self._loop.remove_writer(self._sock)
            self._sock.close()
        if self._waiter and not self._waiter.done():
            self._waiter.set_result(None)

    def close(self):
        self._fail("the session is closed")

    def of_running_loop(self) -> bool:
        return self._loop is asyncio.get_running_loop()

    def send(self, message: dict, descriptors: Sequence[int] = ()):
        """Send what the socket takes now, and the rest when it takes more. descriptors: for a small frame only."""
        if self._why:
            raise WorkerDied(self._why)
        body = json.dumps(message).encode()
        frame = struct.pack(">I", len(body)) + body
        if descriptors:
            socket.send_fds(self._sock, [frame], descriptors)
            return
        self._unsent = memoryview(bytes(self._unsent) + frame)
        self._write()
        if self._unsent and not self._why:
            self._loop.add_writer(self._sock, self._write_rest)

    def _write(self):
        try:
            self._unsent = self._unsent[self._sock.send(self._unsent) :]
        except BlockingIOError:
            pass
        except OSError:
            self._fail("the Python process ended")

    def _write_rest(self):
        self._write()
        if not self._unsent and not self._why:
            self._loop.remove_writer(self._sock)

    async def receive(self, timeout_s: float, soon: bool = False) -> dict:
        """The next frame. Raises TimeoutError, and WorkerDied when there will be none. soon: it is likely to be there already."""
        if soon and not self._frames and not self._why:
            self._wait_briefly()
        if not self._frames and not self._why:
            self._waiter = self._loop.create_future()
            alarm = self._loop.call_later(timeout_s, self._expire, self._waiter)
            try:
                await self._waiter
            finally:
                alarm.cancel()
        if not self._frames:
            raise WorkerDied(self._why)
        return self.received()

    def received(self) -> dict | None:
        """The next frame that is there, or None. Raises WorkerDied on one that is malformed."""
        if not self._frames:
            return None
        frame = self._frames.popleft()
        if len(frame) > _MAX_STRUCTURE and not _is_mostly_text(frame):
            raise WorkerDied("a malformed frame")
        try:
            message = json.loads(str(frame, "ascii"))
        except (ValueError, RecursionError):
            raise WorkerDied("a malformed frame") from None
        if not isinstance(message, dict):
            raise WorkerDied("a malformed frame")
        return message

    def _wait_briefly(self):
        """Look again and again while a small block runs: to sleep and be woken takes three times as long as a pipe does."""
        until = time.monotonic() + _BRIEFLY_S
        while not self._frames and not self._why and time.monotonic() < until:
            self._read()
            os.sched_yield()  # where the worker shares this core

    @staticmethod
    def _expire(waiter: asyncio.Future):
        if not waiter.done():
            waiter.set_exception(TimeoutError())


def _is_mostly_text(frame: bytes) -> bool:
    """Whether its structure is bounded, so that parsing takes little more memory than its texts."""
    bare = frame.replace(b"\\\\", b"").replace(b'\\"', b"")  # what is left of quotes begins and ends texts
    quotes = bare.count(b'"')
    return quotes <= _MAX_STRUCTURE and sum(map(len, bare.split(b'"')[::2])) <= _MAX_STRUCTURE
