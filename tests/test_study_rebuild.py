"""A data set folder that is built again, shared, killed, or not what it seems to be."""

import json
import os
import shutil
import signal
import subprocess
import sys

import psutil
import pytest
import yaml
from test_study_build import built, data, dataset  # noqa: F401 - fixtures

from rlmlib.errors import ConfigError, DataError, RunError
from rlmlib.notebook import ROOT
from rlmlib.runs import RunDir
from rlmlib.tasks.study import build, examples, export, store
from rlmlib.tasks.study.families import NAMES, Families, family
from rlmlib.tasks.study.recipe import sha256

WAIT_S = 120


class Waiting(Exception):
    """Carries the families that were to be built."""


@pytest.fixture
def copied(built, data, tmp_path, monkeypatch):  # noqa: F811
    """Copies of sources and data set, and what a build of them would build, with the lines that it shows."""
    shutil.copytree(data, tmp_path / "data")
    shutil.copytree(built[1], tmp_path / "out")

    def not_built(names, *_):
        raise Waiting(names)

    monkeypatch.setattr(build, "_build_families", not_built)

    def waiting() -> tuple[list[str], str]:
        lines = []
        try:
            build.build(dataset(tmp_path / "data"), tmp_path / "out", show=lines.append)
        except Waiting as found:
            return found.args[0], "\n".join(lines)
        return [], "\n".join(lines)

    return tmp_path, waiting


def test_moved_sources_are_the_same(copied):
    assert copied[1]() == ([], "")


def test_a_changed_source_is_named_and_its_family_alone_is_built_again(copied):
    folder, waiting = copied
    path = folder / "data/news.csv"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    names, lines = waiting()
    assert names == ["aggregation"] and "has changed: news" in lines


@pytest.mark.parametrize(
    "damage",
    [
        lambda lines: [lines[0], lines[1][:50] + "\n", *lines[2:]],
        lambda lines: lines[:-1],
        lambda lines: [*lines[:-1], lines[-1][:40]],
        lambda lines: [],
    ],
)
def test_a_damaged_part_is_built_again(copied, damage):
    folder, waiting = copied
    path = folder / "out/parts/coding.jsonl"
    path.write_text("".join(damage(path.read_text().splitlines(keepends=True))))
    assert waiting()[0] == ["coding"]


@pytest.mark.parametrize("text", [None, "", "{}"])
def test_a_part_without_its_notes_is_built_again(copied, text):
    folder, waiting = copied
    path = folder / "out/parts/research.json"
    path.unlink() if text is None else path.write_text(text)
    assert waiting()[0] == ["research"]


def test_unreadable_parameters_are_one_line(copied):
    (copied[0] / "out/params.json").write_text("")
    with pytest.raises(RunError, match="params.json: cannot be read; restore it, or start over"):
        copied[1]()


def test_one_build_at_a_time(copied):
    with RunDir(copied[0] / "out").lock(), pytest.raises(RunError, match="is working here"):
        copied[1]()


def test_fresh_deletes_nothing_before_all_is_checked(copied, monkeypatch, capsys):
    folder, _ = copied
    before = sorted(path.name for path in (folder / "out").rglob("*"))
    (folder / "d.yaml").write_text(yaml.safe_dump(dataset(folder / "data").model_dump(mode="json")))
    monkeypatch.setattr(
        "sys.argv", ["build", "--params", f"{folder}/d.yaml", "--data", f"{folder}/nowhere", "--out", f"{folder}/out", "--fresh"]
    )
    assert build.main() == 2 and "nowhere" in capsys.readouterr().err
    assert sorted(path.name for path in (folder / "out").rglob("*")) == before


@pytest.mark.skipif(not shutil.which("make"), reason="make is not installed")
@pytest.mark.parametrize(
    "given, said",
    [
        (["dataset", "PARAMS=my.yaml", "OUT=my out", "DATA=d"], 'study.build --params "my.yaml" --data "d" --out "my out"'),
        (["dataset"], "study.build"),
        (["dataset-check", "OUT=o"], 'check_dataset.py --out "o"'),
        (["dataset-export", "OUT=o"], 'study.export --dataset "o"'),
    ],
)
def test_make_passes_on_what_it_is_given(given, said):
    outer = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}  # of `make test`
    printed = subprocess.run(["make", "--dry-run", *given], cwd=ROOT, env=outer, capture_output=True, text=True, check=True).stdout
    assert " ".join(printed.strip().split("\n")[-1].split()).endswith(said)


