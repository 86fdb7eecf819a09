"""The aggregation family: contexts that are built again to the byte, exact tokens, splits by text, and answers read a second time."""

import dataclasses
import json
import os
import random
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from aggregation_check import LINE, recompute
from aggregation_support import invented
from hypothesis import given, settings
from hypothesis import strategies as st

from rlmlib.errors import ConfigError, DataError
from rlmlib.tasks.sources.classification import KnownSet, LabelledSet, Record, read_records, text_id
from rlmlib.tasks.sources.classification_formats import FORMATS
from rlmlib.tasks.study import tokens
from rlmlib.tasks.study.aggregation import AggregationFamily
from rlmlib.tasks.study.aggregation.pool import Pool
from rlmlib.tasks.study.aggregation.records import Post, line, line_tokens, posts
from rlmlib.tasks.study.recipe import sha256

ROOT = Path(__file__).parents[1]
TARGETS = [round(1_000 * 20 ** (place / 79)) for place in range(80)]  # 1,000 to 20,000 tokens


def sets() -> list[LabelledSet]:
    return [invented("few", 2, 400), invented("many", 30, 1500), invented("long", 6, 300, words=(30, 90)), invented("trec", 4, 500)]


def table(found: LabelledSet) -> dict[str, str]:
    return {record.text: record.label for record in found.records}


@pytest.fixture(scope="module")
def family():
    return AggregationFamily(sets())


@pytest.fixture(scope="module")
def made(family):
    """Pairs of recipe and context, of both splits."""
    recipes = [recipe for split in ("train", "eval") for recipe in family.recipes(split, TARGETS, seed=3)]
    return [(recipe, family.context(recipe)) for recipe in recipes]


def lines(context: str) -> list[str]:
    return context.partition("\n\n")[2].splitlines()


def texts(context: str) -> list[str]:
    return [LINE.fullmatch(found)[3].partition(" || Label: ")[0] for found in lines(context)]


# --- built again


def test_contexts_are_those_of_their_recipes(made):
    assert len(made) == 2 * len(TARGETS)
    for recipe, context in made:
        assert sha256(context) == recipe.sha256
        assert tokens.count(context) == recipe.tokens


def test_a_new_family_builds_the_same_from_json(made):
    family = AggregationFamily(sets(), labels={"shown": 1}, seed=5)  # neither its shares nor its seed matter here
    for recipe, context in made[::7]:
        read = dataclasses.replace(recipe, parts=json.loads(json.dumps(recipe.parts)))
        assert family.context(read) == context


