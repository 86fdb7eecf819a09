"""Generated worlds: coherent facts, names of one side only, one answer a question, and a second reader who agrees."""

import random
import re
import statistics
import subprocess
import sys
from collections import Counter

import pytest
import research_check

from rlmlib.scoring.static import is_correct
from rlmlib.tasks.study.research.drown import arranged
from rlmlib.tasks.study.research.generated import MOST_PAGES, TOKENS_A_PAGE, WorldSpec, world_size
from rlmlib.tasks.study.research.kinds import HELD_OUT, KINDS
from rlmlib.tasks.study.research.names import split_of, words
from rlmlib.tasks.study.research.pool import piece
from rlmlib.tasks.study.research.query import NoAnswer, Reading, age
from rlmlib.tasks.study.research.questions import ask
from rlmlib.tasks.study.research.world import FEWEST_PAGES, RELATIONS, World, make_world

SPLITS = ("train", "eval")
REAL = [
    piece("Anna Example", "Anna Example was born on 3 May 1801. It opened on 7 June 1907. She married Karl Muster."),
    piece("Example Town", "Its population is 1,234. The town lies in Real Province. Its quays line the river Real."),
]


@pytest.fixture(scope="module")
def asked():
    """Question and world of 600 examples, those of eval with the kinds that training never sees."""
    made = []
    for number in range(300):
        for split in SPLITS:
            spec = WorldSpec(split, f"7/{split}/{number}", FEWEST_PAGES + 5 * (number % 4))
            world = spec.world()
            made.append((spec, world, spec.question(world, number)))
    return made


# --- the second reader


def test_a_second_reader_of_the_pages_gives_the_same_answers(asked):
    """From the text of the whole context, real pages included, and the query alone: 200 examples, all kinds."""
    chosen = random.Random(3).sample(asked, 200)
    assert {question.kind for _, _, question in chosen} == {*KINDS, *HELD_OUT}
    for spec, world, question in chosen:
        context = arranged(spec.pieces(world), REAL, spec.seed)
        found = research_check.answer_of(context, question.query)
        assert found == research_check.parsed(question.answer), f"{question.text} {question.answer}"


def test_the_second_reader_finds_every_fact_of_a_world():
    spec = WorldSpec("train", "all facts", 150)
    world = spec.world()
    told = research_check.facts("".join(spec.pieces(world)))
    assert told == world.facts


def test_the_second_reader_notices_a_changed_page(asked):
    spec, world, question = next(made for made in asked if made[2].kind == "chain_date")
    right = research_check.parsed(question.answer)
    pages = research_check.pages("".join(spec.pieces(world)))
    year = str(right.year)
    changed = "".join(piece(title, text.replace(year, "1234")) for title, text in pages.items())
    assert research_check.answer_of(changed, question.query) != right


# --- worlds


@pytest.mark.parametrize("pages", [FEWEST_PAGES, 97, MOST_PAGES])
def test_facts_are_whole_and_coherent(pages):
    for seed in range(5):
        world = make_world("train", f"{seed}", pages)
        assert len(world.kinds) == len(world.facts) == pages
        for name, facts in world.facts.items():
            for relation, value in facts.items():
                kind, ends = RELATIONS[relation]
                assert world.kinds[name] == kind
                if ends in ("person", "town", "institution"):
                    assert world.kinds[value] == ends and value != name
        for person in world.of_kind("person"):
            facts = world.facts[person]
            assert 37 <= age(facts["born"], facts["died"]) <= 92
            if "teacher" in facts:
                teacher = world.facts[facts["teacher"]]
                assert teacher["born"].year <= facts["born"].year - 14 and teacher["died"].year >= facts["born"].year + 16
            if "school" in facts:
                assert world.facts[facts["school"]]["opened"] <= facts["born"].year + 17
            if "spouse" in facts:
                assert world.facts[facts["spouse"]]["spouse"] == person
        for work in world.of_kind("work"):
            author = world.facts[world.facts[work]["author"]]
            assert author["born"].year + 19 <= world.facts[work]["year"] <= author["died"].year
        for event in world.of_kind("event"):
            leader = world.facts[world.facts[event]["leader"]]
            assert leader["born"] < world.facts[event]["held"] <= leader["died"]


