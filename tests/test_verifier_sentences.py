"""Sentences around an answer: those that restate the question are read, those that turn it round, take it back or add to it are not."""

import pytest

from rlmlib.answer_types import AnswerType
from rlmlib.scoring.answers.announced import leads_to, takes_back
from rlmlib.scoring.answers.places import is_qualified
from rlmlib.scoring.answers.restated import asked, restates
from rlmlib.scoring.static import check

EXCEED = (
    "By how much does the number of records with the label 'negative' exceed the number of records with the label 'positive'? "
    "Answer with the number only."
)
MORE = "How many more records with the label 'negative' are there than records with the label 'positive'?"
UNDOCUMENTED = "How many functions without a docstring are there?"
RIGHT: list[tuple[AnswerType, str, str, list[str]]] = [
    ("number", UNDOCUMENTED, "12", ["12 functions", "12 functions without a docstring", "There are 12 functions without a docstring."]),
    ("number", "How many functions have no docstring?", "12", ["12 functions have no docstring", "12 have no docstring"]),
    ("number", "How many functions are not tested?", "12", ["12 functions are not tested", "12 are not tested"]),
    ("number", EXCEED, "12", ["by 12", "It is 12"]),
    ("number", MORE, "12", ["12 more records", "12 more"]),
    ("number", "What is the square root?", "9", ["The square root is 9", "9 is the square root"]),
    ("number", "How many goals did they score in the final?", "5", ["They scored 5 goals.", "They scored 5 goals in the final", "5 goals"]),
    ("number", "How many residents did the town have at the census?", "12480", ["The town had 12,480 residents at the census."]),
    ("number", "How many different users posted spam?", "12", ["12 users", "12 different users posted spam", "a total of 12"]),
    ("number", "How many records should be classified as 'spam'?", "12", ["12 records should be classified as 'spam'"]),
    ("number", "How many of the 20 records are spam?", "5", ["5 are spam"]),
    ("number", "How long is the tunnel?", "3.5 km", ["The tunnel is 3.5 km long.", "It is 3.5 km"]),
    ("number", "What is the magic number for rusty-teapot mentioned in the text?", "74812", ["The magic number for rusty-teapot is 74812"]),
    ("number", "How many files import foo but not bar?", "12", ["12 files import foo but not bar", "12 files"]),
    ("date", "When was it founded?", "1831", ["It was founded in 1831.", "In 1831"]),
    ("date", "On what date did she receive the award?", "November 14, 2022", ["She received the award on November 14, 2022."]),
    ("date", "Which date has the most records?", "Mar 4, 2021", ["Mar 4, 2021 has the most records", "The date is Mar 4, 2021"]),
    ("label", "Which label is the most frequent?", "spam", ["spam is the most frequent label", "The most frequent label is spam."]),
    ("label", "What is the second most common label?", "spam", ["The second most common label is spam"]),
    ("label", "Which user posted the most records?", "64959", ["User 64959 posted the most records.", "64959 posted the most records"]),
    ("label", "Who has more records than anybody else?", "64959", ["User 64959 has more records than anybody else"]),
    ("identifier", "Which function calls x?", "foo", ["foo calls x", "`foo` calls x.", "The function is foo", "It is `foo`."]),
    ("identifier", "Which function has the most lines?", "foo", ["foo has the most lines"]),
    ("path", "Which file defines `parse_args`?", "app/cli.py", ["app/cli.py defines parse_args", "The file is app/cli.py"]),
    ("text", "Which city was the capital?", "Paris", ["Paris was the capital.", "The capital was Paris", "In Paris"]),
    ("text", "Who succeeded him?", "Bob", ["Bob succeeded him"]),
    ("text", "Whom did he succeed?", "Bob", ["He succeeded Bob"]),
    ("text", "By which team was it defeated?", "Germany", ["It was defeated by Germany"]),
    ("text", "Is the lion larger than the tiger?", "Yes", ["Yes, it is.", "Yes, the lion is larger", "Yes, it is larger than the tiger"]),
    ("set", "Which classes do not inherit from Base?", '["Cat", "Dog"]', ["The classes are Cat, Dog"]),
    ("set", "Which classes lack docs?", "[]", ["No classes lack docs", "none"]),
]
TURNED: list[tuple[AnswerType, str, str, list[str]]] = [
    ("number", UNDOCUMENTED, "12", ["12 functions have a docstring", "There are 12 functions with a docstring"]),
    ("number", "How many functions lack a docstring?", "12", ["12 functions have a docstring", "12 have a docstring"]),
    ("number", "How many functions are not tested?", "12", ["12 functions are tested", "12 are tested", "Not 12 are tested"]),
    ("number", EXCEED, "12", ["12 records with the label 'positive'", "The number of records with the label 'negative' is 12"]),
    ("number", MORE, "12", ["12 records with the label 'positive'", "12 records with the label 'negative'"]),
    ("number", "How many records are dated before May, that day left out?", "2", ["2 left out"]),
    ("number", "What is the square root?", "9", ["the square root of 9"]),
    ("number", "What was the profit or loss?", "12", ["a loss of 12"]),
    ("number", "How many did not vote?", "12", ["12 did vote", "12 voted", "12 vote"]),
    ("number", "How many failed to vote?", "12", ["12 voted"]),
    ("number", "How many wrong lines?", "9", ["9 is wrong"]),
    ("number", "How many lines are wrong?", "9", ["9 is wrong"]),
    ("number", "By how much did it rise?", "3", ["It rose to 3", "to 3", "from 3"]),
    ("number", "By how much does it exceed the limit?", "3", ["It exceeds 3"]),
    ("number", "How many users never posted?", "12", ["12 users posted"]),
    ("number", "How many users posted only spam?", "12", ["12 users posted spam"]),
    ("number", "How many users reported in May?", "12", ["12 users were reported in May"]),
    ("number", "How many files import foo but not bar?", "12", ["12 files import foo", "12 files import bar"]),
    ("number", "How many years after the war did he die?", "7", ["7 years before the war", "He died 7 years before the war"]),
    ("date", "In what year did it not open?", "1831", ["It opened in 1831"]),
    ("date", "When was it founded?", "1831", ["It was founded after 1831", "It founded in 1831"]),
    ("label", "What is the second most common label?", "spam", ["The most common label is spam", "The common label is spam"]),
    ("label", "Which label is the most frequent?", "spam", ["spam is the least frequent label", "spam is not the most frequent label"]),
    ("label", "Which user posted the most records?", "64959", ["user 64959 posted records", "user 64959 posted the least records"]),
    ("label", "Who has more records than anybody else?", "64959", ["anybody else has more records than user 64959"]),
    ("identifier", "Which function calls x?", "foo", ["the function that calls foo", "x calls foo", "The function x calls is foo"]),
    ("identifier", "Which function calls it?", "foo", ["It calls foo", "The function it calls is foo"]),
    ("identifier", "Which function is called by main?", "foo", ["foo calls main"]),
    ("identifier", "Which function is never called?", "foo", ["foo is called"]),
    ("path", "Which file imports x?", "app/cli.py", ["x imports app/cli.py", "The file x imports is app/cli.py"]),
    ("text", "Which city was not the capital?", "Paris", ["Paris was the capital"]),
    ("text", "Which city is it?", "Oklahoma", ["Oklahoma city"]),
    ("text", "Whom did he succeed?", "Bob", ["He was succeeded by Bob", "Bob succeeded him"]),
    ("text", "By which team was it defeated?", "Germany", ["It defeated Germany"]),
    ("text", "Who defeated it?", "Germany", ["It defeated Germany", "It was defeated by Germany"]),
    ("text", "Whose father was he?", "Bob", ["Bob was the father"]),
    ("text", "Is the lion larger than the tiger?", "Yes", ["Yes, the tiger is larger"]),
    ("set", "Which classes do not inherit from Base?", '["Cat", "Dog"]', ["The classes that inherit from Base are Cat, Dog"]),
    ("set", "Which classes inherit from Base?", '["Cat", "Dog"]', ["Not: Cat, Dog", "Wrong: Cat, Dog"]),
    ("set", "Which classes lack docs?", "[]", ["No classes have docs"]),
    ("pairs", "List all pairs of users that did not post.", "[[1, 2]]", ["pairs of users that did post: (1, 2)"]),
]


