"""Labelled sets from files in the real layouts, with the traps of each, and what is said of bad ones."""

import json
import os
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from rlmlib.errors import DataError
from rlmlib.tasks.sources.classification import HubSet, KnownSet, TableSet, read_records, text_id, without_html
from rlmlib.tasks.sources.classification_formats import FORMATS
from rlmlib.tasks.sources.tables import read_table


def pairs(found) -> list[tuple[str, str]]:
    return [(record.text, record.label) for record in found.records]


def table(path: Path, **fields):
    return read_records(TableSet("own", path, **{"text": "text", "label": "label", **fields}))


def fails(spec, *parts: str):
    """Reading raises one line that holds all parts."""
    with pytest.raises(DataError) as raised:
        read_records(spec)
    message = str(raised.value)
    assert "\n" not in message
    for part in parts:
        assert part in message, message


# --- known sets


def test_trec_is_latin_1_and_both_files_are_read(tmp_path):
    (tmp_path / "train_5500.label").write_bytes(
        "HUM:ind Who painted the caf\xe9 ?\nNUM:date When did the gate close ?\n".encode("iso-8859-1")
    )
    (tmp_path / "TREC_10.label").write_bytes(b"LOC:city Where is the old mill ?\n")
    found = read_records(KnownSet("trec", tmp_path))
    assert pairs(found) == [
        ("Who painted the café ?", "person"),
        ("When did the gate close ?", "number"),
        ("Where is the old mill ?", "place"),
    ]
    assert found.labels == ("number", "person", "place")
    assert found.left_out == []


def test_a_known_set_under_another_name(tmp_path):
    (tmp_path / "rt-polarity.all").write_text("0 dull\n1 fine\n")
    found = read_records(KnownSet("mr", tmp_path, "films"))
    assert (found.name, found.known) == ("films", "mr")
    (tmp_path / "mr.csv").write_text("text,label\ndull,a\nfine,b\n")
    assert read_records(TableSet("mr", tmp_path / "mr.csv", "text", "label")).known == "mr"


def test_ag_news_counts_classes_from_one_and_its_html_is_put_right(tmp_path):
    rows = [
        '"1","Minister #39;s plane lands","The  #36;3 million trip\\ended &lt;b&gt;early&lt;/b&gt;."',
        '"4","Chip Inc. &lt;CHP.O&gt; up","He said  quot;fast quot; and left &lt;A HREF=""http://x.org/a b""&gt;here&lt;/A&gt;."',
        '"3","Salt  amp; Sons","Profit of  #151; nothing."',
    ]
    (tmp_path / "test.csv").write_text("\n".join(rows) + "\n")
    found = read_records(KnownSet("ag_news", tmp_path))
    assert pairs(found) == [
        ("Minister's plane lands The $3 million trip ended early .", "World"),
        ('Chip Inc. <CHP.O> up He said "fast" and left here .', "Sci/Tech"),
        ("Salt & Sons Profit of — nothing.", "Business"),
    ]
    assert "ag_news: train.csv is not in " + tmp_path.name in found.left_out
    assert "ag_news: 3 texts with HTML put right" in found.left_out


def test_banking_texts_with_line_ends_become_one_line(tmp_path):
    (tmp_path / "train.csv").write_bytes(b'text,category\r\nwhere is my card?,card_arrival\r\n"my pin\n\nfails, why",pin_blocked\r\n')
    (tmp_path / "test.csv").write_bytes(b"text,category\r\nis the card late?,card_arrival\r\n")
    found = read_records(KnownSet("banking77", tmp_path))
    assert pairs(found)[1] == ("my pin fails, why", "pin_blocked")
    assert len(found.records) == 3
    assert found.left_out == ["banking77: 1 texts with white space collapsed"]


