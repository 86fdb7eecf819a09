"""The event loop in a thread: results, errors, hangs, and an end that leaves nothing behind."""

import asyncio
import threading

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
