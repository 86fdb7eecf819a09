"""Each task on small sets of records, where ties abound: an answer is the one answer, or there is none."""

import random
from collections import Counter
from datetime import date

import pytest
from aggregation_check import recompute
from hypothesis import given, settings
from hypothesis import strategies as st

from rlmlib.tasks.sources.classification import LabelledSet, Record
from rlmlib.tasks.study.aggregation import descriptions, wording
from rlmlib.tasks.study.aggregation.pool import Pool
from rlmlib.tasks.study.aggregation.questions import TASKS, draw_question, tasks_of
from rlmlib.tasks.study.aggregation.records import Post, context
from rlmlib.tasks.study.aggregation.tally import Reading, Tally

LABELS = ("ham", "jam", "lamb")
DAYS = [date(2020, 1, 31), date(2020, 2, 1), date(2020, 2, 2), date(2021, 1, 31), date(2021, 3, 1)]
TASK = {task.name: task for task in TASKS}
POSTS = st.lists(
    st.builds(Post, st.just("a text"), st.sampled_from(LABELS), st.sampled_from([10_001, 20_002, 30_003]), st.sampled_from(DAYS)),
    min_size=4,
    max_size=40,
)


class EveryTask(Pool):
    """A pool of all labels, for the head of a context."""

    def __init__(self):
        super().__init__(LabelledSet("own", tuple(Record(label, "a text", label) for label in LABELS), LABELS), "train", 0)
        self.labels = LABELS


def found_of(name: str, posts: list[Post], reading: Reading = Reading(), tries: int = 30):  # noqa: B008
    rng, tally = random.Random(0), Tally(posts, LABELS)
    return [found for _ in range(tries) if (found := TASK[name].find(tally, rng, reading))]


def made(spec: str) -> list[Post]:
    """Posts from "label user day" triples, the day as its place in DAYS: "ham 10001 0, jam 10001 2"."""
    parts = (one.split() for one in spec.split(","))
    return [Post("a text", label, int(user), DAYS[int(day)]) for label, user, day in parts]


def test_there_are_enough_tasks_of_each_group():
    groups = Counter(task.group for task in TASKS)
    assert min(groups["counting"], groups["user"], groups["timeline"]) >= 5
    assert len(TASK) == len(TASKS) >= 14


@settings(max_examples=40, deadline=None)
@given(POSTS, st.randoms(use_true_random=False))
def test_each_task_by_a_second_reading(posts, rng):
    """The second reading fails on ties, so an answer that it gives is the only one."""
    tally, text = Tally(posts, LABELS), context(EveryTask(), posts, "shown")
    for task in TASKS:
        for _ in range(3):
            if found := task.find(tally, rng, Reading()):
                asked = {"task": task.name, **found.arguments}
                facts = {"variant": "shown", "asked": asked, "n_records": len(posts), "n_users": len(tally.users)}
                assert recompute(facts, text) == found.answer, task.name


def test_every_task_finds_answers_where_there_are_some():
    rng = random.Random(4)
    posts = [
        Post("a text", rng.choices(LABELS, (5, 2, 1))[0], rng.choices([10_001, 20_002, 30_003], (6, 3, 1))[0], rng.choice(DAYS))
        for _ in range(90)
    ]
    for task in TASKS:
        if task.name != "first_month_outnumbering":
            assert found_of(task.name, posts), task.name


def test_ties_are_never_asked_about():
    tied = made("ham 10001 0, jam 20002 1, ham 20002 1, jam 10001 0")
    for name in ("most_frequent_label", "most_active_user", "busiest_date", "most_active_user_of_label", "busiest_date_of_label"):
        assert not found_of(name, tied), name
    second = made("ham 10001 0, ham 10001 0, ham 10001 0, jam 20002 1, lamb 30003 2")
    assert not found_of("second_most_frequent_label", second)
    assert not found_of("second_most_active_user", second)
    assert not found_of("least_frequent_label", second)
    assert {found.answer for found in found_of("most_frequent_label", second)} == {"ham"}


def test_the_second_most_must_be_led_as_well():
    posts = made("ham 10001 0, ham 10001 0, jam 20002 1, jam 20002 1, lamb 30003 2")
    assert not found_of("second_most_frequent_label", posts)
    assert {found.answer for found in found_of("second_most_frequent_label", posts + made("ham 10001 3"))} == {"jam"}


def test_a_label_that_does_not_occur_is_not_the_rarest():
    assert not found_of("least_frequent_label", made("ham 10001 0, ham 10001 1, jam 10001 2"))
    assert not [found for found in found_of("least_frequent_among", made("ham 10001 0, ham 10001 1, jam 10001 2"))]


def test_days_at_the_edges():
    posts = made("ham 10001 0, ham 10001 1, ham 10001 1, ham 10001 2, ham 10001 4, ham 10001 4, jam 10001 4")
    ham = lambda name: {  # noqa: E731
        (found.arguments["date"], found.arguments.get("until")): found.answer
        for found in found_of(name, posts, tries=300)
        if found.arguments["label"] == "ham"
    }
    assert ham("count_of_label_before") == {("Feb 02, 2020", None): "3", ("Mar 01, 2021", None): "4"}
    assert ham("count_of_label_after") == {("Jan 31, 2020", None): "5", ("Feb 01, 2020", None): "3", ("Feb 02, 2020", None): "2"}
    assert ham("count_of_label_between")["Feb 01, 2020", "Mar 01, 2021"] == "5"
    assert ham("count_of_label_on_date") == {("Feb 01, 2020", None): "2", ("Mar 01, 2021", None): "2"}