def test_clinc_reads_all_parts_and_names_what_is_out_of_scope(tmp_path):
    parts = {"train": [["set an alarm", "alarm"]], "val": [["tell me a joke", "tell_joke"]], "oos_test": [["who won in 1910", "oos"]]}
    (tmp_path / "data_full.json").write_text(json.dumps(parts))
    found = read_records(KnownSet("clinc150", tmp_path))
    assert pairs(found) == [("set an alarm", "alarm"), ("tell me a joke", "tell_joke"), ("who won in 1910", "out_of_scope")]


def test_sms_with_tabs_and_line_ends(tmp_path):
    text = "ham\tsee you at 5\nspam\tWIN a boat\tcall now\nham\tfirst half\nsecond half\n\nspam\tfree £5 &lt;#&gt;\n"
    (tmp_path / "SMSSpamCollection").write_text(text)
    found = read_records(KnownSet("sms_spam", tmp_path))
    assert pairs(found) == [
        ("see you at 5", "ham"),
        ("WIN a boat call now", "spam"),
        ("first half second half", "ham"),
        ("free £5 <#>", "spam"),
    ]


@pytest.mark.parametrize(
    ("name", "file", "encoding", "labels"),
    [
        ("mr", "rt-polarity.all", "iso-8859-1", ("negative", "positive")),
        ("subj", "subj.all", "iso-8859-1", ("subjective", "objective")),
        ("cr", "custrev.all", "iso-8859-1", ("negative", "positive")),
        ("mpqa", "mpqa.all", "iso-8859-1", ("negative", "positive")),
        ("sst2", "stsa.binary.dev", "utf-8", ("negative", "positive")),
    ],
)
def test_sentiment_files(tmp_path, name, file, encoding, labels):
    (tmp_path / file).write_bytes("0 a dull clich\xe9 . \n1 a fine walk \n".encode(encoding))
    assert pairs(read_records(KnownSet(name, tmp_path))) == [("a dull cliché .", labels[0]), ("a fine walk", labels[1])]


