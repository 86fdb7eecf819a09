"""The native scores of the benchmarks: the official rules, and the spellings of one answer that count the same."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlmlib.scoring.native import choice, oolong, pair_f1, read_choice, read_pairs, ruler, write_pairs

pairs_of_ids = st.sets(st.tuples(st.integers(10_000, 99_999), st.integers(10_000, 99_999)).map(lambda p: (min(p), max(p))), max_size=12)


# --- RULER


@pytest.mark.parametrize(
    ("golds", "answer", "expected"),
    [
        (["4410937"], "The number for amber-kettle is 4410937.", 1),
        (["4410937"], "4,410,937", 1),
        (["4410937"], "4410938", 0),
        (["4410937"], "441,0937", 0),
        (["0AF3-77"], "it reads 0af3-77", 1),
        (["11", "22", "33", "44"], "11 and 33", 0.5),
        (["11"], None, 0),
        (["11"], "", 0),
    ],
)
def test_ruler_is_the_share_of_golds_that_are_contained(golds, answer, expected):
    assert ruler(golds, answer) == expected


# --- OOLONG


@pytest.mark.parametrize(
    ("gold", "answer", "expected"),
    [
        ("40", "Answer: 40", 1),
        ("40", "**Answer: [40]**", 1),
        ("40", "40", 1),
        ("40", "Answer: 41", 0.75),
        ("40", "Answer: 37", 0.75**3),
        ("1550", "Answer: 1,550", 1),
        ("1550", "Answer: 1,549", 0.75),
        ("40", "Answer: 40.0", 1),
        ("40", "Answer: 40.5", 0),
        ("40", "Answer: about 40", 0),
        ("40", "Answer: forty", 0),
        ("40", "After counting twice I find 40.", 1),
        ("40", "Of 300 lines I would say 40 or so", 0),
        ("40", "Answer:", 0),
        ("40", "", 0),
        ("40", None, 0),
        ("0", "Answer: 0", 1),
        ("3", "Answer: -3", 0.75**6),
    ],
)
def test_oolong_numbers_have_partial_credit(gold, answer, expected):
    assert oolong(gold, answer, "number") == pytest.approx(expected)


def test_oolong_numbers_far_off_are_worth_nothing_and_do_not_overflow():
    assert oolong("3", f"Answer: {10**17}", "number") < 1e-100
    assert oolong("3", f"Answer: {10**400}", "number") == 0


@pytest.mark.parametrize(
    ("gold", "answer", "expected"),
    [
        ("2024-02-09", "Date: 02/09/2024", 1),
        ("2024-02-09", "Date: 2024-02-09", 1),
        ("2024-02-09", "Date: [Feb 9, 2024]", 1),
        ("2024-02-09", "Date: February 9th, 2024", 1),
        ("2024-02-09", "Date: 09/02/2024", 0),  # month first, as the question asks
        ("2024-02-09", "Date: 02/10/2024", 0),
        ("2024-02-09", "Date: February 2024", 0),
        ("2024-02-09", "Date: soon", 0),
        ("March 2023", "Answer: Mar 2023", 1),
        ("March 2023", "Answer: march 2023", 1),
        ("March 2023", "Answer: 03/2023", 1),
        ("March 2023", "Answer: April 2023", 0),
        ("not a date", "neither is this", 0),
    ],
)
def test_oolong_dates_are_read_month_first(gold, answer, expected):
    assert oolong(gold, answer, "date") == expected


@pytest.mark.parametrize(
    ("gold", "answer", "expected"),
    [
        ("entity", "Label: entity", 1),
        ("entity", "Label: **Entity**", 1),
        ("entity", "Label: 'entity'.", 1),
        ("entity", "entity", 1),
        ("human being", "Label: human being", 1),
        ("description and abstract concept", "description and abstract concept", 1),  # long and without a colon
        ("entity", "I counted: the least common label is entity", 0),
        ("entity", "The label that occurs least is entity", 1),
        ("ham", "Label: spam", 0),
        ("entity", "Label: entity, location, human being", 0),  # naming all of them is no answer
        ("64959", "User: [64959]", 1),
        ("00412", "User: 412", 0),
    ],
)
def test_oolong_labels_and_ids_must_be_all_that_is_said(gold, answer, expected):
    assert oolong(gold, answer, "label") == expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("Answer: rain is less common than snow", 1),
        ("Answer: rain is less common than snow.", 1),
        ("less common", 1),
        ("Answer: less common than", 1),
        ("Answer: rain is more common than snow", 0),
        ("Answer: rain is the same frequency as snow", 0),
        ("Answer: rain is not less common than snow", 0),
        ("Answer: rain is more common than or less common than snow", 0),
    ],
)
def test_oolong_comparisons_go_by_their_phrase(answer, expected):
    assert oolong("less common than", answer, "label") == expected


# --- pairs


@pytest.mark.parametrize(
    ("gold", "answer", "expected"),
    [
        ("[[101,205],[101,330]]", "(101, 205)\n(330, 101)", 1),
        ("[[101,205],[101,330]]", '[["101", "205"], ["101", "330"]]', 1),
        ("[[101,205],[101,330]]", "(101, 205)", 2 / 3),
        ("[[101,205]]", "(101, 205)\n(205, 101)\n(101, 205)", 1),
        ("[[101,205]]", "- 101, 205", 1),
        ("[[101,205]]", "101, 205, 330", 0),  # which pairs are meant?
        ("[[101,205]]", "(101, 101)\n(101, 205)", 2 / 3),
        ("[[101,205]]", "<think>(1, 2) or (3, 4)?</think>(101, 205)", 1),
        ("[[101,205]]", "no pairs", 0),
        ("[[101,205]]", None, 0),
        ("[]", "There is no such pair.", 1),
        ("[]", "No pairs of users fit.", 1),
        ("[]", "[]", 1),
        ("[]", "<think>(1, 2)?</think>none", 1),
        ("[]", "I could not do it", 0),
        ("[]", "(101, 205)", 0),
        ("[]", "", 0),
        ("[]", None, 0),
        ("[]", "  \n", 0),
    ],
)
def test_pairs_are_scored_by_f1_over_unordered_pairs(gold, answer, expected):
    assert pair_f1(gold, answer) == pytest.approx(expected)


@settings(deadline=None)
@given(pairs_of_ids, st.integers(0, 99))
def test_pairs_survive_writing_whatever_their_order(pairs, seed):
    rng = random.Random(seed)
    flipped = [(b, a) if rng.random() < 0.5 else (a, b) for a, b in sorted(pairs)]
    rng.shuffle(flipped)
    assert read_pairs(write_pairs(pairs)) == pairs
    assert read_pairs("\n".join(f"({a}, {b})" for a, b in flipped)) == pairs
    assert read_pairs("\n".join(f"{a}, {b}" for a, b in flipped)) == pairs


@settings(deadline=None)
@given(pairs_of_ids, pairs_of_ids)
def test_f1_is_symmetric_and_one_for_equal_sets_only(first, second):
    forward = pair_f1(write_pairs(first), write_pairs(second))
    assert forward == pytest.approx(pair_f1(write_pairs(second), write_pairs(first)))
    assert (forward == 1) == (first == second)
    assert 0 <= forward <= 1


# --- choices


@pytest.mark.parametrize(
    ("answer", "letter"),
    [
        ("C", "C"),
        ("c)", "C"),
        ("(C)", "C"),
        ("**C**", "C"),
        ("'C'", "C"),
        ("C.", "C"),
        ("C. The parser is called first.", "C"),
        ("The correct answer is (C).", "C"),
        ("The correct answer is C", "C"),
        ("Answer: option C", "C"),
        ("The correct answer is (A). Wait, the correct answer is (C).", "C"),
        ("The answer is A or C", None),
        ("A or C", None),
        ("(A) or (C)", None),
        ("A) and C)", None),
        ("The answer is A/C", None),
        ("The answer is A, C", None),
        ("The answer is A, possibly C", None),
        ("The answer is option A or option C", None),
        ("(A) (C)", None),
        ("The answer is C, no wait", None),
        ("The answer is C. No.", None),
        ("The answer is C?", None),
        ("C) Wait, A", None),
        ("C. Snow falls, or A", None),
        ("The wrong answer is C", None),
        ("The only wrong option is C", None),
        ("Neither option A nor option C", None),
        ("I would not choose option C", None),
        ("\\boxed{C}", "C"),
        ("The answer is $\\boxed{\\text{C}}$.", "C"),
        ("<answer>C</answer>", "C"),
        ("Option C", "C"),
        ("The correct option is C", "C"),
        ("The best choice is (c).", "C"),
        ("The correct answer is (C). But (A) is tempting.", "C"),
        ("The answer is (C), because A is wrong", "C"),
        ("The answer is (C), not (A).", "C"),
        ("Answer: C\n\nA fails.", "C"),
        ("C. A parser is called first.", "C"),
        ("A closer look shows nothing.", None),
        ("The answer is a closer look away", None),
        ("E", None),
        ("", None),
        (None, None),
    ],
)
def test_the_letter_of_an_answer(answer, letter):
    assert read_choice(answer) == letter


def test_a_choice_is_right_or_wrong():
    assert (choice("C", "The correct answer is (C)"), choice("C", "B"), choice("C", None)) == (1, 0, 0)
