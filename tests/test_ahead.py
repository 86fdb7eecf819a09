"""Sampling beside training: what bounds it, what is dropped and why, and that long rollouts are not left out for good."""

import asyncio
import contextlib
import random
import threading

import pytest

from rlmlib.background import BackgroundLoop
from rlmlib.config import validate
from rlmlib.engine import Attempt
from rlmlib.errors import InfrastructureError, RunError, TrainingError
from rlmlib.harness.trajectory import Rollout, Tokens, Turn
from rlmlib.models.conversation import TokenSequence
from rlmlib.training.ahead import Ahead
from rlmlib.training.curriculum import Curriculum
from rlmlib.training.metrics import metrics

WAIT_S = 20
SMALL = {"max_chars": 6000, "min_chars": 5000, "coding": 0.0, "research": 0.65, "pool": 1000}


def params(beta_max=0.15, **training):
    values = {"steps": 100, "prompts_per_step": 4, "max_async_level": 2, "max_off_policy_steps": 3, **training}
    return validate({"name": "test", "tasks": SMALL, "training": values, "reward": {"beta_max": beta_max}})


class Double:
    """An engine that ends groups at once, but the n-th that was begun only when it is told to where `hangs(n, prompt)`."""

    def __init__(self, right=lambda n: 2, hangs=lambda n, prompt: False):
        self.right, self.hangs = right, hangs
        self.background = BackgroundLoop("test")
        self.begun: list[int] = []  # prompts in order
        self.keys: list[tuple] = []
        self.ended: set[int] = set()
        self.cancelled: list[int] = []
        self.gates: dict[int, asyncio.Event] = {}
        self.some_began = threading.Condition()

    batch_timeout_s = WAIT_S

    def call(self, work, what, timeout_s=WAIT_S):
        return self.background.run(work, timeout_s, what)

    @contextlib.asynccontextmanager
    async def judging(self):
        yield

    async def attempts(self, jobs):
        number = len(self.begun)
        gate = self.gates[number] = asyncio.Event()
        prompt = int(jobs[0].example.id.removeprefix("train-"))
        with self.some_began:
            self.begun.append(prompt)
            self.keys.append(jobs[0].key)
            self.some_began.notify_all()
        if self.hangs(number, prompt):
            try:
                await gate.wait()
            except asyncio.CancelledError:
                self.cancelled.append(number)
                raise
        self.ended.add(number)
        right = self.right(number)
        if isinstance(right, Exception):
            raise right
        attempts = []
        for place, job in enumerate(jobs):
            rollout = Rollout(answer="x", stop="final", turns=[Turn("root", "", tokens=Tokens(10 + place, 2))])
            rollout.sequence = TokenSequence([1, 2], [0, 1], [0.0, -0.5])
            attempts.append(Attempt(job.example, job.index, rollout, place < right))
        return attempts

    def end(self, *numbers):
        """Let these groups end, and wait until they have."""

        async def open_gates():
            for number in numbers:
                self.gates[number].set()
            while not set(numbers) <= self.ended:
                await asyncio.sleep(0)

        self.call(open_gates(), "ending groups")

    def wait_for(self, count):
        """Until so many groups were begun."""
        with self.some_began:
            assert self.some_began.wait_for(lambda: len(self.begun) >= count, WAIT_S), f"{len(self.begun)} of {count} groups were begun"

    def wait_until_taken(self, source, count):
        """Until so many groups are done and wait in the queue."""

        async def done():
            while len(source._ready) < count:
                await asyncio.sleep(0.001)

        self.call(done(), "groups that end")


@contextlib.contextmanager
def ahead(engine, version=0, begun=0, **training):
    drawn = Curriculum(1000, 5, random.Random(0))
    try:
        with Ahead(engine, params(**training), drawn, version, begun) as source:
            yield source
    finally:
        engine.background.close()


def test_no_more_groups_are_under_way_than_there_is_room_for():
    with ahead(engine := Double(hangs=lambda n, prompt: True)):
        engine.wait_for(8)
    assert len(engine.begun) == 8  # 2 batches of 4, and closing begins no more


def test_what_has_a_signal_waits_in_a_queue_that_ends():
    with ahead(engine := Double()) as source:
        engine.wait_for(8)
        source.batch(0)
        engine.wait_for(12)
    assert len(engine.begun) == 12


def test_a_dropped_group_makes_room_at_once():
    with ahead(Double(right=lambda n: 0 if n < 3 else 2)) as source:
        batch = source.batch(0)
        assert [g.verdict for g in batch.dropped] == ["all_wrong"] * 3
        assert len(batch.kept) == 4
        assert source.curriculum.sidelined(0) == 3


def test_a_batch_is_of_the_oldest_groups():
    with ahead(engine := Double(hangs=lambda n, prompt: n < 8)) as source:
        engine.wait_for(8)
        engine.end(4, 5, 6, 7)
        run_steps(source, 2)  # the second batch was begun in place of the first one
        engine.end(0)
        assert [g.version for g in source.batch(2).kept] == [0, 1, 1, 1]


def test_no_group_is_older_than_the_level_where_rollouts_take_alike():
    with ahead(engine := Double()) as source:
        lags = []
        for step in range(12):
            row = metrics(source.batch(step), step)
            lags.append(row["lag_max"])
            source.trained(step + 1)
    assert max(lags) == 2 and lags[0] == 0
    assert len(engine.begun) <= 12 * 4 + 8


