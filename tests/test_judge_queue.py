"""The judge's queue: limits, back-pressure, one call for equal questions, cancellation."""

import asyncio

import pytest
from judge_support import GOLDS, HANG, QUESTION, RIGHT, WRONG, ScriptedModel, run, says

from rlmlib.harness.trajectory import Tokens
from rlmlib.models.base import ModelError
from rlmlib.scoring.judge import Judge
from rlmlib.scoring.verdict import Verdict


async def ticks(count=20):
    for _ in range(count):
        await asyncio.sleep(0)


def others() -> set:
    return asyncio.all_tasks() - {asyncio.current_task()}


# --- the queue


def test_no_more_calls_at_once_than_the_limit():
    async def many():
        model = ScriptedModel()
        async with Judge(model) as judge:
            await asyncio.gather(*(judge.verdict(QUESTION, GOLDS, f"c{i}") for i in range(60)))
        return model

    model = run(many())
    assert (model.most, len(model.heard)) == (8, 60)


def test_the_65th_in_line_waits_until_a_call_ends():
    async def fill():
        model = ScriptedModel()
        model.gate.clear()
        async with Judge(model) as judge:
            futures = [await judge.submit(QUESTION, GOLDS, f"c{i}") for i in range(8 + 64)]
            late = asyncio.create_task(judge.submit(QUESTION, GOLDS, "late"))
            await asyncio.sleep(0.02)
            held_back = not late.done()
            model.gate.set()
            verdict = await (await late)
            await asyncio.gather(*futures)
        return held_back, verdict.correct

    assert run(fill()) == (True, True)


def test_a_queue_that_stays_full_gives_unknown_in_time():
    async def fill():
        async with Judge(says(HANG), 1, 0, wait_s=0.05) as judge:
            await judge.submit(QUESTION, GOLDS, "a")
            return await judge.verdict(QUESTION, GOLDS, "b")

    verdict = run(fill())
    assert verdict.correct is None and "full" in verdict.reason


def test_a_question_in_line_is_unknown_when_no_judge_gets_free_in_time():
    async def fill():
        async with Judge(says(HANG), 1, 5, wait_s=0.05) as judge:
            await judge.submit(QUESTION, GOLDS, "a")
            return await judge.verdict(QUESTION, GOLDS, "b")

    verdict = run(fill())
    assert verdict.correct is None and "no judge was free" in verdict.reason


def test_what_needs_no_call_passes_a_full_queue():
    async def fill():
        model = ScriptedModel(lambda text, number: HANG if "slow" in text else RIGHT)
        async with Judge(model, 1, 0) as judge:
            await judge.verdict(QUESTION, GOLDS, "known")
            await judge.submit(QUESTION, GOLDS, "slow")
            passing = ["known", GOLDS[0], None]
            return [(await asyncio.wait_for(judge.verdict(QUESTION, GOLDS, c), 1)).source for c in passing]

    assert run(fill()) == ["cache", "static", "none"]


def test_one_slow_call_does_not_hold_up_the_others():
    async def mixed():
        async with Judge(ScriptedModel(lambda text, number: HANG if "slow" in text else RIGHT), 2, 10) as judge:
            slow = await judge.submit(QUESTION, GOLDS, "slow")
            await asyncio.gather(*(judge.verdict(QUESTION, GOLDS, f"c{i}") for i in range(30)))
            return slow.done()

    assert run(mixed()) is False


def test_a_judge_serves_one_event_loop_after_another():
    model, judge = ScriptedModel(), None

    async def many(part):
        async with judge:
            return await asyncio.gather(*(judge.verdict(QUESTION, GOLDS, f"{part}{i}") for i in range(6)))

    judge = Judge(model, 1, 1)
    assert all(verdict.correct for part in "ab" for verdict in run(many(part)))


# --- equal questions at once


async def equal_ones(model, count=5):
    async with Judge(model) as judge:
        return judge, await asyncio.gather(*(judge.verdict(QUESTION, GOLDS, "Lady Byron") for _ in range(count)))


def test_equal_questions_at_once_make_one_call():
    model = says(WRONG)
    _, verdicts = run(equal_ones(model))
    assert [v.correct for v in verdicts] == [False] * 5 and len(model.heard) == 1


def test_a_shared_call_is_charged_once():
    judge, verdicts = run(equal_ones(says(WRONG)))
    assert sum((v.tokens for v in verdicts), Tokens()) == judge.usage
    assert sorted(v.source for v in verdicts) == ["cache"] * 4 + ["judge"]


def test_a_shared_failure_is_unknown_to_all():
    _, verdicts = run(equal_ones(says(ModelError("unavailable", "down"))))
    assert [(v.correct, v.source) for v in verdicts] == [(None, "judge")] * 5


async def crowd(judge, model):
    """Four equal questions that wait for room, which two others then leave at the same moment."""
    model.gate.clear()
    held = [await judge.submit(QUESTION, GOLDS, f"held {i}") for i in range(2)]
    waiting = [asyncio.create_task(judge.verdict(QUESTION, GOLDS, "same")) for _ in range(4)]
    await asyncio.sleep(0.01)
    model.gate.set()
    await asyncio.gather(*held, *waiting)