def test_fresh_deletes_no_run(tmp_path, data):  # noqa: F811
    (tmp_path / "params.json").write_text('{"name": "tiny", "training": {}}')
    with pytest.raises(RunError, match="holds something else than a dataset"):
        build.build(dataset(data), tmp_path, fresh=True)
    assert (tmp_path / "params.json").exists()


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM])
def test_no_process_outlives_a_killed_build(tmp_path, data, sign):  # noqa: F811
    (tmp_path / "d.yaml").write_text(yaml.safe_dump(dataset(data, train=200).model_dump(mode="json")))
    command = [sys.executable, "-m", "rlmlib.tasks.study.build", "--params", tmp_path / "d.yaml", "--out", tmp_path / "out"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if "reading its sources" in line:
                break
        children = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(sign)
        process.stdout.close()
    assert children and not psutil.wait_procs(children, timeout=WAIT_S)[1]


# --- one bad item


def sources(folder, **changes):  # noqa: F811
    return dataset(folder, sources=dataset(folder).sources.model_dump() | changes)


def test_a_set_without_records_is_left_out(copied):
    folder = copied[0] / "data"
    (folder / "bare.csv").write_text("text,label\n")
    both = [{"name": "bare", "path": "bare.csv"}, {"name": "news", "path": "news.csv"}]
    made = family("aggregation", sources(folder, records=both), folder)
    assert list(made.sets) == ["news"] and "bare.csv: has no rows" in made.warnings[0]
    with pytest.raises(DataError, match="bare.csv: has no rows"):
        family("aggregation", sources(folder, records=both[:1]), folder)


def test_an_unreachable_data_set_and_rows_without_text_are_left_out(copied, monkeypatch):
    import datasets

    def unreachable(*_, **__):
        raise ConnectionError("no route")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    folder = copied[0] / "data"
    with open(folder / "pages.jsonl", "a") as file:
        file.write('{"title": "no text"}\n{"title": "a number", "text": 7}\n')
    hub = {"hub": "allenai/c4", "revision": "0" * 40}
    for _ in range(2):  # the second time from the cache
        made = family("research", sources(folder, distractors=[hub, {"path": "pages.jsonl"}]), folder / "cache")
        assert "left out: allenai/c4@00000000" in made.warnings[0]
        assert "pages.jsonl: 2 row(s) left out; the first" in made.warnings[1] and "line 401: has no field 'text'" in made.warnings[1]


def test_rows_of_frames_that_cannot_be_used_are_left_out(copied):
    folder = copied[0] / "data"
    link = "['https://en.wikipedia.org/wiki/Page_1']"
    (folder / "frames.tsv").write_text(f"Prompt\tAnswer\twiki_links\nWho?\t\t{link}\nWhere?\there\t{link}\n")
    made = family("research", sources(folder, frames="frames.tsv", pages=[{"path": "pages.jsonl"}]), folder / "cache")
    assert made.warnings[0].startswith("frames: 1 row(s) left out; the first") and "field 'Answer' is empty" in made.warnings[0]


def test_a_package_that_is_not_installed_is_left_out_and_a_missing_folder_refused(data, tmp_path):  # noqa: F811
    made = family("coding", sources(data, codebases=["json", "no_such_package", "email"]), tmp_path)
    assert "left out: codebase 'no_such_package'" in made.warnings[0]
    with pytest.raises(DataError, match="two are needed"):
        family("coding", sources(data, codebases=["json", "no_such_package"]), tmp_path)
    with pytest.raises(DataError, match="./no/such: is not there"):
        sources(data, codebases=["json", "./no/such"]).sources.check()


def test_folders_of_code_are_taken_from_the_root(data, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    made = sources(data, codebases=["./tools", "json"])
    made.sources.check()
    assert made.sources.specs == [str(ROOT / "tools"), "json"]


# --- what is built, asked for and exported


def test_a_data_set_without_its_parameters_is_one_line(copied):
    (copied[0] / "out/params.json").unlink()
    with pytest.raises(DataError, match="params.json: cannot be read .*`make dataset` writes it"):
        examples.example(str(copied[0] / "out"), "train", 0, 1)
    (copied[0] / "out/params.json").write_text('{"name": "x"}')
    with pytest.raises(ConfigError, match="params.json: sources: is required"):
        examples.example(str(copied[0] / "out"), "train", 0, 1)


def test_families_are_made_when_they_are_asked_for(built, data):  # noqa: F811
    families = Families(dataset(data), built[1] / "cache")
    assert not families and families["coding"] is families["coding"] and list(families) == ["coding"]


def test_export_writes_both_splits_and_they_open_as_a_dataset_dict(built, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("sys.argv", ["export", "--dataset", str(built[1]), "--out", str(tmp_path / "files")])
    assert export.main() == 0
    found = export.to_dataset_dict(tmp_path / "files")
    recipes = {recipe.id: recipe for recipe in store.read_recipes(built[1])}
    assert {name: len(part) for name, part in found.items()} == {"train": 20, "eval": 10}
    assert all(sha256(row["context"]) == recipes[row["id"]].sha256 for part in found.values() for row in part)


def test_export_of_nothing_is_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["export", "--dataset", str(tmp_path)])
    assert export.main() == 2 and capsys.readouterr().err.count("\n") == 1
    with pytest.raises(DataError, match="holds no parquet file; `make dataset-export`"):
        export.to_dataset_dict(tmp_path)


def test_the_check_passes_on_a_small_set_from_another_folder(copied, monkeypatch, capsys):
    import check_dataset

    monkeypatch.setattr("sys.argv", ["check", "--out", f"{copied[0]}/out", "--data", f"{copied[0]}/data", "--sample", "5"])
    assert check_dataset.main() == 0
    said = capsys.readouterr().out
    assert "questions: 20 in train, 10 in eval, 0 in both" in said and "FAIL" not in said
    assert all(f"gold answers of {name} read again" in said for name in NAMES)


def test_the_check_of_nothing_is_one_line(tmp_path, monkeypatch, capsys):
    import check_dataset

    monkeypatch.setattr("sys.argv", ["check", "--out", str(tmp_path)])
    assert check_dataset.main() == 2 and "`make dataset` builds it" in capsys.readouterr().err


def test_the_summary_says_what_it_was_made_of(built):  # noqa: F811
    about = json.loads((built[1] / "parts/aggregation.json").read_text())
    assert {"parameters", "Python", "tokenizer", "rlmlib", "news"} == set(about["made_of"])
