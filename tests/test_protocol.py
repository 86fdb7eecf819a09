"""What a reply means: blocks and final answers. The cases carry a `decision` where sources disagree."""

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlmlib.harness.protocol import cut_output, parse_reply

CASES = json.loads((Path(__file__).parent / "data/protocol_cases.json").read_text())
text = st.text(max_size=300)


@pytest.mark.parametrize("case", CASES["fences"], ids=lambda c: c["id"])
def test_blocks_of_a_reply(case):
    assert list(parse_reply(case["reply"]).blocks) == case["blocks"]


@pytest.mark.parametrize("case", CASES["finals"], ids=lambda c: c["id"])
def test_final_of_a_reply(case):
    parsed = parse_reply(case["reply"])
    assert (parsed.final, parsed.final_var) == (case["final"], case["final_var"])


@given(text)
def test_any_text_can_be_parsed(reply):
    parsed = parse_reply(reply)
    assert all(block.strip() for block in parsed.blocks)


@given(st.text(alphabet="`FINALVR_()repl\n '\"x<>think/", max_size=200))
def test_any_mix_of_the_marks_can_be_parsed(reply):
    parsed = parse_reply(reply)
    assert parsed.final is None or parsed.final_var is None


@given(st.text(alphabet="abc=1 \n()'\"", min_size=1, max_size=100).filter(str.strip))
def test_a_fenced_block_without_fences_inside_is_kept_as_it_is(code):
    assert parse_reply(f"look\n```repl\n{code}\n```\ndone").blocks == (code,)


@given(st.text(alphabet="abc \n.", max_size=50), st.text(alphabet="abc \n.", max_size=50))
def test_a_final_is_found_whatever_prose_is_around_it(before, after):
    assert parse_reply(f"{before}\nFINAL(42)\n{after}").final == "42"


@given(st.text(alphabet="ab(c) ", min_size=1).filter(lambda t: t.strip() and _balanced(t)))
def test_balanced_parentheses_inside_a_final_are_kept(answer):
    assert parse_reply(f"FINAL({answer})").final == answer.strip()


def _balanced(value: str) -> bool:
    depth = 0
    for char in value:
        depth += {"(": 1, ")": -1}.get(char, 0)
        if depth < 0:
            return False
    return depth == 0


def test_context_text_in_a_prompt_is_never_parsed():
    """Only replies reach parse_reply; what a block prints is data (see test_harness)."""
    parsed = parse_reply("The page says: FINAL(no) and ```repl inside a line")
    assert parsed == parse_reply("")


def test_final_inside_a_quoted_block_is_no_answer():
    assert parse_reply("```text\nFINAL(42)\n```").final is None


def test_final_after_an_unclosed_block_belongs_to_the_block():
    parsed = parse_reply("```repl\nx = 1\nFINAL(42)")
    assert (parsed.blocks, parsed.final) == (("x = 1\nFINAL(42)",), None)


@given(text, st.integers(1, 50))
def test_short_output_is_not_cut(output, spare):
    assert cut_output(output, len(output) + spare) == output


@given(st.text(min_size=1, max_size=300))
def test_output_of_exactly_the_limit_is_not_cut(output):
    assert cut_output(output, len(output)) == output


@given(st.text(alphabet="ab\n", min_size=2, max_size=300), st.data())
def test_cut_output_shows_head_and_tail_and_counts_the_rest(output, data):
    limit = data.draw(st.integers(1, len(output) - 1))
    cut = cut_output(output, limit)
    mark = f"...[{len(output) - limit} left out]..."
    head, _, tail = cut.partition(mark)
    assert output.startswith(head) and output.endswith(tail) and len(head) + len(tail) == limit and mark in cut


@given(st.integers(3, 300))
def test_both_ends_are_shown_of_what_is_cut(limit):
    cut = cut_output("H" + "x" * 500 + "T", limit)
    assert cut[0] == "H" and cut[-1] == "T"


@given(st.integers(1, 100), st.integers(101, 10**12))
def test_the_count_is_of_the_true_length_where_the_middle_is_lost_already(limit, total):
    assert f"[{total - limit} left out]" in cut_output("y" * 100, limit, total)


LONG = {
    "finals without an end": ("FINAL(\n", ""),
    "finals within finals": ("FINAL(\n", ")"),
    "names without an end": ("FINAL_VAR(\n", ""),
    "names within names": ("FINAL_VAR(\n", ")"),
    "finals": ("FINAL(x)\n", ""),
    "no names": ("FINAL_VAR(x y)\n", ""),
    "on one line": ("FINAL(", ""),
    "empty ones": ("FINAL()\n", ""),
}


@pytest.mark.parametrize("name", LONG)
def test_a_reply_of_many_marks_is_read_in_linear_time(name):
    before, after = LONG[name]
    reply, began = before * 100_000 + after * 100_000, time.process_time()
    parse_reply(reply)
    assert time.process_time() - began < 20  # it takes a tenth of a second; in quadratic time it would be many minutes


def test_a_quoted_answer_nested_too_deeply_is_kept_as_it_is():
    inner = "'a'" + "+'a'" * 100_000
    assert parse_reply(f"FINAL({inner})").final == inner
