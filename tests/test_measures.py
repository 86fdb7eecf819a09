"""What an evaluation measures, against hand-computed numbers, an independent library and slow loops."""

import itertools
from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from rlmlib.config import validate
from rlmlib.errors import RunError
from rlmlib.measures import by_example, paired_difference, summarise
from rlmlib.scoring.passk import bootstrap_weights, mean_interval, pass_at_k, pass_at_k_all, quantile, quantile_intervals

PARAMS = validate({"name": "test", "seed": 7, "evaluation": {"bootstrap": 200}})
QS = (0.5, 0.9, 0.95, 0.99)
calmly = settings(deadline=None, max_examples=30)


# --- pass@k ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("c", "expected"),
    [
        (1, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]),
        (2, [9 / 45, 17 / 45, 24 / 45, 30 / 45, 35 / 45, 39 / 45, 42 / 45, 44 / 45, 1.0, 1.0]),
        (3, [36 / 120, 64 / 120, 85 / 120, 100 / 120, 110 / 120, 116 / 120, 119 / 120, 1.0, 1.0, 1.0]),
        (5, [5 / 10, 35 / 45, 110 / 120, 205 / 210, 251 / 252, 1.0, 1.0, 1.0, 1.0, 1.0]),
        (10, [1.0] * 10),
        (0, [0.0] * 10),
    ],
)
def test_pass_at_k_of_ten_rollouts_by_hand(c, expected):
    assert [pass_at_k(10, c, k) for k in range(1, 11)] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("n", range(1, 11))
def test_pass_at_k_is_the_hypergeometric_chance_of_at_least_one(n):
    for c, k in itertools.product(range(n + 1), range(1, n + 1)):
        assert pass_at_k(n, c, k) == pytest.approx(stats.hypergeom(n, c, k).sf(0), abs=1e-12), (n, c, k)


@pytest.mark.parametrize("n", range(1, 11))
def test_pass_at_k_is_the_share_of_draws_with_a_hit(n):
    for c, k in itertools.product(range(n + 1), range(1, n + 1)):
        draws = list(itertools.combinations(range(n), k))
        hits = sum(min(draw) < c for draw in draws)
        assert pass_at_k(n, c, k) == pytest.approx(hits / len(draws), abs=1e-12), (n, c, k)


@calmly
@given(st.integers(1, 300), st.data())
def test_all_ks_at_once_are_those_of_one_k(n, data):
    c = data.draw(st.integers(0, n))
    k = data.draw(st.integers(1, n))
    exact = 1 - Fraction(comb(n - c, k), comb(n, k))
    assert pass_at_k_all(n, c)[k - 1] == pytest.approx(float(exact), abs=1e-12)
    assert pass_at_k(n, c, k) == pytest.approx(float(exact), abs=1e-12)


def test_all_ks_have_a_value_each():
    assert pass_at_k_all(10, 3).shape == (10,)


@pytest.mark.parametrize(("n", "c"), [(4, 5), (4, -1), (0, 0)])
def test_all_ks_refuse_what_has_no_meaning(n, c):
    with pytest.raises(ValueError, match="pass@k"):
        pass_at_k_all(n, c)


# --- means -----------------------------------------------------------------------------------


def test_interval_of_one_stratum_is_that_of_scipy():
    """Ends of 20,000 resamples have a standard error of about .015 standard errors of the mean; five of those are allowed."""
    values = np.random.default_rng(3).gamma(2.0, size=60)
    value, low, high = mean_interval(values, bootstrap_weights(["a"] * 60, 20_000, 1))
    theirs = stats.bootstrap((values,), np.mean, n_resamples=20_000, method="percentile", rng=np.random.default_rng(2), batch=2000)
    allowed = 5 * 0.015 * 2**0.5 * values.std() / 60**0.5
    assert value == pytest.approx(values.mean())
    assert (low, high) == pytest.approx(tuple(theirs.confidence_interval), abs=allowed)


def test_interval_of_strata_has_the_width_of_their_own_spreads():
    """By the normal approximation: the variance within each stratum counts, and that between them does not.

    The width of an interval of 5000 resamples has a standard error of 1.4 %.
    """
    rng = np.random.default_rng(4)
    parts = rng.normal(0, 1, 200), rng.normal(50, 2, 100)
    _, low, high = mean_interval(np.concatenate(parts), bootstrap_weights(["a"] * 200 + ["b"] * 100, 5000, 1))
    error = sum(len(part) * part.var() for part in parts) ** 0.5 / 300
    assert high - low == pytest.approx(2 * 1.96 * error, rel=0.06)


