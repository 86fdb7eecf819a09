"""Child RLMs, and the limits of a whole tree, in real workers."""

import asyncio
import errno
import json
import time
from dataclasses import replace

import pytest
from test_harness import EchoLeaf, Script, block

from rlmlib.config import Harness
from rlmlib.errors import ConfigError, InfrastructureError
from rlmlib.harness.repl import ReplServer
from rlmlib.harness.rollout import STOP_S, RolloutRunner
from rlmlib.harness.subcalls import KEPT_REFUSALS
from rlmlib.harness.trajectory import Tokens
from rlmlib.harness.workers import WorkerPool
from rlmlib.models.base import Reply


@pytest.fixture(scope="module")
def server():
    with ReplServer() as running:
        yield running


def play(server, root: Script, leaf=None, **limits):
    settings = {"depth": 2, "max_turns": max(2, len(root.lines)), "output_chars": 2000, "block_timeout_s": 5.0, **limits}
    runner = RolloutRunner(Harness(**settings), server, leaf or EchoLeaf())
    return asyncio.run(asyncio.wait_for(runner.run("q?", "the context", root, 64), 60))


def ask(*prompts) -> str:
    return block(f"r = rlm_query_batched({list(prompts)})", "print(r)")


def test_child_answers_over_its_prompt(server):
    root = Script(block("print(rlm_query('part one'))"), "FINAL(1)", of_children=[[block("print(context)"), "FINAL(seen)"]])
    rollout = play(server, root)
    assert rollout.turns[0].outputs == ["seen"]
    assert rollout.children[0].turns[0].outputs == ["part one"]


def test_child_has_a_session_of_its_own(server):
    root = Script(block("x = 1\nprint(rlm_query('p'))\nprint(x)"), "FINAL(1)", of_children=[[block("x = 2"), "FINAL_VAR(x)"]])
    assert play(server, root).turns[0].outputs == ["2\n1"]


def test_turns_of_children_are_marked_and_their_depth_is_the_hosts(server):
    rollout = play(server, Script(ask("a"), "FINAL(1)", of_children=[["FINAL(x)"]]))
    child = rollout.children[0]
    assert (rollout.depth, child.depth) == (0, 1)
    assert [t.kind for t in rollout.turns] == ["root", "root"] and [t.kind for t in child.turns] == ["child"]


def test_query_of_a_child_falls_back_to_a_leaf_at_depth_2(server):
    rollout = play(server, Script(ask("a"), "FINAL(1)", of_children=[[block("FINAL(rlm_query('deeper'))")]]))
    assert rollout.children[0].answer == "<deeper>"
    assert [c.kind for c in rollout.children[0].calls] == ["leaf"]


def test_query_is_a_leaf_call_at_depth_1(server):
    rollout = play(server, Script(ask("a", "b"), "FINAL(1)"), depth=1)
    assert rollout.turns[0].outputs == ["['<a>', '<b>']"] and not rollout.children


def test_depth_3_has_grandchildren(server):
    root = Script(ask("a"), "FINAL(1)")
    middle = Script(block("FINAL(rlm_query('b'))"), of_children=[["FINAL(deep)"]])
    root.child = lambda: middle
    rollout = play(server, root, depth=3)
    assert rollout.turns[0].outputs == ["['deep']"]
    assert [r.depth for r in rollout.tree()] == [0, 1, 2]


def test_children_of_a_batch_run_at_the_same_time_and_answer_in_order(server):
    together, most = 0, 0

    class Slow(Script):
        async def reply(self, messages, max_tokens):
            nonlocal together, most
            together += 1
            most = max(most, together)
            await asyncio.sleep(0.1)
            together -= 1
            return await super().reply(messages, max_tokens)

    children = [Slow(f"FINAL({i})") for i in range(4)]
    root = Script(ask("a", "b", "c", "d"), "FINAL(1)")
    waiting = iter(children)
    root.child = lambda: next(waiting)
    assert play(server, root).turns[0].outputs == ["['0', '1', '2', '3']"]
    assert most == 4


def test_no_more_children_at_once_than_allowed(server):
    running, most = 0, 0

    class Counting(Script):
        async def reply(self, messages, max_tokens):
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.05)
            running -= 1
            return await super().reply(messages, max_tokens)

    root = Script(ask(*"abcdef"), "FINAL(1)")
    root.child = lambda: Counting("FINAL(x)")
    rollout = play(server, root, concurrent_children=2)
    assert len(rollout.children) == 6 and most == 2


