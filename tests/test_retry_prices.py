"""Waits between attempts, prices and token estimates, as formulas."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlmlib.models.api import estimate_tokens
from rlmlib.models.prices import dollars
from rlmlib.models.retry import RetryPolicy, backoff_s, parse_retry_after

LEAF = "gemini-3.1-flash-lite"


@given(st.integers(1, 60), st.none() | st.floats(0, 1e6), st.floats(0, 1, exclude_max=True))
def test_wait_is_bounded(failures, asked_s, jitter):
    policy = RetryPolicy()
    most = policy.max_asked_s + policy.first_delay_s if asked_s is not None else policy.max_delay_s
    assert 0 < backoff_s(policy, failures, asked_s, jitter) <= most


@given(st.integers(1, 9), st.floats(0, 1, exclude_max=True))
def test_wait_is_at_least_what_the_server_asks_for(failures, jitter):
    assert backoff_s(RetryPolicy(), failures, 17.0, jitter) >= 17.0


def test_wait_doubles_up_to_its_cap():
    policy = RetryPolicy(first_delay_s=1, max_delay_s=5)
    assert [backoff_s(policy, n, None, 0.0) for n in (1, 2, 3, 4, 5)] == [1, 2, 4, 5, 5]


def test_jitter_takes_up_to_a_half():
    assert [backoff_s(RetryPolicy(first_delay_s=1), 2, None, jitter) for jitter in (0.0, 0.5)] == [2.0, 1.5]


@pytest.mark.parametrize(
    "value, seconds",
    [("3", 3.0), ("0.5", 0.5), ("-1", 0.0), ("Sun, 29 Nov 2026 10:00:30 GMT", 30.0), ("Sun, 29 Nov 2026 09:00:00 GMT", 0.0)],
)
def test_retry_after(value, seconds):
    assert parse_retry_after(value, datetime(2026, 11, 29, 10, 0, 0, tzinfo=UTC)) == seconds


@pytest.mark.parametrize("value", [None, "", "soon", "nan"])
def test_retry_after_that_says_nothing(value):
    assert parse_retry_after(value) is None


def test_price_of_the_studys_leaf():
    assert dollars(LEAF, 2_000_000, 1_000_000) == pytest.approx(2 * 0.25 + 1.50)


def test_unknown_price_is_none():
    assert dollars("some-model", 1, 1) is None


def test_price_can_be_overridden():
    assert dollars(LEAF, 1_000_000, 0, {LEAF: (7, 9)}) == pytest.approx(7)


@pytest.mark.parametrize(
    "text, tokens", [("", 0), ("three words go", 5), ("2026-11", 7), ("слово", 5), ("語", 2), ("🙂", 2), ("\ud800", 2)]
)
def test_token_estimate(text, tokens):
    assert estimate_tokens(text) == tokens


@given(st.text(min_size=1))
def test_token_estimate_is_at_least_a_token_and_at_most_a_token_a_byte(text):
    assert 1 <= estimate_tokens(text) <= len(text.encode("utf-8", "surrogatepass"))


@given(st.text(), st.text())
def test_token_estimate_never_shrinks_as_text_is_added(text, more):
    assert estimate_tokens(text) <= estimate_tokens(text + more)
