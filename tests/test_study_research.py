"""The deep research family: recipes to token targets, contexts built again from them, sources that changed, splits."""

import dataclasses
import gzip
import json
import os
import random
import re
from collections import Counter
from pathlib import Path

import pytest
import research_check

from rlmlib.errors import DataError
from rlmlib.tasks.sources.documents import FileSource
from rlmlib.tasks.sources.frames import FramesRow, read_frames, titles
from rlmlib.tasks.study import tokens
from rlmlib.tasks.study.recipe import Recipe, sha256
from rlmlib.tasks.study.research.family import ResearchFamily
from rlmlib.tasks.study.research.kinds import HELD_OUT, KINDS
from rlmlib.tasks.study.research.pages import PageStore

DATA = os.environ.get("RLM_DATA")
WIKI = "https://en.wikipedia.org/wiki/"
VOCABULARY = "boat cloud field glass green iron lamp market moss north paper quiet rain rope salt stone table tower wind wool".split()


def prose(seed, low=30, high=400):
    rng = random.Random(seed)
    return " ".join(rng.choices(VOCABULARY, k=rng.randint(low, high))).capitalize() + f" {seed}."


def c4_like(path, count, seed):
    rows = [{"text": prose(f"{seed} {i}"), "timestamp": "2019-04-25", "url": f"https://{seed}{i}.test/"} for i in range(count)]
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode(), mtime=0))
    return FileSource(path)


