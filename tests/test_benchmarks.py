"""Benchmarks by name, and S-NIAH, which is generated."""

import json
import os
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rlmlib.errors import ConfigError, DataError
from rlmlib.tasks.benchmarks import niah
from rlmlib.tasks.benchmarks.base import sample, score
from rlmlib.tasks.benchmarks.load import load
from rlmlib.tasks.study import tokens

DATA = Path(os.environ.get("RLM_DATA", "absent"))
with_data = pytest.mark.skipif(not DATA.is_dir(), reason="RLM_DATA names no folder of public data")


def write(path: Path, table: list[dict]) -> Path:
    """Rows as a .parquet, .jsonl or .json file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(table), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in table), encoding="utf-8")
    else:
        path.write_text(json.dumps(table), encoding="utf-8")
    return path


def refusal(*arguments, error=DataError, **options) -> str:
    """The one line with which loading is refused."""
    with pytest.raises(error) as caught:
        list(load(*arguments, **options))
    message = str(caught.value)
    assert "\n" not in message
    return message


# --- by name


def test_an_unknown_name_option_or_limit_is_refused():
    assert "use one of s_niah" in refusal("niah", error=ConfigError)
    assert "has no option 'lenghts'; it has lengths, variant" in refusal("s_niah", lenghts=[512], error=ConfigError)
    assert "limit" in refusal("s_niah", limit=0, error=ConfigError)


def test_what_cannot_be_generated_asks_for_a_source():
    assert "name a copy" in refusal("codeqa", error=ConfigError)
    assert "name a copy" in refusal("browsecomp_plus", error=ConfigError)


def test_a_sample_is_in_order_and_the_same_each_time():
    drawn = sample(range(100), 10, "0/x")
    assert drawn == sorted(set(drawn)) and len(drawn) == 10
    assert drawn == sample(range(100), 10, "0/x") != sample(range(100), 10, "1/x")
    assert sample([1, 2], 5, "0/x") == [1, 2] == sample([1, 2], None, "0/x")


# --- S-NIAH


@pytest.mark.parametrize("length", [256, 2**13, 2**17])
def test_the_context_is_as_long_as_asked_in_exact_tokens(length):
    for item in load("s_niah", None, 3, lengths=[length]):
        assert item.metadata["tokens"] == tokens.count(item.context)
        assert length - tokens.count(niah.NOISE + "\n") < item.metadata["tokens"] <= length


def essay(tmp_path) -> Path:
    text = "The bridge was built in a year of floods. Nobody knew who had paid for it! Was it the mayor?\n\nIt stood. " * 30
    path = tmp_path / "essay.txt"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("variant", ["niah_single_1", "niah_single_2", "niah_single_3"])
def test_there_is_one_needle_and_it_answers_the_question(tmp_path, variant):
    source = None if variant == "niah_single_1" else essay(tmp_path)
    form = r"[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}" if variant == "niah_single_3" else r"\d{7}"
    for item in load("s_niah", source, 5, lengths=[1024], variant=variant):
        key = re.search(r"for (\S+) mentioned", item.question)[1]
        assert re.fullmatch(r"[a-z]+-[a-z]+", key)
        assert item.context.count(key) == 1
        assert re.fullmatch(form, item.golds[0])
        assert f"s for {key} is: {item.golds[0]}.\n" in item.context
        assert score(item, f"It is {item.golds[0].upper()}.") == 1 and score(item, "It is 1.") == 0


def test_needles_lie_at_all_depths_and_where_it_is_said():
    found = list(load("s_niah", None, 60, lengths=[2048]))
    for item in found:
        lines = item.context.splitlines()
        place = next(number for number, line in enumerate(lines) if "special magic" in line)
        assert place == round((len(lines) - 1) * item.metadata["depth"] / 100)
    depths = [item.metadata["depth"] for item in found]
    assert min(depths) < 15 and max(depths) > 85 and len(set(depths)) > 20


def test_items_are_the_same_for_a_seed_and_differ_between_seeds_and_indices():
    first, again, other = (list(load("s_niah", None, 4, seed, lengths=[512, 1024])) for seed in (3, 3, 4))
    assert [(i.id, i.context, i.golds) for i in first] == [(i.id, i.context, i.golds) for i in again]
    assert len({i.id for i in first + other}) == 16
    assert len({i.golds for i in first + other}) == 16


def test_a_short_haystack_repeats_and_a_jsonl_of_articles_is_read(tmp_path):
    path = write(tmp_path / "articles.jsonl", [{"text": "Ada rowed. She sang."}, {"text": "Then it rained"}])
    context = next(load("s_niah", path, 1, lengths=[300])).context
    assert context.count("She sang.\n") > 10 and context.count("Then it rained\n") > 10


def test_text_without_full_stops_is_cut_into_lines(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("word " * 5000, encoding="utf-8")
    item = next(load("s_niah", path, 1, lengths=[1000]))
    assert 900 < item.metadata["tokens"] <= 1000


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("empty.txt", b" \n", "holds no text"),
        ("latin.txt", b"caf\xe9", "line 1: is not utf-8"),
        ("a.jsonl", b'{"title": "x"}\n', "line 1 has no text in the field 'text'"),
        ("a.jsonl", b'{"text": "x"}\n{"te', "line 2: is not JSON"),
    ],
)
def test_a_bad_haystack_is_named(tmp_path, name, content, says):
    (tmp_path / name).write_bytes(content)
    message = refusal("s_niah", tmp_path / name, lengths=[512])
    assert name in message and says in message


def test_a_haystack_and_its_variant_must_fit(tmp_path):
    assert "needs a text" in refusal("s_niah", variant="niah_single_3", error=ConfigError)
    assert "needs no source" in refusal("s_niah", essay(tmp_path), variant="niah_single_1", error=ConfigError)
    assert "use one of niah_single_1" in refusal("s_niah", variant="niah_multi", error=ConfigError)
    assert "use 256 or more" in refusal("s_niah", lengths=[100], error=ConfigError)
    assert "absent.txt" in refusal("s_niah", tmp_path / "absent.txt")


@with_data
def test_real_articles_make_a_haystack():
    item = next(load("s_niah", DATA / "wiki_enwiki_shortened/articles.jsonl", 1, lengths=[2**16]))
    assert 2**16 - 200 < item.metadata["tokens"] == tokens.count(item.context) <= 2**16
    assert item.context.count(item.golds[0]) == 1
