"""The published study: its figures can be recomputed from its rollouts, and README.md says what it says."""

import csv
import gzip
import json
import math
import re
from collections import defaultdict
from statistics import mean

import pytest

from rlmlib.notebook import ROOT
from rlmlib.study.readme import written

FOLDER = ROOT / "outputs/published/tiny-study"


def table(name: str) -> dict[str, dict]:
    with open(FOLDER / f"{name}.csv", newline="") as file:
        return {row["group"]: row for row in csv.DictReader(file)}


@pytest.fixture(scope="module")
def rollouts() -> list[dict]:
    """Held-out evaluation rollouts that the machinery did not fail."""
    with gzip.open(FOLDER / "evaluations.csv.gz", "rt", newline="") as file:
        return [row for row in csv.DictReader(file) if row["split"] == "heldout" and not row["error"]]


def over_questions(rows: list[dict], value) -> float:
    """Mean over runs of the mean over questions of a value of one question's rollouts."""
    runs = defaultdict(lambda: defaultdict(list))
    for row in rows:
        runs[row["run"]][row["example"]].append(row)
    return mean(mean(value(group) for group in questions.values()) for questions in runs.values())


def of(rollouts: list[dict], group: str) -> list[dict]:
    return [row for row in rollouts if row["group"] == group]


def right(group: list[dict]) -> float:
    return mean(row["correct"] == "True" for row in group)


def leaf_tokens(group: list[dict]) -> float:
    return mean(int(row["leaf_tokens"]) for row in group)


@pytest.mark.parametrize("group", ["base", "lora", "no-penalty", "full", "depth2"])
def test_right_answers_follow_from_the_rollouts(rollouts, group):
    assert float(table("groups")[group]["pass_at_1"]) == pytest.approx(over_questions(of(rollouts, group), right))


@pytest.mark.parametrize("group", ["base", "lora", "no-penalty", "full"])
def test_leaf_tokens_follow_from_the_rollouts(rollouts, group):
    assert float(table("groups")[group]["leaf_tokens_mean"]) == pytest.approx(over_questions(of(rollouts, group), leaf_tokens))


def test_pass_at_5_follows_from_the_rollouts(rollouts):
    def pass_at_5(group):
        wrong = sum(row["correct"] != "True" for row in group)
        return 1 - math.comb(wrong, 5) / math.comb(len(group), 5)

    assert float(table("groups")["lora"]["pass_at_5"]) == pytest.approx(over_questions(of(rollouts, "lora"), pass_at_5))


def test_every_headline_group_has_three_seeds_and_all_the_same_questions(rollouts):
    for group in ("lora", "no-penalty", "full"):
        assert len({row["seed"] for row in of(rollouts, group)}) >= 3
        assert {row["example"] for row in of(rollouts, group)} == {row["example"] for row in of(rollouts, "base")}


def test_every_claim_was_checked_on_runs():
    with open(FOLDER / "claims.csv", newline="") as file:
        claims = list(csv.DictReader(file))
    assert len(claims) >= 15
    assert [claim["claim"] for claim in claims if claim["verdict"] == "not run" or not re.search(r"\d", claim["ours"])] == []


def test_every_run_has_an_end_and_those_that_were_stopped_a_reason():
    with open(FOLDER / "runs.csv", newline="") as file:
        runs = list(csv.DictReader(file))
    assert len(runs) == json.loads((FOLDER / "provenance.json").read_text())["runs"]
    assert {run["state"] for run in runs} <= {"done", "failed", "timeout"}
    assert [run["run"] for run in runs if run["state"] != "done" and not run["reason"]] == []


def test_the_page_shows_its_charts_without_a_network_and_no_file_is_large():
    page = (FOLDER / "report.html").read_text()
    assert page.count("<svg") >= 8
    assert not re.search(r"""(?:src|href)=["'](?!#|data:)""", page)
    assert max(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) < 5_000_000


def test_the_readme_says_what_the_study_says():
    assert (ROOT / "README.md").read_text() == written((ROOT / "README.md").read_text(), FOLDER)
