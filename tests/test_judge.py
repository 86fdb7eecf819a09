"""The judge: who decides, what a failure of the judge model is worth, what is counted, what is remembered."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judge_support import GOLDS, HANG, QUESTION, RIGHT, WRONG, ScriptedModel, judged, run, says

from rlmlib.errors import InfrastructureError, RunError
from rlmlib.harness.trajectory import Tokens
from rlmlib.models.base import ModelError
from rlmlib.scoring.judge import Judge
from rlmlib.scoring.verdict import Verdict, VerdictCache, verdict_key

# --- who decides


def test_a_static_match_costs_no_call():
    model = says(WRONG)
    assert judged(model, " 'ADA  byron' ") == Verdict(True, "static")
    assert model.heard == []


@pytest.mark.parametrize("candidate", [None, "", " \n\t"])
def test_no_answer_is_wrong_without_a_call(candidate):
    model = says(RIGHT)
    assert judged(model, candidate) == Verdict(False, "none")
    assert model.heard == []


@pytest.mark.parametrize(("line", "correct"), [(RIGHT, True), (WRONG, False), (f"\n {WRONG} \n", False)])
def test_the_judge_model_decides_the_rest(line, correct):
    verdict = judged(says(line))
    assert (verdict.correct, verdict.source) == (correct, "judge")


def test_the_judge_model_sees_question_golds_and_candidate():
    model = says(RIGHT)
    judged(model, "the Countess")
    assert all(text in model.heard[0][-1].content for text in (QUESTION, *GOLDS, "the Countess"))


def test_a_question_without_gold_answers_is_refused():
    with pytest.raises(ValueError, match="no gold answer"):
        judged(says(RIGHT), golds=[])


def test_a_closed_judge_says_how_to_open_it():
    with pytest.raises(RuntimeError, match="async with judge"):
        run(Judge(says(RIGHT)).submit(QUESTION, GOLDS, "x"))


# --- malformed replies


def test_a_malformed_reply_is_asked_again_once_in_other_words():
    model = says("It depends.", WRONG)
    assert judged(model).correct is False
    first, second = (messages[-1].content for messages in model.heard)
    assert first != second and "Lady Byron" in second


def test_a_judge_that_stays_malformed_is_unknown_not_wrong():
    model = says("CORRECT or\nINCORRECT?")
    verdict = judged(model)
    assert verdict.correct is None and len(model.heard) == 2
    assert "malformed" in verdict.reason and "\n" not in verdict.reason


# --- a judge that cannot be reached


@pytest.mark.parametrize("error", [ModelError("unavailable", "503,\nretry later"), InfrastructureError("503, retry later")])
def test_an_unreachable_judge_is_unknown_with_its_reason(error):
    verdict = judged(says(error))
    assert (verdict.correct, verdict.reason) == (None, "judge scripted: 503, retry later")


def test_a_judge_that_fails_at_the_re_ask_is_unknown():
    assert judged(says("hm", ModelError("timeout", "late"))).correct is None


def test_a_hanging_judge_is_unknown_in_time():
    assert judged(says(HANG), call_timeout_s=0.05).correct is None


def test_a_fault_of_the_program_is_raised_not_scored():
    with pytest.raises(ZeroDivisionError):
        judged(says(ZeroDivisionError()))


# --- usage


def test_usage_sums_malformed_and_failed_calls():
    lines = ["hm", RIGHT, ModelError("unavailable", "down", attempts=3, prompt_tokens=40, completion_tokens=1)]

    async def three():
        async with Judge(says(*lines)) as judge:
            first, second = await judge.verdict(QUESTION, GOLDS, "a"), await judge.verdict(QUESTION, GOLDS, "b")
            return first, second, judge

    first, second, judge = run(three())
    assert first.tokens == Tokens(200, 10, 4, 1.0)
    assert second.tokens == Tokens(40, 1, 0, None)
    assert judge.usage == first.tokens + second.tokens
    assert judge.requests == 5


# --- the cache


def test_an_equal_question_later_costs_nothing():
    async def twice():
        model = says(WRONG)
        async with Judge(model) as judge:
            await judge.verdict(QUESTION, GOLDS, "x")
            return await judge.verdict(QUESTION, GOLDS[::-1], " x\n"), len(model.heard)

    assert run(twice()) == (Verdict(False, "cache"), 1)


def test_an_unknown_verdict_is_asked_again_later():
    async def twice():
        async with Judge(says("hm", "hm", WRONG)) as judge:
            return [(await judge.verdict(QUESTION, GOLDS, "x")).correct for _ in range(2)]

    assert run(twice()) == [None, False]


parts = st.tuples(st.text(), st.text(), st.lists(st.text(), min_size=1, max_size=3).map(sorted), st.text())


@given(parts, parts)
def test_keys_are_equal_only_for_equal_parts(a, b):
    assert (verdict_key(*a) == verdict_key(*b)) is (a == b)


@pytest.mark.parametrize(
    ("a", "b"), [(("q", ["g", "h"], "c"), ("q", ["g"], "hc")), (("q", ["g"], "\ud83d\ude00"), ("q", ["g"], "\U0001f600"))]
)
def test_keys_of_parts_that_look_alike_differ(a, b):
    assert verdict_key("judge", *a) != verdict_key("judge", *b)


def test_another_judge_model_does_not_inherit_verdicts():
    cache = VerdictCache()
    assert judged(says(WRONG), cache=cache).source == "judge"
    assert judged(ScriptedModel(name="other"), cache=cache).source == "judge"


def test_a_cache_file_outlives_the_process(tmp_path):
    judged(says(WRONG), cache=VerdictCache(tmp_path / "verdicts.jsonl"))
    assert judged(says(RIGHT), cache=VerdictCache(tmp_path / "verdicts.jsonl")) == Verdict(False, "cache")


def test_a_line_torn_anywhere_is_ignored_and_the_file_goes_on(tmp_path):
    path = tmp_path / "verdicts.jsonl"
    cache = VerdictCache(path)
    cache.put("first", False)
    whole = path.stat().st_size
    cache.put("second", True)
    content = path.read_bytes()
    for cut in range(whole, len(content) - 1):
        path.write_bytes(content[:cut])
        torn = VerdictCache(path)
        assert torn.get("first").correct is False and torn.get("second") is None
        torn.put("third", True)
        assert [json.loads(line)["key"] for line in path.read_text().splitlines()] == ["first", "third"]


@pytest.mark.parametrize("content", [b"\xff\xfe\n", b"[1]\n", b'{"key": "a"}\n'])
def test_a_file_that_is_no_cache_is_named(tmp_path, content):
    path = tmp_path / "other.jsonl"
    path.write_bytes(content)
    with pytest.raises(RunError, match="other.jsonl"):
        VerdictCache(path)


def test_a_cache_that_cannot_be_written_stops_the_run(tmp_path):
    cache = VerdictCache(tmp_path / "folder/verdicts.jsonl")
    (tmp_path / "folder").write_text("a file where the folder should be")
    with pytest.raises(RunError, match="folder"):
        judged(says(RIGHT), cache=cache)


# --- what a candidate can do to its judge


def blocked_by(word: str):
    """A model whose provider refuses every prompt with this word."""
    blocked = ModelError("blocked", "the prompt was\nblocked (SAFETY)", 1, 30)
    return ScriptedModel(lambda text, number: blocked if word in text else WRONG)


def test_a_candidate_that_the_provider_blocks_is_wrong():
    verdict = judged(blocked_by("violent"), "a violent answer")
    assert (verdict.correct, verdict.source) == (False, "judge")
    assert verdict.reason == "judge scripted: blocked by the answer: the prompt was blocked (SAFETY)"
    assert verdict.tokens.total == 30 + 105


def test_a_question_that_the_provider_blocks_is_unknown():
    assert judged(blocked_by(QUESTION), "any answer").correct is None


def test_a_judge_that_fails_after_a_block_is_unknown():
    lines = [ModelError("blocked", "blocked"), ModelError("unavailable", "503")]
    assert judged(says(*lines)).correct is None


@pytest.mark.parametrize("candidate", ["a" + "\u0315" * 50_000 + "\u0300" * 50_000, "\u0f73" * 100_000, "x" * 10_000_000])
def test_no_candidate_holds_up_the_event_loop(candidate):
    began = time.process_time()
    assert judged(says(WRONG), candidate).correct is False
    assert time.process_time() - began < 1


def test_marks_that_a_writing_puts_on_a_letter_are_compared():
    assert judged(says(WRONG), "Caf" + "e\u0301", golds=["Caf\u00e9"]) == Verdict(True, "static")
