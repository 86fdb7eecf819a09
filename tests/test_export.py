"""Trajectories as data: the round trip through a dict, and the log that the rlms visualizer loads."""

import copy
import json
import re
from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlmlib.errors import RunError
from rlmlib.harness.export import SHORTEST_CUT, cut, from_dict, to_dict, to_rlms_jsonl
from rlmlib.harness.trajectory import Call, Rollout, Tokens, Turn

BEGAN = datetime(2030, 1, 2, 3, 4, 5)


def sample() -> Rollout:
    """Two turns; the first has two blocks, a leaf call, a refused one and a child that asks a leaf itself."""
    below = Call("leaf", "leaf-model", "who?", "Ada", Tokens(7, 1, 0, None), 0.25, attempts=2)
    child = Rollout(
        "Ada", "final", turns=[Turn("child", "look", ["x = 1"], [""], "root-model", Tokens(30, 4), [below])], depth=1, question="who?"
    )
    calls = [
        Call("leaf", "leaf-model", "p" * 5000, "yes", Tokens(1200, 3, 1, 0.002), 0.5, attempts=1),
        Call("leaf", "leaf-model", "again", "error: no subcalls left", error="budget"),
        Call("child", "root-model", "who?", "Ada", seconds=1.5, attempts=1, child=child),
    ]
    first = Turn("root", "reply \ud800\u2028\0", ["a = 1", "print(a)"], ["", "1"], "root-model", Tokens(100, 20, 5, 0.01), calls, 2.5)
    last = Turn("finalise", "FINAL(Ada)", [], [], "root-model", Tokens(150, 6, 0, 0.01), [], 0.5)
    return Rollout("Ada", "final", True, [first, last], 3.0, None, 0, 'Who wrote "Notes"?', sequence=object())


# --- to_dict, from_dict ------------------------------------------------------------------------


def test_round_trip_keeps_the_whole_tree():
    rollout = sample()
    back = from_dict(json.loads(json.dumps(to_dict(rollout, prompt_chars=10_000))))
    rollout.sequence = None
    assert back == rollout


def test_a_row_with_other_keys_reads_back():
    row = {**to_dict(sample()), "example": "heldout-00001", "correct": True}
    assert to_dict(from_dict(row)) == to_dict(sample())


def test_usage_survives_the_cut_of_prompts():
    rollout = sample()
    assert from_dict(to_dict(rollout, prompt_chars=100)).usage == rollout.usage


def test_prompts_and_child_questions_are_cut():
    rollout = sample()
    rollout.children[0].question = rollout.calls[2].prompt = "c" * 5000
    leaf, _, child = to_dict(rollout, prompt_chars=300)["turns"][0]["calls"]
    assert max(map(len, (leaf["prompt"], child["prompt"], child["child"]["question"]))) <= 300


def test_export_leaves_the_rollout_alone():
    rollout = sample()
    rollout.sequence = None
    before = copy.deepcopy(rollout)
    values = to_dict(rollout)
    values["turns"][0]["blocks"].append("more")
    values["turns"][0]["tokens"]["prompt"] = 0
    assert rollout == before


@given(length=st.integers(0, 100_000), limit=st.integers(SHORTEST_CUT, 300))
@settings(max_examples=100, deadline=None)
def test_a_cut_text_counts_what_is_missing_and_is_cut_once(length, limit):
    text = ("abcdefghij" * 10_000)[:length]
    short = cut(text, limit)
    assert len(short) <= limit and cut(short, limit) == short
    if length > limit:
        head, count, tail = re.fullmatch(r"(\w*)\n\[\.\.\. ([\d,]+) characters left out \.\.\.\]\n(\w*)", short).groups()
        assert text.startswith(head) and text.endswith(tail) and len(head) + int(count.replace(",", "")) + len(tail) == length


def test_too_short_a_cut_is_refused():
    with pytest.raises(ValueError, match="allow 80 or more"):
        to_dict(sample(), prompt_chars=10)


@pytest.mark.parametrize("values", [[], {"turns": [{"reply": "no kind"}]}, {"turns": 3}, {"turns": [None]}, None])
def test_what_is_no_rollout_is_refused_in_one_line(values):
    with pytest.raises(RunError, match="export it again") as caught:
        from_dict(values)
    assert "\n" not in str(caught.value)


