"""The event loop in a thread: results, errors, hangs, and an end that leaves nothing behind."""

import asyncio
import os
import signal
import threading
import time

import pytest

from rlmlib.background import BackgroundLoop
from rlmlib.errors import InfrastructureError


@pytest.fixture
def loop():
    running = BackgroundLoop("under test")
    yield running
    running.close()


async def later(value):
    await asyncio.sleep(0.01)
    return value


async def failing():
    raise ValueError("as it is")


def test_gives_the_result(loop):
    assert loop.run(later(3), 5, "it") == 3


def test_an_error_comes_through(loop):
    with pytest.raises(ValueError, match="as it is"):
        loop.run(failing(), 5, "it")


def test_a_hang_ends_with_its_name(loop):
    with pytest.raises(InfrastructureError, match="the wait hung for 0 s"):
        loop.run(asyncio.sleep(60), 0.05, "the wait")


def test_what_is_left_at_the_end_is_cancelled_and_cleans_up():
    ended = []

    async def left_behind():
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(True)

    async def begin():
        kept.append(asyncio.ensure_future(left_behind()))
        await asyncio.sleep(0)

    kept, loop = [], BackgroundLoop("to be closed")
    loop.run(begin(), 5, "it")
    loop.close()
    assert ended == [True] and kept[0].cancelled()
    assert "to be closed" not in [thread.name for thread in threading.enumerate()]


def test_after_its_end_it_says_so_and_may_be_closed_again():
    loop = BackgroundLoop("ended")
    loop.close()
    loop.close()
    with pytest.raises(InfrastructureError, match="ended: is closed"):
        loop.run(later(3), 5, "it")


def in_a_forked_process(work) -> int:
    """The exit status of `work` in a fork of this process; 99 where it has not ended in 10 s."""
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(work())
        finally:
            os._exit(98)
    until = time.monotonic() + 10
    while time.monotonic() < until:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return 99


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_in_a_forked_process_it_is_refused_and_stays_open_in_its_own(loop):
    def forked() -> int:
        loop.close()
        try:
            loop.run(later(3), 5, "it")
        except InfrastructureError as error:
            return 7 if "os.fork" in str(error) else 8
        return 9

    assert in_a_forked_process(forked) == 7
    assert loop.run(later(3), 5, "it") == 3


def test_the_garbage_collector_may_close_it_from_its_own_thread():
    loop = BackgroundLoop("collected")

    async def collect():
        loop.close()

    began = time.monotonic()
    loop.run(collect(), 5, "it")
    loop._thread.join(timeout=5)
    assert not loop._thread.is_alive() and time.monotonic() - began < 4
