"""Documents from every format, and what is said of files that are broken."""

import gzip
import json
import os
import sys
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from rlmlib.errors import DataError
from rlmlib.tasks.sources.documents import Document, FileSource, HubSource
from rlmlib.tasks.sources.left_out import LeftOut

DATA = os.environ.get("RLM_DATA")
COMMIT = "0123456789abcdef0123456789abcdef01234567"
ROWS = [
    {"title": "Kite", "text": "A kite flies.\r\nIt needs wind.", "url": "https://pages.test/kite"},
    {"title": "Ünïcode", "text": "Größe, 風, \u2028 and more", "url": "https://pages.test/unicode"},
    {"title": "Empty", "text": "  ", "url": "https://pages.test/empty"},
    {"title": "Rope", "text": 'A rope, "twisted"\nof three strands.', "url": "https://pages.test/rope"},
]
EXPECTED = [
    Document("https://pages.test/kite", "Kite", "A kite flies.\nIt needs wind.", "https://pages.test/kite"),
    Document("https://pages.test/unicode", "Ünïcode", "Größe, 風, \u2028 and more", "https://pages.test/unicode"),
    Document("https://pages.test/rope", "Rope", 'A rope, "twisted"\nof three strands.', "https://pages.test/rope"),
]


def lines_of(rows):
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def table_of(rows, delimiter):
    def quoted(cell):
        return '"' + cell.replace('"', '""') + '"'

    return "\n".join(delimiter.join(map(quoted, cells)) for cells in (rows[0], *(row.values() for row in rows))).encode()


def parquet_of(rows, path):
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return path.read_bytes()