def test_the_same_in_another_process(made):
    code = (
        "from test_study_aggregation import *\n"
        "family = AggregationFamily(sets())\n"
        "for split in ('train', 'eval'):\n"
        "    for recipe in family.recipes(split, TARGETS[:30], seed=3): print(repr((recipe.sha256, recipe.question, recipe.answer)))\n"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "77", "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    expected = [repr((r.sha256, r.question, r.answer)) for r, _ in made[:30] + made[len(TARGETS) : len(TARGETS) + 30]]
    assert done.stdout.splitlines() == expected


def test_a_recipe_depends_on_seed_and_place_only(family, made):
    one = next(family.recipes("train", TARGETS[:1], seed=3))
    assert one == made[0][0]
    assert next(family.recipes("train", TARGETS[:1], seed=4)).sha256 != one.sha256
    assert len({recipe.id for recipe, _ in made}) == len(made)


# --- answers


def test_answers_by_a_second_reading(family, made):
    for recipe, context in made:
        assert recompute(recipe.metadata, context, table(family.sets[recipe.metadata["set"]])) == recipe.answer, recipe


def test_the_second_reading_sees_a_wrong_answer(family, made):
    """One record under another label, in turn: numbers change."""
    recipe, context = next((r, c) for r, c in made if r.metadata["variant"] == "shown" and r.task == "count_of_label_of_user")
    asked = recipe.metadata["asked"]
    own = f"(User: {asked['user']} .* Label: ){asked['label']}$"
    other = next(label for label in family.sets[recipe.metadata["set"]].labels if label != asked["label"])
    changed = re.sub(own, rf"\g<1>{other}", context, count=1, flags=re.MULTILINE)
    assert recompute(recipe.metadata, changed) == str(int(recipe.answer) - 1)


def test_questions_are_static_of_all_groups_and_ask_for_the_bare_answer(made):
    assert {recipe.metadata["task_group"] for recipe, _ in made} == {"counting", "user", "timeline"}
    assert len({recipe.task for recipe, _ in made}) >= 20
    for recipe, _ in made:
        assert recipe.family == "aggregation"
        assert recipe.metadata["judge"] is False
        assert recipe.answer not in ("", "0", "1")
        assert re.search(r"only[.,]|bare|nothing but|just one of these", recipe.question)
        assert recipe.answer_type in ("number", "label", "date", "choice")
        if recipe.answer_type == "number":
            assert recipe.answer.isdigit()


def test_what_is_asked_stands_in_the_question(made):
    for recipe, _ in made:
        for key, value in recipe.metadata["asked"].items():
            shown = recipe.metadata["variant"] != "semantic"
            if key in ("user", "date", "until", "month", "number") or (key in ("label", "other") and shown):
                assert str(value) in recipe.question
            if key == "users" or (key == "labels" and shown):
                assert all(str(one) in recipe.question for one in value)


# --- variants


def test_shares_of_variants(family):
    counts = Counter(recipe.metadata["variant"] for recipe in family.recipes("train", [1_000] * 300, seed=1))
    assert all(70 <= counts[variant] <= 130 for variant in ("shown", "hidden", "semantic"))
    for variant in ("shown", "hidden", "semantic"):
        only = AggregationFamily(sets(), labels={variant: 2.0})
        assert {recipe.metadata["variant"] for recipe in only.recipes("eval", TARGETS[:10], seed=1)} == {variant}


def test_labels_stand_where_they_may(family, made):
    for recipe, context in made:
        variant, labels = recipe.metadata["variant"], family.sets[recipe.metadata["set"]].labels
        head = context.partition("\n\n")[0]
        assert all(found.count("||") == (3 if variant == "shown" else 2) for found in lines(context))
        assert all((f'"{label}"' in head) == (variant != "semantic") for label in labels)
        if variant == "semantic":
            assert "label '" not in recipe.question
        elif recipe.answer_type == "label" and "user" not in recipe.task and "compare" not in recipe.task:
            assert recipe.answer in labels


def test_hidden_numbers_rest_on_few_records(family):
    """Nobody reads all of a long context without an error."""
    hidden = AggregationFamily(sets(), labels={"hidden": 1, "semantic": 1}, exact=25)
    checked = Counter()
    for recipe in hidden.recipes("train", [12_000] * 150, seed=2):
        if recipe.answer_type != "number":
            continue
        asked, found = recipe.metadata["asked"], [LINE.fullmatch(one) for one in lines(hidden.context(recipe))]
        users = {str(user) for user in asked.get("users", [asked["user"]] if "user" in asked else [])}
        checked["users" if users else "days"] += 1
        assert int(recipe.answer) <= 25
        if users:
            assert sum(one[2] in users for one in found) <= 25
    assert min(checked["users"], checked["days"]) > 10


# --- records


def test_lengths_are_as_near_as_whole_lines_allow(family, made):
    for (recipe, context), target in zip(made, TARGETS * 2, strict=True):
        longest = max(tokens.count(found + "\n") for found in lines(context))
        if recipe.metadata["n_records"] > 20:
            assert abs(recipe.tokens - target) <= longest / 2 + 2


def test_a_text_is_of_one_split_for_good(family):
    seen = {
        split: {text for recipe in family.recipes(split, [15_000] * 30, seed=8) for text in texts(family.context(recipe))}
        for split in ("train", "eval")
    }
    assert not seen["train"] & seen["eval"]
    assert 0.15 < len(seen["eval"]) / (len(seen["eval"]) + len(seen["train"])) < 0.35


def test_two_sets_with_the_same_texts_split_alike():
    one = invented("one", 3, 300)
    other = LabelledSet("other", tuple(Record(text_id(r.text.upper()), r.text.upper(), r.label) for r in one.records), one.labels)
    for seed in (0, 1):
        held = [{r.id for rs in Pool(found, "eval", seed).by_label.values() for r in rs} for found in (one, other)]
        assert held[0] == held[1]
        assert 40 < len(held[0]) < 95
    assert held[0] != {r.id for rs in Pool(one, "eval", 0).by_label.values() for r in rs}


def test_users_dates_and_labels_are_unequal():
    pool = Pool(invented("many", 12, 1500), "train", 0)
    for seed in "abcdef":
        source = posts(pool, seed, 200)
        drawn = [next(source) for _ in range(6_000)]
        by_user = [count for _, count in Counter(post.user for post in drawn).most_common()]
        assert 0.75 < sum(by_user[:40]) / 6_000 < 0.88
        assert all(10_000 <= post.user <= 99_999 for post in drawn)
        days = [post.day for post in drawn]
        assert 330 < (max(days) - min(days)).days <= 730
        labels = Counter(post.label for post in drawn)
        assert max(labels.values()) > 1.2 * min(labels.values())


def test_label_frequencies_are_not_those_of_the_set():
    pool = Pool(invented("many", 5, 1500), "train", 0)
    tops = Counter()
    for seed in range(60):
        source = posts(pool, str(seed), 50)
        tops[Counter(next(source).label for _ in range(400)).most_common(1)[0][0]] += 1
    assert len(tops) == 5
    assert max(tops.values()) < 30


def test_texts_come_again_only_when_their_label_has_no_other():
    pool = Pool(invented("few", 3, 200), "train", 0)
    source = posts(pool, "any", 30)
    counts = {label: Counter() for label in pool.labels}
    for _ in range(1_000):
        post = next(source)
        counts[post.label][post.text] += 1
    for label, of_texts in counts.items():
        assert max(of_texts.values()) > 1
        if len(of_texts) == len(pool.by_label[label]):
            assert max(of_texts.values()) - min(of_texts.values()) <= 1


def test_large_targets_go_to_large_sets():
    family = AggregationFamily([invented("small", 3, 150), invented("large", 3, 6000)])
    short = Counter(recipe.metadata["set"] for recipe in family.recipes("train", [1_200] * 60, seed=1))
    long = Counter(recipe.metadata["set"] for recipe in family.recipes("train", [90_000] * 30, seed=1))
    assert short["small"] > 15
    assert long["small"] < 8


def test_no_set_is_stretched_too_far():
    family = AggregationFamily([invented("small", 3, 60), invented("large", 3, 600)])
    most = {split: family.available(split) for split in ("train", "eval")}
    assert most["train"] > 2.5 * most["eval"] > 20_000
    for split in most:
        for recipe in family.recipes(split, [most[split], most[split] * 2], seed=1):
            assert recipe.metadata["set"] == "large"
            repeated = Counter(texts(family.context(recipe)))
            assert repeated.total() / len(repeated) < 40
    sizes = [recipe.metadata["set"] for recipe in family.recipes("eval", [most["eval"] // 2] * 10, seed=1)]
    assert set(sizes) == {"large"}


def test_tiny_targets_still_give_a_question(family):
    for recipe in family.recipes("eval", [1] * 40, seed=1):
        assert recipe.metadata["n_records"] == 20


@settings(max_examples=150, deadline=None)
@given(st.text(min_size=1, max_size=40), st.sampled_from(["Sci/Tech", "a_b", "don't", "7", "é"]), st.sampled_from(["shown", "hidden"]))
def test_tokens_of_lines_add_up(raw, label, variant):
    """Whatever the text: with marks, digits, any script."""
    text = " ".join(raw.encode("utf-8", "replace").decode().split()) or "x"
    pool = Pool(LabelledSet("any", (Record("0", "x", "a"),), ("a",)), "train", 0)
    rng = random.Random(raw)
    drawn = [Post(one, label, rng.randint(10_000, 99_999), day) for one, day in zip((text, "plain", text), DAYS, strict=False)]
    context = "".join(line(post, variant) for post in drawn)
    assert sum(line_tokens(pool, post, variant) for post in drawn) == tokens.count(context)


DAYS = [post.day for post, _ in zip(posts(Pool(invented("few", 2, 60), "train", 0), "days", 5), range(3), strict=False)]


# --- bad data


def test_a_changed_or_missing_set_is_named(made):
    recipe, _ = next((r, c) for r, c in made if r.metadata["set"] == "few")
    found = sets()[0]
    changed = LabelledSet("few", (*found.records[:-1], found.records[-1]._replace(label=found.labels[0] + "x")), found.labels)
    with pytest.raises(DataError, match=f"{recipe.id}: its set few has changed"):
        AggregationFamily([LabelledSet("few", changed.records, (*found.labels, found.labels[0] + "x"))]).context(recipe)
    with pytest.raises(DataError, match=f"{recipe.id}: its set few is not there"):
        AggregationFamily([sets()[1]]).context(recipe)


def test_sets_that_cannot_be_used_are_named():
    with pytest.raises(DataError, match="no labelled set"):
        AggregationFamily([])
    with pytest.raises(DataError, match=r"tiny: has \d+ records of \d labels for"):
        AggregationFamily([invented("tiny", 2, 3)])
    bars = LabelledSet("bars", invented("bars", 2, 50).records, ("a||b", "c"))
    with pytest.raises(DataError, match=r"bars: a label holds '\|\|'"):
        AggregationFamily([bars])
    with pytest.raises(ConfigError, match="same name"):
        AggregationFamily([invented("one", 2, 50), invented("one", 2, 60)])


@pytest.mark.parametrize("labels", [{}, {"shown": 0.0}, {"shown": -1.0, "hidden": 2.0}, {"seen": 1.0}])
def test_shares_that_are_none(labels):
    with pytest.raises(ConfigError, match="aggregation: labels"):
        AggregationFamily(sets()[:1], labels=labels)


def test_demands_on_the_reader_are_checked():
    for wrong in ({"exact": 0}, {"lead": -0.1}):
        with pytest.raises(ConfigError, match="aggregation: exact"):
            AggregationFamily(sets()[:1], **wrong)


def test_notes_say_what_is_not_used():
    found = invented("bars", 2, 80)
    records = (*found.records, Record("f" * 16, "left || right", found.labels[0]), Record("e" * 16, "alone", "rare"))
    family = AggregationFamily([LabelledSet("bars", records, (*found.labels, "rare"), found.left_out)])
    assert "bars: a note" in family.notes
    assert "bars: 1 texts not used that hold '||'" in family.notes
    assert any(re.fullmatch(r"bars: no records for (train|eval) of the labels rare", note) for note in family.notes)
    for recipe in family.recipes("train", [3_000] * 10, seed=0):
        assert "left || right" not in family.context(recipe)


# --- the real sets

DATA = os.environ.get("RLM_DATA")
FOLDERS = {
    "mr": "sentiment",
    "subj": "sentiment",
    "cr": "sentiment",
    "mpqa": "sentiment",
    "sst2": "sentiment",
    "emotion": "tweeteval_emotion",
}


@pytest.mark.skipif(not DATA, reason="RLM_DATA is not set")
def test_answers_on_real_sets_by_a_second_reading():
    real = [read_records(KnownSet(name, Path(DATA) / FOLDERS.get(name, name))) for name in FORMATS]
    family, rng = AggregationFamily(real), random.Random(1)
    targets = [round(2_000 * 20 ** rng.random()) for _ in range(150)]
    for split in ("train", "eval"):
        for number, recipe in enumerate(family.recipes(split, targets, seed=11)):
            context = family.context(recipe)
            assert sha256(context) == recipe.sha256
            assert recompute(recipe.metadata, context, table(family.sets[recipe.metadata["set"]])) == recipe.answer, recipe
            if number % 10 == 0:
                assert tokens.count(context) == recipe.tokens