def _each(rules):
    return [(answer_type, question, gold, answer) for answer_type, question, gold, answers in rules for answer in answers]


@pytest.mark.parametrize(("answer_type", "question", "gold", "answer"), _each(RIGHT))
def test_a_sentence_that_restates_its_question_is_right(answer_type, question, gold, answer):
    assert check(answer, [gold], answer_type, question) == "correct"


@pytest.mark.parametrize(("answer_type", "question", "gold", "answer"), _each(TURNED))
def test_a_sentence_that_says_something_else_is_not_right(answer_type, question, gold, answer):
    assert check(answer, [gold], answer_type, question) != "correct"


def test_the_noun_that_a_question_asks_for():
    nouns = {
        "What is the special magic number for rusty-teapot?": ("special", "magic"),
        "How many different users posted spam?": ("users", "posted", "spam"),
        "Which user posted the most records?": ("user",),
        "In which file is there an import?": ("file",),
        "How many of the records are spam?": ("records",),
        "When did it open?": (),
    }
    assert {question: asked(question)[0].noun for question in nouns} == nouns
    assert asked("They met. Whose son was he?") == ()
    assert asked("Which of Mozart and Haydn was younger?", "Mozart") == ()


def test_without_a_question_only_frames_stand_around_an_answer():
    assert restates(["It", "was"], [], "", name=True) and restates([], ["is", "the", "answer"], "", name=True)
    assert not restates([], ["records"], "") and not restates(["the", "opposite", "is"], [], "")


