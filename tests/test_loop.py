"""Sampling a batch: refill, what is dropped and why. The engine is a double; nothing is generated."""

import random

import pytest

from rlmlib.config import validate
from rlmlib.engine import Attempt
from rlmlib.errors import TrainingError
from rlmlib.harness.trajectory import Rollout, Tokens, Turn
from rlmlib.models.conversation import TokenSequence
from rlmlib.runs import RunDir, read_jsonl
from rlmlib.training.curriculum import Curriculum
from rlmlib.training.groups import Batch, Group, train_items
from rlmlib.training.loop import log
from rlmlib.training.metrics import metrics
from rlmlib.training.take_turns import TakeTurns

SMALL = {"max_chars": 6000, "min_chars": 5000, "coding": 0.0, "research": 0.65, "pool": 30}


def params(beta_max=0.15, **training):
    values = {"prompts_per_step": 4, "max_waves": 5, **training}
    return validate({"name": "test", "tasks": SMALL, "training": values, "reward": {"beta_max": beta_max}})


class Double:
    """An engine whose outcome for the n-th group is given by `outcome(n)`: how many of its rollouts are right, or None to fail."""

    def __init__(self, outcome):
        self.outcome, self.waves, self.groups = outcome, [], 0

    def run(self, jobs):
        self.waves.append(len(jobs))
        attempts = []
        for place, job in enumerate(jobs):
            if place % 4 == 0:
                right = self.outcome(self.groups)
                self.groups += 1
            error = "the leaf is down" if right is None else None
            correct = right is not None and place % 4 < right
            rollout = Rollout(answer="x", stop="final", error=error, turns=[Turn("root", "", tokens=Tokens(10 + place, 2))])
            rollout.sequence = TokenSequence([1, 2], [0, 1], [0.0, -0.5])
            attempts.append(Attempt(job.example, job.index, rollout, correct))
        return attempts


def curriculum():
    return Curriculum(30, 5, random.Random(0))


def sample(outcome, acceptance=1.0, **training):
    engine, drawn = Double(outcome), curriculum()
    return TakeTurns(engine, params(**training), drawn, acceptance).batch(0), engine, drawn


def test_batch_is_refilled_to_its_full_size():
    batch, engine, _ = sample(lambda n: 2 if n % 3 == 0 else 0)
    assert len(batch.kept) == 4
    assert len(engine.waves) > 1


def test_a_batch_is_never_longer_than_asked():
    batch, _, _ = sample(lambda n: 2, acceptance=0.25)
    assert len(batch.kept) == 4
    assert {g.verdict for g in batch.dropped} == {"surplus"}


def test_first_wave_is_as_large_as_acceptance_suggests():
    _, engine, _ = sample(lambda n: 2, acceptance=0.5)
    assert engine.waves == [4 * 8]


def test_all_wrong_groups_are_dropped_and_sidelined():
    batch, _, drawn = sample(lambda n: 0 if n == 0 else 2)
    wrong = [g for g in batch.dropped if g.verdict == "all_wrong"]
    assert len(wrong) == 1
    assert wrong[0].prompt in drawn.until


def test_all_right_groups_are_dropped_by_default_and_not_sidelined():
    batch, _, drawn = sample(lambda n: 4 if n == 0 else 2)
    assert [g.verdict for g in batch.dropped if g.verdict != "surplus"] == ["all_right"]
    assert drawn.until == {}


def test_all_right_groups_are_kept_when_told():
    batch, _, _ = sample(lambda n: 4, keep_all_right=True)
    assert [g.verdict for g in batch.kept] == ["all_right"] * 4


def test_all_right_groups_of_equal_rewards_are_never_kept():
    """Without a cost penalty they have no gradient, and a batch of them would train on nothing but the KL term."""
    with pytest.raises(TrainingError, match="0 of 4 with a signal"):
        sample(lambda n: 4, keep_all_right=True, beta_max=0.0)


def test_a_group_that_failed_for_the_machinery_is_never_counted_as_wrong():
    batch, _, _ = sample(lambda n: None if n == 0 else 2)
    row = metrics(batch, 0)
    assert row["failed_groups"] == 1
    assert row["all_wrong"] == 0
    assert row["correct"] == 0.5


def test_only_groups_without_signal_end_with_a_clear_message():
    with pytest.raises(TrainingError, match="groups gave 0 of 4 with a signal"):
        sample(lambda n: 0)


def test_trained_items_carry_advantages_that_sum_to_zero_in_each_group():
    batch, _, _ = sample(lambda n: 2)
    items = train_items(batch, params().training)
    assert len(items) == 16
    assert all(abs(sum(i.advantage for i in items[start : start + 4])) < 1e-12 for start in range(0, 16, 4))


def test_the_same_step_draws_the_same_prompts_again():
    first, second = (sample(lambda n: 2)[0] for _ in range(2))
    assert [g.prompt for g in first.kept] == [g.prompt for g in second.kept]


def test_a_group_that_was_dropped_while_it_ran_has_no_rollouts_to_log(tmp_path):
    run = RunDir(tmp_path)
    log(run, 0, Batch([], [Group(5, [], [], "stale", 0)]), {"step": 0})
    assert run.metrics == [{"step": 0}] and read_jsonl(run / "rollouts/step_0.jsonl") == []