def test_texts_as_bytes_are_read_as_utf8(tmp_path):
    cells = {"text": ["café".encode(), b"a walk"], "label": ["a", "b"]}
    pyarrow.parquet.write_table(pyarrow.table(cells), tmp_path / "a.parquet")
    assert pairs(read_records(TableSet("a", tmp_path / "a.parquet", "text", "label"))) == [("café", "a"), ("a walk", "b")]
    pyarrow.parquet.write_table(pyarrow.table(cells | {"text": [b"\xff", b"x"]}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match="row 1: column 'text' holds bytes that are no UTF-8"):
        read_records(TableSet("a", tmp_path / "a.parquet", "text", "label"))


def test_texts_with_two_labels_are_dropped_with_all_copies(tmp_path):
    (tmp_path / "mpqa.all").write_text("0 so so\n1 so so\n0 so  so\n0 bad luck\n1 good luck\n0 Bad luck\n0 \n")
    found = read_records(KnownSet("mpqa", tmp_path))
    assert pairs(found) == [("bad luck", "negative"), ("good luck", "positive")]
    assert found.left_out == [
        "mpqa: 1 texts with white space collapsed",
        "mpqa: 2 texts dropped that were there already",
        "mpqa: 1 empty texts dropped",
        "mpqa: 1 texts dropped that have two labels or more",
    ]


def test_emotion_pairs_texts_with_labels_by_line(tmp_path):
    (tmp_path / "val_text.txt").write_text("so angry \u2028 today \nup we go\\nagain &amp; again\n")
    (tmp_path / "val_labels.txt").write_text("0\n2\n")
    found = read_records(KnownSet("emotion", tmp_path))
    assert pairs(found) == [("so angry today", "anger"), ("up we go again & again", "optimism")]
    (tmp_path / "val_labels.txt").write_text("0\n")
    fails(KnownSet("emotion", tmp_path), "val_labels.txt", "1 labels for the 2 texts")


def test_reuters_and_newsgroups_with_and_without_header(tmp_path):
    (tmp_path / "reuters-r8-test.tab").write_text("Category\tText\nd\tstring\nclass\t\n\nearn\tprofit rose\nship\tthe port closed\n")
    (tmp_path / "sample.tsv").write_text("sci.space\tthe probe left\nrec.autos\tthe gear sticks\n")
    assert pairs(read_records(KnownSet("reuters_r8", tmp_path))) == [("profit rose", "earnings"), ("the port closed", "shipping")]
    assert pairs(read_records(KnownSet("newsgroups20", tmp_path)))[1] == ("the gear sticks", "rec.autos")


def test_known_sets_say_what_is_wrong(tmp_path):
    fails(KnownSet("trec", tmp_path), str(tmp_path), "train_5500.label")
    fails(KnownSet("yelp", tmp_path), "'yelp'", "sms_spam")
    (tmp_path / "train_5500.label").write_text("HUM:ind Who ?\nno label here\n")
    fails(KnownSet("trec", tmp_path), "train_5500.label", "line 2", "no label here")
    (tmp_path / "train_5500.label").write_text("HUM:ind Who ?\nXYZ:ind What ?\n")
    fails(KnownSet("trec", tmp_path), "train_5500.label", "record 2", "'XYZ'")
    (tmp_path / "train_5500.label").write_text("")
    fails(KnownSet("trec", tmp_path), "train_5500.label", "empty")
    (tmp_path / "test.csv").write_text('"5","A title","A text"\n')
    fails(KnownSet("ag_news", tmp_path), "test.csv", "record 1", "'5'")
    (tmp_path / "SMSSpamCollection").write_bytes(b"ham\tcost \xa35\n")
    fails(KnownSet("sms_spam", tmp_path), "SMSSpamCollection", "line 1", "utf-8")
    (tmp_path / "data_full.json").write_text('{"train": [["only a text"]]}')
    fails(KnownSet("clinc150", tmp_path), "data_full.json")
    (tmp_path / "data_full.json").write_text("[1, 2")
    fails(KnownSet("clinc150", tmp_path), "data_full.json")


# --- tables

ROWS = [{"text": "rain, again", "label": 0, "n": 1}, {"text": "sun\nat last", "label": 1, "n": 2}]
CLEAN = [("rain, again", "wet"), ("sun at last", "dry")]
NAMES = {"0": "wet", "1": "dry"}


def write(path: Path) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), path)
    elif path.suffix == ".json":
        path.write_text(json.dumps(ROWS))
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    else:
        mark = {".csv": ",", ".tsv": "\t", ".txt": ";"}[path.suffix]
        path.write_text(
            "\ufeff" + mark.join(("n", "label", "text")) + "\n" + f'1{mark}0{mark}"rain, again"\n2{mark}1{mark}"sun\nat last"\n'
        )
    return path


@pytest.mark.parametrize("suffix", ["csv", "tsv", "json", "jsonl", "parquet"])
def test_the_same_table_in_each_format(tmp_path, suffix):
    assert pairs(table(write(tmp_path / f"own.{suffix}"), label_names=NAMES)) == CLEAN


def test_own_delimiter_columns_by_number_and_plain_quotes(tmp_path):
    assert pairs(table(write(tmp_path / "own.txt"), label_names={0: "wet", 1: "dry"}, delimiter=";")) == CLEAN
    path = tmp_path / "bare.tsv"
    path.write_text('x\t"a quote\ny\tno quote\n')
    assert pairs(table(path, text="2", label="1", header=False, quotes=False)) == [('"a quote', "x"), ("no quote", "y")]


def test_encoding_and_marks_for_line_breaks(tmp_path):
    path = tmp_path / "own.csv"
    path.write_bytes("text,label\nune\\caf\xe9,a\nnon,b\n".encode("iso-8859-1"))
    assert pairs(table(path, encoding="iso-8859-1", breaks=("\\",))) == [("une café", "a"), ("non", "b")]
    fails(TableSet("own", path, "text", "label"), "own.csv", "line 2", "utf-8", "encoding")
    fails(TableSet("own", path, "text", "label", encoding="latin-99"), "own.csv", "latin-99")


