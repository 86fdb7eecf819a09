"""FRAMES: its rows from the files in which it goes round, and the titles that its links mean."""

import json
import os
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from rlmlib.errors import DataError
from rlmlib.tasks.sources import frames
from rlmlib.tasks.sources.frames import FramesRow, hub_frames, read_frames, title_of, titles, unresolved, urls_in
from rlmlib.tasks.sources.left_out import LeftOut
from rlmlib.tasks.study.research.frames_questions import answer_type, splits

DATA = os.environ.get("RLM_DATA")
WIKI = "https://en.wikipedia.org/wiki/"
LINKS = [WIKI + "Kite", WIKI + "Wind_vane#History"]
COLUMNS = ["", "Prompt", "Answer", "wikipedia_link_1", "wikipedia_link_2", "wikipedia_link_11+", "reasoning_types", "wiki_links"]
CELLS = ["7", 'How long, in "feet",\nis it? ', " 3 feet", LINKS[0], LINKS[1], "", "Numerical reasoning | Multiple constraints", str(LINKS)]
ROW = FramesRow("7", 'How long, in "feet",\nis it?', "3 feet", tuple(LINKS), ("Numerical reasoning", "Multiple constraints"))


def table(columns=COLUMNS, *rows, delimiter="\t"):
    quoted = (['"' + cell.replace('"', '""') + '"' for cell in cells] for cells in (columns, *(rows or (CELLS,))))
    return "\n".join(delimiter.join(cells) for cells in quoted) + "\n"


def written(tmp_path, content, name="test.tsv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def without(column):
    place = COLUMNS.index(column)
    return [COLUMNS[:place] + COLUMNS[place + 1 :], CELLS[:place] + CELLS[place + 1 :]]


def changed(column, cell):
    place = COLUMNS.index(column)
    return [COLUMNS, [*CELLS[:place], cell, *CELLS[place + 1 :]]]


@pytest.mark.parametrize("index", ["", "id", "Unnamed: 0"])
@pytest.mark.parametrize("name, delimiter", [("test.tsv", "\t"), ("frames.csv", ",")])
def test_rows(index, name, delimiter, tmp_path):
    path = written(tmp_path, "\ufeff" + table([index, *COLUMNS[1:]], delimiter=delimiter), name)
    assert read_frames(path) == [ROW]


def test_links_come_from_the_cells_where_the_list_is_missing(tmp_path):
    assert read_frames(written(tmp_path, table(*without("wiki_links")))) == [ROW]


@pytest.mark.parametrize("name", ["rows.parquet", "rows.jsonl"])
def test_rows_from_files_with_numbers_lists_and_gaps(tmp_path, name):
    cells = dict(zip(COLUMNS, CELLS, strict=True)) | {"": 7, "wikipedia_link_11+": None, "wiki_links": LINKS}
    if name == "rows.jsonl":
        (tmp_path / name).write_text(json.dumps(cells) + "\n")
    else:
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist([cells]), tmp_path / name)
    assert read_frames(tmp_path / name) == [ROW]


def test_rows_that_cannot_be_used_are_counted_where_that_is_wanted(tmp_path):
    empty = ["8", *CELLS[1:2], "", *CELLS[3:]]
    left_out = LeftOut()
    assert read_frames(written(tmp_path, table(COLUMNS, empty, CELLS)), left_out) == [ROW]
    assert left_out.count == 1 and "field 'Answer' is empty" in left_out.note()
    with pytest.raises(DataError, match="field 'Answer' is empty"):
        read_frames(written(tmp_path, table(COLUMNS, empty)), LeftOut())


def test_rows_without_an_index_are_numbered(tmp_path):
    columns, cells = without("")
    assert [row.id for row in read_frames(written(tmp_path, table(columns, cells, cells)))] == ["0", "1"]