def articles(path, names):
    path.write_text("".join(json.dumps({"title": name, "url": WIKI + name, "text": prose(name)}) + "\n" for name in names))
    return FileSource(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("research")


@pytest.fixture(scope="module")
def sources(folder):
    """97,418 tokens of distractors in two files."""
    c4 = c4_like(folder / "c4-train.00000-of-01024.json.gz", 360, "web")
    return [c4, articles(folder / "articles.jsonl", [f"Article {i}" for i in range(60)] + ["Page 3", "Page 8"])]


def questions(count):
    """Question i is about two pages of a run of five, so that the four questions of a run are connected."""
    pages = [(f"{WIKI}Page_{i + i // 4}", f"{WIKI}Page_{i + i // 4 + 1}") for i in range(count)]
    return [FramesRow(f"{i}", f"Question {i}?", f"Answer {i}", links, ("Tabular reasoning",)) for i, links in enumerate(pages)]


@pytest.fixture(scope="module")
def rows():
    return questions(60)


@pytest.fixture(scope="module")
def store(folder, rows):
    """All pages but number 21, which questions 16 and 17 are about."""
    names = sorted({title for row in rows for title in titles(row)} - {"Page 21"})
    return PageStore([articles(folder / "frames pages.jsonl", names)], [title for row in rows for title in titles(row)], folder / "cache")


@pytest.fixture(scope="module")
def generated(folder, sources):
    return ResearchFamily(distractors=sources, cache=folder / "cache", longest=80_000)


@pytest.fixture(scope="module")
def framed(folder, sources, rows, store):
    return ResearchFamily(rows, store, sources, cache=folder / "cache", longest=80_000)


TARGETS = [30_000, 22_000, 60_000, 25_000]


@pytest.fixture(scope="module")
def made(generated):
    return {split: list(generated.recipes(split, TARGETS, 11)) for split in ("train", "eval")}


@pytest.fixture(scope="module")
def made_of_frames(framed):
    return {split: list(framed.recipes(split, [4_000 + 100 * i for i in range(count)], 5)) for split, count in (("train", 12), ("eval", 6))}


def everything(*groups):
    return [recipe for group in groups for recipes in group.values() for recipe in recipes]


# --- recipes and contexts


def test_contexts_are_built_again_and_counts_are_exact(generated, framed, made, made_of_frames):
    for family, group in ((generated, made), (framed, made_of_frames)):
        for recipe in everything(group):
            context = family.context(recipe)
            assert sha256(context) == recipe.sha256 and tokens.count(context) == recipe.tokens


def test_targets_are_met_as_nearly_as_whole_pages_allow(made, made_of_frames):
    for recipes in made.values():
        assert [abs(recipe.tokens - target) <= 30 for recipe, target in zip(recipes, TARGETS, strict=True)] == [True] * 4
    for recipes in made_of_frames.values():
        assert all(abs(recipe.tokens - 4_000 - 100 * i) <= 30 for i, recipe in enumerate(recipes) if recipe.task == "frames")


def test_recipes_are_plain_json(made, made_of_frames):
    for recipe in everything(made, made_of_frames):
        row = json.loads(json.dumps(dataclasses.asdict(recipe)))
        assert Recipe(**{**row, "acceptable": tuple(row["acceptable"])}) == recipe
    ids = [recipe.id for recipe in everything(made)]
    assert len(set(ids)) == len(ids)


def test_recipes_depend_on_the_arguments_alone(folder, sources, generated, made):
    again = ResearchFamily(distractors=sources, cache=folder / "another cache", longest=80_000)
    assert list(again.recipes("train", TARGETS, 11)) == made["train"]
    assert list(generated.recipes("train", TARGETS[:2], 11)) == made["train"][:2]
    other = list(generated.recipes("train", TARGETS[:2], 12))
    assert not {recipe.question for recipe in other} & {recipe.question for recipe in made["train"]}


def test_contexts_are_whole_pages_at_random_places(generated, made):
    whole = {prose(f"web {i}") for i in range(360)} | {prose(f"Article {i}") for i in range(60)} | {prose("Page 3"), prose("Page 8")}
    places = []
    for recipe in everything(made):
        pages = research_check.pages(generated.context(recipe))
        order = list(pages)
        places += [order.index(title) / len(order) for title in recipe.metadata["gold_pages"]]
        assert sum(text.strip() in whole for text in pages.values()) == recipe.metadata["distractors"]
        assert len(order) == recipe.metadata["world_pages"] + recipe.metadata["distractors"]
    assert 0.3 < sum(places) / len(places) < 0.7 and min(places) < 0.2 and max(places) > 0.8


# --- generated questions


def test_generated_questions_are_answered_by_a_second_reader(generated, made):
    for recipe in everything(made):
        found = research_check.answer_of(generated.context(recipe), recipe.metadata["query"])
        assert found == research_check.parsed(recipe.answer)


def test_generated_recipes_say_what_they_are(generated, made):
    for recipe in everything(made):
        told = recipe.metadata
        assert recipe.family == "research" and recipe.task in {**KINDS, **HELD_OUT}
        assert told["generated"] is True and told["judge"] is False and told["held_out_template"] is (recipe.task in HELD_OUT)
        assert told["gold_pages"] == recipe.parts["gold"] and told["n_pages"] == len(told["gold_pages"]) >= 2
        assert told["shared_distractors"] is True and recipe.parts["side"] == "shared"
    assert any("train and eval share them" in note for note in generated.warnings)


def test_held_out_kinds_are_asked_in_eval_only(generated):
    kinds = {split: {recipe.task for recipe in generated.recipes(split, [16_000] * 44, 2)} for split in ("train", "eval")}
    assert kinds["train"] == set(KINDS) and kinds["eval"] == {*KINDS, *HELD_OUT}


def test_share_of_near_distractors_is_as_asked(folder, sources):
    worlds = {}
    for near in (0.3, 0.6):
        family = ResearchFamily(distractors=sources, cache=folder / "cache", longest=80_000, near=near)
        [recipe] = family.recipes("train", [80_000], 1)
        worlds[near] = (80_000 - recipe.parts["budget"]) / 80_000
    assert worlds == pytest.approx({0.3: 0.3, 0.6: 0.6}, abs=0.1)


# --- FRAMES


def test_frames_questions_come_with_all_their_pages(framed, made_of_frames, rows):
    by_question = {row.prompt: row for row in rows}
    seen = Counter()
    for recipe in everything(made_of_frames):
        if recipe.task != "frames":
            continue
        row = by_question[recipe.question]
        pages = research_check.pages(framed.context(recipe))
        assert all(pages[title].strip() == prose(title) for title in titles(row))
        assert (recipe.answer, recipe.answer_type, recipe.metadata["n_pages"]) == (row.answer, "text", 2)
        assert recipe.metadata["reasoning_types"] == ["Tabular reasoning"] and recipe.metadata["judge"] is True
        seen[row.id] += 1
    assert len(seen) >= 15 and set(seen.values()) == {1}


def test_pages_of_a_split_are_in_no_context_of_the_other(framed, made_of_frames):
    pages = {}
    for split, recipes in made_of_frames.items():
        found = [set(research_check.pages(framed.context(recipe))) for recipe in recipes]
        pages[split] = {title for titles_ in found for title in titles_ if title.startswith("Page ")}
    assert pages["train"] and pages["eval"] and not pages["train"] & pages["eval"]


def test_questions_without_all_pages_are_left_out_and_counted(framed, made_of_frames):
    missing = [f"Question {i}?" for i in (16, 17)]
    assert not any(recipe.question in missing for recipe in everything(made_of_frames))
    assert any(re.match(r"frames: 2 of 60 questions left out, as their pages are not all there", note) for note in framed.warnings)
    assert any("2 pages left out, as FRAMES questions are about them" in note for note in framed.notes)


def test_more_targets_than_questions_are_filled_with_generated_ones(framed):
    recipes = list(framed.recipes("eval", [16_000] * 40, 3))
    kinds = Counter(recipe.task == "frames" for recipe in recipes)
    assert kinds[True] >= 4 and kinds[False] >= 4
    assert len({recipe.question for recipe in recipes}) == 40


def test_a_question_gets_a_target_that_its_pages_fit_in(framed):
    recipes = list(framed.recipes("train", [100, 3_000, 100, 3_000], 3))
    assert [recipe.task == "frames" for recipe in recipes] == [False, True, False, True]
    assert all(recipe.tokens > 100 and recipe.metadata["distractors"] == 0 for recipe in recipes[::2])


# --- sources


def test_large_pools_are_split(folder):
    family = ResearchFamily(distractors=[c4_like(folder / "large.json.gz", 500, "large")], cache=folder / "cache", longest=20_000)
    contexts = {split: [family.context(r) for r in family.recipes(split, [20_000, 18_000], 1)] for split in ("train", "eval")}
    texts = {split: {text for context in found for text in research_check.pages(context).values()} for split, found in contexts.items()}
    assert not texts["train"] & texts["eval"]
    [recipe] = family.recipes("eval", [20_000], 1)
    assert recipe.metadata["shared_distractors"] is False and recipe.parts["side"] == "eval"
    assert not any("share" in note for note in family.warnings)


def test_a_changed_source_is_named(tmp_path):
    source = c4_like(tmp_path / "web.json.gz", 120, "a")
    [recipe] = ResearchFamily(distractors=[source], cache=tmp_path, longest=20_000).recipes("train", [18_000], 1)
    c4_like(tmp_path / "web.json.gz", 121, "a")
    changed = ResearchFamily(distractors=[source], cache=tmp_path, longest=20_000)
    with pytest.raises(DataError, match=r"recipe research-train-1-00000: web.json.gz has changed since \(sha256 \w{12}, now \w{12}\)"):
        changed.context(recipe)


def test_a_source_too_few_or_too_many_is_named(tmp_path):
    one, two = c4_like(tmp_path / "one.json.gz", 120, "a"), c4_like(tmp_path / "two.json.gz", 5, "b")
    few, many = (ResearchFamily(distractors=found, cache=tmp_path, longest=20_000) for found in ([one], [one, two]))
    with pytest.raises(DataError, match="was made from two.json.gz, which is not given"):
        few.context(next(many.recipes("train", [18_000], 1)))
    with pytest.raises(DataError, match="was made without two.json.gz"):
        many.context(next(few.recipes("train", [18_000], 1)))


def test_changed_frames_questions_are_named(folder, sources, rows, store, made_of_frames):
    fewer = ResearchFamily(rows[:-4], store, sources, cache=folder / "cache", longest=80_000)
    with pytest.raises(DataError, match="the FRAMES questions has changed"):
        fewer.context(made_of_frames["train"][0])


def test_another_context_than_recorded_is_refused(generated, made):
    recipe = dataclasses.replace(made["train"][0], sha256="0" * 64)
    with pytest.raises(DataError, match="builds another context; make the recipes again"):
        generated.context(recipe)


def test_bad_arguments(folder, sources, rows, store, generated):
    with pytest.raises(DataError, match="no distractors; give at least one"):
        ResearchFamily(cache=folder)
    with pytest.raises(DataError, match="frames without pages"):
        ResearchFamily(rows, None, sources, cache=folder / "cache")
    with pytest.raises(DataError, match="target of 90,000 tokens is above longest, 80,000"):
        generated.recipes("train", [20_000, 90_000], 1)
    with pytest.raises(DataError, match=r"train distractors hold 97,418 tokens, a target is 300,000; add a source"):
        ResearchFamily(distractors=sources, cache=folder / "cache", longest=300_000).recipes("train", [300_000], 1)
    (folder / "other").mkdir()
    twin = c4_like(folder / "other" / Path(sources[0].path).name, 9, "twin")
    with pytest.raises(DataError, match="two sources are called 'c4-train.00000-of-01024.json.gz'"):
        ResearchFamily(distractors=[sources[0], twin], cache=folder / "cache")


def test_no_targets_no_recipes(generated):
    assert list(generated.recipes("train", [], 1)) == []


# --- real data


@pytest.mark.skipif(not DATA, reason="RLM_DATA is not set")
def test_real_distractors_and_real_frames_pages(tmp_path):
    data = Path(DATA)
    rows = read_frames(data / "frames/test.tsv")
    wiki = FileSource(data / "wiki_enwiki_shortened/articles.jsonl")
    store = PageStore([wiki], [title for row in rows for title in titles(row)], tmp_path)
    family = ResearchFamily(rows, store, [FileSource(data / "c4_sample/c4_sample.jsonl"), wiki], cache=tmp_path)
    assert family.warnings[1] == "frames: 824 of 824 questions left out, as their pages are not all there"
    assert family.notes[0] == "distractors: 8 pages left out, as FRAMES questions are about them"
    [recipe] = family.recipes("eval", [437_000], 1)
    context = family.context(recipe)
    assert recipe.tokens == tokens.count(context) and abs(recipe.tokens - 437_000) < 50
    assert research_check.answer_of(context, recipe.metadata["query"]) == research_check.parsed(recipe.answer)
