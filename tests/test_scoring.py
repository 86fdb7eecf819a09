"""The study's formulas: reward, advantage, correctness without a judge, pass@k, intervals."""

import itertools
import json
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rlmlib.config import Reward
from rlmlib.scoring.passk import bootstrap_weights, mean_interval, pass_at_k, quantile_intervals
from rlmlib.scoring.reward import Outcome, advantages, beta, relative_costs, rewards
from rlmlib.scoring.static import canonical, is_correct

CASES = json.loads((Path(__file__).parent / "data/correctness_cases.json").read_text())
CORRECT_ONLY = Reward(scope="correct_only")

outcomes = st.builds(Outcome, st.booleans(), st.integers(0, 10**6), st.booleans())
groups = st.lists(outcomes, min_size=1, max_size=8)
configs = st.builds(
    Reward,
    scope=st.sampled_from(["all_rollouts", "correct_only"]),
    beta_max=st.floats(0, 1),
    gamma=st.floats(0.1, 4),
    p0=st.floats(0, 0.9),
    forced_penalty=st.floats(0, 1),
)


def group(*marks: str) -> list[Outcome]:
    """'+20' right at 20 tokens, '-40' wrong at 40; a trailing ! is a forced answer."""
    return [Outcome(m[0] == "+", float(m[1:].rstrip("!")), m.endswith("!")) for m in marks]


# --- the study's worked values


@pytest.mark.parametrize(("p", "weight"), [(0, 0), (0.25, 0), (0.5, 0.05), (0.75, 0.10), (1, 0.15)])
def test_beta_of_the_study(p, weight):
    assert beta(p, Reward()) == pytest.approx(weight)


@pytest.mark.parametrize(
    ("config", "marks", "expected"),
    [
        (Reward(), ("+20", "-40", "-80", "+100"), [1, -0.0125, -0.0375, 0.95]),
        (Reward(), ("+50", "-10", "-200", "-30"), [1, 0, 0, 0]),
        (Reward(), ("-10", "-20", "-400", "-80"), [0, 0, 0, 0]),
        (Reward(), ("+60!", "+60", "+60", "+60"), [0.75, 1, 1, 1]),
        (CORRECT_ONLY, ("+20!", "+80", "-100", "-10"), [0.75, 0.95, 0, 0]),
        (Reward(beta_max=0.05), ("+20", "+40", "+80", "+100"), [1, 0.9875, 0.9625, 0.95]),
        (CORRECT_ONLY, ("+100", "+300", "-50", "-900"), [1, 0.95, 0, 0]),
        (CORRECT_ONLY, ("+400", "+400", "+400", "-10"), [1, 1, 1, 0]),
        (Reward(beta_max=0), ("+20", "-40", "-80", "+100"), [1, 0, 0, 1]),
    ],
    ids=[
        "all-rollouts",
        "one-right",
        "all-wrong",
        "forced",
        "correct-only",
        "small-beta",
        "correct-only-spread",
        "equal-cost",
        "no-pressure",
    ],
)
def test_reward_of_the_study(config, marks, expected):
    assert rewards(group(*marks), config) == pytest.approx(expected)


def test_advantages_of_a_worked_group():
    shaped = rewards(group("+100", "+300", "-50", "-900"), CORRECT_ONLY)
    assert advantages(shaped) == pytest.approx([0.5125, 0.4625, -0.4875, -0.4875])


def test_gamma_bends_beta():
    assert beta(0.5, Reward(gamma=2.0)) == pytest.approx(0.15 * (1 / 3) ** 2)


def test_group_size_of_three_uses_its_own_solve_rate():
    assert rewards(group("+0", "+100", "-50")) == pytest.approx([1, 1 - 0.15 * (2 / 3 - 0.25) / 0.75, -0.5 * 0.15 * (2 / 3 - 0.25) / 0.75])


# --- properties of the reward


@given(groups, configs)
def test_reward_stays_in_its_bounds(outcomes, config):
    low, high = (-0.5, 1) if config.scope == "all_rollouts" else (0, 1)
    assert all(low <= r <= high for r in rewards(outcomes, config))


@given(groups, configs, st.integers(0, 10**6))
def test_adding_the_same_cost_to_all_changes_nothing(outcomes, config, shift):
    moved = [Outcome(o.correct, o.cost + shift, o.forced) for o in outcomes]
    assert rewards(moved, config) == pytest.approx(rewards(outcomes, config))


@given(groups, configs, st.sampled_from([2, 4, 1024]))
def test_counting_cost_in_another_unit_changes_nothing(outcomes, config, factor):
    scaled = [Outcome(o.correct, o.cost * factor, o.forced) for o in outcomes]
    assert rewards(scaled, config) == pytest.approx(rewards(outcomes, config))


@given(groups, configs, st.randoms(use_true_random=False))
def test_reward_follows_its_rollout_through_a_permutation(outcomes, config, rng):
    order = list(range(len(outcomes)))
    rng.shuffle(order)
    shaped = rewards(outcomes, config)
    assert rewards([outcomes[i] for i in order], config) == pytest.approx([shaped[i] for i in order])


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=8), configs)
def test_all_wrong_is_all_zero(costs, config):
    assert rewards([Outcome(False, c) for c in costs], config) == [0] * len(costs)


