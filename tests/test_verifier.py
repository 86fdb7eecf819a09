"""The verifier without a judge: the handed cases, its rules one by one, and answers made to break it."""

import json
import time
from pathlib import Path
from typing import get_args

import pytest

from rlmlib.answer_types import AnswerType
from rlmlib.scoring.answers.pairs import pairs
from rlmlib.scoring.static import MOST_CHARS, STATIC_ONLY, check

CASES = json.loads((Path(__file__).parent / "data/verifier_cases.json").read_text())
JUDGED = ("deep_research", "coding")
GOLDS: dict[AnswerType, str] = {
    "number": "12,480 km",
    "date": "November 14, 2022",
    "label": "less common than",
    "identifier": "build_index",
    "path": "app/cli.py",
    "lines": "[10, 42]",
    "literal": "{'a': 1}",
    "code": "dict[str, int]",
    "set": '["Cat", "Dog"]',
    "list": '["Cat", "Dog"]',
    "pairs": "[[101, 205]]",
    "choice": "B",
    "text": "Paris",
}
CAPITAL = "Which city was the capital?"


# --- the handed cases


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_the_handed_cases(case):
    answer, family = case["answer"], case["id"].rpartition("-")[0]
    if "times" in case:
        answer += case["then"] * case["times"]
    verdict = check(answer, [case["gold"]], case["answer_type"], case["question"], judge=family in JUDGED)
    assert verdict == case["verdict"] or (verdict == "ask_judge" and case.get("or_ask_judge"))


def test_deep_research_cases_need_no_answer_type():
    wrong = [
        case["id"]
        for case in CASES
        if case["id"].startswith("deep_research") and "times" not in case
        if check(case["answer"], [case["gold"]], "text", case["question"]) != case["verdict"]
    ]
    assert wrong == []


# --- golds, blanks, the judge


def test_any_gold_makes_it_right_and_all_make_it_wrong():
    assert check("12", ["11", "12"], "number") == "correct"
    assert check("12", ["11", "13"], "number") == "incorrect"
    assert check("London", ["Paris", "Lyon"]) == "ask_judge"
    assert check("12", ["11", "a dozen"], "number") == "ask_judge"


def test_a_question_without_gold_answers_is_refused():
    with pytest.raises(ValueError, match="no gold answer"):
        check("12", [])


@pytest.mark.parametrize("answer_type", get_args(AnswerType))
@pytest.mark.parametrize("answer", [None, "", "  \n", "\u200b\ufeff", "<think>It is Paris.</think>"])
def test_no_answer_is_wrong(answer, answer_type):
    assert check(answer, [GOLDS[answer_type]], answer_type) == "incorrect"


@pytest.mark.parametrize("answer_type", get_args(AnswerType))
def test_a_gold_answer_equals_itself(answer_type):
    assert check(f" {GOLDS[answer_type]}\n", [GOLDS[answer_type]], answer_type) == "correct"


@pytest.mark.parametrize("answer_type", get_args(AnswerType))
@pytest.mark.parametrize("answer", ["I would rather talk about the weather", "about 5 or 6", "{", "x = [", "Answer: 1\nAnswer: 2"])
def test_types_without_a_judge_never_ask_for_one(answer_type, answer):
    assert check(answer, [GOLDS[answer_type]], answer_type, judge=False) != "ask_judge"
    if answer_type in STATIC_ONLY:
        assert check(answer, [GOLDS[answer_type]], answer_type) == "incorrect"


# --- what an answer marks as final


@pytest.mark.parametrize(
    "answer",
    [
        "Answer: Paris",
        "**Answer:** Paris",
        "**Final answer: Paris**",
        "So the final answer is Paris.",
        "It took a while to find the seat of the government in these pages. The answer is: Paris",
        "I read all of the pages and compared what they say about the government.\n\n**Paris**",
        "The answer is $\\boxed{Paris}$.",
        "\\boxed{\\text{Paris}}",
        "<answer>Paris</answer>",
        "FINAL(Paris)",
        '```json\n{"answer": "Paris"}\n```',
        "<think>London? No.</think>\nParis",
        "Answer: Paris\nAnswer: PARIS",
        "Answer:\nParis",
    ],
)
def test_the_marked_span_is_the_answer(answer):
    assert check(answer, ["Paris"], "text", CAPITAL) == "correct"


