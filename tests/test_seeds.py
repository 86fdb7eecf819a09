"""Means over several seeds and their intervals, on values that are chosen by hand."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlmlib.config import validate
from rlmlib.errors import RunError
from rlmlib.scoring.passk import bootstrap_weights, mean_interval
from rlmlib.study.seeds import (
    Values,
    bounds,
    difference,
    interval,
    interval_over_seeds,
    ratio,
    resampled,
    shared_examples,
    spread_of_seeds,
)

PARAMS = validate({"name": "test", "seed": 7, "evaluation": {"bootstrap": 400}})
FAMILIES = ["a", "a", "a", "b", "b", "c"]
calmly = settings(deadline=None, max_examples=40)
shares = st.lists(st.floats(0, 1), min_size=6, max_size=6)


def values(numbers, first: int = 0) -> Values:
    """A run with these values of examples `first`, `first` + 1, ..."""
    names = [f"q{first + place}" for place in range(len(numbers))]
    return Values(dict(zip(names, map(float, numbers), strict=True)), {n: FAMILIES[int(n[1:]) % 6] for n in names})


ONE = [0.1, 0.9, 0.4, 0.0, 1.0, 0.3]


def width(triple) -> float:
    return triple[2] - triple[1]


# --- one group -------------------------------------------------------------------------------


@calmly
@given(shares)
def test_one_seed_has_the_interval_over_questions(numbers):
    known = mean_interval(numbers, bootstrap_weights(FAMILIES, 400, 7))
    assert interval_over_seeds([values(numbers)], PARAMS) == pytest.approx(known)


@calmly
@given(shares, st.integers(2, 5))
def test_identical_seeds_have_the_interval_of_one(numbers, seeds):
    assert interval_over_seeds([values(numbers)] * seeds, PARAMS) == pytest.approx(interval_over_seeds([values(numbers)], PARAMS))


def test_value_is_the_mean_over_runs_and_examples():
    runs = [values([0, 0, 0, 0, 0, 1]), values([1, 1, 1, 1, 1, 1]), values([0.5] * 6)]
    assert interval_over_seeds(runs, PARAMS)[0] == pytest.approx((1 / 6 + 1 + 0.5) / 3)


def test_seeds_that_differ_widen_the_interval():
    apart = [values(np.clip(np.array(ONE) + shift, -1, 2)) for shift in (-0.3, 0.0, 0.3)]
    assert width(interval_over_seeds(apart, PARAMS)) > width(interval_over_seeds([values(ONE)] * 3, PARAMS)) + 0.1


def test_seeds_alone_have_an_interval_where_all_questions_are_alike():
    assert interval_over_seeds([values([v] * 6) for v in (0.2, 0.4, 0.9)], PARAMS) == pytest.approx((0.5, 0.2, 0.9))


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_resampled_seeds_have_the_variance_of_a_mean_over_seeds(seeds):
    """Not that of a plain bootstrap, which is (n - 1) / n of it."""
    means = np.random.default_rng(seeds).normal(size=seeds)
    counts = np.ones((100_000, 1), dtype=int)
    drawn = resampled(means[:, None], counts, np.random.default_rng(1))
    assert drawn.var() == pytest.approx(means.var(ddof=1) / seeds, rel=0.03)
    assert drawn.mean() == pytest.approx(means.mean(), abs=0.01)


@calmly
@given(st.lists(shares, min_size=1, max_size=4))
def test_interval_holds_no_value_that_no_run_has(runs):
    _, low, high = interval_over_seeds([values(numbers) for numbers in runs], PARAMS)
    flat = [v for numbers in runs for v in numbers]
    assert min(flat) - 1e-9 <= low <= high <= max(flat) + 1e-9


@calmly
@given(st.lists(shares, min_size=1, max_size=3), st.floats(-5, 5))
def test_a_shift_of_all_values_moves_the_interval(runs, shift):
    moved = [values(np.array(numbers) + shift) for numbers in runs]
    known = interval_over_seeds([values(numbers) for numbers in runs], PARAMS)
    assert interval_over_seeds(moved, PARAMS) == pytest.approx(tuple(v + shift for v in known), abs=1e-9)


@calmly
@given(st.permutations(range(6)))
def test_the_order_of_examples_in_a_later_run_makes_no_difference(order):
    second = values([0.5, 0.2, 0.9, 0.3, 0.3, 0.1])
    mixed = Values({f"q{place}": second.by_example[f"q{place}"] for place in order}, second.families)
    assert interval_over_seeds([values(ONE), mixed], PARAMS) == interval_over_seeds([values(ONE), second], PARAMS)


def test_the_same_seed_gives_the_same_interval():
    runs = [values(ONE), values([0.5] * 6), values(ONE[::-1])]
    assert interval_over_seeds(runs, PARAMS) == interval_over_seeds(runs, PARAMS)


def test_resamples_are_of_the_evaluations_seed():
    one, other = (validate({"name": "t", "seed": s, "evaluation": {"bootstrap": 400, "seed": 7}}) for s in (1, 2))
    runs = [values(ONE), values(ONE[::-1])]
    assert interval_over_seeds(runs, one) == interval_over_seeds(runs, other) == interval_over_seeds(runs, PARAMS)


def test_questions_are_drawn_within_their_families():
    """Families that differ, and whose questions are alike, leave no doubt."""
    assert interval_over_seeds([values([ord(family) for family in FAMILIES])], PARAMS)[1:] == pytest.approx((97 + 4 / 6,) * 2)


# --- two groups ------------------------------------------------------------------------------


@calmly
@given(shares)
def test_a_group_of_one_seed_differs_from_itself_by_nothing(numbers):
    assert difference([values(numbers)], [values(numbers)], PARAMS) == (0.0, 0.0, 0.0)


@calmly
@given(shares, st.floats(-1, 1))
def test_a_constant_gain_in_every_question_leaves_no_doubt(numbers, gain):
    found = difference([values(np.array(numbers) + gain)], [values(numbers)], PARAMS)
    assert found == pytest.approx((gain,) * 3, abs=1e-9)


@calmly
@given(st.lists(shares, min_size=1, max_size=3), st.lists(shares, min_size=1, max_size=3))
def test_a_difference_is_that_of_the_means(first, second):
    found = difference([values(n) for n in first], [values(n) for n in second], PARAMS)
    assert found[0] == pytest.approx(np.mean(first) - np.mean(second), abs=1e-9)
    assert found[1] <= found[2]


def test_a_difference_is_paired_by_question():
    """Of two groups apart, each with a wide interval, the difference in every question is nearly the same."""
    harder = [v - 0.05 for v in ONE]
    assert width(difference([values(ONE)], [values(harder)], PARAMS)) < 1e-9 < 0.2 < width(interval_over_seeds([values(ONE)], PARAMS))


def test_seeds_of_two_groups_are_drawn_apart():
    """A group of several seeds does not equal itself drawn again: its runs are no pairs."""
    group = [values([v] * 6) for v in (0.2, 0.4, 0.9)]
    value, low, high = difference(group, group, PARAMS)
    assert value == 0.0 and low < -0.3 and high > 0.3


def test_ratio_is_that_of_the_means():
    assert ratio([values([2, 4] * 3)], [values([1, 2] * 3)], PARAMS) == pytest.approx((2.0, 2.0, 2.0))


def test_ratio_to_zero_is_infinite_at_both_ends():
    assert ratio([values([1] * 6)], [values([0] * 6)], PARAMS) == (math.inf, math.inf, math.inf)


def test_ratio_of_zero_is_zero():
    assert ratio([values([0] * 6)], [values([1] * 6)], PARAMS) == (0.0, 0.0, 0.0)


def test_ratio_of_nothing_to_nothing_says_nothing():
    value, low, high = ratio([values([0] * 6)], [values([0] * 6)], PARAMS)
    assert math.isnan(value) and (low, high) == (0.0, math.inf)


def test_ratio_to_what_is_zero_in_some_resamples_is_open_above_alone():
    """Only one question costs anything: resamples without it have no cost."""
    value, low, high = ratio([values([3] * 6)], [values([9, 0, 0, 0, 0, 0])], PARAMS)
    assert value == pytest.approx(2.0) and 18 / 27 <= low <= 1.0 and high == math.inf


@calmly
@given(st.lists(st.sampled_from([0.0, 1.0, 7.0]), min_size=6, max_size=6), st.lists(st.sampled_from([0.0, 2.0]), min_size=6, max_size=6))
def test_ends_of_a_ratio_are_never_nan_and_in_order(first, second):
    _, low, high = ratio([values(first)], [values(second)], PARAMS)
    assert 0 <= low <= high


@calmly
@given(st.lists(st.floats(-10, 10), min_size=1, max_size=50))
def test_ends_of_plain_numbers_are_their_percentiles(numbers):
    assert bounds(np.array(numbers)) == pytest.approx(tuple(np.percentile(numbers, (2.5, 97.5))))


def test_a_formula_may_take_any_number_of_groups():
    groups = [[values([v] * 6)] for v in (0.1, 0.5, 0.4)]
    assert interval(lambda means: means.max(0) - means.min(0), groups, PARAMS) == pytest.approx((0.4, 0.4, 0.4))


# --- the luck of a group of one seed -----------------------------------------------------------


def test_spread_of_seeds_is_pooled_over_groups_of_several():
    """Squares .02 and .08 about the means of two groups, three degrees of freedom; a group of one has none."""
    assert spread_of_seeds([[0.4, 0.5, 0.6], [0.1, 0.5], [0.9]]) == pytest.approx(((0.02 + 0.08) / 3) ** 0.5)


def test_spread_of_seeds_of_one_group_is_its_standard_deviation():
    assert spread_of_seeds([[1.0, 2.0, 4.0]]) == pytest.approx(np.std([1, 2, 4], ddof=1))


def test_relative_spread_is_of_logarithms_and_knows_nothing_of_zeros():
    assert spread_of_seeds([[1.0, math.e], [0.0, 5.0]], relative=True) == pytest.approx(0.5**0.5)


@pytest.mark.parametrize("groups", [[], [[0.5]], [[0.5], [0.1]]])
def test_without_a_group_of_several_seeds_no_spread_is_known(groups):
    assert spread_of_seeds(groups) == spread_of_seeds(groups, relative=True) == 0.0


def test_luck_of_a_group_widens_a_difference_and_leaves_its_value():
    """Questions leave no doubt here: the interval is that of the two normal distributions, sd .05 together."""
    many = validate({"name": "test", "evaluation": {"bootstrap": 20_000}})
    value, low, high = difference([values([0.6] * 6)], [values([0.5] * 6)], many, [0.03, 0.04])
    assert value == pytest.approx(0.1) and (low, high) == pytest.approx((0.1 - 0.098, 0.1 + 0.098), abs=0.004)


def test_luck_of_a_group_is_a_factor_of_a_ratio():
    many = validate({"name": "test", "evaluation": {"bootstrap": 20_000}})
    value, low, high = ratio([values([4] * 6)], [values([2] * 6)], many, [0.5, 0.0])
    assert value == pytest.approx(2.0) and (low, high) == pytest.approx((2 * math.exp(-0.98), 2 * math.exp(0.98)), rel=0.05)


@calmly
@given(shares, shares)
def test_no_luck_changes_nothing(first, second):
    known = difference([values(first)], [values(second)], PARAMS)
    assert difference([values(first)], [values(second)], PARAMS, [0.0, 0.0]) == known


# --- examples that not all runs have -----------------------------------------------------------


def test_examples_that_are_not_in_all_runs_are_left_out():
    first, second = values([1.0, 0.0, 0.0, 0.0], first=0), values([0.0, 1.0, 1.0, 1.0], first=1)  # q1, q2, q3 are shared
    assert interval_over_seeds([first, second], PARAMS)[0] == pytest.approx((0 + 2 / 3) / 2)
    assert difference([first], [second], PARAMS)[0] == pytest.approx(-2 / 3)


def test_examples_are_shared_over_all_groups():
    assert shared_examples([values(ONE), values([1, 2, 3], first=2), values([1, 2, 3], first=3)]) == ["q3", "q4"]


def test_runs_without_a_common_example_are_refused():
    with pytest.raises(RunError, match="evaluation.seed"):
        interval_over_seeds([values(ONE), values(ONE, first=6)], PARAMS)


# --- coverage --------------------------------------------------------------------------------


def covered(luck: float, noise: float, samples: int = 120) -> float:
    """Share of differences of two equal groups of three seeds whose interval holds 0; `luck` of a seed, `noise` of a question."""
    rng = np.random.default_rng(3)
    hits = 0
    for _ in range(samples):
        questions = rng.normal(0, noise, 6)
        runs = [values(questions + rng.normal(0, luck) + rng.normal(0, noise / 2, 6)) for _ in range(6)]
        _, low, high = difference(runs[:3], runs[3:], PARAMS)
        hits += low <= 0 <= high
    return hits / samples


@pytest.mark.parametrize(("luck", "noise", "least"), [(0.0, 1.0, 0.93), (0.2, 1.0, 0.9), (1.0, 0.0, 0.75)])
def test_equal_groups_are_seldom_called_different(luck, noise, least):
    """With three seeds, and where luck is all there is, about one comparison in seven is wrong, and not one in twenty."""
    assert covered(luck, noise) >= least