@given(groups, configs)
def test_within_a_group_the_cheaper_of_two_alike_is_worth_no_less(outcomes, config):
    shaped = rewards(outcomes, config)
    for (a, ra), (b, rb) in itertools.permutations(zip(outcomes, shaped, strict=True), 2):
        if (a.correct, a.forced) == (b.correct, b.forced) and a.cost <= b.cost:
            assert ra >= rb


@given(groups, st.data())
def test_becoming_cheaper_never_lowers_a_right_rollouts_reward(outcomes, data):
    right = [i for i, o in enumerate(outcomes) if o.correct]
    assume(right)
    chosen = data.draw(st.sampled_from(right))
    old = outcomes[chosen]
    cheaper = [*outcomes[:chosen], Outcome(True, data.draw(st.integers(0, old.cost)), old.forced), *outcomes[chosen + 1 :]]
    assert rewards(cheaper)[chosen] >= rewards(outcomes)[chosen] - 1e-12


@given(groups)
def test_at_default_weights_cost_never_puts_an_unforced_right_answer_below_a_wrong_one(outcomes):
    shaped = rewards(outcomes)
    right = [r for r, o in zip(shaped, outcomes, strict=True) if o.correct and not o.forced]
    wrong = [r for r, o in zip(shaped, outcomes, strict=True) if not o.correct]
    assert not right or not wrong or min(right) > max(wrong)


@given(groups)
def test_correct_only_gives_wrong_answers_zero(outcomes):
    assert all(r == 0 for r, o in zip(rewards(outcomes, CORRECT_ONLY), outcomes, strict=True) if not o.correct)


@given(groups, st.data())
def test_correct_only_ignores_the_cost_of_wrong_answers(outcomes, data):
    moved = [o if o.correct else Outcome(False, data.draw(st.integers(0, 10**6)), o.forced) for o in outcomes]
    assert rewards(moved, CORRECT_ONLY) == rewards(outcomes, CORRECT_ONLY)


@given(st.lists(st.integers(0, 10**6), min_size=2, max_size=8))
def test_relative_costs_span_zero_to_one(costs):
    shares = relative_costs(costs)
    assert (min(shares), max(shares)) == ((0, 1) if len(set(costs)) > 1 else (0, 0))


def test_forced_is_no_penalty_on_a_wrong_answer():
    assert rewards(group("-10!", "-10", "-10", "+10")) == [0, 0, 0, 1]


@given(st.floats(0, 1), st.floats(0, 1), configs)
def test_beta_rises_with_the_solve_rate(p, q, config):
    low, high = sorted((p, q))
    assert 0 <= beta(low, config) <= beta(high, config) <= config.beta_max + 1e-12


@given(st.lists(st.floats(-0.5, 1), min_size=1, max_size=16))
def test_advantages_sum_to_zero(values):
    assert sum(advantages(values)) == pytest.approx(0, abs=1e-12)


@given(st.floats(-0.5, 1), st.integers(1, 8))
def test_equal_rewards_give_no_advantage(value, size):
    assert advantages([value] * size) == pytest.approx([0] * size, abs=1e-12)


def test_advantages_are_not_divided_by_their_spread():
    assert advantages([1, 1, 0, 0]) == [0.5, 0.5, -0.5, -0.5]


# --- correctness without a judge


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["id"])
def test_exact_match_over_equivalent_forms(case):
    assert is_correct(case["prediction"], [case["gold"]]) is case["correct"]


def test_any_of_several_golds_will_do():
    assert is_correct("two", ["one", "Two"])


def test_no_golds_no_match():
    assert not is_correct("two", [])


@given(st.text(max_size=60))
def test_every_answer_equals_itself_when_it_is_not_empty(text):
    assert is_correct(text, [text]) is bool(text.strip())


@given(st.text(alphabet="abcXYZ 019-", min_size=1, max_size=20).filter(str.strip))
def test_blanks_and_case_and_one_pair_of_quotes_make_no_difference(text):
    assert is_correct(f"  `{text.upper()}`\n", [text.lower()])


@given(st.integers(-(10**12), 10**12))
def test_thousands_commas_make_no_difference(number):
    assert canonical(f"{number:,}") == canonical(str(number))


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_two_whole_numbers_are_equal_only_by_value(a, b):
    assert is_correct(str(a), [str(b)]) is (a == b)


@given(st.decimals(-1000, 1000, places=3), st.decimals(-1000, 1000, places=3))
def test_two_decimals_are_equal_only_by_value(a, b):
    assert is_correct(f"{a:.3f}", [f"{b:.3f}"]) is (a == b)


@given(st.dictionaries(st.text("ab", min_size=1, max_size=3), st.integers() | st.lists(st.integers(), max_size=3), max_size=4))
def test_json_is_compared_by_value(value):
    keys = list(value)[::-1]
    assert is_correct(json.dumps({k: value[k] for k in keys}, indent=2), [json.dumps(value, separators=(",", ":"))])