# --- what stands before a marked answer

GOLDS: dict[AnswerType, tuple[str, str, str]] = {
    "label": ("Which label is the most frequent?", "spam", "spam"),
    "number": ("How many records are there?", "42", "42"),
    "date": ("Which date has the most records?", "Mar 4, 2021", "Mar 4, 2021"),
    "set": ("Which files import foo?", '["a.py", "b.py"]', "a.py, b.py"),
    "identifier": ("Which function has the most parameters?", "foo", "foo"),
    "choice": ("Which is right? (A) It rains. (B) It snows.", "A", "A"),
    "text": ("Which city was the capital?", "Paris", "Paris"),
}
DENIALS = [
    "Anything but\n",
    "The true count is 17, not\n",
    "All except\n",
    "Certainly not\n\n",
    "The day before\n",
    "B is right and not\n",
    "Not this:\n",
    "ham.\nWrong:\n",
    "Half of\n",
    "Everything but\nthe\n",
    "Ruled out:\n",
    "The following is wrong.\n",
    "Not this.\n",
    "The opposite of\n",
    "Not:\nThe answer is\n",
    "## Wrong answers\n",
]
LEADS = ["", "I read all of the records.\n\n", "It is not ham.\n\n", "The answer is\n", "Therefore\n", "## Answer\n"]


@pytest.mark.parametrize("mark", ["**{}**", "\\boxed{{{}}}", "<answer>{}</answer>", "FINAL({})"])
@pytest.mark.parametrize("answer_type", GOLDS)
def test_a_mark_does_not_override_what_runs_into_it(answer_type, mark):
    question, gold, said = GOLDS[answer_type]
    accepted = [before for before in DENIALS if check(before + mark.format(said), [gold], answer_type, question) == "correct"]
    refused = [before for before in LEADS if check(before + mark.format(said), [gold], answer_type, question) != "correct"]
    assert (accepted, refused) == ([], [])


def test_a_denial_behind_a_colon_or_on_a_broken_line_takes_a_mark_back():
    assert takes_back("Wrong:") and takes_back("It is false that\n")
    assert not takes_back("It is not ham.") and not takes_back("") and not takes_back("spam 12, ham 3\n")
    assert leads_to("The most frequent label is ", "Which label is the most frequent?")
    assert not leads_to("The least frequent label is ", "Which label is the most frequent?")
    assert check("Wrong:\nAnswer: spam", ["spam"], "label") == "incorrect"


# --- a choice taken back

ANIMALS = "Which animal is described? (A) red fox (B) blue jay (C) grey wolf"


@pytest.mark.parametrize(
    "answer",
    [
        "The answer is A. No.",
        "The answer is A. Scratch that, blue jay.",
        "Answer: A\n\nHmm, the evidence points to blue jay.",
        "The answer is A. It is the blue jay.",
        "The answer is A, not.",
        "The answer is A. Or is it?",
        "The answer is A. I take that back.",
        "The answer is A. However, the last page contradicts it.",
        "I choose A. Sorry, that is false.",
        "Answer: A. On second thought, grey wolf.",
        "It is false that\nthe answer is A",
        "Not true:\nthe answer is A.",
    ],
)
def test_a_choice_taken_back_is_wrong(answer):
    assert check(answer, ["A"], "choice", ANIMALS) == "incorrect"


@pytest.mark.parametrize(
    "answer",
    [
        "The answer is (A). The fur is described on page two.",
        "First I thought of the blue jay.\nFinal answer: A",
        "Answer: A. No other animal has red fur.",
        "It is not the wolf. The answer is A.",
        "The answer is A.\n\nThe passage describes the red fox.",
    ],
)
def test_a_choice_may_be_explained(answer):
    assert check(answer, ["A"], "choice", ANIMALS) == "correct"