@calmly
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 5)), min_size=1, max_size=4, unique_by=lambda pair: pair[0]))
def test_strata_of_equal_values_leave_no_doubt(sizes):
    strata = [name for name, size in sizes for _ in range(size)]
    values = [float(ord(name)) for name in strata]
    assert mean_interval(values, bootstrap_weights(strata, 50, 7)) == pytest.approx((np.mean(values),) * 3)


def test_resamples_of_one_stratum_draw_every_example_equally_often():
    """Counts of an example are Binomial(20, 1/20): mean 1, variance .95."""
    counts = bootstrap_weights(["a"] * 20, 20_000, 5)
    assert counts.mean(0) == pytest.approx(np.ones(20), abs=0.04)
    assert counts.var(0) == pytest.approx(np.full(20, 0.95), abs=0.06)


def test_ninety_five_percent_intervals_of_a_stratified_mean_hold_it_about_as_often():
    """300 samples: of 95 % intervals 92.5 to 97.5 % should hold the truth, less what few examples cost; allowed are 89 to 99."""
    rng = np.random.default_rng(1)
    strata = ["a"] * 40 + ["b"] * 20
    chances = np.array([0.3] * 40 + [0.7] * 20)
    counts = bootstrap_weights(strata, 500, 2)
    hits = sum(low <= chances.mean() <= high for _, low, high in (mean_interval(rng.random(60) < chances, counts) for _ in range(300)))
    assert 0.89 <= hits / 300 <= 0.99


# --- quantiles -------------------------------------------------------------------------------


@calmly
@given(st.lists(st.integers(0, 50), min_size=1, max_size=60), st.sampled_from(QS))
def test_quantile_is_the_smallest_value_with_enough_at_or_below_it(values, q):
    enough = [v for v in sorted(values) if sum(other <= v for other in values) >= Fraction(str(q)) * len(values)]
    assert quantile(values, q) == enough[0]


def slow_quantiles(groups, q, counts):
    return [quantile([v for g, times in zip(groups, row, strict=True) for v in g * times], q) for row in counts.tolist()]


@calmly
@given(st.lists(st.lists(st.integers(0, 20), min_size=1, max_size=4), min_size=1, max_size=8), st.integers(0, 99))
def test_quantile_intervals_are_those_of_a_loop_over_resamples(groups, seed):
    counts = bootstrap_weights(["x"] * len(groups), 30, seed)
    for q, (value, low, high) in zip(QS, quantile_intervals(groups, QS, counts), strict=True):
        assert value == quantile(list(itertools.chain(*groups)), q)
        assert (low, high) == pytest.approx(tuple(np.percentile(slow_quantiles(groups, q, counts), (2.5, 97.5)))), q


def test_quantile_lies_in_its_interval_where_all_rollouts_are_of_one_question():
    """Between two values there is none that was measured, and a resample could not give one."""
    for value, low, high in quantile_intervals([[0.0, 100.0]], QS, bootstrap_weights(["x"], 20, 0)):
        assert low <= value <= high


def test_quantiles_of_many_resamples_at_once_are_those_of_a_few():
    groups = [[float(n), float(n * n % 17)] for n in range(9)]
    counts = bootstrap_weights(["x"] * 9, 1500, 0)  # more than are in memory together
    [(_, low, high)] = quantile_intervals(groups, [0.9], counts)
    assert (low, high) == pytest.approx(tuple(np.percentile(slow_quantiles(groups, 0.9, counts), (2.5, 97.5))))


def test_quantiles_of_large_samples_are_numpys():
    values = np.random.default_rng(0).lognormal(5, 2, 20_000)
    for q in QS:
        assert quantile(values, q) == pytest.approx(np.quantile(values, q), rel=0.01)


# --- summarise -------------------------------------------------------------------------------


def line(example: str, correct: bool = False, leaf: int = 0, **others) -> dict:
    """A row of an evaluation. others: over what is said here."""
    return {
        "example": example,
        "split": "heldout",
        "family": "coding",
        "task": "params",
        "correct": correct,
        "leaf_tokens": leaf,
        "total_tokens": leaf + 50,
        "leaf_calls": int(leaf > 0),
        "children": 0,
        "missing": False,
        "forced": False,
        "turns": [{}],
        "error": None,
    } | others