def test_same_seed_same_world_in_another_process():
    code = "from rlmlib.tasks.study.research.generated import WorldSpec as W; from rlmlib.tasks.study.recipe import sha256\n"
    code += "s = W('eval', 'a seed', 60); w = s.world(); print(sha256(''.join(s.pieces(w)) + repr(s.question(w, 3))))"
    digests = {
        subprocess.run([sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1 and len(digests.pop()) == 65
    assert WorldSpec("eval", "a seed", 60).world() != WorldSpec("eval", "another", 60).world()


def test_train_and_eval_share_no_word_of_a_name():
    lists = {split: {word for kind in words(split).values() for word in kind} for split in SPLITS}
    assert not lists["train"] & lists["eval"]
    assert all(split_of(word) == split for split in SPLITS for word in lists[split])
    assert all(len(words(split)["given"]) * len(words(split)["family"]) > 300_000 for split in SPLITS)


def test_worlds_of_train_and_eval_share_no_name():
    def names(split):
        worlds = [make_world(split, f"{seed}", 120) for seed in range(40)]
        values = {value for world in worlds for facts in world.facts.values() for relation, value in facts.items() if is_name(relation)}
        return values.union(*(world.kinds for world in worlds))

    def is_name(relation):
        return RELATIONS[relation][1] not in ("date", "year", "number", "label")

    train, evaluation = names("train"), names("eval")
    assert len(train) > 3000 and not train & evaluation


# --- pages


def test_pages_have_60_to_600_words_or_as_many_as_their_facts_take():
    spec = WorldSpec("train", "lengths", MOST_PAGES)
    counts = [len(text.split()) for text in research_check.pages("".join(spec.pieces(spec.world()))).values()]
    assert 50 <= min(counts) and 500 < max(counts) <= 640
    assert 150 < statistics.median(counts) < 280


def test_size_of_a_world_follows_the_tokens_wanted():
    from rlmlib.tasks.study import tokens

    spec = WorldSpec("train", "size", world_size(60_000))
    assert 0.85 < sum(map(tokens.count, spec.pieces(spec.world()))) / 60_000 < 1.15
    assert world_size(0) == FEWEST_PAGES and world_size(10**7) == MOST_PAGES and TOKENS_A_PAGE > 0


def test_wordings_vary_and_articles_fit():
    text = "".join("".join(spec.pieces(spec.world())) for spec in (WorldSpec("train", f"{i}", 200) for i in range(2)))
    assert not re.search(r"\b[Aa] [aeiou]|\b[Aa]n [bcdfghjklmnpqrstvwxz]", text)
    assert "{" not in text and "}" not in text
    sentences = Counter(re.findall(r"[A-Z][^.\n]+\.", text))
    assert sentences.most_common(1)[0][1] < 60 and len(sentences) > 5000


def test_a_page_calls_no_true_fact_wrong():
    """Rumours that are said to be wrong name others than the true value."""
    for seed in range(6):
        spec = WorldSpec("train", f"rumours {seed}", FEWEST_PAGES)
        world = spec.world()
        for title, text in research_check.pages("".join(spec.pieces(world))).items():
            for sentence in re.findall(r"[^.\n]*(?:wrongly|without any ground|disproved|given up|failed)[^.\n]*\.", text):
                assert not any(isinstance(value, str) and value in sentence for value in world.facts[title].values()), sentence


# --- questions


def test_all_kinds_take_turns_and_some_are_for_eval_only(asked):
    counts = {split: Counter(question.kind for spec, _, question in asked if spec.split == split) for split in SPLITS}
    assert set(counts["train"]) == set(KINDS) and set(counts["eval"]) == {*KINDS, *HELD_OUT}
    assert len(KINDS) >= 12 and len(HELD_OUT) >= 3
    assert min(counts["train"].values()) >= 12


def test_hops_and_gold_pages(asked):
    for _, world, question in asked:
        assert 2 <= question.hops <= 5
        assert len(question.gold) >= 2 and set(question.gold) <= set(world.kinds)


def test_an_answer_needs_its_gold_pages_only(asked):
    """Without the other pages the answer stays; without a gold page it is lost or another, except for members of a group."""
    for _, world, question in asked[:200]:
        right = Reading(world).value(question.query)
        gold = set(question.gold)
        assert Reading(part_of(world, gold)).value(question.query) == right
        if question.kind.startswith("chain"):
            for page in gold:
                with pytest.raises((NoAnswer, KeyError)):
                    Reading(part_of(world, gold - {page})).value(question.query)


def part_of(world, names):
    kinds = {name: kind for name, kind in world.kinds.items() if name in names}
    return World(kinds, {name: world.facts[name] for name in kinds}, world.women)


def test_answers_are_typed_and_not_in_the_question(asked):
    kinds = Counter()
    for _, world, question in asked:
        value = Reading(world).value(question.query)
        assert question.answer.casefold() not in question.text.casefold()
        assert all(is_correct(other, [question.answer, *question.acceptable]) for other in question.acceptable)
        if question.answer_type == "number":
            assert re.fullmatch(r"\d+", question.answer) and int(question.answer) == value
        elif question.answer_type == "date":
            assert re.fullmatch(r"(\d{1,2} [A-Z][a-z]+ )?\d{3,4}", question.answer)
            assert question.answer.isdigit() or value.isoformat() in question.acceptable
        elif question.answer_type == "label":
            assert re.fullmatch("[a-z]+", question.answer)
        else:
            assert question.answer_type == "text" and question.answer[0].isupper()
        kinds[question.answer_type] += 1
    assert min(kinds[kind] for kind in ("number", "date", "text", "label")) >= 40


def test_answers_cannot_be_guessed_from_the_kind_of_question(asked):
    """Who always gives the most frequent answer of a kind is right in one of three at most, and seldom over all."""
    answers: dict[str, Counter] = {}
    for _, _, question in asked:
        answers.setdefault(question.kind, Counter())[question.answer] += 1
    for kind, counts in answers.items():
        assert counts.most_common(1)[0][1] / counts.total() <= 0.4, f"{kind}: {counts.most_common(3)}"
    guessed = sum(counts.most_common(1)[0][1] for counts in answers.values())
    assert guessed / len(asked) < 0.15


def test_questions_say_the_form_of_the_answer(asked):
    for *_, question in asked:
        assert re.fullmatch(r"[A-Z].*[.?] Answer with [a-z ]+\.", question.text)
        assert not re.search(r"[{}]|  ", question.text)


WORDS_FOR = {  # of each relation, wherever a question follows it
    "born": "birth|born|How old",
    "died": "death|died",
    "birthplace": "birthplace|town where .* born|born in the same town",
    "occupation": "occupation|profession",
    "school": "alma mater|where .* studied|studied at",
    "teacher": "teacher|taught",
    "spouse": "spouse|married",
    "province": "province",
    "river": "river",
    "founded": "foundation|founded",
    "population": "population|inhabitants",
    "altitude": "altitude|above the sea",
    "seat": "home to|seat",
    "opened": "opening year|opened",
    "founder": "founder|founded",
    "staff": "employed by|staff",
    "author": "author|made",
    "year": "completion|completed",
    "form": "form|kind of work",
    "dedicatee": "dedicatee|dedicated",
    "keeper": "keep",
    "place": "host|took place",
    "held": "opened|opening day",
    "leader": "leader|led",
    "attendance": "attendance|attended",
}


def parts(query):
    """A query and all the lists inside it."""
    if isinstance(query, list):
        yield query
        for part in query:
            yield from parts(part)


def test_wording_follows_the_query(asked):
    """Each relation is told in words, and each name stands there."""
    seen = set()
    for _, _, question in asked:
        for part in parts(question.query):
            if part[:1] == ["get"]:
                seen.add(part[1])
                assert re.search(WORDS_FOR[part[1]], question.text), f"{part[1]}: {question.text}"
            if part[:1] == ["name"]:
                assert part[1] in question.text
    assert seen == set(WORDS_FOR)


@pytest.mark.parametrize(
    "kind, word, operation",
    [
        ("born_first_or_last", "first", "['nth', 1, 'born'"),
        ("born_first_or_last", "last", "['nth', -1, 'born'"),
        ("author_first_or_last", "first", "['nth', 1, 'born'"),
        ("author_first_or_last", "last", "['nth', -1, 'born'"),
        ("second_born", "second", "['nth', 2, 'born'"),
        ("work_first_or_last", "earliest", "['nth', 1, 'year'"),
        ("work_first_or_last", "latest", "['nth', -1, 'year'"),
        ("town_by_size", "fewest", "['nth', 1, 'population'"),
        ("town_by_size", "most", "['nth', -1, 'population'"),
        ("count_born", "before", "['before', 'born'"),
        ("count_born", "after", "['after', 'born'"),
    ],
)
def test_the_word_for_an_order_means_that_order(asked, kind, word, operation):
    questions = [question for *_, question in asked if question.kind == kind and f" {word}" in question.text]
    assert questions and all(operation in str(question.query) for question in questions)


def test_no_question_names_the_thing_it_describes(asked):
    for _, world, question in asked:
        if question.kind in ("intersection", "dedicated", "led"):
            [described] = [Reading(world).value(part) for part in parts(question.query) if part[:1] == ["only"]]
            assert described not in question.text


def test_a_kind_that_a_world_is_too_small_for_is_passed_over():
    world = make_world("train", "small", FEWEST_PAGES)
    for facts in world.facts.values():
        facts.pop("school", None)
    spec, order = WorldSpec("train", "small", FEWEST_PAGES), [*KINDS]
    assert ask(world, "intersection", "s") is None
    assert spec.question(world, order.index("intersection")).kind == order[order.index("intersection") + 1]


# --- queries


@pytest.fixture
def small():
    """Three people, two of whom share a birth year and all a teacher."""
    from datetime import date

    facts = {
        "Ann": {"born": date(1700, 3, 1), "teacher": "Dan", "spouse": "Ben"},
        "Ben": {"born": date(1705, 1, 1), "teacher": "Dan"},
        "Cid": {"born": date(1705, 1, 1), "teacher": "Dan"},
        "Dan": {"born": date(1650, 2, 28), "died": date(1700, 2, 27)},
    }
    return World(dict.fromkeys(facts, "person"), facts, frozenset())


PUPILS = ["all", "person", [["teacher", ["name", "Dan"]]]]
ANN, BEN = ["name", "Ann"], ["name", "Ben"]


@pytest.mark.parametrize(
    "query, answer",
    [
        (["get", "teacher", ["get", "spouse", ANN]], "Dan"),
        (["count", PUPILS], 3),
        (["count", ["except", PUPILS, ANN]], 2),
        (["count", ["before", "born", ["get", "born", ["name", "Cid"]], ["list", ANN]]], 1),
        (["count", ["after", "born", ["get", "born", ANN], ["list", ["name", "Dan"], BEN]]], 1),
        (["only", ["except", ["list", ANN, BEN], BEN]], "Ann"),
        (["nth", 2, "born", ["list", BEN, ANN, ["name", "Dan"]]], "Ann"),
        (["nth", -1, "born", ["list", ANN, BEN]], "Ben"),
        (["next", "born", ["list", BEN, ANN, ["name", "Dan"]], ANN], "Ben"),
        (["years", ["get", "born", ANN], ["get", "born", BEN]], 5),
        (["days", ["get", "born", ANN], ["get", "born", BEN]], 1767),
        (["age", ["get", "born", ["name", "Dan"]], ["get", "died", ["name", "Dan"]]], 49),
        (["age", ["get", "born", ["name", "Dan"]], ["get", "born", ANN]], 50),
    ],
)
def test_query(query, answer, small):
    assert Reading(small).value(query) == answer


def test_age_counts_the_birthday_itself():
    from datetime import date

    born = date(1700, 3, 15)
    assert [age(born, date(1750, 3, day)) for day in (14, 15, 16)] == [49, 50, 50]
    assert age(date(1704, 2, 29), date(1705, 2, 28)) == 0 and age(date(1704, 2, 29), date(1705, 3, 1)) == 1


@pytest.mark.parametrize(
    "query",
    [
        ["get", "spouse", BEN],
        ["only", PUPILS],
        ["only", ["except", ["list", ANN], ANN]],
        ["nth", 1, "born", PUPILS],
        ["nth", 3, "born", ["list", ANN, BEN]],
        ["nth", 1, "born", ["list", ANN]],
        ["next", "born", ["list", ANN, BEN], BEN],
        ["next", "born", ["list", ANN, BEN], ["name", "Dan"]],
        ["count", ["before", "born", ["get", "born", BEN], PUPILS]],
        ["count", ["list", ANN, ANN]],
    ],
)
def test_query_without_a_single_answer(query, small):
    """A tie, no value, more than one thing, or a limit that a member of the group equals."""
    with pytest.raises(NoAnswer):
        Reading(small).value(query)


def test_an_unknown_query_is_an_error(small):
    with pytest.raises(ValueError, match="no such query"):
        Reading(small).value(["sudo", ANN])
    with pytest.raises(ValueError, match="no such query"):
        Reading(small).value(["count", ["all of them"]])
