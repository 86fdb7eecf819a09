"""Worked values of rewards and advantages collected from the field: data/reward_cases.json.

A case has an `input` and what is `expected` of it, or the tests it is `tested_by`, or why it is `not_ours`. Where sources
disagree, `decision` says what holds here.
"""

import json
from pathlib import Path

import pytest

from rlmlib.config import Reward
from rlmlib.scoring.reward import Outcome, advantages, beta, rewards
from rlmlib.scoring.static import is_correct

TESTS = Path(__file__).parent
CASES = json.loads((TESTS / "data/reward_cases.json").read_text(encoding="utf-8"))


def results(given: dict) -> dict:
    if "solve_rate" in given:
        return {"beta": beta(given["solve_rate"])}
    if "gold" in given:
        return {"right": is_correct(given["answer"], [given["gold"]])}
    if "rewards" in given:
        return {"advantages": advantages(given["rewards"])}
    group = [Outcome(bool(right), cost) for right, cost in zip(given["correct"], given["cost"], strict=True)]
    shaped = rewards(group, Reward(scope=given.get("scope", "all_rollouts")))
    return {"rewards": shaped, "advantages": advantages(shaped)}


@pytest.mark.parametrize("case", [c for c in CASES if "input" in c], ids=lambda c: c["id"])
def test_case(case):
    found = results(case["input"])
    for name, expected in case["expected"].items():
        assert found[name] == pytest.approx(expected)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["id"])
def test_no_case_is_dropped(case):
    assert len(case.keys() & {"input", "tested_by", "not_ours"}) == 1
    for name in case.get("tested_by", []):
        file, _, test = name.partition("::")
        assert f"\ndef {test}(" in (TESTS / file).read_text(encoding="utf-8"), name
