"""The budget of a rollout tree: reserved before a call, settled after it, and latching."""

import time

from hypothesis import given, settings
from hypothesis import strategies as st

from rlmlib.harness.budget import Budget, Limits
from rlmlib.harness.trajectory import Tokens


def test_a_call_over_the_number_of_subcalls_is_refused_and_takes_nothing():
    budget = Budget(Limits(subcalls=1))
    assert budget.reserve_call() and not budget.reserve_call()
    assert (budget.subcalls, budget.tripped) == (1, "subcalls")


def test_reserved_tokens_count_until_the_call_is_settled():
    budget = Budget(Limits(delegated_tokens=100))
    assert budget.reserve_call(60) and not budget.reserve_call(60)
    assert budget.delegated == 60


def test_settling_gives_back_what_was_not_used():
    budget = Budget(Limits(delegated_tokens=100))
    budget.reserve_call(60)
    budget.settle_call(60, Tokens(10, 5))
    assert (budget.delegated, budget.total) == (15, 15)


def test_a_limit_of_tokens_that_was_hit_stays_hit():
    budget = Budget(Limits(delegated_tokens=100))
    assert not budget.reserve_call(101)
    assert not budget.reserve_call(1)


def test_root_turns_count_towards_all_tokens_and_not_to_delegated_ones():
    budget = Budget(Limits(total_tokens=100))
    budget.charge(Tokens(90, 20))
    assert budget.spent() == "total_tokens" and budget.delegated == 0


def test_dollars_end_a_rollout_once_spent():
    budget = Budget(Limits(dollars=0.01))
    budget.charge(Tokens(1, 1, dollars=0.004))
    assert budget.spent() is None
    budget.charge(Tokens(1, 1, dollars=0.007))
    assert budget.spent() == "dollars"


def test_calls_of_unknown_price_cost_nothing_of_the_dollars():
    budget = Budget(Limits(dollars=0.01))
    budget.charge(Tokens(10**6, 1, dollars=None))
    assert budget.spent() is None


def test_wall_clock_ends_a_rollout():
    budget = Budget(Limits(seconds=0.01))
    time.sleep(0.02)
    assert budget.spent() == "seconds" and not budget.reserve_call()


def test_left_names_only_limits_that_there_are():
    assert set(Budget(Limits(subcalls=3, dollars=1.0)).left()) == {"subcalls", "dollars"}


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=40), st.integers(1, 500))
def test_calls_that_cost_at_most_what_was_reserved_never_exceed_the_limit(calls, limit):
    budget = Budget(Limits(subcalls=1000, delegated_tokens=limit))
    for reserved, actual in calls:
        if budget.reserve_call(reserved):
            budget.settle_call(reserved, Tokens(min(reserved, actual)))
        assert budget.delegated <= limit
