"""Learning rates by step, when a run counts as diverged, and which checkpoint is the best."""

import math

import pytest

from rlmlib.config import Training, Watch
from rlmlib.training.schedule import lr_at
from rlmlib.training.watch import best_checkpoint, diverged

HEALTHY = {"reply_tokens": 100.0, "entropy": 0.5, "missing": 0.2, "mismatch_kl_kept": 1e-6}


def rates(**config):
    training = Training(lr=1.0, **config)
    return [lr_at(step, training) for step in range(training.steps)]


def test_a_constant_rate():
    assert rates(steps=4) == [1.0] * 4


def test_warm_up_rises_to_the_whole_rate():
    assert rates(steps=6, warmup_steps=4) == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]


def test_a_line_falls_to_zero_after_the_last_step():
    assert rates(steps=6, warmup_steps=2, schedule="linear") == [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]


def test_a_cosine_is_half_way_down_in_the_middle():
    falling = rates(steps=9, warmup_steps=1, schedule="cosine")
    assert falling[1] == 1.0 and falling[5] == pytest.approx(0.5) and falling[-1] == pytest.approx((1 + math.cos(math.pi * 7 / 8)) / 2)
    assert falling[1:] == sorted(falling[1:], reverse=True)


def test_a_warm_up_longer_than_the_run_only_rises():
    assert rates(steps=2, warmup_steps=4, schedule="cosine") == [0.25, 0.5]


def rows(count, **last):
    """`count` healthy rows, the last five of them with other values."""
    return [HEALTHY | (last if count - place <= 5 else {}) for place in range(count)]


def test_a_healthy_run_goes_on():
    assert diverged(rows(50), Watch()) is None


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"reply_tokens": 401.0}, "reply_growth"),
        ({"entropy": 0.0005}, "min_entropy"),
        ({"missing": 0.97}, "missing"),
        ({"mismatch_kl_kept": 0.7}, "mismatch"),
    ],
)
def test_each_measure_stops_a_run_and_names_its_knob(values, named):
    assert f"watch.{named}" in diverged(rows(20, **values), Watch())
    assert diverged(rows(20, **values), Watch(**{named: None})) is None


@pytest.mark.parametrize("values", [{"reply_tokens": 399.0}, {"entropy": 0.0015}, {"missing": 0.94}, {"mismatch_kl_kept": 0.4}])
def test_below_its_limit_nothing_stops(values):
    assert diverged(rows(20, **values), Watch()) is None


def test_one_bad_step_is_no_divergence():
    spike = [*rows(19), HEALTHY | {"missing": 1.0, "reply_tokens": 900.0}]
    assert diverged(spike, Watch()) is None


def test_the_first_steps_are_not_watched():
    assert diverged(rows(9, missing=1.0), Watch()) is None


def test_a_step_that_was_skipped_has_no_numbers_to_watch():
    assert diverged(rows(20, mismatch_kl_kept=None, entropy=None), Watch()) is None


def scored(**by_step):
    return [
        {"step": step, "correct": 0.1 * step, **({"eval_correct": by_step[f"s{step + 1}"]} if f"s{step + 1}" in by_step else {})}
        for step in range(10)
    ]


def test_the_best_checkpoint_is_that_of_the_best_evaluation():
    assert best_checkpoint(scored(s2=0.3, s4=0.6, s6=0.5), [2, 4, 6, 10], 5) == 4


def test_of_two_equal_evaluations_the_later_is_better():
    assert best_checkpoint(scored(s2=0.6, s4=0.6), [2, 4], 5) == 4


def test_without_evaluations_the_mean_of_training_decides():
    falling = [{"step": step, "correct": 1.0 - 0.1 * step} for step in range(10)]
    assert best_checkpoint(falling, [5, 10], 3) == 5


def test_no_checkpoint_is_no_best_one():
    assert best_checkpoint(scored(), [], 5) is None