def run_steps(source, count, first=0):
    batches = []
    for step in range(first, first + count):
        batches.append(source.batch(step))
        source.trained(step + 1)
    return batches


def test_a_group_that_takes_too_many_updates_is_dropped_and_logged():
    with ahead(engine := Double(hangs=lambda n, prompt: n == 0)) as source:
        run_steps(source, 3)
        stale = [g for g in source.batch(3).dropped if g.verdict == "stale"]
    assert [g.version for g in stale] == [0]
    assert engine.cancelled[0] == 0


def test_waiting_in_the_queue_counts():
    """A group that is done in time but is never taken, as older ones go first, ends as stale."""
    with ahead(engine := Double(), max_async_level=2, max_off_policy_steps=3) as source:
        engine.wait_until_taken(source, 8)
        for version in (1, 2):
            source.trained(version)  # updates that took no batch from here
        assert not [g for g in source.batch(2).dropped if g.verdict == "stale"]
        source.trained(3)
        batch = source.batch(3)
    assert [g.verdict for g in batch.dropped] == ["stale"] * 4
    assert all(g.version >= 2 for g in batch.kept)


def test_a_prompt_that_was_dropped_is_drawn_again_and_then_waited_for():
    """A prompt whose rollouts always outlast so many updates would else never be trained on."""
    hanging = Curriculum(1000, 5, random.Random(0)).draw(1, 0)[0]  # the first one
    with ahead(engine := Double(hangs=lambda n, prompt: prompt == hanging)) as source:
        run_steps(source, 3)
        assert [engine.begun[n] for n in engine.cancelled] == [hanging]
        run_steps(source, 2, first=3)  # one more update would make it stale again
        second = len(engine.begun) - 1 - engine.begun[::-1].index(hanging)
        waiting = threading.Thread(target=lambda: results.append(source.batch(5)))
        results: list = []
        waiting.start()
        waiting.join(0.3)
        assert waiting.is_alive()
        engine.end(second)
        waiting.join(WAIT_S)
    assert (results[0].kept[0].prompt, results[0].kept[0].version) == (hanging, 3)
    assert len(engine.cancelled) == 1


def test_only_groups_without_signal_end_with_a_clear_message():
    with (
        ahead(Double(right=lambda n: 0), max_waves=2, max_wave_prompts=10) as source,
        pytest.raises(TrainingError, match="0 of 4 with a si"),
    ):
        source.batch(0)


def test_what_no_rollout_survives_ends_the_wait():
    engine = Double(right=lambda n: RunError("the disk is full") if n == 2 else 2)
    with ahead(engine) as source, pytest.raises(RunError, match="the disk is full"):
        for step in range(5):
            source.batch(step)


def test_every_group_has_random_numbers_of_its_own_after_a_restart_too():
    with ahead(first := Double()) as source:
        run_steps(source, 3)
        state = source.state()
    with ahead(second := Double(), version=3, begun=state["begun"]) as source:
        run_steps(source, 3, first=3)
    assert len({*first.keys, *second.keys}) == len(first.keys) + len(second.keys)


def test_closing_ends_what_is_under_way():
    with ahead(engine := Double(hangs=lambda n, prompt: True)):
        engine.wait_for(8)
    assert sorted(engine.cancelled) == list(range(8))


def test_a_straggler_does_not_hold_up_the_batch_that_is_waited_for():
    with ahead(engine := Double(hangs=lambda n, prompt: n == 0), max_async_level=1) as source:
        batches = run_steps(source, 3)
    assert all(len(batch.kept) == 4 for batch in batches)
    assert [g.verdict for g in batches[2].dropped + source._dropped].count("stale") <= 1 and engine.cancelled[0] == 0


def test_a_group_that_never_ends_ends_the_wait_with_a_clear_message():
    engine = Double(hangs=lambda n, prompt: True)
    engine.batch_timeout_s = 0.2
    with ahead(engine) as source, pytest.raises(InfrastructureError, match="no group ended in 0 s"):
        source.batch(0)


def test_no_group_is_begun_that_no_step_is_left_for():
    with ahead(engine := Double(), steps=3) as source:
        run_steps(source, 3)
    assert len(engine.begun) == 12


def test_groups_of_equal_rewards_do_not_fill_a_batch():
    with ahead(Double(right=lambda n: 4 if n % 2 else 2), keep_all_right=True, beta_max=0.0) as source:
        batch = source.batch(0)
    assert {g.verdict for g in batch.kept} == {"kept"} and "all_right" in {g.verdict for g in batch.dropped}


def test_prompts_that_training_waits_for_outlive_a_restart():
    hanging = Curriculum(1000, 5, random.Random(0)).draw(1, 0)[0]
    with ahead(Double(hangs=lambda n, prompt: prompt == hanging)) as source:
        run_steps(source, 3)
        state = source.state()
    assert state["again"] == [hanging]
    drawn = Curriculum(1000, 5, random.Random(1))
    engine = Double()
    try:
        with Ahead(engine, params(), drawn, 3, state["begun"], state["again"]) as source:
            assert hanging in {g.prompt for g in source.batch(3).kept}
    finally:
        engine.background.close()
