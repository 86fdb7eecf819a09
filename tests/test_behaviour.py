"""How a rollout used its leaf: every kind at its borders."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlmlib.behaviour import KINDS, behaviour, shares
from rlmlib.engine import Attempt, row
from rlmlib.harness.trajectory import Call, Rollout, Tokens, Turn
from rlmlib.tasks.base import Example

CHARS = 4000  # 1000 tokens


def call(tokens: int, error: str | None = None) -> Call:
    """A leaf call; one that was refused was not sent and cost nothing."""
    return Call("leaf", "m", "ask", "told", Tokens(tokens), attempts=int(error is None), error=error)


def child() -> Call:
    return Call("child", "policy", "sub", "told", attempts=1, child=Rollout("x", "final", depth=1))


def told(*calls: Call, blocks=("print(1)",), error=None, chars: int = CHARS) -> dict:
    """A line of a rollouts file, written by the engine."""
    turns = [Turn("root", "reply", list(blocks), ["1"] * len(blocks), "policy", Tokens(50, 10), list(calls)), Turn("root", "FINAL(x)")]
    example = Example("heldout-00000", "coding", "params", "heldout", "question", "x" * chars, "gold")
    return row(Attempt(example, 0, Rollout("x", "final", turns=turns, error=error), True))


@pytest.mark.parametrize(("tokens", "kind"), [(499, "selective"), (500, "broad"), (501, "broad"), (1, "selective"), (5000, "broad")])
def test_half_of_the_context_through_leaves_is_broad(tokens, kind):
    assert behaviour(told(call(tokens))) == kind


def test_tokens_of_all_calls_count_together():
    assert behaviour(told(call(250), call(250))) == "broad" and behaviour(told(call(250), call(249))) == "selective"


def test_a_call_that_was_too_long_is_broad_though_it_cost_nothing():
    assert behaviour(told(call(0, "too_long"))) == "broad"


def test_a_call_that_was_too_long_is_broad_in_a_later_turn_too():
    line = told()
    line["turns"][1]["calls"] = told(call(0, "too_long"))["turns"][0]["calls"]
    assert behaviour(line) == "broad"


@pytest.mark.parametrize("error", ["budget", "batch"])
def test_calls_that_were_refused_for_another_reason_ask_nobody(error):
    assert behaviour(told(call(0, error))) == "code_only"


def test_a_call_that_failed_did_ask():
    failed = Call("leaf", "m", "ask", "error: down", Tokens(), attempts=2, error="failed")
    assert behaviour(told(failed)) == "selective"


def test_children_alone_are_selective():
    line = told(child())
    assert line["leaf_calls"] == 0 and line["children"] == 1
    assert behaviour(line) == "selective"


def test_code_without_a_call_is_code_only():
    assert behaviour(told()) == "code_only"


def test_an_answer_without_code_or_calls_is_blind():
    assert behaviour(told(blocks=())) == "blind"


def test_an_empty_context_is_not_read_broadly_by_nobody():
    assert behaviour(told(chars=0)) == "code_only"


# --- shares ----------------------------------------------------------------------------------


LINES = {"broad": told(call(900)), "selective": told(call(10)), "code_only": told(), "blind": told(blocks=())}


def test_shares_are_of_all_rollouts():
    assert shares([LINES["broad"]] * 3 + [LINES["blind"]]) == {"broad": 0.75, "selective": 0.0, "code_only": 0.0, "blind": 0.25}


@settings(deadline=None)
@given(st.lists(st.sampled_from(KINDS), min_size=1))
def test_shares_sum_to_one_and_name_every_kind(kinds):
    found = shares(LINES[kind] for kind in kinds)
    assert list(found) == list(KINDS) and sum(found.values()) == pytest.approx(1)
    assert all(found[kind] == pytest.approx(kinds.count(kind) / len(kinds)) for kind in KINDS)


def test_rollouts_that_the_machinery_failed_are_left_out():
    assert shares([LINES["broad"], told(error="the sampler is gone")]) == shares([LINES["broad"]])


def test_there_are_no_shares_of_nothing():
    assert shares([]) == {} and shares([told(error="the sampler is gone")]) == {}
