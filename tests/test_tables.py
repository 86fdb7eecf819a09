"""Tables in notebooks."""

import re

import pandas as pd
import pytest

from rlmlib.tables import Table, brief, decimals


def cells(frame: pd.DataFrame) -> list[list[str]]:
    page = Table(frame)._repr_html_()
    return [re.findall(r"<t[hd] [^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL)]


def test_numbers_of_a_column_have_the_same_decimals():
    frame = pd.DataFrame({"n": [9, 12345], "score": [1.0, 0.9444], "tokens": [431.556, 36295.1], "seconds": [0.034, 0.16]})
    assert cells(frame) == [list(frame), ["9", "1.00", "432", "0.034"], ["12,345", "0.94", "36,295", "0.160"]]


@pytest.mark.parametrize(("largest", "expected"), [(0, 0), (float("nan"), 0), (float("inf"), 0), (999, 0), (5, 2), (10, 1), (0.0123, 4)])
def test_decimals_give_three_digits(largest, expected):
    assert decimals(largest) == expected


def test_what_is_missing_is_empty():
    frame = pd.DataFrame({"length": [8192, None], "error": [None, "x"], "score": [float("nan")] * 2, "ok": [True, False]})
    assert cells(frame)[1:] == [["8,192", "", "", "True"], ["", "x", "", "False"]]


def test_headings_stand_over_their_columns():
    page = Table(pd.DataFrame({"name": ["a"], "n": [1]}))._repr_html_()
    assert re.findall(r"text-align: (\w+)", page) == ["left", "right", "left", "right"]


def test_texts_are_shown_as_they_are():
    assert cells(pd.DataFrame({"q": ["<b>a & b</b>"]}))[1] == ["&lt;b&gt;a &amp; b&lt;/b&gt;"]


def test_an_empty_table_has_its_headings():
    assert cells(pd.DataFrame(columns=["id", "score"])) == [["id", "score"]]


def test_a_terminal_sees_the_same_numbers():
    assert repr(Table(pd.DataFrame({"name": ["a"], "tokens": [1234.5]}))).split() == ["name", "tokens", "a", "1,234"]


def test_a_brief_text_is_one_line():
    assert brief("a\n b", 9) == "a b" and brief(None, 9) == "" and brief("abcdef", 4) == "abc…"