def test_equal_questions_that_wait_for_room_make_one_call():
    async def count():
        model = ScriptedModel()
        async with Judge(model, 2, 0) as judge:
            await crowd(judge, model)
        return len(model.heard)

    assert run(count()) == 2 + 1


def test_equal_questions_that_waited_for_room_give_it_back():
    async def refill():
        model = ScriptedModel()
        async with Judge(model, 2, 0, wait_s=0.2) as judge:
            await crowd(judge, model)
            model.gate.clear()
            futures = [await judge.submit(QUESTION, GOLDS, f"next {i}") for i in range(2)]
            return [future.done() for future in futures]  # done: refused for lack of room

    assert run(refill()) == [False, False]


def test_an_asker_who_leaves_at_the_landing_does_not_cost_the_others_their_verdict():
    async def leave():
        askers = []

        def line(text, number):
            asyncio.get_running_loop().call_soon(askers[0].cancel)  # runs after the call's last step, before its landing
            return RIGHT

        async with Judge(ScriptedModel(line)) as judge:
            askers += [await judge.submit(QUESTION, GOLDS, "same") for _ in range(2)]
            return (await asyncio.wait_for(askers[1], 2)).correct

    assert run(leave()) is True


def test_a_shared_call_survives_the_one_who_began_it():
    async def leave():
        model = ScriptedModel()
        model.gate.clear()
        async with Judge(model) as judge:
            first = await judge.submit(QUESTION, GOLDS, "same")
            second = await judge.submit(QUESTION, GOLDS, "same")
            await asyncio.sleep(0.01)
            first.cancel()
            await ticks()
            model.gate.set()
            return await second, len(model.heard)

    assert run(leave()) == (Verdict(True, "judge", Tokens(100, 5, 2, 0.5)), 1)


# --- cancellation


def test_cancelling_the_last_asker_ends_its_call_and_its_task():
    async def cancel():
        model = says(HANG)
        async with Judge(model, 1, 0) as judge:
            before = others()
            asking = asyncio.create_task(judge.verdict(QUESTION, GOLDS, "a"))
            await asyncio.sleep(0.01)
            began = model.running
            asking.cancel()
            await ticks()
            return began, model.running, others() - before

    assert run(cancel()) == (1, 0, set())


@pytest.mark.parametrize("withdrawn", ["running", "in line", "before its first step"])
def test_a_withdrawn_question_gives_its_room_back(withdrawn):
    async def cancel():
        model = ScriptedModel(lambda text, number: HANG if "bad" in text else RIGHT)
        async with Judge(model, 1, 1, wait_s=1) as judge:
            first = await judge.submit(QUESTION, GOLDS, "bad")
            second = await judge.submit(QUESTION, GOLDS, "good")
            if withdrawn != "before its first step":
                await asyncio.sleep(0.01)
            (second if withdrawn == "in line" else first).cancel()
            third = await judge.submit(QUESTION, GOLDS, "third")
            if withdrawn == "in line":
                first.cancel()
            return (await third).correct

    assert run(cancel()) is True


def test_a_question_asked_again_while_its_call_is_being_cancelled_gets_a_new_call():
    async def again():
        model = ScriptedModel(lambda text, number: HANG if number == 0 else RIGHT)
        async with Judge(model) as judge:
            first = await judge.submit(QUESTION, GOLDS, "same")
            await asyncio.sleep(0.01)
            first.cancel()
            await asyncio.sleep(0)  # the call is told, and has not ended
            return (await judge.verdict(QUESTION, GOLDS, "same")).correct

    assert run(again()) is True


def test_the_call_that_follows_a_cancelled_one_is_shared_too():
    async def again():
        model = ScriptedModel()
        model.gate.clear()
        async with Judge(model) as judge:
            first = await judge.submit(QUESTION, GOLDS, "same")
            await asyncio.sleep(0.01)
            first.cancel()
            await asyncio.sleep(0)
            second = await judge.submit(QUESTION, GOLDS, "same")
            await ticks()  # the cancelled call has ended
            third = await judge.submit(QUESTION, GOLDS, "same")
            await asyncio.sleep(0.01)
            model.gate.set()
            await asyncio.gather(second, third)
            return len(model.heard)

    assert run(again()) == 2


def test_leaving_the_block_withdraws_what_is_pending_and_leaves_no_task():
    async def leave():
        before = others()
        async with Judge(says(HANG), 2, 5) as judge:
            futures = [await judge.submit(QUESTION, GOLDS, f"c{i}") for i in range(7)]
            outside = asyncio.create_task(judge.submit(QUESTION, GOLDS, "outside"))
            await asyncio.sleep(0.01)
        verdicts = [*(await asyncio.gather(*futures)), await (await outside)]
        return {verdict.correct for verdict in verdicts}, others() - before

    assert run(leave()) == ({None}, set())