def test_child_whose_machinery_fails_does_not_fail_its_batch(server):
    root = Script(ask("a", "b"), "FINAL(1)", of_children=[[InfrastructureError("no connection")], ["FINAL(fine)"]])
    rollout = play(server, root)
    assert rollout.turns[0].outputs == ["['error: no connection', 'fine']"] and rollout.error is None
    assert [c.error for c in rollout.calls] == ["failed", None]


def test_child_without_an_answer_is_told_as_such(server):
    rollout = play(server, Script(ask("a"), "FINAL(1)", of_children=[["nothing"] * 3]), max_turns=2)
    assert "error: the child ended without an answer (missing)" in rollout.turns[0].outputs[0]


def test_calls_of_children_draw_on_the_shared_budget(server):
    spend = [block("print(llm_query_batched(['1', '2', '3']))"), "FINAL(x)"]
    rollout = play(server, Script(ask("a", "b"), "FINAL(1)", of_children=[spend, spend]), max_subcalls=6)
    outputs = sorted(o for child in rollout.children for t in child.turns for o in t.outputs)
    assert sum(o.count("no subcalls left") for o in outputs) == 2  # two children and four leaves are the six
    assert rollout.usage.leaf_calls + rollout.usage.children == 6 and rollout.usage.refused_calls == 2


def test_usage_is_the_sum_over_the_tree(server):
    child = [block("llm_query('abc')"), "FINAL(x)"]
    rollout = play(server, Script(block("llm_query('de')", "rlm_query('p')"), "FINAL(1)", of_children=[child]))
    assert rollout.usage.root == Tokens(200, 20) and rollout.usage.child == Tokens(200, 20)
    assert rollout.usage.leaf_tokens == Tokens(5, 4)
    assert rollout.usage_by_model() == {
        ("script", 0): Tokens(200, 20),
        ("script", 1): Tokens(200, 20),
        ("echo", 1): Tokens(2, 2),
        ("echo", 2): Tokens(3, 2),
    }
    assert rollout.usage.total == sum(t.total for t in rollout.usage_by_model().values()) == 449


def test_sessions_of_children_are_closed(server):
    root = Script(ask("a", "b"), "FINAL(1)", of_children=[["FINAL(x)"], ["FINAL(y)"]])
    play(server, root)
    assert root.closed and all(child.closed for child in root.children)


def test_child_that_takes_too_long_is_stopped_and_the_others_answer(server):
    class Stuck(Script):
        async def reply(self, messages, max_tokens):
            await asyncio.sleep(60)

    children = iter([Stuck(), Script("FINAL(quick)")])
    root = Script(ask("a", "b"), "FINAL(1)")
    root.child = lambda: next(children)
    rollout = play(server, root, leaf_timeout_s=0.5)
    assert rollout.turns[0].outputs == ["['error: no answer in time', 'quick']"]
    assert rollout.calls[0].error == "late"


def test_budget_is_shown_to_the_model(server):
    rollout = play(server, Script(block("llm_query('a')", "print(budget()['subcalls'])"), "FINAL(1)"), max_subcalls=7)
    assert rollout.turns[0].outputs == ["6"]


def test_delegated_tokens_have_a_limit(server):
    rollout = play(server, Script(block("print(llm_query('x' * 50), llm_query('y' * 50))"), "FINAL(1)"), max_delegated_tokens=80)
    assert rollout.turns[0].outputs[0].endswith("error: no budget of delegated tokens left")


def test_all_tokens_have_a_limit_that_ends_the_rollout(server):
    rollout = play(server, Script(block("x = 1"), block("x = 2"), "FINAL(1)"), max_total_tokens=150)
    assert rollout.stop == "budget:total_tokens" and rollout.missing and len(rollout.turns) == 2


def test_dollars_have_a_limit_that_ends_the_rollout(server):
    class Dear(Script):
        async def reply(self, messages, max_tokens):
            return Reply((await super().reply(messages, max_tokens)).text, 100, 10, dollars=0.6)

    assert play(server, Dear(block("x = 1"), block("x = 2"), "FINAL(1)"), max_dollars=1.0).stop == "budget:dollars"


def test_wall_clock_has_a_limit_that_ends_the_rollout(server):
    rollout = play(server, Script(block("import time\ntime.sleep(.3)"), "FINAL(1)"), wall_clock_s=0.1)
    assert rollout.stop == "budget:seconds" and rollout.answer is None


def test_answer_dict_ends_a_rollout_where_it_is_the_protocol(server):
    lines = (block('answer["content"] = 41 + 1'), block('answer["ready"] = True'), "late")
    rollout = play(server, Script(*lines), final="answer_dict")
    assert (rollout.answer, len(rollout.turns)) == ("42", 2)


def test_answer_dict_is_no_protocol_unless_asked_for(server):
    assert play(server, Script(block('answer = {"content": 1, "ready": True}'), "FINAL(2)")).answer == "2"


