"""A whole small data set from files in their real formats: build, resume, hashes, errors, and the parameters."""

import csv
import functools
import json
import random

import pytest

from rlmlib import config
from rlmlib.errors import ConfigError, DataError, RunError
from rlmlib.notebook import ROOT
from rlmlib.runs import read_jsonl
from rlmlib.tasks import mixture
from rlmlib.tasks.study import build, params, store, tokens
from rlmlib.tasks.study.families import NAMES, family
from rlmlib.tasks.study.recipe import sha256

WORDS = "river stone lamp cloud bread horse silver garden window paper winter music bridge letter market".split()


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    return _data(tmp_path_factory.getbasetemp())


@functools.cache  # other files import the fixtures, which would be made again for each of them
def _data(base):
    """A folder of sources: 900 labelled sentences and 400 pages."""
    folder, rng = base / "small-sources", random.Random(0)
    folder.mkdir()
    sentence = lambda: " ".join(rng.choices(WORDS, k=rng.randint(6, 14)))  # noqa: E731
    with open(folder / "news.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        writer.writerows([f"{sentence()} {number}", rng.choice(["sport", "science", "travel"])] for number in range(900))
    with open(folder / "pages.jsonl", "w") as file:
        for number in range(400):
            text = ". ".join(sentence() for _ in range(rng.randint(5, 40)))
            file.write(json.dumps({"title": f"Page {number}", "text": text, "url": f"https://example.org/{number}"}) + "\n")
    return folder


def dataset(folder, **changes):
    values = {
        "name": "small",
        "train": 20,
        "eval": 10,
        "lengths": {"low": 2_000, "median": 6_000, "high": 15_000},
        "sources": {
            "folder": str(folder),
            "records": [{"name": "news", "path": "news.csv"}],
            "distractors": [{"path": "pages.jsonl"}],
            "codebases": ["json", "email", "http", "unittest", "logging", "importlib"],
        },
    }
    return params.DatasetParams.model_validate(values | changes)


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    return _built(tmp_path_factory.getbasetemp())


@functools.cache
def _built(base):
    out = base / "small-dataset"
    return build.build(dataset(_data(base)), out, show=lambda line: None), out


def test_the_shares_and_splits_are_as_asked(built):
    recipes = store.read_recipes(built[1])
    counts = {(split, name): sum(r.split == split and r.family == name for r in recipes) for split in ("train", "eval") for name in NAMES}
    assert list(counts.values()) == [7, 8, 5, 4, 4, 2]
    assert len({r.id for r in recipes}) == 30


def test_contexts_come_back_with_their_hash_and_exact_tokens(built, data):
    families = {name: family(name, dataset(data), built[1] / "cache") for name in NAMES}
    contexts = store.ContextStore(built[1], families, keep=False)
    for recipe in store.read_recipes(built[1]):
        text = contexts.text(recipe)
        assert sha256(text) == recipe.sha256 and tokens.count(text) == recipe.tokens


def test_it_is_what_training_and_evaluation_ask_for(built):
    tasks = config.Tasks(dataset=str(built[1]))
    train, heldout = (mixture.examples(tasks, split, 6, seed=1) for split in ("train", "heldout"))
    assert {e.id.split("-")[0] for e in train} == {"train"} and {e.id.split("-")[0] for e in heldout} == {"eval"}
    assert all(e.answer_type and len(e.context) > 4_000 for e in train + heldout)
    assert len({e.id for e in mixture.examples(tasks, "train", 20, seed=1)}) == 20
    assert mixture.example(tasks, "train", 20, seed=1) == train[0]
    with pytest.raises(ConfigError, match="evaluation.seen_examples: must be 0"):
        mixture.example(tasks, "seen", 0, seed=1)


def test_built_twice_it_is_the_same(built, data, tmp_path):
    again = build.build(dataset(data), tmp_path, processes=1, show=lambda line: None)
    assert again["sha256"] == built[0]["sha256"]
    assert (tmp_path / store.RECIPES).read_text() == (built[1] / store.RECIPES).read_text()


def test_no_question_and_no_wording_is_in_both_splits(built):
    asked = {split: {r.question for r in store.read_recipes(built[1]) if r.split == split} for split in ("train", "eval")}
    assert asked["train"] and not asked["train"] & asked["eval"]


def test_another_seed_gives_another_data_set(built, data, tmp_path):
    assert build.build(dataset(data, seed=7), tmp_path, show=lambda line: None)["sha256"] != built[0]["sha256"]


def test_what_is_there_is_not_built_again(built, data, monkeypatch):
    def not_again(*arguments):
        raise AssertionError("was built again")

    before = (built[1] / store.RECIPES).read_text()
    monkeypatch.setattr(build, "build_family", not_again)
    build.build(dataset(data), built[1], show=lambda line: None)
    assert (built[1] / store.RECIPES).read_text() == before


def test_a_folder_of_other_parameters_is_refused(built, data):
    with pytest.raises(RunError, match=r"holds a dataset of other parameters \(seed\); name another OUT"):
        build.build(dataset(data, seed=7), built[1])


def test_summary_tells_lengths_by_family_and_what_was_left_out(built):
    summary = json.loads((built[1] / "summary.json").read_text())
    assert summary["lengths"]["train/coding"]["examples"] == 5
    assert set(summary["warnings"]) == set(summary["notes"]) == set(NAMES)
    warned = summary | {"warnings": {"research": ["frames: 824 of 824 questions left out"]}, "notes": {"coding": ["one"]}}
    assert "\nresearch: frames: 824 of 824" in build.told(warned) and "left out: 1, in summary.json" in build.told(warned)
    assert "median" in build.told(summary) and summary["sha256"] in build.told(summary)


def test_a_missing_source_ends_in_one_line(data, tmp_path, capsys, monkeypatch):
    path = tmp_path / "d.yaml"
    path.write_text((ROOT / "params/dataset.yaml").read_text())
    monkeypatch.setattr("sys.argv", ["build", "--params", str(path), "--data", str(tmp_path / "nowhere"), "--out", str(tmp_path / "out")])
    assert build.main() == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "nowhere" in error and "sources.records" in error and "DATA=" in error


def test_a_missing_column_names_file_and_column(data, tmp_path):
    sources = dataset(data).sources.model_dump() | {"records": [{"name": "news", "path": "news.csv", "label": "topic"}]}
    with pytest.raises(DataError, match="news.csv.*topic"):
        build.build(dataset(data, sources=sources), tmp_path, show=lambda line: None)
    build._claim(tmp_path, dataset(data), fresh=False)  # corrected, the same folder does


def test_no_family_part_is_left_half_written(built):
    assert all(read_jsonl(built[1] / f"parts/{name}.jsonl") for name in NAMES)


def test_the_study_s_file_loads_and_has_its_sizes():
    study = params.load(ROOT / "params/dataset.yaml")
    assert study.counts("train") == {"aggregation": 547, "research": 626, "coding": 391}
    assert study.counts("eval") == {"aggregation": 158, "research": 181, "coding": 113}


@pytest.mark.parametrize(
    "text, named",
    [
        ("train: 0", "train"),
        ("sources: {records: [{format: trec, path: x, lable: y}], distractors: [{path: y}], codebases: [a, b]}", "did you mean 'label'"),
        ("sources: {records: [{format: trec, path: x}], distractors: [{paht: y}], codebases: [a, b]}", "did you mean 'path'"),
        ("lengths: {low: 9, median: 5}", "must rise"),
        ("aggregation: 0.9", "must be 1"),
        ("sources: {records: [{path: x}], distractors: [{path: y}], codebases: [a, b]}", "name is required"),
        ("sources: {records: [{format: trec, path: x, hub: y}], distractors: [{path: y}], codebases: [a, b]}", "either path or hub"),
        ("sources: {records: [{format: trek, path: x}], distractors: [{path: y}], codebases: [a, b]}", "format"),
        ("sources: {records: [], distractors: [{path: y}], codebases: [a, b]}", "records"),
    ],
)
def test_bad_parameters_are_named(tmp_path, text, named):
    path = tmp_path / "d.yaml"
    sources = (
        "" if text.startswith("sources") else "sources: {records: [{format: trec, path: t}], distractors: [{path: y}], codebases: [a, b]}\n"
    )
    path.write_text(f"name: x\n{sources}{text}\n")
    with pytest.raises(ConfigError, match=named):
        params.load(path)