FORMATS = {
    "a.jsonl": lambda _: lines_of(ROWS),
    "b.jsonl.gz": lambda _: gzip.compress(lines_of(ROWS)),
    "c4-train.00000-of-01024.json.gz": lambda _: gzip.compress(lines_of(ROWS)),
    "lines.json": lambda _: b"\xef\xbb\xbf" + lines_of(ROWS),
    "list.json": lambda _: b"\xef\xbb\xbf\n" + json.dumps(ROWS, indent=2).encode(),
    "table.csv": lambda _: b"\xef\xbb\xbf" + table_of(ROWS, ","),
    "table.tsv.gz": lambda _: gzip.compress(table_of(ROWS, "\t")),
    "rows.parquet": lambda folder: parquet_of(ROWS, folder / "made"),
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_documents(name, tmp_path):
    (tmp_path / name).write_bytes(FORMATS[name](tmp_path))
    assert list(FileSource(tmp_path / name).documents()) == EXPECTED


def test_a_folder_gives_its_texts_in_the_order_of_their_paths(tmp_path):
    for path, text in {"b/Half_%2F_half.md": "two", "a.txt": "one\n", "b/notes.rst": "not read", "c.TXT": "\n"}.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    expected = [Document("a.txt", "a", "one"), Document("b/Half_%2F_half.md", "Half / half", "two")]
    assert list(FileSource(tmp_path).documents()) == expected


def test_limit_and_other_field_names(tmp_path):
    path = tmp_path / "other.jsonl"
    path.write_bytes(lines_of([{"docid": 7, "name": "N", "body": "first"}, {"docid": 8, "name": None, "body": "second"}, {"body": 3}]))
    found = list(FileSource(path, limit=2, text_field="body", title_field="name").documents())
    assert found == [Document("7", "N", "first"), Document("8", "", "second")]


def test_pages_of_frames_as_published(tmp_path):
    """One row a page with its link, or the pages inside the rows of the questions."""
    page = {"link": "https://en.wikipedia.org/wiki/Kite", "frames_prompt_id": [1, 4], "original_link": ["x"], "text": "A kite."}
    item = {"title": "Kite", **page, "original_link": "https://en.m.wikipedia.org/wiki/Kite#Use"}
    (tmp_path / "pages.parquet").write_bytes(parquet_of([page], tmp_path / "made"))
    (tmp_path / "test.jsonl").write_bytes(lines_of([{"Prompt": "?", "wiki_items": [item, item]}]))
    link = page["link"]
    assert list(FileSource(tmp_path / "pages.parquet").documents()) == [Document(link, "", "A kite.", link)]
    found = list(FileSource(tmp_path / "test.jsonl").documents())
    assert found == [Document(item["original_link"], "Kite", "A kite.", item["original_link"])] * 2


@pytest.mark.parametrize(
    "context",
    [
        {"title": ["Kite", "Rope"], "sentences": [["It flies.", " High."], ["It ties."]]},
        [["Kite", ["It flies.", " High."]], ["Rope", ["It ties."]]],
    ],
)
def test_paragraphs_of_hotpotqa(context, tmp_path):
    (tmp_path / "rows.json").write_bytes(lines_of([{"id": "5a", "question": "?", "context": context}]))
    found = [(document.title, document.text) for document in FileSource(tmp_path / "rows.json").documents()]
    assert found == [("Kite", "It flies. High."), ("Rope", "It ties.")]


def test_names_and_links_that_are_no_text_are_replaced(tmp_path):
    (tmp_path / os.fsdecode(b"caf\xe9.txt")).write_text("one")
    [document] = FileSource(tmp_path).documents()
    assert document.title == "caf\ufffd" and document.id == "caf\ufffd.txt" and FileSource(tmp_path).fingerprint()
    (tmp_path / "a.jsonl").write_text('{"text": "x", "id": "\\ud83d", "url": "https://en.wikipedia.org/wiki/\\ud83d"}\n')
    [document] = FileSource(tmp_path / "a.jsonl").documents()
    assert (document.id + document.url).encode()


@pytest.mark.parametrize(
    "column",
    [
        pyarrow.array([b"caf\xe9"]).view(pyarrow.string()),
        pyarrow.array([2**62], pyarrow.timestamp("us")),
    ],
)
def test_cells_that_python_cannot_hold_are_named(tmp_path, column):
    pyarrow.parquet.write_table(pyarrow.table({"text": column}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match="a.parquet: is no readable parquet file"):
        list(FileSource(tmp_path / "a.parquet").documents())


def test_rows_without_a_text_are_counted_where_that_is_wanted(tmp_path):
    path, left_out = tmp_path / "a.jsonl", LeftOut()
    path.write_bytes(lines_of([{"text": "one"}, {"body": "two"}, {"text": 3}, {"text": "four"}]))
    assert [document.text for document in FileSource(path).documents(left_out)] == ["one", "four"]
    assert left_out.count == 2 and "line 2: has no field 'text'" in left_out.note()
    with pytest.raises(DataError, match="line 2: has no field"):
        list(FileSource(path).documents())
    path.write_bytes(lines_of([{"body": "two"}, {"text": 3}]))
    with pytest.raises(DataError, match="line 1: has no field"):
        list(FileSource(path).documents(LeftOut()))


def test_half_characters_are_replaced(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "a \\ud83d b"}\n')
    [document] = FileSource(tmp_path / "a.jsonl").documents()
    assert document.text == "a \ufffd b" and document.text.encode()


def test_long_cells_of_a_table_are_read(tmp_path):
    (tmp_path / "a.csv").write_text("text\n" + "x" * 200_000 + "\n")
    [document] = FileSource(tmp_path / "a.csv").documents()
    assert len(document.text) == 200_000


BROKEN = {
    "missing.jsonl": (None, "missing.jsonl: is not there"),
    "field.jsonl": (b'{"body": "x", "n": 1}\n', "line 1: has no field 'text', only body, n; set text_field"),
    "kind.jsonl": (b'{"text": "x"}\n{"text": ["x"]}\n', "line 2: field 'text' is a list"),
    "line.jsonl": (b'{"text": "x"}\n{"text": "x"\n', "line 2: is not JSON"),
    "scalar.jsonl": (b"17\n", "line 1: is a int, not an object"),
    "latin.jsonl": (b'{"text": "x"}\n{"text": "caf\xe9"}\n', "line 2: is not utf-8"),
    "latin.csv": (b"text\ncaf\xe9\n", "latin.csv, line 2: is not utf-8"),
    "short.json": (b'[{"text": "x"}, {"te', "short.json: is no JSON list"),
    "scalars.json": (b"[1, 2]", "row 1: is a int, not an object"),
    "cut.jsonl.gz": (gzip.compress(lines_of(ROWS) * 50)[:-20], "the compressed data ends early"),
    "plain.json.gz": (lines_of(ROWS), "plain.json.gz: cannot be read (Not a gzipped file"),
    "ragged.csv": (b"title,text\na,b\nc\n", "ragged.csv, line 3: does not have 2 fields"),
    "bad.parquet": (b"PAR1 no", "bad.parquet: is no readable parquet file"),
    "what.xml": (b"<a/>", "what.xml: format .xml is unknown"),
    "items.jsonl": (b'{"wiki_items": ["x"]}\n', "line 1, field 'wiki_items', item 1: is a str"),
    "hotpot.jsonl": (b'{"question": "?", "context": [["a"]]}\n', "field 'context' has no titles with sentences"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_named_with_its_place(name, tmp_path):
    content, message = BROKEN[name]
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError) as caught:
        list(FileSource(tmp_path / name).documents())
    assert message in str(caught.value) and str(tmp_path / name) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_text_file_in_another_encoding_is_named(tmp_path):
    (tmp_path / "old.txt").write_bytes(b"caf\xe9")
    with pytest.raises(DataError, match="old.txt, line 1: is not utf-8"):
        list(FileSource(tmp_path).documents())


def test_fingerprint_follows_what_is_read(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(lines_of(ROWS))
    before = FileSource(path).fingerprint()
    assert FileSource(path).fingerprint() == before
    assert FileSource(path, limit=2).fingerprint() != before
    assert FileSource(path, text_field="title").fingerprint() != before
    (tmp_path / "moved").mkdir()
    (tmp_path / "moved/a.jsonl").write_bytes(lines_of(ROWS))
    assert FileSource(tmp_path / "moved/a.jsonl").fingerprint() == before
    path.write_bytes(lines_of(ROWS[:3]))
    assert FileSource(path).fingerprint() != before
    with pytest.raises(DataError, match="cannot be read"):
        FileSource(tmp_path / "none").fingerprint()


def test_fingerprint_of_a_folder_follows_names_and_texts(tmp_path):
    (tmp_path / "a.txt").write_text("one")
    before = FileSource(tmp_path).fingerprint()
    (tmp_path / "notes.log").write_text("not read")
    assert FileSource(tmp_path).fingerprint() == before
    (tmp_path / "a.txt").rename(tmp_path / "b.txt")
    assert FileSource(tmp_path).fingerprint() != before


@pytest.fixture
def c4(tmp_path):
    """A copy of C4's layout on the Hub: shards under a folder of the configuration, which the card names."""
    (tmp_path / "c4/en").mkdir(parents=True)
    card = "---\nconfigs:\n- config_name: en\n  data_files:\n  - split: train\n    path: en/c4-train.*.json.gz\n---\n"
    (tmp_path / "c4/README.md").write_text(card)
    for shard in range(2):
        rows = [{"text": f"page {shard}-{i}", "timestamp": "2019-04-25T12:57:54Z", "url": f"http://{shard}.test/{i}"} for i in range(3)]
        (tmp_path / f"c4/en/c4-train.0000{shard}-of-01024.json.gz").write_bytes(gzip.compress(lines_of(rows)))
    return str(tmp_path / "c4")


def test_a_data_set_of_the_hub_is_streamed(c4):
    found = list(HubSource(c4, COMMIT, "en", limit=4).documents())
    assert [document.text for document in found] == ["page 0-0", "page 0-1", "page 0-2", "page 1-0"]
    assert found[0] == Document("http://0.test/0", "", "page 0-0", "http://0.test/0")
    one = HubSource(c4, COMMIT, "en", data_files=("en/c4-train.00001-of-01024.json.gz",))
    assert [document.text for document in one.documents()] == ["page 1-0", "page 1-1", "page 1-2"]


def test_hub_fingerprint_needs_no_network():
    one = HubSource("allenai/c4", COMMIT, "en")
    assert one.fingerprint() == HubSource("allenai/c4", COMMIT, "en").fingerprint()
    others = HubSource("allenai/c4", "f" * 40, "en"), HubSource("allenai/c4", COMMIT, "en", limit=9), HubSource("allenai/c4", COMMIT)
    assert len({source.fingerprint() for source in (one, *others)}) == 4
    assert one.name == "allenai/c4@01234567"


@pytest.mark.parametrize("revision", ["main", "refs/convert/parquet", "58d9fb6", ""])
def test_a_revision_that_moves_is_refused(revision):
    with pytest.raises(DataError, match="is no commit"):
        HubSource("allenai/c4", revision)


def test_an_unreachable_hub_is_one_line(monkeypatch):
    import datasets

    def unreachable(*_, **__):
        raise ConnectionError("Couldn't reach 'allenai/c4' on the Hub\n(LocalEntryNotFoundError)")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    with pytest.raises(DataError) as caught:
        list(HubSource("allenai/c4", COMMIT, "en").documents())
    assert str(caught.value).startswith("allenai/c4@01234567, split train: cannot be read from the Hub (ConnectionError: Couldn't")
    assert "\n" not in str(caught.value)


def test_hub_library_is_loaded_only_when_it_is_used(tmp_path):
    code = "import sys, rlmlib.tasks.sources.documents as d; sys.exit('datasets' in sys.modules or 'pyarrow' in sys.modules)"
    assert os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-c", code]) == 0


@pytest.mark.skipif(not DATA, reason="RLM_DATA is not set")
@pytest.mark.parametrize(
    "name, count",
    [
        ("c4_sample/c4_sample.jsonl", 1000),
        ("wiki_enwiki_shortened/articles.jsonl", 106),
        ("2wiki_corpus/2wikimultihopqa_corpus.json", 6119),
        ("hotpotqa_sample/sample_a.json", 100),
        ("hotpotqa_sample/sample_b.json", 145),
    ],
)
def test_real_files(name, count):
    found = list(FileSource(Path(DATA) / name).documents())
    assert len(found) == count and all(document.text for document in found)