def rows() -> list[dict]:
    """Three held-out examples of 4, 2 and 3 rollouts, one whose rollouts all failed, and one seen example."""
    aggregation = {"family": "aggregation", "task": "count"}
    return [
        line("h1", True, 100, turns=[{}] * 2),
        line("h1", False, 300, leaf_calls=3, turns=[{}] * 4),
        line("h1", False, 0, missing=True),
        line("h1", False, 200, children=2, forced=True),
        line("h1", True, 9999, error="the leaf is down"),
        line("h2", True, 0, task="class"),
        line("h2", True, 40, task="class"),
        line("h3", False, 1000, leaf_calls=2, **aggregation),
        line("h3", True, 0, **aggregation),
        line("h3", False, 500, missing=True, **aggregation),
        line("h4", True, 7777, error="the sampler is gone", **aggregation),
        line("h4", True, 7777, error="the sampler is gone", **aggregation),
        line("s1", True, 60, split="seen", children=1),
        line("s1", False, 70, split="seen"),
    ]


@pytest.fixture(scope="module")
def summary() -> dict:
    return summarise(rows(), PARAMS)


HELDOUT = {  # measure -> mean over examples of the mean over rollouts
    "correct": (1 / 4 + 1 + 1 / 3) / 3,
    "leaf_tokens_mean": (600 / 4 + 20 + 500) / 3,
    "total_tokens_mean": (600 / 4 + 20 + 500) / 3 + 50,
    "leaf_calls": (5 / 4 + 1 / 2 + 1) / 3,
    "llm_usage": (3 / 4 + 1 / 2 + 2 / 3) / 3,
    "child_usage": (1 / 4) / 3,
    "missing_final": (1 / 4 + 0 + 1 / 3) / 3,
    "forced_final": (1 / 4) / 3,
    "turns": (8 / 4 + 1 + 1) / 3,
    "pass_at_1": (1 / 4 + 1 + 1 / 3) / 3,
    "pass_at_2": (1 / 2 + 1 + 2 / 3) / 3,
}
ORDERED = [0, 0, 0, 40, 100, 200, 300, 500, 1000]  # leaf tokens of the nine held-out rollouts


@pytest.mark.parametrize("name", HELDOUT)
def test_means_are_over_rollouts_then_over_examples(summary, name):
    assert summary["heldout"][name][0] == pytest.approx(HELDOUT[name])


@pytest.mark.parametrize(("name", "value"), [("median", 100), ("p90", 1000), ("p95", 1000), ("p99", 1000)])
def test_quantiles_are_over_rollouts(summary, name, value):
    assert summary["heldout"][f"leaf_tokens_{name}"][0] == value
    assert summary["heldout"][f"total_tokens_{name}"][0] == value + 50


def test_the_largest_rollout_is_told(summary):
    assert (summary["heldout"]["leaf_tokens_max"], summary["heldout"]["total_tokens_max"]) == (max(ORDERED), max(ORDERED) + 50)


def test_every_value_lies_in_its_interval(summary):
    parts = [summary["heldout"], *summary["heldout"]["families"].values(), *summary["heldout"]["tasks"].values()]
    triples = [value for part in parts for value in part.values() if isinstance(value, tuple | list)]
    assert len(triples) > 40 and all(low <= value <= high for value, low, high in triples)


def test_pass_at_k_ends_where_an_example_has_no_more_rollouts(summary):
    assert {name for name in summary["heldout"] if name.startswith("pass_at_")} == {"pass_at_1", "pass_at_2"}


def test_rollouts_with_an_error_count_in_the_error_rate(summary):
    assert summary["heldout"]["error_rate"] == 3 / 12 and summary["seen"]["error_rate"] == 0.0


def test_rollouts_with_an_error_count_in_nothing_else():
    without = summarise([row for row in rows() if row["error"] is None], PARAMS)
    with_errors = summarise(rows(), PARAMS)
    for split in with_errors:
        assert with_errors[split] | {"error_rate": None} == without[split] | {"error_rate": None}


def test_an_example_whose_rollouts_all_failed_is_none(summary):
    assert (summary["heldout"]["n_examples"], summary["heldout"]["n_rollouts"]) == (3, 9)


def test_seen_questions_are_apart(summary):
    seen = summary["seen"]
    assert (seen["correct"][0], seen["leaf_tokens_mean"][0], seen["child_usage"][0], seen["n_examples"]) == (0.5, 65.0, 0.5, 1)


def test_a_split_whose_rollouts_all_failed_is_left_out():
    failed = [line("h1", error="down"), line("s1", True, split="seen")]
    assert set(summarise(failed, PARAMS)) == {"seen"}


def test_an_evaluation_of_failures_alone_has_no_measures():
    assert summarise([line("h1", error="down")], PARAMS) == {}