@pytest.mark.parametrize("depth", [1, 2])
def test_system_prompt_says_whether_children_are_allowed(server, depth):
    root = Script("FINAL(1)")
    play(server, root, depth=depth, prompts="full")
    assert ("a helper like you" in root.heard[0]) == (depth == 2)


def test_rollout_is_data(server):
    from rlmlib.harness.export import from_dict, to_dict

    rollout = play(server, Script(ask("a"), "FINAL(1)", of_children=[[block("llm_query('z')"), "FINAL(x)"]]))
    again = from_dict(json.loads(json.dumps(to_dict(rollout))))
    assert again.usage == rollout.usage and [r.answer for r in again.tree()] == ["1", "x"]


# --- limits that are reached in the middle of something


class Priced(EchoLeaf):
    """A leaf that costs a cent a call."""

    async def complete(self, prompt):
        await asyncio.sleep(0.01)
        return replace(await super().complete(prompt), dollars=0.01)


def test_a_batch_overspends_by_one_call_at_most(server):
    rollout = play(server, Script(block("print(sum(a[0] == '<' for a in llm_query_batched(['x'] * 50)))")), Priced(), max_dollars=0.025)
    assert (rollout.stop, rollout.turns[0].outputs) == ("budget:dollars", ["3"])
    assert rollout.calls[-1].text == "error: no budget of dollars left"
    assert rollout.usage.refused_calls == 47 and rollout.usage.dollars == pytest.approx(0.03)


def test_children_that_waited_are_not_started_once_the_tokens_are_spent(server):
    root = Script(block("print(rlm_query_batched(['p'] * 20))"))
    root.child = lambda: Script("FINAL(x)")
    rollout = play(server, root, max_total_tokens=300, concurrent_children=1)
    assert rollout.stop == "budget:total_tokens" and len(rollout.children) == 2
    assert rollout.usage.refused_calls == 18 and "no budget of total tokens left" in rollout.turns[0].outputs[0]


def test_leaf_calls_that_waited_are_not_sent_once_the_time_is_over(server):
    leaf = EchoLeaf(delay=lambda prompt: 0.15)
    runner = RolloutRunner(Harness(wall_clock_s=0.3), server, leaf, leaf_concurrency=1)
    rollout = asyncio.run(runner.run("q?", "c", Script(block("llm_query_batched(list('abcdefgh'))")), 64))
    assert rollout.stop == "budget:seconds" and len(leaf.prompts) <= 3


def test_calls_refused_at_their_turn_leave_the_budget_as_it_was(server):
    root = Script(block("rlm_query_batched(['p'] * 20)", "print(budget()['subcalls'])"))
    root.child = lambda: Script("FINAL(x)")
    rollout = play(server, root, max_total_tokens=300, concurrent_children=1, max_subcalls=30)
    assert rollout.turns[0].outputs == ["28"]


def test_slow_blocks_of_one_reply_end_at_the_rollouts_limit(server):
    began = time.monotonic()
    rollout = play(server, Script("\n".join([block("import time", "time.sleep(.4)")] * 12)), rollout_timeout_s=1.0)
    assert (rollout.stop, rollout.error) == ("timeout", None) and time.monotonic() - began < 3
    assert len(rollout.turns[0].outputs) == 3


def test_a_long_block_is_cut_at_the_wall_clock(server):
    rollout = play(server, Script(block("import time", "time.sleep(4)") + "\nFINAL(late)"), wall_clock_s=0.4)
    assert (rollout.stop, rollout.answer) == ("budget:seconds", None) and rollout.seconds < 2


def test_a_block_that_waits_for_leaves_and_computes_has_one_limit_for_both(server):
    code = block("import time", "for _ in range(9):\n    llm_query('x')\n    time.sleep(0.3)")
    rollout = play(server, Script(code), EchoLeaf(delay=lambda prompt: 0.3), rollout_timeout_s=1.0)
    assert rollout.stop == "timeout" and rollout.seconds < 1.0 + STOP_S + 1


def test_slow_code_ends_before_the_workers_deadline(server):
    root = Script("\n".join([block("import time", "time.sleep(.4)")] * 12))
    runner = RolloutRunner(Harness(deadline_s=3.0), server, EchoLeaf())
    rollout = asyncio.run(WorkerPool(1, 3.0, 2).run(lambda number: runner.run("q?", "c", root, 64)))
    assert (rollout.stop, rollout.error, rollout.failures) == ("timeout", None, [])


