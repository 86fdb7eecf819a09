"""The length penalties of the literature: values by hand, what each promises, and a counter-example for what it does not."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlmlib.config import Reward
from rlmlib.scoring.length_penalties import PENALTIES, PROMISES, Promises, all_rewards
from rlmlib.scoring.reward import Outcome, rewards

NEAR = 1e-12
every_penalty = pytest.mark.parametrize("name", PENALTIES)
costs = st.one_of(st.integers(0, 10), st.integers(0, 20_000), st.integers(0, 10**9))
groups = st.lists(st.builds(Outcome, st.booleans(), costs, st.booleans()), min_size=1, max_size=8)


def group(*marks: str) -> list[Outcome]:
    """'+20' right at 20 tokens, '-40' wrong at 40."""
    return [Outcome(m[0] == "+", float(m[1:])) for m in marks]


# --- values by hand


@pytest.mark.parametrize(
    ("name", "parameters", "marks", "expected"),
    [
        ("study", {}, ("+20", "-40", "-80", "+100"), [1, -0.0125, -0.0375, 0.95]),
        ("study", {"config": Reward(beta_max=0.05)}, ("+20", "+40", "+80", "+100"), [1, 0.9875, 0.9625, 0.95]),
        ("linear", {}, ("+1000", "-3000"), [0.95, -0.15]),
        ("linear", {"per_1k": 0.5}, ("+2000", "-500"), [0, -0.25]),
        ("alp", {}, ("+1000", "-3000", "-2000", "-2000"), [1 - 2.5e-5, -7.5e-5, -5e-5, -5e-5]),
        ("alp", {"beta": 1e-4}, ("+1000", "+2000", "+3000", "-4000"), [0.925, 0.85, 0.775, -0.3]),
        ("alp", {"beta": 1e-4}, ("-1000", "-2000"), [-0.05, -0.1]),  # none right: p counts as 1 / 2
        ("arora_zanette", {}, ("+100", "+300", "-50"), [0.973105857863, 0.926894142137, 0]),  # z is -1 and 1
        ("arora_zanette", {"alpha": 0.4}, ("+50", "-10"), [0.8, 0]),
        ("arora_zanette", {"alpha": 0.4}, ("+50", "+50", "+50"), [0.8, 0.8, 0.8]),
        ("kimi", {}, ("+100", "+200", "-300", "-150"), [1.2, 1, -0.2, 0]),
        ("kimi", {"weight": 1}, ("+0", "-100"), [1.5, -0.5]),
        ("kimi", {}, ("+7", "-7"), [1, 0]),
        ("shorter_better", {}, ("+100", "+600", "-100", "-50"), [2, 1.5, 0, -0.05]),
        ("shorter_better", {}, ("-100", "-300"), [-0.1, -0.1]),  # none right: the mean, 200
        ("shorter_better", {"alpha": 1, "beta": 0.01}, ("+10", "+30"), [1, 0.8]),
        ("laser", {}, ("+4096", "+4097", "-10"), [1.5, 1, 0]),
        ("laser", {"alpha": 0.2, "target": 100}, ("+50", "+150"), [1.2, 1]),
        ("laser_d", {}, ("+3000", "+2000", "-9"), [1, 1.5, 0]),  # p = 2 / 3: easy
        ("laser_d", {}, ("+3000", "-3000", "-3000"), [1.5, 0, 0]),  # p = 1 / 3: medium
        ("laser_d", {}, ("+8000", "-1", "-1", "-1"), [1.5, 0, 0, 0]),  # p = 1 / 4: hard
        ("laser_d", {"easy": 10}, ("+10", "+11"), [1.5, 1]),
        ("gr3", {}, ("+100", "+300", "-200"), [1 / 1.165, 1 / 1.495, 0]),
        ("gr3", {"alpha": 1}, ("+100", "-300"), [2 / 3, 0]),
        ("gr3", {}, ("+0", "+0"), [1 / 1.33, 1 / 1.33]),
    ],
)
def test_rewards_are_those_computed_by_hand(name, parameters, marks, expected):
    assert PENALTIES[name](group(*marks), **parameters) == pytest.approx(expected, abs=1e-11)


@given(group=groups)
def test_the_study_is_the_reward_of_training(group):
    assert PENALTIES["study"](group) == rewards(group)


def test_a_config_changes_the_rewards_of_the_study_alone():
    outcomes = group("+20", "-40", "-80", "+100")
    default, changed = all_rewards(outcomes), all_rewards(outcomes, Reward(beta_max=0.9))
    assert [name for name in PENALTIES if default[name] != changed[name]] == ["study"]


@every_penalty
@pytest.mark.parametrize(
    "marks",
    [("+5",), ("-5",), ("+0",), ("-0",), ("+7", "+7", "-7"), ("+0", "-0"), ("-1", "-20", "-300"), ("+1", "+20", "+300")],
    ids=" ".join,
)
def test_a_group_at_the_edge_gives_a_finite_reward_for_each_rollout(name, marks):
    values = PENALTIES[name](group(*marks))
    assert len(values) == len(marks) and all(math.isfinite(v) for v in values)


# --- promises: each is a check of one group


def alike(values: Sequence[float]) -> bool:
    return max(values, default=0) - min(values, default=0) <= NEAR


def dominates(penalty: Callable, outcomes: list[Outcome]) -> bool:
    values = penalty(outcomes)
    right = [v for v, o in zip(values, outcomes, strict=True) if o.correct]
    wrong = [v for v, o in zip(values, outcomes, strict=True) if not o.correct]
    return not right or not wrong or min(right) >= max(wrong)


def differences(penalty: Callable, outcomes: list[Outcome]) -> list[float]:
    """By how much the cheaper of each two right rollouts that differ in cost alone earns more."""
    values = list(zip(outcomes, penalty(outcomes), strict=True))
    pairs = ((a, b) for a in values for b in values if a[0].correct and a[0].cost < b[0].cost)
    return [a[1] - b[1] for a, b in pairs if replace(a[0], cost=b[0].cost) == b[0]]


def ignores_the_order(penalty: Callable, outcomes: list[Outcome]) -> bool:
    """Under a rotation and under a swap: every order is made of these two."""
    n = len(outcomes)
    orders = [[*range(1, n), 0], [*reversed(range(min(2, n))), *range(2, n)]]
    values = penalty(outcomes)
    return all(penalty([outcomes[i] for i in order]) == pytest.approx([values[i] for i in order], abs=1e-9) for order in orders)


def scaled(outcomes: list[Outcome], factor: float) -> list[Outcome]:
    return [replace(o, cost=o.cost * factor) for o in outcomes]


CHECKS: dict[str, Callable[[Callable, list[Outcome]], bool]] = {
    "dominance": dominates,
    "monotone": lambda penalty, outcomes: all(d >= -NEAR for d in differences(penalty, outcomes)),
    "strict": lambda penalty, outcomes: all(d > 0 for d in differences(penalty, outcomes)),
    "equivariant": ignores_the_order,
    "wrong_alike": lambda penalty, outcomes: alike([v for v, o in zip(penalty(outcomes), outcomes, strict=True) if not o.correct]),
    "unsolved_alike": lambda penalty, outcomes: alike(penalty([replace(o, correct=False) for o in outcomes])),
    "scale_free": lambda penalty, outcomes: penalty(scaled(outcomes, 3)) == pytest.approx(penalty(outcomes), abs=1e-9),
}
BROKEN = {
    ("study", "strict"): ("+10", "+20", *["-10"] * 6),  # p = p0: cost is free
    ("study", "wrong_alike"): ("+20", "-40", "-80", "+100"),
    ("linear", "dominance"): ("+21000", "-0"),
    ("linear", "wrong_alike"): ("+1000", "-1000", "-2000"),
    ("linear", "unsolved_alike"): ("-1000", "-2000"),
    ("linear", "scale_free"): ("+1000",),
    ("alp", "dominance"): ("+21000000", "-0"),
    ("alp", "wrong_alike"): ("+1000", "-1000", "-2000"),
    ("alp", "unsolved_alike"): ("-1000", "-2000"),
    ("alp", "scale_free"): ("+1000",),
    ("kimi", "wrong_alike"): ("+10", "-20", "-100"),
    ("kimi", "unsolved_alike"): ("-10", "-100"),
    ("shorter_better", "dominance"): ("+100", "+2200", "-100"),
    ("shorter_better", "wrong_alike"): ("+100", "-100", "-200"),
    ("shorter_better", "unsolved_alike"): ("-100", "-200", "-600"),
    ("shorter_better", "scale_free"): ("+100", "+200"),
    ("laser", "strict"): ("+10", "+20"),
    ("laser", "scale_free"): ("+2000",),
    ("laser_d", "strict"): ("+10", "+20"),
    ("laser_d", "scale_free"): ("+2000",),
}
KEPT = [(name, promise) for name, penalty in PENALTIES.items() for promise, kept in asdict(penalty.promises).items() if kept]
NOT_KEPT = [(name, promise) for name, penalty in PENALTIES.items() for promise, kept in asdict(penalty.promises).items() if not kept]


@pytest.mark.parametrize(("name", "promise"), KEPT)
@given(group=groups)
def test_what_is_promised_holds_for_every_group(name, promise, group):
    assert CHECKS[promise](PENALTIES[name], group)


@pytest.mark.parametrize(("name", "promise"), NOT_KEPT)
def test_what_is_not_promised_is_broken_by_a_group(name, promise):
    assert not CHECKS[promise](PENALTIES[name], group(*BROKEN[name, promise]))


def test_there_is_a_counter_example_for_nothing_else():
    assert sorted(BROKEN) == sorted(NOT_KEPT)


def test_every_promise_has_a_check_and_a_meaning():
    declared = [field.name for field in fields(Promises)]
    assert list(CHECKS) == list(PROMISES) == declared


@pytest.mark.parametrize(
    ("promise", "broken"),
    [
        ("dominance", lambda outcomes: [float(not o.correct) for o in outcomes]),
        ("monotone", lambda outcomes: [o.cost for o in outcomes]),
        ("equivariant", lambda outcomes: list(range(len(outcomes)))),
    ],
)
def test_the_checks_that_every_formula_passes_can_fail(promise, broken):
    assert not CHECKS[promise](broken, group("+10", "+20", "-30"))


@given(outcomes=groups, data=st.data())
@every_penalty
def test_becoming_cheaper_never_lowers_the_reward_of_a_right_rollout(name, outcomes, data):
    place = data.draw(st.integers(0, len(outcomes) - 1))
    dear = [replace(o, correct=True) if i == place else o for i, o in enumerate(outcomes)]
    cheap = [replace(o, cost=data.draw(st.integers(0, int(o.cost)))) if i == place else o for i, o in enumerate(dear)]
    assert PENALTIES[name](cheap)[place] >= PENALTIES[name](dear)[place] - 1e-9


@every_penalty
def test_the_source_stands_in_the_docstring(name):
    penalty = PENALTIES[name]
    assert penalty.source in penalty.function.__doc__


def test_defaults_are_those_of_the_function():
    assert PENALTIES["shorter_better"].defaults == {"alpha": 2.0, "beta": 0.001}