@pytest.mark.parametrize(
    "answer",
    [
        "Answer: London\nAnswer: Paris",
        "Answer: Paris\nAnswer: London",
        "Answer: Paris\nActually no, it is London.",
        "Answer: Paris\nAnswer: ?",
        "Wrong answer: Paris",
        "It is not \\boxed{Paris}",
        "These were ruled out:\n**Paris**",
        "**Paris**\n\n**London**",
        '{"answer": "London", "answer": "Paris"}',
        '{"answer": "Paris", "other": "London"}',
        "Paris?",
        "Maybe Paris",
        "Paris, London",
        "Everything except Paris",
        "Paris Hilton",
        "It is the mayor of Paris",
        "The city that lost to London was Paris, they all said",
    ],
)
def test_what_is_not_settled_is_for_the_judge(answer):
    assert check(answer, ["Paris"], "text", CAPITAL) == "ask_judge"


def test_gold_in_more_than_twelve_words_is_never_accepted():
    words = "it was the"
    for filler in range(4, 30):
        verdict = check(f"{words} {'the ' * (filler - 4)}Paris", ["Paris"], "text", CAPITAL)
        assert verdict == ("correct" if filler <= 12 else "ask_judge")


# --- what holds no answer


@pytest.mark.parametrize(
    "answer",
    ["I don't know.", "The text does not mention it.", "NOT_FOUND", "Not enough information.", "final_answer", "result[0]", "FINAL_VAR(x)"],
)
def test_refusals_and_leftovers_are_wrong(answer):
    assert check(answer, ["Paris"], "text", CAPITAL) == "incorrect"


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("The text does not mention it, but it is Paris.", "Paris"),
        ("The records do not say which of the two it was", "Neither"),
        ("None", "No survivors"),
        ("Unknown", "Nobody knows"),
    ],
)
def test_what_may_be_an_answer_is_no_refusal(answer, gold):
    assert check(answer, [gold]) == "ask_judge"


# --- one kind after the other; judge=True throughout