# --- comparisons

SHOWN = "records with the label 'spam'", "records with the label 'ham'"
MEANT = "positive film reviews", "negative film reviews"
COMPARE = [
    "How does the number of {} compare with the number of {}: is the first kind more common, less common or as common?",
    "Are {} more common than {}, less common, or of the same frequency?",
    "Compare {} with {}. Is the first kind more common, less common or of the same frequency?",
    "In Mar 2021, are {} more common than {}, less common, or of the same frequency?",
    "Compare {} with {} in Mar 2021 alone. Is the first kind more common, less common or of the same frequency?",
    "How do the numbers of {} and of {} compare in Mar 2021: is the first kind more common, less common or as common?",
]


@pytest.mark.parametrize("wording", COMPARE)
@pytest.mark.parametrize(("first", "second"), [SHOWN, MEANT])
@pytest.mark.parametrize("gold", ["more common than", "less common than", "same frequency as"])
def test_a_comparison_in_the_words_of_its_question(wording, first, second, gold):
    question = wording.format(first, second)
    said = "of the same frequency as" if gold.startswith("same") else gold
    alone = said.rpartition(" ")[0]
    right = [f"{first} are {said} {second}", f"{first[0].upper()}{first[1:]} are {said} {second}.", f"{first} are {alone}"]
    right += [f"The first kind is {alone}"] if "first kind" in question else []
    right += [f"spam is {said} ham", f"label 'spam' is {said} label 'ham'"] if "spam" in question else []
    wrong = [f"{second} are {said} {first}", f"{first} are not {said} {second}", f"{first} are {said} {first}", f"records are {alone}"]
    wrong += [f"The second kind is {alone}", f"The first kind is not {alone}", f"It is false that {first} are {said} {second}"]
    assert [answer for answer in right if check(answer, [gold], "label", question) != "correct"] == []
    assert [answer for answer in wrong if check(answer, [gold], "label", question) != "incorrect"] == []


# --- places


@pytest.mark.parametrize(
    ("question", "gold", "answer"),
    [
        ("Which city in France?", "Paris", "Paris, Texas"),
        ("Which city?", "London", "London, Ontario"),
        ("Where did the building rank?", "37th", "37th, Texas"),
        ("Who was the prime minister?", "Harold Wilson", "Harold Wilson, USA"),
        ("Which river?", "Hotut", "Hotut, Texas"),
        ("Whose name did the ship bear?", "Austin", "Austin, Texas"),
        ("Which city?", "Georgia", "Georgia, Texas"),
    ],
)
def test_a_region_behind_what_does_not_lie_in_it_is_for_the_judge(question, gold, answer):
    assert check(answer, [gold], "text", question) == "ask_judge"


def test_a_well_known_city_may_stand_with_its_region():
    assert is_qualified("Philadelphia, Pennsylvania", "Philadelphia", "Which city was the capital?")
    assert is_qualified("Lyon, France", "Lyon", "Where was she born?")
    assert not is_qualified("Philadelphia, Pennsylvania", "Philadelphia", "Which film won?")


# --- lists, lines, paths


@pytest.mark.parametrize(
    ("answer_type", "gold", "answer"),
    [
        ("lines", "[42]", "10. 42"),
        ("lines", "[42]", "10) 42"),
        ("lines", "[42]", "1. 42"),
        ("lines", "[42, 43]", "10. 42\n11. 43"),
        ("set", '["a", "b"]', "2. a\n3. b"),
        ("list", '["a()", "b"]', "a, b"),
        ("set", '["a()", "b"]', "a, b"),
        ("path", "a/b.py", "a/b.py/"),
        ("set", '["a/b.py"]', '["a/b.py/"]'),
    ],
)
def test_what_looks_like_an_item_is_not_cut_to_one(answer_type, gold, answer):
    assert check(answer, [gold], answer_type) != "correct"


@pytest.mark.parametrize(
    ("answer_type", "gold", "answer"),
    [
        ("lines", "[10, 42]", "1) 10\n2) 42"),
        ("set", '["a", "b"]', "a(), b()"),
        ("set", '["a()", "b"]', "b, a()"),
        ("path", "a/b.py", "./a/b.py"),
    ],
)
def test_bullets_and_calls_are_taken_off_where_they_say_nothing(answer_type, gold, answer):
    assert check(answer, [gold], answer_type) == "correct"