# --- the log of rlms ---------------------------------------------------------------------------
# The rules below are what visualizer/src/lib/{types,parse-logs}.ts and the components of alexzhang13/rlm read.

NUMBER = (int, float)
ITERATION = {
    "type": str,  # anything but "metadata"
    "iteration": int,
    "timestamp": str,  # for `new Date`
    "prompt": list,  # .map over {role, content}
    "response": str,  # .slice, .length
    "code_blocks": list,
    "final_answer": (str, type(None)),  # a turn that is not null counts as final
    "iteration_time": NUMBER,  # .toFixed
}
RESULT = {"stdout": str, "stderr": str, "locals": dict, "execution_time": (*NUMBER, type(None)), "rlm_calls": list}
CALL = {"prompt": str, "response": str, "prompt_tokens": int, "completion_tokens": int, "execution_time": NUMBER}
METADATA = {
    "root_model": str,
    "max_depth": int,
    "max_iterations": int,
    "backend": str,
    "backend_kwargs": dict,
    "environment_type": str,
    "environment_kwargs": dict,
    "other_backends": (list, type(None)),
}


def check(record: dict, rules: dict):
    assert {name: type(record[name]) for name, kinds in rules.items() if not isinstance(record[name], kinds)} == {}


def load(path) -> tuple[dict, list[dict]]:
    """As the visualizer does: lines at \\n alone, each one JSON; the one of type metadata apart."""
    head, *iterations = [json.loads(line) for line in path.read_bytes().decode("utf-8").strip().split("\n")]
    assert head["type"] == "metadata" and all(i["type"] != "metadata" for i in iterations)
    return head, iterations


@pytest.fixture
def log(tmp_path):
    return load(to_rlms_jsonl(sample(), tmp_path / "new" / "log.jsonl", context="the notes", began=BEGAN))


def test_every_field_that_the_visualizer_reads_has_its_type(log):
    head, iterations = log
    check(head, METADATA)
    for iteration in iterations:
        check(iteration, ITERATION)
        for message in iteration["prompt"]:
            check(message, {"role": str, "content": str})
        for block in iteration["code_blocks"]:
            check(block, {"code": str, "result": dict})
            check(block["result"], RESULT)
            for call in block["result"]["rlm_calls"]:
                check(call, CALL)


def test_only_the_last_turn_has_the_answer(log):
    assert [i["final_answer"] for i in log[1]] == [None, "Ada"]


def test_the_question_is_found_between_double_quotes(log):
    assert re.search(r'original query: "([^"]+)"', log[1][0]["prompt"][0]["content"])[1] == "Who wrote 'Notes'?"


def test_the_context_stands_once_among_the_variables(log):
    found = [block["result"]["locals"].get("context") for i in log[1] for block in i["code_blocks"]]
    assert found == ["the notes", None]


def test_each_turn_is_shown_the_conversation_before_it(log):
    assert [m["role"] for m in log[1][1]["prompt"]] == ["user", "assistant", "user"]
    assert log[1][1]["prompt"][1]["content"] == log[1][0]["response"] == "reply \ud800\u2028\0"


def test_durations_run_from_the_given_start(log):
    assert [datetime.fromisoformat(i["timestamp"]).timestamp() - BEGAN.timestamp() for i in log[1]] == [0.0, 2.5]


def test_a_child_call_carries_its_trajectory_and_its_tokens(log):
    child = log[1][0]["code_blocks"][0]["result"]["rlm_calls"][2]
    assert (child["prompt_tokens"], child["completion_tokens"]) == (37, 5)
    check(child["metadata"]["run_metadata"], METADATA)
    check(child["metadata"]["iterations"][0], ITERATION)


def test_unknown_prices_are_left_out(log):
    calls = log[1][0]["code_blocks"][0]["result"]["rlm_calls"]
    costs = [summary.get("total_cost") for call in calls for summary in call["usage_summary"]["model_usage_summaries"].values()]
    assert costs == [0.002, 0.0, None]


def test_depth_counts_the_leaves(log):
    assert log[0]["max_depth"] == 2