def test_a_variable_that_takes_for_ever_to_show_is_cut_at_the_wall_clock(server):
    slow = block("import time", "class Slow:\n    def __str__(self):\n        time.sleep(9)", "x = Slow()")
    rollout = play(server, Script(slow, "FINAL_VAR(x)"), wall_clock_s=1.0)
    assert (rollout.stop, rollout.answer) == ("budget:seconds", None) and rollout.seconds < 3


def test_a_reply_is_cut_off_at_the_wall_clock(server):
    class Slow(Script):
        async def reply(self, messages, max_tokens):
            await asyncio.sleep(20)

    root = Slow()
    rollout = play(server, root, wall_clock_s=0.3)
    assert (rollout.stop, rollout.error) == ("budget:seconds", None) and rollout.seconds < 2 and root.closed


def test_a_session_that_times_out_by_itself_is_a_failure_of_the_machinery(server):
    assert play(server, Script(TimeoutError("no answer")), wall_clock_s=30).error == "TimeoutError: no answer"


# --- floods


def test_refused_calls_beyond_the_first_are_only_counted(server):
    rollout = play(server, Script(block("for _ in range(500): llm_query('x' * 3000)"), "FINAL(1)"))
    assert len(rollout.calls) == KEPT_REFUSALS and rollout.usage.refused_calls == 500 and rollout.refused_unkept == 500 - KEPT_REFUSALS


def test_a_batch_far_over_its_size_makes_few_calls(server):
    root = Script(block("r = llm_query_batched(['x'] * 1000)", "print(len(r), r[2], r[-1])"), "FINAL(1)")
    rollout = play(server, root, max_batch=3)
    refusal = "error: a batch holds at most 3 prompts"
    assert rollout.turns[0].outputs == [f"1000 <x> {refusal}"]
    assert (len(rollout.calls), rollout.usage.refused_calls, rollout.usage.leaf_calls) == (3 + KEPT_REFUSALS, 997, 3)


def test_a_long_prompt_is_sent_whole_and_kept_in_part(server):
    from rlmlib.harness.export import from_dict, to_dict
    from rlmlib.viewer import trajectory_html

    leaf = EchoLeaf(window_tokens=200_000)
    rollout = play(server, Script(block("llm_query('ab' * 25_000)"), "FINAL(1)"), leaf)
    kept = rollout.calls[0].prompt
    assert leaf.prompts == ["ab" * 25_000] and rollout.calls[0].tokens.prompt == 50_000
    assert kept.startswith("ab" * 10_000 + "\n") and kept.endswith("20,000 of 50,000 characters]") and len(kept) < 20_100
    assert from_dict(to_dict(rollout, 30_000)).calls[0].prompt == kept
    assert "of 50,000 characters]" in to_dict(rollout, 300)["turns"][0]["calls"][0]["prompt"]
    assert "of 50,000 characters]" in trajectory_html([rollout])


def test_a_child_has_its_whole_prompt(server):
    root = Script(block("rlm_query('ab' * 25_000)"), "FINAL(1)", of_children=[[block("print(len(context))"), "FINAL(x)"]])
    assert play(server, root).children[0].turns[0].outputs == ["50000"]


# --- faults of others


def test_a_leaf_that_raises_anything_fails_its_call_alone(server):
    class Faulty(EchoLeaf):
        async def complete(self, prompt):
            if prompt == "bad":
                raise ValueError("boom\nand more")
            return await super().complete(prompt)

    rollout = play(server, Script(block("print(llm_query_batched(['a', 'bad']))"), "FINAL(1)"), Faulty())
    assert rollout.turns[0].outputs == ["['<a>', 'error: ValueError: boom and more']"]
    assert [(call.error, call.attempts) for call in rollout.calls] == [(None, 1), ("failed", 1)] and rollout.answer == "1"


def test_a_child_that_raises_anything_fails_alone(server):
    root = Script(ask("a", "b"), "FINAL(1)", of_children=[[ZeroDivisionError("by zero")], ["FINAL(fine)"]])
    rollout = play(server, root)
    assert rollout.turns[0].outputs == ["['error: ZeroDivisionError: by zero', 'fine']"] and rollout.answer == "1"


def test_a_repl_that_cannot_be_opened_is_a_failure_of_the_machinery(server, monkeypatch):
    async def no_files(*_):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(server, "open", no_files)
    root = Script("FINAL(1)")
    rollout = play(server, root)
    assert "Too many open files" in rollout.error and "ulimit -n" in rollout.error and "\n" not in rollout.error and root.closed


@pytest.mark.parametrize("context", [None, b"x", 5])
def test_a_bad_context_closes_its_session(server, context):
    root = Script("FINAL(1)")
    with pytest.raises(ConfigError, match="convert it first"):
        asyncio.run(RolloutRunner(Harness(), server, EchoLeaf()).run("q?", context, root, 64))
    assert root.closed
