"""Recipes on disk, contexts built on demand and kept, lengths, token counts, and the export."""

import dataclasses
import gzip
import json
import statistics
import tracemalloc
import unicodedata
from concurrent.futures import ThreadPoolExecutor

import pytest

from rlmlib.errors import DataError
from rlmlib.tasks.base import Example
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


def test_many_may_use_a_folder_at_once(tmp_path, family):
    recipes = [family.recipe(number, number + 1) for number in range(60)]
    stores = [store.ContextStore(tmp_path, {"coding": family}) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda contexts: [contexts.text(recipe) for recipe in recipes], stores)
        assert all(texts == [family.line * (number + 1) for number in range(60)] for texts in found)
    assert sorted(path.name for path in (tmp_path / "contexts").iterdir()) == sorted(f"{recipe.sha256}.txt.gz" for recipe in recipes)


def test_examples_do_not_hold_their_contexts(tmp_path, family):
    """What training does: it draws an example, reads its context, and keeps the example with the rollouts that it dropped."""
    recipes = [family.recipe(number, 2_000 + number) for number in range(60)]
    contexts, held, size = store.ContextStore(tmp_path, {"coding": family}), [], 4 * len(family.line) * 2_000  # four bytes a character
    tracemalloc.start()
    try:
        for recipe in recipes:
            made = Example(recipe.id, "coding", "count", "train", "?", store.Context(contexts, recipe), recipe.answer)
            assert len(made.context) == len(family.line) * recipe.parts["times"]
            assert made.context is made.context
            held.append(made)
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert kept < (store.RECENT + 1) * size * 1.1 < 0.2 * len(recipes) * size


def test_examples_of_a_recipe_are_equal(tmp_path, family):
    contexts = store.ContextStore(tmp_path, {"coding": family})
    one, same, other = (Example("a", "coding", "count", "train", "?", store.Context(contexts, family.recipe(0, n)), "1") for n in (1, 1, 2))
    assert one == same != other and len({one, same}) == 1


@pytest.mark.parametrize("damage", [b'{"id": "x"', b"\xff\xfe", b""])
def test_a_damaged_recipe_is_no_end_of_the_file(tmp_path, family, damage):
    store.write_recipes(tmp_path, [family.recipe(n, n + 1) for n in range(5)])
    path = tmp_path / store.RECIPES
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([*lines[:2], damage or lines[2][:9], *lines[3:]]))
    with pytest.raises(DataError, match="recipes.jsonl, line 3: is damaged"):
        store.read_recipes(tmp_path)
    path.write_bytes(b"\n".join(lines[:-1])[:-9])
    with pytest.raises(DataError, match="recipes.jsonl, line 5: is damaged"):
        store.read_recipes(tmp_path)


def test_contexts_that_are_not_kept_leave_no_file(tmp_path, family):
    store.ContextStore(tmp_path, {"coding": family}, keep=False).text(family.recipe(0, 3))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("damage", [b"", b"not gzip at all", gzip.compress(b"another text")])
def test_a_damaged_file_is_built_again(tmp_path, family, damage):
    recipe = family.recipe(0, 40)
    contexts = store.ContextStore(tmp_path, {"coding": family})
    contexts.text(recipe)
    (tmp_path / f"contexts/{recipe.sha256}.txt.gz").write_bytes(damage)
    assert store.ContextStore(tmp_path, {"coding": family}).text(recipe) == family.line * 40
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