BROKEN = [
    (table(*without("Prompt")), "has no column 'Prompt', only , Answer"),
    (table(*without("Answer")), "has no column 'Answer'"),
    (table(*changed("Answer", " ")), "line 3: field 'Answer' is empty"),
    (table(*changed("wiki_links", "['x'")), "line 3: field 'wiki_links' is no list of links"),
    (table(*changed("wiki_links", "[1]")), "line 3: field 'wiki_links' is no list of links"),
    (table(*changed("wiki_links", "__import__('os')")), "line 3: field 'wiki_links' is no list of links"),
    (table(*changed("wiki_links", "[]")), "line 3: field 'wiki_links' holds no link"),
    (table(["Prompt", "Answer"], ["a", "b"]), "has no column 'wiki_links', only Prompt, Answer"),
    (table(*changed("Answer", "Besançon")).encode("latin-1"), "line 3: is not utf-8"),
    (table().encode("utf-16"), "line 1: is not utf-8"),
    (table()[: table().index("\n")], "has no rows"),
    (table() + "8\tonly two", "does not have 8 fields"),
]


@pytest.mark.parametrize("content, message", BROKEN)
def test_a_broken_file_is_named_with_its_field(content, message, tmp_path):
    path = written(tmp_path, content)
    with pytest.raises(DataError) as caught:
        read_frames(path)
    assert str(path) in str(caught.value) and message in str(caught.value)
    assert "\n" not in str(caught.value) and str(caught.value).encode()


def test_a_missing_file_says_what_to_fetch(tmp_path):
    with pytest.raises(DataError, match="none.tsv: is not there; fetch test.tsv of google/frames-benchmark"):
        read_frames(tmp_path / "none.tsv")


def test_the_hub_cache_is_read(tmp_path):
    snapshot = tmp_path / f"datasets--google--frames-benchmark/snapshots/{frames.REVISION}"
    snapshot.mkdir(parents=True)
    written(snapshot, table())
    assert hub_frames(cache_dir=tmp_path) == [ROW]


def test_an_unreachable_hub_is_one_line(monkeypatch):
    import huggingface_hub

    def unreachable(*_, **__):
        raise ConnectionError("no route\nto host")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", unreachable)
    with pytest.raises(DataError, match=r"@58d9fb63, test.tsv: cannot be read from the Hub \(ConnectionError: no route to host\); check"):
        hub_frames()


# --- links


@pytest.mark.parametrize(
    "url, title",
    [
        (WIKI + "James_A._Garfield", "James A. Garfield"),
        (WIKI + "Kite#", "Kite"),
        (WIKI + "Kite#:~:text=a,long%20tail", "Kite"),
        (WIKI + "Kite?oldformat=true", "Kite"),
        (WIKI + "Who_Goes_There?", "Who Goes There"),
        (WIKI + "Who_Goes_There%3F", "Who Goes There?"),
        (WIKI + "kite_(toy),_part_one", "Kite (toy), part one"),
        (WIKI + "Charley%2527s_Aunt", "Charley's Aunt"),
        (WIKI + "100%_Wool", "100% Wool"),
        (WIKI + "Charlotte_Bront%C3%AB", "Charlotte Brontë"),
        (WIKI + "Bronte\u0308", "Brontë"),
        ("https://en.m.wikipedia.org/wiki/Kite", "Kite"),
        ("http://simple.wikipedia.org/wiki/Kite", "Kite"),
        ("en.wikipedia.org/wiki/Grazia_Deledda", "Grazia Deledda"),
        ("https://en.wikipedia.org/w/index.php?title=Bronco&redirect=no", "Bronco"),
        ("https://en.wikipedia.org/w/index.php?search=Polytrichum+piliferum&title=Special:Search", "Polytrichum piliferum"),
        ("https://w.wiki/ASFv", None),
        ("https://example.org/wiki/Kite", None),
        ("https://notwikipedia.org/wiki/Kite", None),
        ("https://en.wikipedia.org/wiki/", None),
        ("https://en.wikipedia.org/", None),
        ("", None),
        ("https://[bad/wiki/Kite", None),
    ],
)
def test_title_of_a_link(url, title):
    assert title_of(url) == title


@pytest.mark.parametrize(
    "cell, urls",
    [
        (f"{WIKI}A, {WIKI}B,_C , {WIKI}D, ", [WIKI + "A", WIKI + "B,_C", WIKI + "D"]),
        (f"{WIKI}A,{WIKI}B\n{WIKI}C", [WIKI + "A", WIKI + "B", WIKI + "C"]),
        (f" {WIKI}A (NOT REQUIRED)", [WIKI + "A"]),
        ("en.wikipedia.org/wiki/A", ["en.wikipedia.org/wiki/A"]),
        (" , ", []),
        ("", []),
    ],
)
def test_urls_of_a_cell(cell, urls):
    assert urls_in(cell) == urls


