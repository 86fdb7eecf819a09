"""The budget of a rollout tree: reserved before a call, settled after it, and latching."""

import asyncio
import time

import pytest
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


# --- what a call may cost when it is about to be sent


def test_what_is_reserved_does_not_end_a_rollout():
    budget = Budget(Limits(total_tokens=100))
    assert budget.reserve_call(100) and budget.spent() is None and budget.exceeded() is None


def test_a_reservation_is_of_no_use_once_others_have_spent_the_rest():
    budget = Budget(Limits(total_tokens=100))
    budget.reserve_call(60)
    budget.charge(Tokens(50))
    assert budget.exceeded() == "total_tokens" == budget.tripped


def test_a_leaf_that_used_more_than_was_reserved_keeps_the_next_from_being_sent():
    budget = Budget(Limits(delegated_tokens=100))
    budget.reserve_call(40), budget.reserve_call(40)
    budget.settle_call(40, Tokens(90))
    assert budget.exceeded() == "delegated_tokens"


def test_time_that_ran_out_keeps_a_call_from_being_sent():
    budget = Budget(Limits(seconds=0.01))
    budget.reserve_call()
    time.sleep(0.02)
    assert budget.exceeded() == "seconds"


def test_a_call_that_was_not_sent_is_given_back():
    budget = Budget(Limits(subcalls=1, total_tokens=100))
    budget.reserve_call(60)
    budget.give_back(60)
    assert (budget.subcalls, budget.total, budget.reserved) == (0, 0, 0) and budget.reserve_call(60)


def spend(limit: float, costs: list[float], estimate: float | None) -> tuple[Budget, int]:
    """The budget after calls that all start at once, and how many ran at the same time at most."""
    budget, running, most = Budget(Limits(dollars=limit)), 0, 0

    async def call(cost: float):
        nonlocal running, most
        hold = await budget.hold_dollars("m", estimate)
        if hold is None:
            return
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1
        budget.charge(Tokens(1, dollars=cost))
        budget.release(hold, "m", Tokens(1, dollars=cost))

    async def all_of_them():
        await asyncio.wait_for(asyncio.gather(*map(call, costs)), 20)

    asyncio.run(all_of_them())
    return budget, most


def test_without_a_price_the_first_call_goes_alone_and_the_others_cost_what_it_did():
    budget, most = spend(0.05, [0.01] * 30, None)
    assert budget.dollars == pytest.approx(0.05, abs=0.0101) and 1 < most <= 4


def test_calls_that_are_free_all_run_at_once_after_the_first():
    assert spend(1.0, [0.0] * 20, None)[1] == 19


def test_an_estimate_far_above_the_cost_slows_down_but_refuses_nothing():
    budget, most = spend(1.0, [0.01] * 30, 0.4)
    assert budget.dollars == pytest.approx(0.3) and most == 2


@settings(deadline=None, max_examples=30)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.floats(0.01, 3))
def test_dollars_are_overspent_by_one_call_at_most(costs, limit):
    budget, _ = spend(limit, costs, 1.0)
    assert budget.dollars <= limit + max(costs) + 1e-9 and budget.held == {}
