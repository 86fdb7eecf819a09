"""The pool: slots, deadlines, attempts."""

import asyncio

import pytest

from rlmlib.harness.trajectory import Rollout
from rlmlib.harness.workers import WorkerPool


def run(pool_arguments, *attempts):
    async def all_of_them():
        pool = WorkerPool(**{"workers": 2, "deadline_s": 0.2, "attempts": 3, **pool_arguments})
        return await asyncio.wait_for(asyncio.gather(*(pool.run(a) for a in attempts)), 20)

    return asyncio.run(all_of_them())


def outcomes(*kinds):
    """An attempt for each kind: 'ok', 'fails' or 'hangs'."""
    cancelled = []

    async def attempt(number):
        if kinds[number] == "hangs":
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                cancelled.append(number)
                raise
        return Rollout(answer=str(number), error="no disk" if kinds[number] == "fails" else None)

    attempt.cancelled = cancelled
    return attempt


def test_first_rollout_that_ends_by_itself_counts():
    (rollout,) = run({}, outcomes("fails", "ok", "ok"))
    assert (rollout.answer, rollout.error, rollout.failures) == ("1", None, ["no disk"])


def test_attempt_over_its_deadline_is_cancelled_and_tried_again():
    attempt = outcomes("hangs", "ok")
    (rollout,) = run({}, attempt)
    assert rollout.answer == "1" and attempt.cancelled == [0]
    assert "took over" in rollout.failures[0]


def test_attempts_are_bounded_and_the_last_failure_is_kept():
    (rollout,) = run({}, outcomes("fails", "hangs", "fails"))
    assert rollout.error == "no disk" and len(rollout.failures) == 2


def test_no_more_rollouts_at_once_than_workers():
    running, most = 0, 0

    async def attempt(number):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.02)
        running -= 1
        return Rollout(answer="x")

    run({"workers": 3}, *[attempt] * 12)
    assert most == 3


def test_late_result_is_thrown_away():
    async def stubborn(number):
        if number == 0:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                return Rollout(answer="late")
        return Rollout(answer="second")

    (rollout,) = run({}, stubborn)
    assert rollout.answer == "second"


def test_cancelling_the_pool_cancels_the_attempt():
    attempt = outcomes("hangs")

    async def go():
        task = asyncio.ensure_future(WorkerPool(1, 60, 1).run(attempt))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(go())
    assert attempt.cancelled == [0]
