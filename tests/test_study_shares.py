"""Shares of rollouts in clusters, against an independent library, published numbers and simulation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from rlmlib.scoring.passk import wilson
from rlmlib.study.shares import clustered_share, design_effect, less

calmly = settings(deadline=None, max_examples=50)
clusters = st.lists(st.integers(1, 8).flatmap(lambda size: st.tuples(st.integers(0, size), st.just(size))), min_size=1, max_size=20)


@calmly
@given(st.integers(1, 500), st.data())
def test_wilson_is_that_of_scipy(total, data):
    hits = data.draw(st.integers(0, total))
    theirs = stats.binomtest(hits, total).proportion_ci(0.95, method="wilson")
    assert wilson(hits, total) == pytest.approx((hits / total, theirs.low, theirs.high), abs=1e-4)  # they say 1.95996, not 1.96


def test_wilson_of_zero_hits_has_a_width():
    assert wilson(0, 100) == pytest.approx((0.0, 0.0, 0.03699), abs=1e-5)


def test_a_share_of_none_has_no_interval():
    with pytest.raises(ValueError, match="share of none"):
        wilson(0, 0)


def test_clusters_of_one_are_independent():
    assert design_effect([(1, 1), (0, 1), (0, 1), (1, 1)] * 50) == pytest.approx(1.0, abs=0.01)


def test_clusters_that_are_all_alike_count_once_each():
    assert design_effect([(4, 4), (0, 4)] * 500) == pytest.approx(4.0, rel=0.01)


def test_a_few_clusters_are_known_to_be_few():
    """Of two clusters the variance is estimated with one degree of freedom: 2 (2^2 + 2^2) / 8^2, over .5 * .5 / 8."""
    assert design_effect([(4, 4), (0, 4)]) == pytest.approx(8.0)


def test_clusters_that_are_balanced_count_no_more_than_their_rollouts():
    assert design_effect([(2, 4)] * 50) == 1.0


@pytest.mark.parametrize("some", [[(0, 4)] * 9, [(4, 4)] * 9, [(2, 4)]])
def test_a_design_effect_that_cannot_be_told_is_one(some):
    assert design_effect(some) == 1.0


@calmly
@given(clusters)
def test_intervals_are_in_order_and_within_zero_and_one(some):
    value, low, high = clustered_share(some)
    assert -1e-12 <= 0 <= low <= value + 1e-12 and value - 1e-12 <= high <= 1
    assert value == pytest.approx(sum(h for h, _ in some) / sum(n for _, n in some))


@calmly
@given(clusters)
def test_clusters_are_never_surer_than_as_many_rollouts(some):
    plain = wilson(sum(h for h, _ in some), sum(n for _, n in some))
    value, low, high = clustered_share(some)
    assert high - low >= plain[2] - plain[1] - 1e-9


def test_a_given_design_effect_is_used():
    assert clustered_share([(0, 4)] * 100, 4.0) == pytest.approx(wilson(0, 100))


def test_interval_of_clusters_holds_the_truth_about_as_often_as_it_says():
    """Prompts of four rollouts whose chances differ, mean .2. Intervals that took the rollouts for independent would hold it less."""
    rng = np.random.default_rng(0)
    hits = plain = 0
    for _ in range(400):
        some = [(int(rng.binomial(4, p)), 4) for p in rng.beta(0.2, 0.8, size=60)]
        _, low, high = clustered_share(some)
        hits += low <= 0.2 <= high
        _, low, high = wilson(sum(h for h, _ in some), 240)
        plain += low <= 0.2 <= high
    assert 0.91 <= hits / 400 <= 0.99 and plain / 400 < 0.85


def test_difference_of_shares_is_the_published_one():
    """Newcombe 1998, table II (a), method 10: 56 of 70 less 48 of 80."""
    assert less(wilson(56, 70), wilson(48, 80)) == pytest.approx((0.2, 0.0524, 0.3339), abs=1e-4)


def test_difference_to_a_part_of_a_share():
    assert less((0.1, 0.1, 0.1), (0.5, 0.4, 0.7), 0.1) == pytest.approx((0.05, 0.03, 0.06))
