"""The shipped tiny policy: its size, what it is like, and that rebuilding it gives one that behaves alike."""

import json
import statistics

import pytest

from rlmlib import config
from rlmlib.engine import Engine, Job
from rlmlib.notebook import ROOT
from rlmlib.tasks.mixture import examples
from rlmlib.tiny import WEIGHTS, scripts
from rlmlib.tiny import model as tiny_model
from rlmlib.tiny.cold_start import Recipe
from rlmlib.training.policy import Policy

EXAMPLES, ROLLOUTS = 60, 4


@pytest.fixture(scope="module")
def params():
    return config.load(ROOT / "params/tiny.yaml")


def behaviour(params, policy) -> dict[str, float]:
    """Rates of a policy on held-out questions."""
    questions = examples(params.tasks, "heldout", EXAMPLES, seed=5)
    jobs = [Job(q, i, (9, number, i)) for number, q in enumerate(questions) for i in range(ROLLOUTS)]
    with Engine(params, policy) as engine:
        attempts = [a for start in range(0, len(jobs), 80) for a in engine.run(jobs[start : start + 80])]
    leaf = [a.rollout.usage.leaf for a in attempts]
    return {
        "correct": statistics.mean(a.correct for a in attempts),
        "missing": statistics.mean(a.rollout.missing for a in attempts),
        "leaf_mean": statistics.mean(leaf),
        "leaf_median": statistics.median(leaf),
        "leaf_p95": sorted(leaf)[int(0.95 * len(leaf))],
    }


@pytest.fixture(scope="module")
def shipped(params):
    return behaviour(params, Policy(*tiny_model.load()))


@pytest.fixture(scope="module")
def rebuilt(params, rebuild):
    """Made from nothing by the recipe of `make cold-start`; see conftest.py."""
    return behaviour(params, Policy(*tiny_model.load(rebuild.result())))


def test_shipped_weights_are_under_4_mb():
    assert sum(path.stat().st_size for path in WEIGHTS.iterdir()) < 4_000_000


def test_the_card_names_the_recipe_that_made_them():
    card = json.loads((WEIGHTS / "card.json").read_text())
    assert card["recipe"] == vars(Recipe())
    assert card["mixture"] == scripts.MIXTURE


def test_base_is_right_in_10_to_30_percent(shipped):
    assert 0.10 <= shipped["correct"] <= 0.30


def test_base_misses_the_final_answer_in_30_to_45_percent(shipped):
    assert 0.30 <= shipped["missing"] <= 0.45


def test_base_has_a_heavy_tail_of_leaf_tokens(shipped):
    assert shipped["leaf_mean"] > 3 * shipped["leaf_median"]
    assert shipped["leaf_p95"] > 3 * shipped["leaf_mean"]


def test_rebuilt_policy_behaves_like_the_shipped_one(shipped, rebuilt):
    """Rounding differs between machines and a cold start amplifies it: alike, not equal."""
    assert rebuilt["correct"] > 0.05, "it never answers: copying was not learned"
    assert abs(rebuilt["correct"] - shipped["correct"]) < 0.12
    assert abs(rebuilt["missing"] - shipped["missing"]) < 0.2
    assert 0.3 < rebuilt["leaf_mean"] / shipped["leaf_mean"] < 3
