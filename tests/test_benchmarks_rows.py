"""Rows of data sets from files, folders and the Hub, and what is said of broken ones."""

import os
import re
import subprocess
import sys

import pytest
from test_benchmarks import write

from rlmlib.errors import DataError
from rlmlib.notebook import ROOT
from rlmlib.tasks.benchmarks.rows import HubSet, rows

COLUMNS = {"id": int, "text": str}
THREE = [{"id": 1, "text": "one", "more": 0}, {"id": 2, "text": "two", "more": 0}, {"id": 3, "text": "thrée\u2028", "more": 0}]
SET = HubSet("org/name", "test", "main")


@pytest.mark.parametrize("name", ["rows.parquet", "rows.jsonl", "rows.json"])
def test_rows_are_the_same_from_every_kind_of_file(tmp_path, name):
    path = write(tmp_path / name, THREE)
    assert list(rows(path, SET, COLUMNS)) == [{"id": r["id"], "text": r["text"]} for r in THREE]
    assert [r["id"] for r in rows(path, SET, COLUMNS, {"id": [3, 1, 9]})] == [1, 3]


def test_a_folder_is_read_by_split_and_in_order(tmp_path):
    write(tmp_path / "data/test-00001-of-00002.parquet", THREE[2:])
    write(tmp_path / "data/test-00000-of-00002.parquet", THREE[:2])
    write(tmp_path / "data/train-00000-of-00001.parquet", THREE)
    assert [r["id"] for r in rows(tmp_path, SET, COLUMNS)] == [1, 2, 3]
    with pytest.raises(DataError, match=r"holds no file dev\*\.parquet"):
        list(rows(tmp_path, HubSet("org/name", "dev", "main"), COLUMNS))


def test_rows_of_the_hub_come_through_the_datasets_library(tmp_path):
    write(tmp_path / "data/test-00000-of-00001.parquet", THREE)
    hub = HubSet(str(tmp_path), "test", "main")  # a folder in the layout of a repository on the Hub
    assert list(rows("hub", hub, COLUMNS, {"id": [2]})) == [{"id": 2, "text": "two"}]
    with pytest.raises(DataError, match="cannot be read from the Hub.*nope"):
        list(rows("hub", hub, {"nope": str}))


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl", ".json"])
def test_a_missing_column_and_a_wrong_type_name_file_and_column(tmp_path, suffix):
    missing = write(tmp_path / f"missing{suffix}", [{"id": 1, "more": 2}])
    with pytest.raises(DataError, match=rf"missing\{suffix}.*no column 'text'; it has 'id', 'more'"):
        list(rows(missing, SET, COLUMNS))
    wrong = write(tmp_path / f"wrong{suffix}", [{"id": 1, "text": "x"}, {"id": 2, "text": None}])
    with pytest.raises(DataError, match=rf"wrong\{suffix}, (row|line) 2: column 'text' is NoneType, not str"):
        list(rows(wrong, SET, COLUMNS))


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.json", b"", "has no rows"),
        ("a.json", b"[]", "has no rows"),
        ("a.json", b'{\n"id": 1, "text": "x"}', "is one JSON value over many lines"),
        ("a.json", b'{\n"id": 1, "text": "x"', "line 1: is not JSON"),
        ("a.jsonl", b'{"id": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "line 1: is not JSON (RecursionError"),
        ("a.json", b"[" * 100_000 + b"]" * 100_000, "row 1: is nested more than 100 deep"),
        ("a.json", b'[{"id": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}]", "row 1: is nested more than 100 deep"),
        ("a.csv", b"id,text,id\n1,x,2\n", "line 1: has the column 'id' twice"),
        ("a.json", b'[{"id": 1, "te', "no JSON list"),
        ("a.json", b"[1, 2]", "row 1: is a int, not an object"),
        ("a.jsonl", b"", "has no rows"),
        ("a.jsonl", b'{"id": 1, "text": "x"}\n{"id"', "line 2: is not JSON"),
        ("a.jsonl", b'{"id": 1, "text": "\xff"}', "line 1: is not utf-8"),
        ("a.parquet", b"", "no readable parquet"),
        ("a.parquet", b"PAR1 and nothing else", "no readable parquet"),
        ("a.csv", b"id,text\n1,x\n", "line 2: column 'id' is str, not int"),
        ("a.xml", b"<a/>", "format .xml is unknown"),
    ],
)
def test_broken_files_are_named(tmp_path, name, content, says):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=re.escape(str(tmp_path / name))) as caught:
        list(rows(tmp_path / name, SET, COLUMNS))
    assert says in str(caught.value) and "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match="absent.jsonl: is not there"):
        list(rows(tmp_path / "absent.jsonl", SET, COLUMNS))


def test_an_unreachable_hub_is_one_clear_line(tmp_path):
    code = """
from rlmlib.errors import DataError
from rlmlib.tasks.benchmarks.load import load
for name, options in [("oolong", {}), ("oolong_pairs", {"answers": "hub"}), ("codeqa", {}), ("browsecomp_plus", {"canary": "x"})]:
    try:
        next(load(name, "hub", **options))
    except DataError as error:
        print(name, "|", error)
"""
    settings = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    ended = subprocess.run([sys.executable, "-c", code], env=settings, cwd=ROOT, capture_output=True, text=True, timeout=120)
    lines = ended.stdout.splitlines()
    assert len(lines) == 4, ended.stderr
    assert all("cannot be read from the Hub" in line and "name a local copy" in line for line in lines)
    assert "oolongbench/oolong-synth" in lines[0] and "oolong-pairs-32768.json" in lines[1]