RULES = [
    ("number", "7 years", "How many years passed?", "correct", ["7", "seven", "7 yrs", "7.0", "7-year", "Seven years."]),
    ("number", "7 years", "How many years passed?", "incorrect", ["8", "7 months", "-7", "17", "7 km", "7%", "7 million"]),
    ("number", "7 years", "How many years passed?", "ask_judge", ["84 months", "7+", "~7", "7 or 8", "7-8", "7½", "7²", "VII", "7!"]),
    ("number", "12480", "How many residents?", "correct", ["12,480", "12 480", "12'480", "12_480", "12\u202f480", "12.48 thousand"]),
    ("number", "12480", "How many residents?", "ask_judge", ["12.480", "12.480,00", "124,80", "1 2480", "12480 of 13000"]),
    ("number", "1.8", "What is the ratio?", "ask_judge", ["1.79", "1.8?", "9/5"]),
    ("number", "45%", "What percentage is it?", "correct", ["45", "45 percent", "45 per cent", "45.0 %"]),
    ("number", "45%", "What share is it?", "ask_judge", ["45", "0.45"]),
    ("number", "£5 million", "What did it cost?", "correct", ["5,000,000 pounds", "£5m", "GBP 5 million"]),
    ("number", "15 years old", "How old was it?", "correct", ["15", "15 years", "fifteen"]),
    ("number", "LXXVIII", "Which number?", "ask_judge", ["78", "LXXVII"]),
    ("date", "November 14, 2022", "When?", "correct", ["14th of November, 2022", "Mon, Nov. 14, 2022", "2022-11-14T00:00:00"]),
    ("date", "November 14, 2022", "When?", "incorrect", ["14 November 2021", "October 2022", "2021", "not November 14, 2022"]),
    ("date", "November 14, 2022", "When?", "ask_judge", ["11/14/22", "2022", "November 31, 2022", "before November 14, 2022"]),
    ("date", "4 May 2022", "When? (DD/MM/YYYY)", "correct", ["04/05/2022"]),
    ("date", "4 May 2022", "When?", "ask_judge", ["04/05/2022"]),
    ("label", "spam", "Which label is the most common?", "correct", ["Label: Spam", "The most common label is spam.", "'spam'"]),
    ("label", "spam", "Which label is the most common?", "incorrect", ["The least common label is spam", "spam, ham", "not spam", "spam?"]),
    ("label", "64959", "Which user?", "correct", ["User: 64959", "user 64959"]),
    ("label", "64959", "Which user?", "incorrect", ["-64959", "064959", "64959 and 12"]),
    ("identifier", "build_index", "Which function?", "correct", ["The function is `build_index`.", "app.core.build_index"]),
    ("identifier", "build_index", "Which function?", "incorrect", ["Build_index", "_build_index", "build_index2", "buildindex"]),
    ("identifier", "build_index", "Which function?", "ask_judge", ["Other.build_index", "build_index or x", "not build_index"]),
    ("identifier", "count", "Which method?", "ask_judge", ["The count is total"]),
    ("path", "app/cli.py", "Which file?", "correct", ["./app/cli.py", "app/cli.py:12-14", "It is app/cli.py.", "app//cli.py"]),
    ("path", "app/cli.py", "Which file?", "incorrect", ["app/CLI.py", "app/cli.pyi", "myapp/cli.py", "app/x.py"]),
    ("path", "app/cli.py", "Which file?", "ask_judge", ["cli.py", "src/app/cli.py", "app.cli", "app/cli.py or app/x.py"]),
    ("lines", "[10, 42]", "On which lines?", "correct", ["Lines 42 and 10", "L10\nL42", "- 10\n- 42", "['10', '42']", "10, 42, 42"]),
    ("lines", "[10, 42]", "On which lines?", "incorrect", ["10", "10, 43", "none", "9, 41"]),
    ("lines", "[10, 42]", "On which lines?", "ask_judge", ["10-42", "10 or 42", "10, not 42", "10, 42?"]),
    ("literal", "'r'", "What is the default?", "correct", ["r", '"r"', "u'r'", "The default is 'r'."]),
    ("literal", "'r'", "What is the default?", "incorrect", ["'R'", "b'r'", "w", "None"]),
    ("literal", "'5'", "What is the default?", "ask_judge", ["5"]),
    ("literal", "None", "What is the default?", "ask_judge", ["'None'", "null", "no default"]),
    ("literal", "60", "What is the default?", "correct", ["0x3c", "6_0", "60."]),
    ("literal", "60", "What is the default?", "incorrect", ["60.0", "61", "True", "[60]"]),
    ("literal", "{'a': 1, 'b': [1]}", "What is it?", "correct", ['{"b": [1], "a": 1}']),
    ("literal", "{'a': 1, 'b': [1]}", "What is it?", "incorrect", ["{'a': True, 'b': [1]}", "{'a': 1, 'b': (1,)}", "{'a': 1}"]),
    ("code", "dict[str, int]", "What does it return?", "correct", ["-> dict[str,int]", "'dict[str, int]'", "`dict[str, int]`."]),
    ("code", "dict[str, int]", "What does it return?", "incorrect", ["dict[int, str]", "dict", "dict[str, float]"]),
    ("code", "dict[str, int]", "What does it return?", "ask_judge", ["typing.Dict[str, int]", "dict[str, int] | None", "a mapping"]),
    ("set", '["Cat", "Dog"]', "Which classes?", "correct", ["Dog & Cat", "The classes are Cat and Dog.", "1. Dog\n2. Cat", "`Cat`, `Dog`"]),
    ("set", '["Cat", "Dog"]', "Which classes?", "incorrect", ["Cat", "Cat, Dog, Fox", "none"]),
    ("set", '["Cat", "Dog"]', "Which classes?", "ask_judge", ["cat, dog", "Cat or Dog", "pets.Cat, pets.Dog", "Cat, Dog, etc."]),
    ("set", '["Italy", "Norway"]', "Which two countries tied?", "correct", ["norway and italy", "NORWAY, ITALY"]),
    ("set", "[]", "Which classes?", "correct", ["none", "There are no such classes.", "set()"]),
    ("list", '["a(1, 2)", "b"]', "Which decorators, in order?", "correct", ["@a(1, 2), @b", "a(1, 2)\nb"]),
    ("list", '["Cat", "Dog"]', "Which classes?", "incorrect", ["Dog, Cat", "Cat", "Cat, Dog, Cat"]),
    ("pairs", "[[1, 2], [1, 3]]", "Which pairs?", "correct", ["(2, 1) and (1, 3)", "```\n1, 2\n3, 1\n```", "1. (1, 2)\n2. (1, 3)"]),
    ("pairs", "[[1, 2], [1, 3]]", "Which pairs?", "incorrect", ["(1, 2)", "not (1, 2), (1, 3)", "(1, 2), (1, 3), (1, 1)"]),
    ("pairs", "[[1, 2]]", "Which pairs?", "incorrect", ["(1, 2)" + "]" * 300 + " or none of them", "(1, 2, 3)", "(01, 2)"]),
    ("choice", "B", "(A) Grass grows. (B) It rains.", "correct", ["b)", "\\boxed{B}", "It rains", "(B) It rains.", "Answer: B\nIt pours"]),
    ("choice", "B", "(A) Grass grows. (B) It rains.", "incorrect", ["A or B", "not B", "(B) is wrong", "(B) Grass grows", "Answer: B, A"]),
    ("text", "No", "Was he alive?", "correct", ["no.", "No, he was not."]),
    ("text", "No", "Was he alive?", "incorrect", ["Yes", "Yes, he was alive."]),
    ("text", "No", "Was he alive?", "ask_judge", ["No doubt", "Yes and no", "No, he was alive", "He was not"]),
    ("text", "It", "Which novel?", "ask_judge", ["It was the answer", "The answer"]),
    ("text", "C++", "Which language?", "ask_judge", ["C", "C+"]),
    ("text", "Henry V", "Which king?", "ask_judge", ["Henry", "Henry VI"]),
    ("text", "Mozart", "Which of Mozart and Haydn was younger?", "ask_judge", ["Mozart Haydn", "Mozart was younger"]),
    ("text", "Italy", "Which country?", "ask_judge", ["Italy, Norway"]),
    ("text", "Mesut Ozil", "Who?", "correct", ["This was Mesut Özil."]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("answer_type", "gold", "question", "verdict", "answer"),
    [(*rule, answer) for *rule, answers in RULES for answer in answers],
)
def test_the_rules_of_each_kind(answer_type, gold, question, verdict, answer):
    assert check(answer, [gold], answer_type, question) == verdict


def test_pairs_are_read_with_the_smaller_id_first():
    assert pairs("(330, 101), [205, 101]")[0] == [("101", "330"), ("101", "205")]


# --- bounds

HOSTILE = {
    "a million digits": "9" * 10**6,
    "signs": "-" * MOST_CHARS + "1",
    "a deep sum": "1" + "+1" * 9_000,
    "brackets": "[" * MOST_CHARS,
    "balanced brackets": "(" * 9_000 + ")" * 9_000,
    "objects": '{"answer":' * 2_000,
    "attributes": "a" + ".b" * 1_900,
    "lambdas": "lambda:" * 500 + "x",
    "nots": "not " * 900 + "x",
    "boxes": "\\boxed{" * 2_000,
    "nested boxes": "\\boxed{" * 1_000 + "x" + "}" * 1_000,
    "marks": "Answer: " * 2_400,
    "bold": "**a" * 6_000,
    "blanks": "x" + " " * (MOST_CHARS - 2) + "y",
    "commas": ", " * 9_999,
    "numbers": "1,000" * 3_900,
    "dates": "1 January " * 1_900,
    "powers": "²" * MOST_CHARS,
    "accents": "e" + "\u0301" * (MOST_CHARS - 1),
    "half a character": "\ud800" * 100,
    "zero bytes": "\x00x" * 100,
    "a long exponent": "1e99999999",
    "hexadecimal": "0x" + "f" * 3_900,
    "a formatted string": "f'{" * 3_000,
    "slashes": "../" * 6_600,
    "options": "(A) " * 4_900,
    "paragraphs": "the x y z " * 1_900 + ": a, b",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_answers_neither_crash_nor_hang(name):
    start = time.process_time()
    for answer_type in get_args(AnswerType):
        assert check(HOSTILE[name], [GOLDS[answer_type]], answer_type, "Which (A) one (B) two?") != "correct"
    assert time.process_time() - start < 5


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_questions_neither_crash_nor_hang(name):
    start = time.process_time()
    for answer_type in get_args(AnswerType):
        check("about 5 of them", [GOLDS[answer_type]], answer_type, HOSTILE[name])
    assert time.process_time() - start < 5


def test_too_long_an_answer_is_not_read():
    text = "word " * (MOST_CHARS // 5)
    assert check(f"{text}\nAnswer: Paris", ["Paris"]) == "ask_judge"
    assert check(f"{text[: MOST_CHARS // 2]}\nAnswer: Paris", ["Paris"]) == "correct"


def test_ten_thousand_pairs_are_read():
    gold = [[user, other] for user in range(100) for other in range(1000, 1100)]
    answer = "\n".join(f"({other}, {user})" for user, other in reversed(gold))
    assert len(answer) > MOST_CHARS
    assert check(answer, [json.dumps(gold)], "pairs") == "correct"
    assert check(answer.rpartition("\n")[0], [json.dumps(gold)], "pairs") == "incorrect"
