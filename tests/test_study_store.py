"""Recipes on disk, contexts built on demand and kept, lengths, token counts, and the export."""

import dataclasses
import gzip
import json
import statistics
import unicodedata

import pytest

from rlmlib.errors import DataError
from rlmlib.tasks.study import export, lengths, store, tokens
from rlmlib.tasks.study.recipe import Recipe, sha256


class Repeating:
    """A family whose contexts are a line many times; it counts how often it builds one."""

    name, notes = "coding", []

    def __init__(self, line="a line \U0001f600 \r of text\n"):
        self.line, self.built = line, 0

    def context(self, recipe):
        self.built += 1
        return self.line * recipe.parts["times"]

    def recipe(self, number, times, split="train"):
        text = self.line * times
        return Recipe(
            f"{split}-coding-{number:05d}",
            "coding",
            "count",
            split,
            "How many lines?",
            str(times),
            "number",
            {"times": times},
            tokens.count(text),
            sha256(text),
            metadata={"judge": False},
        )


@pytest.fixture
def family():
    return Repeating()


def test_recipes_come_back_as_they_were(tmp_path, family):
    recipes = [family.recipe(n, n + 1) for n in range(5)]
    store.write_recipes(tmp_path, recipes)
    assert store.read_recipes(tmp_path) == recipes


def test_no_recipes_is_one_clear_line(tmp_path):
    with pytest.raises(DataError, match=r"recipes.jsonl: is not there; `make dataset` builds it"):
        store.read_recipes(tmp_path)


def test_a_recipe_of_another_form_is_one_clear_line(tmp_path, family):
    store.write_recipes(tmp_path, [family.recipe(0, 1)])
    path = tmp_path / store.RECIPES
    path.write_text(path.read_text().replace('"tokens"', '"length"'))
    with pytest.raises(DataError, match="is not a recipes file .*length"):
        store.read_recipes(tmp_path)


def test_a_context_is_built_once_and_then_read(tmp_path, family):
    recipe = family.recipe(0, 40)
    contexts = store.ContextStore(tmp_path, {"coding": family})
    assert contexts.text(recipe) == contexts.text(recipe) == family.line * 40
    assert family.built == 1


def test_contexts_that_are_not_kept_leave_no_file(tmp_path, family):
    store.ContextStore(tmp_path, {"coding": family}, keep=False).text(family.recipe(0, 3))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("damage", [b"", b"not gzip at all", gzip.compress(b"another text")])
def test_a_damaged_file_is_built_again(tmp_path, family, damage):
    recipe = family.recipe(0, 40)
    contexts = store.ContextStore(tmp_path, {"coding": family})
    contexts.text(recipe)
    (tmp_path / f"contexts/{recipe.sha256}.txt.gz").write_bytes(damage)
    assert contexts.text(recipe) == family.line * 40
    assert family.built == 2


def test_changed_sources_are_noticed(tmp_path, family):
    recipe = family.recipe(0, 3)
    with pytest.raises(DataError, match="train-coding-00000: its sources give another context"):
        store.ContextStore(tmp_path, {"coding": Repeating("another line\n")}).text(recipe)


def test_parquet_holds_the_columns_of_the_study(tmp_path, family):
    import pyarrow.parquet as pq

    recipes = [family.recipe(n, n + 1) for n in range(export.ROWS_AT_ONCE + 3)]
    contexts = store.ContextStore(tmp_path / "built", {"coding": family})
    assert export.to_parquet(tmp_path / "train.parquet", export.rows(recipes, contexts.text)) == len(recipes)
    table = pq.read_table(tmp_path / "train.parquet")
    assert tuple(table.column_names) == export.COLUMNS
    first = table.slice(1, 1).to_pylist()[0]
    assert first["context"] == family.line * 2 and first["answer"] == "2" and first["context_token_count"] == recipes[1].tokens
    assert json.loads(first["metadata"]) == {"judge": False}


def test_dataset_dict_has_a_split_a_file(tmp_path, family, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    for split, count in (("train", 4), ("eval", 2)):
        recipes = [family.recipe(n, n + 1, split) for n in range(count)]
        export.to_parquet(tmp_path / f"{split}.parquet", export.rows(recipes, family.context))
    found = export.to_dataset_dict(tmp_path)
    assert {name: len(part) for name, part in found.items()} == {"train": 4, "eval": 2}
    assert found["eval"][1]["context"] == family.line * 2


def test_a_recipe_is_plain_json(family):
    json.dumps(dataclasses.asdict(family.recipe(0, 1)))


@pytest.mark.parametrize("seed", range(5))
def test_lengths_have_the_median_and_the_maximum_asked_for(seed):
    drawn = lengths.targets(547, 32_000, 437_000, 1_900_000, seed, "aggregation/train")
    assert abs(statistics.median(drawn) / 437_000 - 1) < 0.1
    assert max(drawn) == 1_900_000 and min(drawn) >= 32_000
    assert drawn == lengths.targets(547, 32_000, 437_000, 1_900_000, seed, "aggregation/train")
    assert drawn != lengths.targets(547, 32_000, 437_000, 1_900_000, seed, "aggregation/eval")


def test_summary_of_lengths():
    found = lengths.summary([5, 1, 3])
    assert (found["min"], found["median"], found["max"], found["total"], found["examples"]) == (1, 3, 5, 9, 3)
    assert lengths.summary([7])["p25"] == 7


def test_special_tokens_in_a_text_are_text():
    assert tokens.count("<|im_start|>") > 1


@pytest.mark.parametrize(
    "pieces",
    [
        ["### a\nbody   \n\n\n", "### b\n\tindented\r\n", "===== file: x.py =====\nx = 1\n"],
        ["Date: Oct 13, 2023 || User: 58633 || Instance: how far is it ?\n"] * 3,
        ["1\n", "2 \u00a0\n", "(c)\n", "caf\u00e9!\n"],
        [unicodedata.normalize("NFD", "\u00e9t\u00e9\n"), "# \u0301\n", "\U0001f600\n"],
    ],
)
def test_counts_add_up_over_parts_that_end_with_a_line_break(pieces):
    assert tokens.count("".join(pieces)) == sum(tokens.count(piece) for piece in pieces)