@pytest.mark.parametrize(
    ("kind", "name", "correct", "tokens", "pass_at_2", "counts"),
    [
        ("families", "coding", 5 / 8, 85, 3 / 4, (2, 6)),
        ("families", "aggregation", 1 / 3, 500, 2 / 3, (1, 3)),
        ("tasks", "params", 1 / 4, 150, 1 / 2, (1, 4)),
        ("tasks", "class", 1, 20, 1, (1, 2)),
        ("tasks", "count", 1 / 3, 500, 2 / 3, (1, 3)),
    ],
)
def test_parts_have_their_own_means(summary, kind, name, correct, tokens, pass_at_2, counts):
    part = summary["heldout"][kind][name]
    found = part["correct"][0], part["leaf_tokens_mean"][0], part["pass_at_2"][0]
    assert found == pytest.approx((correct, tokens, pass_at_2))
    assert (part["n_examples"], part["n_rollouts"]) == counts


def test_parts_have_their_own_quantiles_and_largest_rollout(summary):
    part = summary["heldout"]["families"]["coding"]  # 0, 0, 40, 100, 200, 300
    assert (part["leaf_tokens_median"], part["leaf_tokens_p90"], part["leaf_tokens_max"]) == (40, 300, 300)


def test_parts_are_those_that_occur(summary):
    assert list(summary["heldout"]["families"]) == ["aggregation", "coding"]
    assert list(summary["heldout"]["tasks"]) == ["class", "count", "params"]


def test_a_part_may_have_more_ks_than_the_whole(summary):
    assert "pass_at_4" in summary["heldout"]["tasks"]["params"] and "pass_at_3" not in summary["heldout"]


@calmly
@given(st.integers(1, 3), st.integers(0, 40))
def test_no_part_is_without_a_number_however_few_the_resamples(resamples, seed):
    few = validate({"name": "test", "seed": seed, "evaluation": {"bootstrap": resamples}})
    found = summarise([line(f"h{n}", n % 2 == 0, task=f"t{n}") for n in range(6)], few)
    triples = [value for part in found["heldout"]["tasks"].values() for value in part.values() if isinstance(value, tuple)]
    assert triples and np.isfinite(triples).all()


@calmly
@given(st.randoms(use_true_random=False))
def test_the_order_of_rollouts_within_an_example_makes_no_difference(rng):
    mixed = rows()
    first = [row["example"] for row in mixed]
    rng.shuffle(mixed)
    mixed.sort(key=lambda row: first.index(row["example"]))
    found, known = summarise(mixed, PARAMS)["heldout"], summarise(rows(), PARAMS)["heldout"]
    assert found["correct"] == pytest.approx(known["correct"]) and found["leaf_tokens_p90"] == known["leaf_tokens_p90"]


def test_questions_come_from_the_evaluations_seed_and_resamples_too():
    apart = [validate({"name": "t", "seed": seed, "evaluation": {"bootstrap": 200, "seed": 5}}) for seed in (1, 2)]
    assert summarise(rows(), apart[0]) == summarise(rows(), apart[1])


# --- paired differences ----------------------------------------------------------------------


@calmly
@given(st.lists(st.integers(0, 1000), min_size=2, max_size=12), st.integers(-500, 500))
def test_difference_of_a_constant_shift_has_no_width(tokens, shift):
    base = [line(f"h{n}", leaf=value) for n, value in enumerate(tokens)]
    moved = [line(f"h{n}", leaf=value + shift) for n, value in enumerate(tokens)]
    assert paired_difference(base, moved, PARAMS, "leaf_tokens_mean") == pytest.approx((shift,) * 3, abs=1e-9)


def test_difference_is_paired_by_example_whatever_the_order():
    base = [line(f"h{n}", leaf=100 * n) for n in range(6)]
    moved = [line(f"h{n}", leaf=100 * n + 5) for n in reversed(range(6))]
    assert paired_difference(base, moved, PARAMS, "leaf_tokens_mean") == pytest.approx((5, 5, 5))


def test_difference_leaves_out_examples_that_one_side_has_not_measured():
    base = [line("h1", False), line("h2", True), line("h3", True, error="down")]
    trained = [line("h1", True), line("h2", True, error="down"), line("h3", False)]
    assert paired_difference(base, trained, PARAMS, "correct") == pytest.approx((1, 1, 1))


def test_difference_of_evaluations_without_a_common_example_is_an_error():
    with pytest.raises(RunError, match="no question in common"):
        paired_difference([line("h1")], [line("h2")], PARAMS, "correct")


def test_examples_are_in_order_of_appearance():
    assert list(by_example([line("b"), line("a"), line("b")])) == ["b", "a"]
