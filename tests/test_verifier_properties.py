"""What must not change a verdict: letter case, blanks, separators, order, quotes and marks, for any answer."""

import json
from typing import get_args

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rlmlib.answer_types import AnswerType
from rlmlib.scoring.static import canonical, check, is_correct

KINDS = st.sampled_from(get_args(AnswerType))
WORDS = st.text("abcdefgXYZ", min_size=1, max_size=8)
PHRASES = st.lists(WORDS, min_size=1, max_size=4).map(" ".join)
ANY = st.text(max_size=60).filter(lambda text: not check(text, [text]) == "incorrect")  # blank ones are wrong
NAMES = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,9}", fullmatch=True)
MARKS = st.sampled_from(
    ["**{}**", "`{}`", '"{}"', "“{}”", "Answer: {}", "**Answer:** {}", "\\boxed{{{}}}", "<answer>{}</answer>", " {}\n", "{}."]
)
SEPARATORS = st.sampled_from([",", " ", "\u202f", "\u2009", "_", "'", "’"])
TEXTS = st.text(st.characters(exclude_characters="`"), max_size=6)
LITERALS = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


@given(ANY, KINDS)
def test_every_answer_equals_itself(text, kind):
    assert check(text, [text], kind) == "correct"


@given(st.text(max_size=80), st.text(max_size=40), KINDS, st.text(max_size=40))
def test_any_text_has_a_verdict(answer, gold, kind, question):
    assert check(answer, [gold], kind, question) in ("correct", "incorrect", "ask_judge")
    assert check(answer, [gold], kind, question, judge=False) in ("correct", "incorrect")


@given(ANY, st.sampled_from([str.upper, str.lower, str.swapcase, str.title]))
def test_letter_case_makes_no_text_wrong(text, change):
    assert check(change(text), [text]) != "incorrect"


@given(ANY, MARKS)
def test_marks_and_quotes_make_no_text_wrong(text, mark):
    assert check(mark.format(text), [text]) != "incorrect"


@given(PHRASES, MARKS, st.sampled_from([str.upper, str.lower, str.swapcase]), st.sampled_from(["  ", "\n", "\t", "\u00a0"]))
def test_a_phrase_stays_right_in_any_dress(phrase, mark, change, blank):
    dressed = mark.format(change(phrase).replace(" ", blank if mark not in ("Answer: {}", "**Answer:** {}") else "  "))
    assert check(dressed, [phrase]) == "correct"
    assert check(dressed, [phrase], "label") == "correct"


@given(st.integers(0, 10**15), SEPARATORS, MARKS)
def test_a_number_stays_right_with_separators_and_marks(number, separator, mark):
    assert check(mark.format(f"{number:,}".replace(",", separator)), [str(number)], "number") == "correct"
    assert check(mark.format(str(number)), [f"{number:,}"], "text") == "correct"


@given(st.integers(-(10**9), 10**9), st.integers(-(10**9), 10**9), SEPARATORS)
def test_two_whole_numbers_are_equal_only_by_value(a, b, separator):
    verdict = check(f"{a:,}".replace(",", separator), [str(b)], "number")
    assert (verdict == "correct") is (a == b)
    assert verdict != "ask_judge" or separator == ","  # a comma can be a decimal one


@given(st.decimals(-1000, 1000, places=2), st.decimals(-1000, 1000, places=2))
def test_two_decimals_are_equal_only_by_value(a, b):
    assert (check(str(a), [str(b)], "number") == "correct") is (a == b)


@given(st.dates(), st.dates(), st.sampled_from(["%Y-%m-%d", "%B %d, %Y", "%d %b %Y", "%A, %d %B %Y"]))
def test_two_dates_are_equal_only_by_day(a, b, layout):
    assume(a.year > 999 and b.year > 999)
    assert check(a.strftime(layout), [a.isoformat()], "date") == "correct"
    assert check(a.strftime(layout), [b.isoformat()], "date") == ("correct" if a == b else "incorrect")


@given(st.lists(NAMES, min_size=1, max_size=6, unique=True), st.randoms(use_true_random=False), st.sampled_from([", ", "; ", "\n", ",\n"]))
def test_a_set_stays_right_in_any_order(names, rng, separator):
    mixed = rng.sample(names, len(names))
    gold = json.dumps(names)
    assume("and" not in names)
    assert check(json.dumps(mixed), [gold], "set") == "correct"
    assert check(str(mixed), [gold], "set") == "correct"
    assert check(separator.join(f"`{name}`" for name in mixed), [gold], "set") == "correct"
    assert check("\n".join(f"- {name}" for name in mixed), [gold], "set") == "correct"


@given(st.lists(NAMES, min_size=2, max_size=6, unique=True), st.randoms(use_true_random=False))
def test_a_list_is_right_only_in_its_order(names, rng):
    mixed = rng.sample(names, len(names))
    assert (check(json.dumps(mixed), [json.dumps(names)], "list") == "correct") is (mixed == names)


@given(st.lists(NAMES, min_size=1, max_size=5, unique=True), st.lists(NAMES, min_size=1, max_size=5, unique=True))
def test_two_sets_are_equal_only_by_their_names(names, others):
    assert (check(json.dumps(others), [json.dumps(names)], "set") == "correct") is (set(names) == set(others))


@given(NAMES, NAMES)
def test_two_identifiers_are_equal_only_letter_by_letter(a, b):
    assert check(f"`{b}`", [a], "identifier") == ("correct" if a == b else "incorrect")


@given(st.lists(st.integers(1, 9999), max_size=8, unique=True), st.lists(st.integers(1, 9999), max_size=8, unique=True))
def test_two_sets_of_lines_are_equal_only_by_value(lines, others):
    assert check(str(others), [str(lines)], "lines") == ("correct" if set(lines) == set(others) else "incorrect")


@given(
    st.lists(st.tuples(st.integers(100, 130), st.integers(131, 160)), min_size=1, max_size=6, unique=True),
    st.randoms(use_true_random=False),
)
def test_pairs_stay_right_in_any_order(pairs, rng):
    gold = json.dumps(pairs)
    mixed = [rng.sample(pair, 2) for pair in rng.sample(pairs, len(pairs))]
    assert check("\n".join(f"({a}, {b})" for a, b in mixed), [gold], "pairs") == "correct"
    assert check(json.dumps([*mixed, [1, 2]]), [gold], "pairs") == "incorrect"
    assert check(json.dumps(mixed[1:]), [gold], "pairs") == "incorrect"


@given(LITERALS)
def test_a_literal_equals_its_own_spelling(value):
    assert check(f"`{value!r}`", [repr(value)], "literal") == "correct"


@given(
    st.integers() | st.booleans() | st.none() | st.floats(allow_nan=False, allow_infinity=False), st.integers() | st.booleans() | st.none()
)
def test_two_literals_are_equal_only_by_type_and_value(a, b):
    same = type(a) is type(b) and a == b
    assert check(repr(a), [repr(b)], "literal") == ("correct" if same else "incorrect")


@settings(max_examples=60)
@given(PHRASES, st.lists(WORDS, min_size=13, max_size=30))
def test_gold_in_a_long_text_is_never_accepted(gold, words):
    assert check(" ".join([*words, gold, *words]), [gold]) == "ask_judge"


@given(ANY, ANY)
def test_what_is_equal_in_canonical_form_is_not_wrong(answer, gold):
    assert check(answer, [gold]) != "incorrect" or not is_correct(answer, [gold])
    assert is_correct(answer, [gold]) is (canonical(answer) == canonical(gold))
