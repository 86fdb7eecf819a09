"""The report of a study: one page that holds what its runs say, also of those that failed, and the small published form of it."""

import csv
import gzip
import json
import re

import pytest
from study_runs import End, even, study, uneven

from rlmlib.errors import RunError
from rlmlib.study import frames, publish, readme, report

HOSTILE = "<script>alert(1)</script><img src=https://evil.example/x>"
FIGURES = {"study_cost_accuracy", "study_dynamics", "study_pass_at_k", "study_differences", "study_families", "study_post_mortem"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    told = {"base": even(0.25, 400), "plain": even(0.5), "lora": uneven(0.5, 100), "no-penalty": uneven(0.5, 200), "full": even(0.75, 50)}
    told["rank64-lr0.01"] = even(0.5)
    ends = {"rank64-lr0.01-s42": End(reason=f"train: {HOSTILE}")}
    return study(tmp_path_factory.mktemp("runs"), told, ends=ends)


@pytest.fixture(scope="module")
def page(folder):
    return report.render(folder).read_text()


@pytest.fixture(scope="module")
def published(folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("published")
    return out, publish.publish(folder, out)


def test_the_page_tells_every_group_claim_and_run(folder, page):
    groups, runs = frames.load_groups(folder), frames.load_runs(folder)
    assert all(f">{label}</th>" in page for label in groups["label"])
    assert all(f">{name}</th>" in page for name in runs["run"])
    assert page.count('class="reproduced"') + page.count('class="not"') + page.count('class="unclear"') > 5


def test_the_headline_is_made_from_the_numbers(page):
    assert "Training takes right answers from 25.0 % to 50.0 %" in page


def test_what_a_run_said_is_escaped(page):
    assert HOSTILE not in page and "&lt;script&gt;alert(1)" in page


def test_the_page_asks_for_nothing(page):
    outside = re.sub(r'<script id="plotly-js">.*?</script>', "", page, flags=re.DOTALL)
    assert not re.search(r"""(?:src|href)=["'](?!#|data:)""", outside)


def test_plotly_is_in_the_page_once_and_not_in_the_published_one(page, published):
    assert page.count('id="plotly-js"') == 1
    assert "plotly-js" not in (published[0] / "report.html").read_text()


def test_each_chart_has_a_picture_and_its_numbers_beside_it(folder, page):
    there = {path.name for path in (folder / "figures").iterdir()}
    assert {f"{name}.{kind}" for name in FIGURES for kind in ("json", "svg", "png", "csv")} <= there


def test_published_rollouts_are_those_of_the_runs(folder, published):
    with gzip.open(published[0] / "evaluations.csv.gz", "rt", newline="") as file:
        rows = list(csv.DictReader(file))
    expected = frames.load_evaluations(folder)
    assert [row["run"] for row in rows] == list(expected["run"])
    assert sum(int(row["leaf_tokens"]) for row in rows) == expected["leaf_tokens"].sum()


def test_publishing_again_gives_the_same_bytes(folder, published, tmp_path):
    again = publish.publish(folder, tmp_path)
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in published[1]]


def test_provenance_counts_runs_and_names_seeds(published):
    told = json.loads((published[0] / "provenance.json").read_text())
    assert told["seeds"] == [42, 43, 44] and told["runs"] == 12


def test_a_file_too_large_to_commit_is_refused(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(publish, "LARGEST", 1000)
    with pytest.raises(RunError, match="is over 0 MB; publish fewer runs"):
        publish.publish(folder, tmp_path)


def test_a_folder_without_runs_is_refused(tmp_path):
    with pytest.raises(RunError, match="holds no runs"):
        report.render(tmp_path)


def test_the_readme_gets_the_results_between_its_marks_and_keeps_the_rest(published):
    before = f"head\n{readme.BEGIN}\nold\n{readme.END}\ntail\n"
    after = readme.written(before, published[0])
    assert after.startswith(f"head\n{readme.BEGIN}\n![") and after.endswith(f"{readme.END}\ntail\n") and "old" not in after
    assert "| untrained | 42 | 25.0 %" in after
    assert readme.written(after, published[0]) == after


def test_a_readme_without_marks_is_refused(published):
    with pytest.raises(RunError, match="has no lines"):
        readme.written("text", published[0])


def test_a_study_that_is_not_published_is_refused(tmp_path):
    with pytest.raises(RunError, match="holds no published study"):
        readme.block(tmp_path)