@pytest.mark.parametrize("text", ["[" * 100_000, "{" + "9" * 10_000, "[" + "9" * 10_000 + "]", "\ud800", "9" * 10_000])
def test_odd_answers_raise_nothing(text):
    assert is_correct(text, ["x"]) is False


# --- pass@k


@pytest.mark.parametrize("n", range(1, 7))
def test_pass_at_k_equals_counting_all_draws(n):
    for c, k in itertools.product(range(n + 1), range(1, n + 1)):
        draws = list(itertools.combinations([i < c for i in range(n)], k))
        assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, draws)) / len(draws)), (n, c, k)


@given(st.integers(1, 200), st.data())
def test_pass_at_one_is_the_mean(n, data):
    c = data.draw(st.integers(0, n))
    assert pass_at_k(n, c, 1) == pytest.approx(c / n)


@given(st.integers(2, 200), st.data())
def test_pass_at_k_rises_with_k(n, data):
    c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n - 1))
    assert pass_at_k(n, c, k) <= pass_at_k(n, c, k + 1) + 1e-12


def test_pass_at_k_of_many_rollouts_does_not_overflow():
    assert pass_at_k(10_000, 1, 100) == pytest.approx(0.01)


@pytest.mark.parametrize(("n", "c", "k"), [(4, 5, 1), (4, -1, 1), (4, 2, 0), (4, 2, 5)])
def test_pass_at_k_refuses_what_has_no_meaning(n, c, k):
    with pytest.raises(ValueError, match="pass@k"):
        pass_at_k(n, c, k)


# --- bootstrap


STRATA = ["a"] * 30 + ["b"] * 10 + ["c"]


def test_bootstrap_is_the_same_for_the_same_seed():
    assert (bootstrap_weights(STRATA, 50, 7) == bootstrap_weights(STRATA, 50, 7)).all()


def test_bootstrap_differs_by_seed():
    assert (bootstrap_weights(STRATA, 50, 7) != bootstrap_weights(STRATA, 50, 8)).any()


def test_every_resample_keeps_the_size_of_each_stratum():
    counts = bootstrap_weights(STRATA, 50, 7)
    assert (counts[:, :30].sum(1) == 30).all() and (counts[:, 30:40].sum(1) == 10).all() and (counts[:, 40] == 1).all()


def test_interval_of_equal_values_is_that_value():
    assert mean_interval([0.25] * 41, bootstrap_weights(STRATA, 100, 7)) == (0.25, 0.25, 0.25)


@given(st.lists(st.floats(0, 1), min_size=41, max_size=41))
def test_interval_lies_within_the_values(values):
    _, low, high = mean_interval(values, bootstrap_weights(STRATA, 100, 7))
    assert min(values) - 1e-9 <= low <= high <= max(values) + 1e-9


def test_paired_difference_of_a_shift_has_no_width():
    values = np.random.default_rng(0).random(41)
    _, low, high = mean_interval((values + 0.25) - values, bootstrap_weights(STRATA, 100, 7))
    assert (low, high) == pytest.approx((0.25, 0.25))


def test_interval_covers_the_truth_about_as_often_as_it_says():
    """400 samples of 60 coin flips at .3: of 95 % intervals 92 to 97 % should hold .3; allowed are 88 to 99."""
    rng = np.random.default_rng(1)
    counts = bootstrap_weights(["x"] * 60, 500, 2)
    hits = sum(low <= 0.3 <= high for _, low, high in (mean_interval(rng.random(60) < 0.3, counts) for _ in range(400)))
    assert 0.88 <= hits / 400 <= 0.99


def test_stratified_interval_is_narrower_where_strata_differ():
    values = [0.0] * 30 + [1.0] * 30
    _, low, high = mean_interval(values, bootstrap_weights(["a"] * 30 + ["b"] * 30, 500, 3))
    _, wide_low, wide_high = mean_interval(values, bootstrap_weights(["a"] * 60, 500, 3))
    assert high - low < wide_high - wide_low


def test_quantile_resample_equals_sorting_the_repeated_values():
    rng = random.Random(4)
    groups = [[rng.random() for _ in range(rng.randint(1, 4))] for _ in range(12)]
    counts = bootstrap_weights(["x"] * 12, 40, 5)
    picks = []
    for row in counts:
        flat = sorted(v for g, times in zip(groups, row, strict=True) for v in g * times)
        picks.append(flat[-(-9 * len(flat) // 10) - 1])  # the smallest value with at least 90 % at or below it
    [(_, low, high)] = quantile_intervals(groups, [0.9], counts)
    assert (low, high) == pytest.approx(tuple(np.percentile(picks, (2.5, 97.5))))


def test_quantile_of_all_values_is_numpys():
    groups = [[1.0, 5.0], [2.0], [9.0, 3.0]]
    assert quantile_intervals(groups, [0.5], bootstrap_weights(["x"] * 3, 10, 0))[0][0] == 3.0
