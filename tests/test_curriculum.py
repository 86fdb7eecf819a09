"""Which prompts are drawn: uniform with replacement, all-wrong ones set aside for a few steps, all of it resumable."""

import json
import random

from hypothesis import given
from hypothesis import strategies as st

from rlmlib.training.curriculum import Curriculum


def fresh(pool=10, sideline_steps=5, seed=42):
    return Curriculum(pool, sideline_steps, random.Random(seed))


def test_draws_as_many_as_asked():
    assert len(fresh().draw(16, 0)) == 16


def test_draws_only_from_the_pool():
    assert set(fresh(pool=3).draw(200, 0)) == {0, 1, 2}


def test_draws_with_replacement():
    assert len(set(fresh(pool=4).draw(16, 0))) < 16


def test_draws_uniformly():
    """10,000 draws from 10: each prompt within 5 standard deviations (150) of 1,000."""
    drawn = fresh().draw(10_000, 0)
    assert all(abs(drawn.count(i) - 1000) < 150 for i in range(10))


def test_same_seed_draws_the_same():
    assert fresh().draw(50, 0) == fresh().draw(50, 0)


def test_other_seed_draws_otherwise():
    assert fresh().draw(50, 0) != fresh(seed=43).draw(50, 0)


def test_sidelined_prompt_rests_for_its_steps_and_comes_back():
    pool = fresh(pool=2, sideline_steps=5)
    pool.sideline(0, step=3)
    seen = {step: 0 in pool.draw(60, step) for step in range(4, 11)}
    assert seen == {4: False, 5: False, 6: False, 7: False, 8: False, 9: True, 10: True}


def test_sidelined_prompt_is_not_drawn_again_in_its_own_step():
    pool = fresh(pool=2, sideline_steps=0)
    pool.sideline(0, step=3)
    assert 0 not in pool.draw(60, 3) and 0 in pool.draw(60, 4)


def test_sidelined_twice_counts_from_the_later_step():
    pool = fresh(pool=2)
    pool.sideline(0, step=0)
    pool.sideline(0, step=9)
    assert 0 not in pool.draw(60, 14) and 0 in pool.draw(60, 15)


def test_everything_sidelined_draws_from_all_of_the_pool():
    pool = fresh(pool=3)
    for prompt in range(3):
        pool.sideline(prompt, step=0)
    assert set(pool.draw(60, 1)) == {0, 1, 2}


def test_count_of_sidelined_prompts():
    pool = fresh(sideline_steps=2)
    pool.sideline(1, step=0)
    pool.sideline(2, step=1)
    assert [pool.sidelined(step) for step in (1, 2, 3, 4)] == [2, 2, 1, 0]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 30)), max_size=20), st.integers(0, 40), st.integers(0, 20))
def test_state_restores_exactly_through_json(sidelined, step, drawn):
    one, other = fresh(), fresh(seed=1)
    one.draw(drawn, 0)
    for prompt, when in sidelined:
        one.sideline(prompt, when)
    other.restore(json.loads(json.dumps(one.state())))
    assert one.draw(30, step) == other.draw(30, step) and one.sidelined(step) == other.sidelined(step)


def test_taking_the_state_changes_nothing():
    one, other = fresh(), fresh()
    one.state()
    assert one.draw(30, 0) == other.draw(30, 0)