@pytest.mark.parametrize("suffix", ["csv", "tsv", "json", "jsonl", "parquet"])
def test_a_missing_file_or_column_is_named(tmp_path, suffix):
    path = tmp_path / f"own.{suffix}"
    fails(TableSet("own", path, "text", "label"), path.name, "is not there")
    write(path)
    fails(TableSet("own", path, "body", "label"), path.name, "'body'", "'text'")
    fails(TableSet("own", path, "text", "kind"), path.name, "'kind'")


@pytest.mark.parametrize("suffix", ["csv", "tsv", "json", "jsonl", "parquet"])
def test_an_empty_or_damaged_file_is_named(tmp_path, suffix):
    path = tmp_path / f"own.{suffix}"
    path.write_text("")
    fails(TableSet("own", path, "text", "label"), path.name)
    path.write_text('text,label\n"no end,1\n{')
    fails(TableSet("own", path, "text", "label"), path.name)
    path.unlink()
    path.mkdir()
    fails(TableSet("own", path, "text", "label"), path.name)


def test_bad_rows_are_named(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text("text,label\na,0\nb,7\n")
    fails(TableSet("own", path, "text", "label", label_names=NAMES), "own.csv", "record 2", "'7'")
    path.write_text("text,label\na,0\nb\n")
    fails(TableSet("own", path, "text", "label"), "own.csv", "line 3")
    path.write_text("text,label\na,0\nb, \n")
    fails(TableSet("own", path, "text", "label"), "own.csv", "record 2", "no label")
    path.write_text("text,label\n")
    fails(TableSet("own", path, "text", "label"), "own.csv", "no rows")
    path.write_text("text,label\na,0\nb,0\n")
    fails(TableSet("own", path, "text", "label"), "own.csv", "1 label(s)")
    lines = tmp_path / "own.jsonl"
    lines.write_text('{"text": "a", "label": 0}\n{"text": "b"}\n')
    fails(TableSet("own", lines, "text", "label"), "line 2", "'label'")
    lines.write_text('{"text": "a", "label": 0}\n{"text": ["b"], "label": 1}\n')
    fails(TableSet("own", lines, "text", "label"), "'text'", "list")
    lines.write_text('{"text": "a", "label": 0}\nnull\n')
    fails(TableSet("own", lines, "text", "label"), "line 2: is a NoneType")
    (tmp_path / "own.json").write_text('{\n"text": "a"}')
    fails(TableSet("own", tmp_path / "own.json", "text", "label"), "own.json", "list of objects")
    (tmp_path / "own.xls").write_text("x")
    fails(TableSet("own", tmp_path / "own.xls", "text", "label"), "own.xls", ".xls")


def test_long_cells_are_read(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text("text,label\n" + "long " * 60_000 + ",a\nshort,b\n")
    assert len(next(read_table(path, ("text",)))[0]) == 300_000


# --- cleaning


def test_ids_see_through_case_punctuation_and_compatible_forms():
    assert text_id("It's FINE, really.") == text_id("it 's fine , really") == text_id("it’s ﬁne really")
    assert text_id("fine 😀") != text_id("fine 😡")
    assert text_id(":)") != text_id(":(")
    assert len(text_id("a")) == 16


def test_html():
    assert without_html("R&amp;D, fish &#38 ; chips; &lt;i&gt;so&lt;/i&gt; <DELL.O>") == "R&D, fish & chips;  so  <DELL.O>"
    assert without_html("see #39; and a#39;b; AT&T; x;y") == "see' and a#39;b; AT&T; x;y"


def test_no_text_breaks_its_line(tmp_path):
    path = tmp_path / "own.json"
    rows = [{"text": "a\u2028b\x0bc\x1cd\x85e\ud800f", "label": "x"}, {"text": " \t ", "label": "x"}, {"text": None, "label": "y"}]
    path.write_text(json.dumps([*rows, {"text": "z", "label": "y"}]))
    found = table(path)
    assert pairs(found) == [("a b c d e?f", "x"), ("z", "y")]
    assert "own: 2 empty texts dropped" in found.left_out


def test_hash_follows_texts_labels_and_order(tmp_path):
    path, hashes = tmp_path / "own.csv", set()
    for rows in ("a,0\nb,1", "b,1\na,0", "a,0\nb,2", "A,0\nb,1"):
        path.write_text(f"text,label\n{rows}\n")
        hashes.add(table(path).sha256)
    assert len(hashes) == 4
    assert table(path).sha256 in hashes


# --- the Hub


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A folder laid out as a data set of the Hub, and no network."""
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    features = datasets.Features({"sms": datasets.Value("string"), "label": datasets.ClassLabel(names=["ham", "spam"])})
    folder = tmp_path / "own_set"
    (folder / "data").mkdir(parents=True)
    for split, rows in {"train": [("hello\n", 0), ("buy now\n", 1)], "test": [("no label\n", -1)]}.items():
        columns = {"sms": [text for text, _ in rows], "label": [label for _, label in rows]}
        datasets.Dataset.from_dict(columns, features=features).to_parquet(folder / f"data/{split}-00000-of-00001.parquet")
    return folder


def test_hub_class_ids_become_names(hub):
    found = read_records(HubSet("own", str(hub), revision="0" * 40, split="train", text="sms"))
    assert pairs(found) == [("hello", "ham"), ("buy now", "spam")]
    renamed = HubSet("own", str(hub), revision="0" * 40, split="train", text="sms", label_names={"ham": "private", "spam": "advert"})
    assert read_records(renamed).labels == ("advert", "private")


def test_hub_errors_are_one_line(hub):
    fails(HubSet("own", str(hub), revision="0" * 40, split="train"), "own_set", "'text'", "'sms'")
    fails(HubSet("own", str(hub), revision="0" * 40, split="dev", text="sms"), "own_set", "split dev")
    fails(HubSet("own", str(hub), revision="0" * 40, split="test", text="sms"), "own_set", "record 1 has no label")
    fails(HubSet("own", "somebody/nowhere", revision="0" * 40, split="train"), "somebody/nowhere", "network")
    fails(HubSet("own", str(hub), revision="", split="train"), "revision")


# --- the real files

DATA = os.environ.get("RLM_DATA")
FOLDERS = {
    "mr": "sentiment",
    "subj": "sentiment",
    "cr": "sentiment",
    "mpqa": "sentiment",
    "sst2": "sentiment",
    "emotion": "tweeteval_emotion",
}
FACTS = {  # distinct texts and labels, measured on the published files; ids drop a few more as the same
    "trec": (5871, 6),
    "ag_news": (7600, 4),
    "banking77": (13072, 77),
    "clinc150": (23695, 151),
    "sms_spam": (5160, 2),
    "mr": (10662, 2),
    "subj": (10000, 2),
    "cr": (3766, 2),
    "mpqa": (8241 - 99, 2),
    "sst2": (9602, 2),
    "emotion": (5027, 4),
    "reuters_r8": (2176, 8),
    "newsgroups20": (2200, 20),
}


@pytest.mark.skipif(not DATA, reason="RLM_DATA is not set")
@pytest.mark.parametrize("name", FORMATS)
def test_real_files(name):
    found = read_records(KnownSet(name, Path(DATA) / FOLDERS.get(name, name)))
    texts, labels = FACTS[name]
    assert 0.99 * texts <= len(found.records) <= texts
    assert len(found.labels) == labels
    assert all(record.text == " ".join(record.text.split()) for record in found.records)
    assert len({record.id for record in found.records}) == len(found.records)
    assert not any("#39;" in record.text or "&amp;" in record.text for record in found.records)
