"""The coding family: gold answers twice over on real packages, exact lengths, contexts built again, splits that share nothing."""

import dataclasses
import json
import os
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path

import code_check
import pytest

from rlmlib.errors import DataError
from rlmlib.tasks.study import tokens
from rlmlib.tasks.study.coding.compose import split_packages
from rlmlib.tasks.study.coding.family import HELD_OUT, TEMPLATES, CodingFamily, phrasings_of
from rlmlib.tasks.study.recipe import sha256

TRAIN, EVAL = ["jinja2", "tqdm", "nbformat"], ["requests", "traitlets"]  # all of them needed by the notebooks
TARGETS = [20_000, 35_000, 60_000, 90_000, 110_000]
SHOP = {
    "__init__.py": "",
    "a.py": "class A: pass\nclass B(A): pass\nclass C(B): pass\ndef first(x, y=12): return x\n\n\n\n",
    "b.py": "import os\nRATES = {'a': 1, 'b': 2}\ndef second(x): return first(x)\n\n\nasync def third(): return second(second(1))\n",
}


@pytest.fixture(scope="module")
def family():
    return CodingFamily(TRAIN, EVAL)


@pytest.fixture(scope="module")
def recipes(family):
    return {split: list(family.recipes(split, TARGETS * 12, seed=3)) for split in ("train", "eval")}


@pytest.fixture(scope="module")
def contexts(family, recipes):
    return {recipe.id: family.context(recipe) for found in recipes.values() for recipe in found}


def each(recipes):
    return [*recipes["train"], *recipes["eval"]]


def write(folder: Path, files: dict[str, str] = SHOP) -> str:
    folder.mkdir(exist_ok=True)
    for path, text in files.items():
        (folder / path).write_text(text)
    return str(folder)


def test_an_independent_reading_of_the_context_gives_the_same_answers(recipes, contexts):
    wrong = [
        (recipe.id, recipe.metadata["target"], recipe.answer, found)
        for recipe in each(recipes)
        if (found := code_check.recompute(recipe.metadata, contexts[recipe.id])) != recipe.answer
    ]
    assert wrong == []


def test_lengths_are_exact_and_near_their_targets(recipes, contexts):
    for recipe, target in zip(each(recipes), TARGETS * 24, strict=True):
        assert abs(recipe.tokens / target - 1) < 0.05
        assert sha256(contexts[recipe.id]) == recipe.sha256
    for recipe in each(recipes)[::17]:
        assert tokens.count(contexts[recipe.id]) == recipe.tokens


def test_files_stand_in_the_order_of_their_paths(contexts):
    for context in contexts.values():
        paths = list(code_check.split_files(context))
        assert paths == sorted(paths)


def test_recipes_are_plain_data_with_ids_of_their_own(recipes):
    for recipe in each(recipes):
        assert json.loads(json.dumps(dataclasses.asdict(recipe)))["parts"] == recipe.parts
        assert recipe.metadata["python"].startswith("3.") and all(item["version"] for item in recipe.metadata["codebases"])
    assert len({recipe.id for recipe in each(recipes)}) == len(each(recipes))


def test_no_question_is_asked_twice(recipes):
    for found in recipes.values():
        assert len({(recipe.question.split("?")[0], recipe.answer, recipe.sha256) for recipe in found}) == len(found)


def test_templates_are_in_balance_and_some_are_for_eval_only(recipes):
    for split, found in recipes.items():
        used = Counter(recipe.metadata["template"] for recipe in found)
        held_out = {recipe.metadata["template"] for recipe in found if recipe.metadata["held_out_template"]}
        assert held_out == HELD_OUT & set(used) and (len(held_out) >= 4 if split == "eval" else not held_out)
        assert len(used) >= 20  # a small package has nothing to ask for some
        weights = {template.id: template.weight for template in TEMPLATES}
        fair = len(found) / sum(weights[id_] for id_ in used)
        assert all(count <= 1.5 * fair * weights[id_] + 1 for id_, count in used.items())
        over_many = sum(count for id_, count in used.items() if weights[id_] == 2)
        assert over_many > 0.35 * len(found)


def test_answers_are_of_their_kind_and_seldom_easy(recipes):
    for recipe in each(recipes):
        if recipe.answer_type in ("set", "list", "lines"):
            items = json.loads(recipe.answer)
            assert items and all(isinstance(item, int if recipe.answer_type == "lines" else str) for item in items)
            assert recipe.answer_type == "list" or items == sorted(set(items))
        elif recipe.answer_type == "number":
            assert recipe.answer.isdigit()
    assert sum(recipe.answer in ("0", "1") for recipe in each(recipes)) < 0.08 * len(each(recipes))


def test_the_splits_share_no_file(recipes, contexts):
    files = {split: {path for recipe in found for path in code_check.split_files(contexts[recipe.id])} for split, found in recipes.items()}
    assert files["train"] and files["eval"] and not files["train"] & files["eval"]
    assert {path.split("/")[0] for path in files["eval"]} == set(EVAL)


def test_a_long_context_joins_codebases(recipes):
    assert {len(recipe.metadata["codebases"]) for recipe in recipes["train"]} >= {1, 2}


def test_recipes_are_the_same_in_every_process(tmp_path):
    spec = write(tmp_path / "shop")
    script = (
        "from rlmlib.tasks.study.coding.family import CodingFamily\n"
        f"family = CodingFamily(['colorsys', 'soupsieve'], [{spec!r}])\n"
        "found = [r for split in ('train', 'eval') for r in family.recipes(split, [20_000] * 9, 1)]\n"
        "print([(r.id, r.question, r.answer, r.sha256) for r in found])"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script], env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1 and "coding-eval-1-0008" in outputs.pop()