def test_the_first_month_is_of_the_calendar_and_never_the_first_of_all():
    posts = made("jam 10001 0, ham 10001 1, ham 10001 2, jam 10001 1, ham 10001 3, ham 10001 3, jam 10001 3")
    answers = {
        (found.arguments["label"], found.arguments["other"]): (found.answer, found.acceptable)
        for found in found_of("first_month_outnumbering", posts)
    }
    assert answers == {("ham", "jam"): ("Feb 2020", ("2020-02",))}


def test_dates_are_given_as_in_the_lines_and_in_other_forms():
    (found, *_) = found_of("busiest_date", made("jam 10001 0, ham 10001 1, ham 10001 1"))
    assert (found.answer, found.acceptable) == ("Feb 01, 2020", ("2020-02-01",))


def test_comparisons():
    posts = made("ham 10001 0, ham 10001 0, jam 10001 0, lamb 10001 0")
    answers = {
        (found.arguments["label"], found.arguments["other"]): (found.answer, found.acceptable)
        for found in found_of("compare_labels", posts, tries=100)
    }
    assert answers["ham", "jam"] == ("more common than", ("more common",))
    assert answers["jam", "ham"] == ("less common than", ("less common",))
    assert answers["lamb", "jam"] == ("same frequency as", ("the same frequency as",))


def test_a_reader_who_errs_is_asked_of_clear_leads_and_few_records():
    reading = Reading(exact=5, lead=0.1)
    close = made(",".join(["ham 10001 0"] * 21 + ["jam 20002 1"] * 20))
    clear = close + made("ham 10001 0, ham 10001 0")
    assert found_of("most_frequent_label", close)
    assert not found_of("most_frequent_label", close, reading)
    assert not found_of("compare_labels", [post for post in close], reading)
    assert found_of("most_frequent_label", clear, reading)
    for name in ("count_of_label", "difference_of_labels", "users_of_label", "months_outnumbering", "count_of_label_of_user"):
        assert not found_of(name, clear, reading), name
    assert found_of("count_of_label_of_user", clear + made("lamb 30003 2, lamb 30003 2"), reading, tries=200)
    for name in ("count_of_label_before", "count_of_label_after", "count_of_label_between"):
        for found in found_of(name, made(",".join(f"ham 10001 {place % 5}" for place in range(30))), Reading(exact=12), tries=100):
            assert int(found.answer) <= 12


def test_variants_have_the_tasks_that_fit_them():
    names = {variant: {task.name for task in tasks_of(variant)} for variant in ("shown", "hidden", "semantic")}
    assert names["shown"] == set(TASK)
    assert "most_active_user" not in names["hidden"]  # needs no label: code alone could answer
    assert "most_frequent_label" in names["hidden"]
    assert "most_frequent_label" not in names["semantic"]  # its answer is the name of a label
    assert all(TASK[name].answer != "label" for name in names["semantic"])


def test_another_task_has_its_turn_where_one_has_no_answer():
    posts = made("ham 10001 0, ham 10001 1, jam 20002 2, jam 20002 4")
    drawn = [draw_question(Tally(posts, LABELS), "shown", Reading(), random.Random(seed)) for seed in range(40)]
    assert all(drawn)
    assert len({task.name for task, _ in drawn}) > 5
    tied = Tally(made("ham 10001 1, jam 10001 2, ham 20002 2, jam 20002 1"), LABELS)
    assert all(draw_question(tied, "semantic", Reading(exact=1), random.Random(seed)) is None for seed in range(20))


def test_one_user_alone_is_not_compared():
    alone = made("ham 10001 0, ham 10001 1, jam 10001 2")
    assert not found_of("count_of_label_of_users", alone)
    assert not found_of("user_with_most_among", alone)
    assert found_of("count_of_label_of_users", alone + made("ham 20002 0"), tries=100)


# --- words


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_phrasings(task):
    assert len(set(wording.PHRASINGS[task.name])) >= 3
    assert len(set(wording.ENDINGS[task.answer])) >= 3
    arguments = {"label": "ham", "other": "jam", "user": 12_345, "users": [11_111, 22_222, 33_333], "labels": ["jam", "ham"]}
    arguments |= {"date": "Jan 31, 2020", "until": "Feb 02, 2020", "month": "Feb 2020", "number": 77}
    rng = random.Random(0)
    sides = [
        {wording.ask(task.name, task.answer, arguments, "own", "shown", split, rng) for _ in range(200)} for split in ("train", "eval")
    ]
    assert [len(side) for side in sides] == [6, 3] and not sides[0] & sides[1]
    asked = sides[0] | sides[1]
    assert len(asked) >= 9
    assert len({question.replace("ham", "").replace("jam", "") for question in asked}) == len(asked)
    assert not any("{" in question or "  " in question for question in asked)


def test_users_and_choices_are_written_out():
    rng = random.Random(0)
    question = wording.ask(
        "count_of_label_of_users", "number", {"label": "ham", "users": [11_111, 22_222, 33_333]}, "own", "shown", "train", rng
    )
    assert "11111, 22222 and 33333" in question and "records with the label 'ham'" in question
    question = wording.ask("most_frequent_among", "choice", {"labels": ["jam", "ham"]}, "sms_spam", "semantic", "eval", rng)
    assert question.endswith('\n(A) text messages about "jam"\n(B) messages that people write to those they know')


def test_descriptions_are_of_the_known_sets_and_do_not_name_labels():
    for name, described in descriptions.DESCRIPTIONS.items():
        assert name in descriptions.KINDS
        for label, text in described.items():
            assert f'"{label}"' not in text
    assert descriptions.description("unknown", "card_lost-or_stolen") == 'texts about "card lost or stolen"'


def test_phrasings_are_of_tasks():
    assert set(wording.PHRASINGS) == set(TASK)