def row(*links):
    return FramesRow("1", "q", "a", links, ())


def test_titles_once_and_after_redirects():
    asked = row(WIKI + "Kite#a", "https://w.wiki/ASFv", WIKI + "kite", WIKI + "Kites")
    assert titles(asked) == ("Kite", "Kites") and unresolved(asked) == ("https://w.wiki/ASFv",)
    table = {"Kites": "Kite", "https://w.wiki/ASFv": "Wind"}
    assert titles(asked, table) == ("Kite", "Wind") and unresolved(asked, table) == ()


# --- questions


@pytest.mark.parametrize(
    "question, answer, kind",
    [
        ("How many?", "1,234", "number"),
        ("How old?", "57 years old.", "number"),
        ("How much?", "$183 million", "number"),
        ("What share?", "0.49%", "number"),
        ("How fast?", "34.30 m/s", "number"),
        ("In what year was it founded?", "1701", "date"),
        ("When was it dissolved?", "1945", "date"),
        ("What is the total number of pages?", "1135", "number"),
        ("How many people lived there in the year when it was founded, and in what year?", "1135", "number"),
        ("When?", "April 2, 1961", "date"),
        ("When?", "10 July 2000", "date"),
        ("When?", "September 1970", "date"),
        ("When?", "2001-09-11", "date"),
        ("Which rank?", "37th", "text"),
        ("Who?", "Edward Heath, September 1970", "text"),
        ("How long?", "5 minutes and 31 seconds", "text"),
        ("Which years?", "1914, 1987, 2002", "text"),
        ("Which vitamin?", "Vitamin B12", "text"),
        ("When?", "They are all born on June 20.", "text"),
    ],
)
def test_kind_of_answer(question, answer, kind):
    assert answer_type(question, answer) == kind


def test_questions_that_share_a_page_share_a_split():
    """A long chain of questions, each of which shares a page with the next only, among many that share none."""
    chained = {f"c{i}": [f"page {i}", f"page {i + 1}"] for i in range(40)}
    alone = {f"a{i}": [f"only {i}", f"too {i}"] for i in range(400)}
    found = splits(chained | alone)
    assert len({found[question] for question in chained}) == 1
    share = sum(found[question] == "eval" for question in alone) / len(alone)
    assert 0.17 < share < 0.28
    backwards = splits(dict(reversed((chained | alone).items())))
    assert backwards == found, "the order of the rows decides"


def test_a_question_more_moves_only_what_it_connects():
    before = splits({f"a{i}": [f"only {i}"] for i in range(200)})
    after = splits({f"a{i}": [f"only {i}"] for i in range(200)} | {"new": ["only 3", "only 4"]})
    moved = [question for question, split in before.items() if after[question] != split]
    assert set(moved) <= {"a3", "a4"} and after["a3"] == after["a4"] == after["new"]


@pytest.fixture(scope="module")
def rows():
    if not DATA:
        pytest.skip("RLM_DATA is not set")
    return read_frames(Path(DATA) / "frames/test.tsv")


def test_two_real_copies_agree(rows):
    assert len(rows) == 824 and rows == read_frames(Path(DATA) / "frames/frames_test_set.csv")


def test_real_titles(rows):
    expected = {str(row["id"]): tuple(row["titles"]) for row in json.loads((Path(DATA) / "frames/clean_titles.json").read_text())}
    assert {row.id: titles(row) for row in rows} == expected
    assert [row.id for row in rows if unresolved(row)] == ["495"]


def test_real_split_has_the_shares_of_the_study_and_no_page_on_both_sides(rows):
    pages = {row.id: titles(row) for row in rows}
    found = splits(pages)
    sides = {side: {page for id_, split in found.items() if split == side for page in pages[id_]} for side in ("train", "eval")}
    assert not sides["train"] & sides["eval"]
    assert 600 < list(found.values()).count("train") < 660


def test_real_kinds_of_answers(rows):
    kinds = [answer_type(row.prompt, row.answer) for row in rows]
    assert 180 < kinds.count("number") < 210 and 25 < kinds.count("date") < 35