def test_contexts_are_built_by_another_family_of_the_same_codebases(family, recipes, contexts):
    other = CodingFamily(["six", *EVAL], TRAIN)
    for recipe in each(recipes)[::11]:
        assert other.context(recipe) == contexts[recipe.id]


def test_a_changed_codebase_is_named(tmp_path):
    spec = write(tmp_path / "shop")
    (recipe,) = CodingFamily([spec], []).recipes("train", [400], 0)
    assert CodingFamily([], [spec]).context(recipe).count("===== file: ") == 3
    write(tmp_path / "shop", {"b.py": SHOP["b.py"].replace("12", "13") + "x = 1\n"})
    with pytest.raises(DataError, match=f"{recipe.id}.*'shop'") as caught:
        CodingFamily([spec], []).context(recipe)
    assert "\n" not in str(caught.value)


def test_another_version_and_a_missing_codebase_are_named(family, recipes):
    recipe = recipes["train"][0]
    name = recipe.parts["codebases"][0]["name"]
    old = [part | {"version": "0.0.1"} for part in recipe.parts["codebases"]]
    with pytest.raises(DataError, match=f"'{name}' has version .*, the recipe was made of 0.0.1"):
        family.context(dataclasses.replace(recipe, parts=recipe.parts | {"codebases": old}))
    with pytest.raises(DataError, match=f"'{name}' is not among those given"):
        CodingFamily([], ["six"]).context(recipe)
    for parts in ({}, {"seed": 1, "codebases": [{"name": "six"}]}, {"seed": 1, "codebases": None}):
        with pytest.raises(DataError, match="field parts"):
            family.context(dataclasses.replace(recipe, parts=parts))


def test_a_codebase_is_given_once(tmp_path):
    with pytest.raises(DataError, match="both called 'six'"):
        CodingFamily(["six"], ["six"])
    with pytest.raises(DataError, match="both called 'shop'"):
        CodingFamily([write(tmp_path / "shop")], [str(tmp_path / "other/shop")])


def test_a_file_is_in_one_codebase(tmp_path):
    with zipfile.ZipFile(tmp_path / "copy-1-py3-none-any.whl", "w") as archive:
        archive.writestr("six.py", "x = 1\n")
    with pytest.raises(DataError, match="six.py is in codebases 'copy' and 'six'"):
        list(CodingFamily(["six", str(tmp_path / "copy-1-py3-none-any.whl")], []).recipes("train", [1_000], 0))


def test_no_codebase_or_no_question_is_one_clear_error(tmp_path):
    with pytest.raises(DataError, match="no codebase for split 'eval'"):
        list(CodingFamily(["six"], []).recipes("eval", [1_000], 0))
    with pytest.raises(DataError, match="no question found"):
        list(CodingFamily([write(tmp_path / "shop")], []).recipes("train", [1], 0))
    with pytest.raises(DataError, match="no package of this import name"):
        list(CodingFamily(["no_such_package"], []).recipes("train", [1_000], 0))


def test_notes_say_what_was_left_out(tmp_path):
    spec = write(tmp_path / "shop", SHOP | {"old.py": "print 1\n", "test_a.py": "x = 1\n"})
    family = CodingFamily([spec], [])
    assert family.notes == [] and family.available("train") > 50
    assert [note.split("left out ")[1] for note in family.notes] == [
        "1 files that this Python cannot parse (first: shop/old.py)",
        "1 tests (first: shop/test_a.py)",
    ]


def test_packages_are_split_by_their_names_alone(tmp_path):
    names = [f"p{n}" for n in range(200)]
    train, evaluation = split_packages(names, 0)
    assert sorted(train + evaluation) == sorted(names) and 0.15 < len(evaluation) / 200 < 0.3
    assert split_packages(names[::-1], 0) == (train, evaluation) != split_packages(names, 1)
    for left_out in range(0, 200, 13):
        rest = names[:left_out] + names[left_out + 1 :]
        assert split_packages(rest, 0) == tuple([name for name in side if name in rest] for side in (train, evaluation))
    here, there = (split_packages([str(folder / name) for name in names], 0)[1] for folder in (tmp_path, Path("/elsewhere")))
    assert [Path(spec).name for spec in here] == [Path(spec).name for spec in there] == evaluation


@pytest.mark.parametrize("seed", range(8))
def test_neither_split_is_empty(seed):
    assert all(split_packages(["json", "email"], seed)) and all(split_packages(["json", "email", "xml"], seed, eval_share=0.0))


def test_functions_that_both_splits_hold_are_noted(tmp_path):
    body = "".join(f"    x = {n}\n" for n in range(12))
    one = write(tmp_path / "one", {"a.py": f"def first():\n{body}"})
    other = write(tmp_path / "other", {"b.py": "class C:\n    def first():\n" + "".join(f"    {line}\n" for line in body.splitlines())})
    family = CodingFamily([one], [other])
    assert family.available("train") and family.available("eval")
    assert family.notes == ["functions of 10 lines or more in both splits: 1 (one/a.py:1 and other/b.py:2)"]


def test_no_wording_is_of_both_splits():
    for template in TEMPLATES:
        sides = [
            set() if split == "train" and template.id in HELD_OUT else set(phrasings_of(template, split)) for split in ("train", "eval")
        ]
        assert sides[1] and not sides[0] & sides[1]


def test_a_codebase_without_python_is_left_out_with_a_warning(tmp_path):
    family = CodingFamily([write(tmp_path / "shop"), write(tmp_path / "bare", {"notes.txt": "none"})], [])
    assert list(family.recipes("train", [400], 0))
    (warning,) = family.warnings
    assert warning.startswith("left out: codebase") and "bare" in warning and "no Python file" in warning
