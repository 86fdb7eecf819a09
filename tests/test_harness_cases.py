"""Cases collected from systems of this kind, played in real workers: data/harness_cases.json.

A case has an `input` and what is `expected` of it, or the tests it is `tested_by`, or why it is `not_ours`. Where sources
disagree, `decision` says what holds here. In short:

| question | here |
|---|---|
| which fences run | repl and python, closed or cut off; never json, text, or in a thought |
| FINAL("x") | one pair of quotes around the whole is a literal: x |
| FINAL beside code | taken after the code ran; final_beside_code: ignore waits |
| FINAL and the dict `answer` | final: answer_dict adds the dict; FINAL counts under both, as the finalise message asks for it |
| when the dict counts | `ready` is True itself, set in a block that did not fail; the content is read at the end of the block |
| an empty answer | none; the model is told |
| a long output | two thirds head, one third tail, what is left out is counted |
| what the root is told of the context | type and size |
| a subcall over the budget, too long, late or failed | a text in its place, counted; the rest of a batch is served |
| a limit of the tree that was hit | stays hit; the deadline also cuts blocks and subcalls under way |
| frames of a worker | no ids, no authority: a forged one can do what the function could |
"""

import ast
import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError
from test_harness import EchoLeaf, Script, block, gone, play, run_in

from rlmlib.config import Harness
from rlmlib.errors import ConfigError, InfrastructureError
from rlmlib.harness.budget import Budget, Limits
from rlmlib.harness.export import from_dict, to_dict
from rlmlib.harness.repl import ReplServer
from rlmlib.harness.rollout import RolloutRunner

TESTS = Path(__file__).parent
SPARES = 3  # workers that wait for the next rollout may or may not be up yet
CASES = json.loads((TESTS / "data/harness_cases.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def server():
    with ReplServer(memory_mb=1024) as running:
        yield running


@pytest.fixture(autouse=True)
def host_is_untouched():
    folder, stdout = os.getcwd(), sys.stdout
    yield
    assert os.getcwd() == folder and sys.stdout is stdout


class Family(Script):
    """A Script whose children, and theirs, all say the lines `of_children`. dollars: of each reply."""

    def __init__(self, *lines, of_children=(), dollars=0.0):
        super().__init__(*lines, of_children=of_children)
        self.dollars, self.roles = dollars, []

    async def reply(self, messages, max_tokens):
        self.roles.append([message.role for message in messages])
        return replace(await super().reply(messages, max_tokens), dollars=self.dollars)

    def child(self):
        return Family(*self.of_children, of_children=self.of_children, dollars=self.dollars)


def context_of(given: dict):
    if "context_python" in given:  # what JSON cannot hold
        return ast.literal_eval(given["context_python"])
    if "context_repeat" in given:
        text, times = given["context_repeat"]
        return text * times
    return given.get("context", "some text")


class Played:
    """A rollout of a case, with all that a case may expect of it."""

    def __init__(self, server, given: dict):
        lines = given["replies"] if "replies" in given else [block(code) for code in given["cells"]]
        leaf = {"delay_s": 0.0, "concurrency": 8, **given.get("leaf", {})}
        self.context = context_of(given)
        self.script = Family(*lines, of_children=given.get("children", []), dollars=given.get("dollars", 0.0))
        self.leaf = EchoLeaf(delay=lambda prompt: leaf["delay_s"])
        settings = {"max_turns": len(lines), "output_chars": 2000, "block_timeout_s": 5.0, **given.get("settings", {})}
        runner = RolloutRunner(Harness(**settings), server, self.leaf, leaf["concurrency"])
        work = runner.run(given.get("question", "q?"), self.context, self.script, 64)
        self.rollout = asyncio.run(asyncio.wait_for(work, 60))
        self.outputs = [output for turn in self.rollout.turns for output in turn.outputs]

    def exact(self) -> dict:
        rollout = self.rollout
        return {
            "answer": rollout.answer,
            "stop": rollout.stop,
            "forced": rollout.forced,
            "error": rollout.error,
            "turns": len(rollout.turns),
            "blocks": rollout.turns[0].blocks,
            "outputs": self.outputs,
            "last_output": self.outputs[-1] if self.outputs else None,
            "child_outputs": [output for child in rollout.children for turn in child.turns for output in turn.outputs],
            "calls": [[call.kind, call.error] for call in rollout.calls],
            "subcalls": rollout.usage.leaf_calls + rollout.usage.children,
            "depths": [part.depth for part in rollout.tree()],
            "leaf_prompts": self.leaf.prompts,
            "leaf_most": self.leaf.most,
            "round_trip": from_dict(json.loads(json.dumps(to_dict(rollout)))) == rollout,
        }

    def check(self, name: str, expected):
        heard = self.script.heard
        if name == "shows":  # number of an output, from 0 -> texts in it
            assert all(text in self.outputs[int(n)] for n, texts in expected.items() for text in texts), self.outputs
        elif name == "heard":  # number of a turn, from 1 -> texts in what the root was told before it
            assert all(text in heard[int(n) - 1] for n, texts in expected.items() for text in texts), heard
        elif name == "unheard":
            assert heard and not any(text in told for text in expected for told in heard)
        elif name == "usage":
            assert {key: getattr(self.rollout.usage, key) for key in expected} == expected
        elif name == "seconds_under":
            assert self.rollout.seconds < expected
        elif name == "export_under":  # characters
            assert len(json.dumps(to_dict(self.rollout))) < expected
        else:
            assert self.exact()[name] == expected


@pytest.mark.parametrize("case", [c for c in CASES if c.get("input", {}).keys() & {"cells", "replies"}], ids=lambda c: c["id"])
def test_case(server, case):
    played = Played(server, case["input"])
    for name, expected in case["expected"].items():
        played.check(name, expected)


@pytest.mark.parametrize("case", [c for c in CASES if "session" in c.get("input", {})], ids=lambda c: c["id"])
def test_case_of_a_session(server, case):
    async def work(repl):
        return [(await repl.run(code, None, 5, 5)).failed for code in case["input"]["session"]]

    assert run_in(server, work) == case["expected"]["failed"]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["id"])
def test_no_case_is_dropped(case):
    assert len(case.keys() & {"input", "tested_by", "not_ours"}) == 1
    assert bool(case.get("expected")) == ("input" in case)
    for name in case.get("tested_by", []):
        file, _, test = name.partition("::")
        assert f"\ndef {test}(" in (TESTS / file).read_text(encoding="utf-8"), name


def test_ids_are_unique():
    assert len({case["id"] for case in CASES}) == len(CASES)


# --- cases that need more than one rollout, or a hand in the host


def test_answer_does_not_leak_into_the_next_rollout(server):
    ready = block("answer['content'] = 'old'\nanswer['ready'] = True")
    assert play(server, ready, final="answer_dict")[0].answer == "old"
    assert play(server, block("x = 1"), final="answer_dict")[0].answer is None


@pytest.mark.parametrize(("context", "name"), [(7, "int"), (None, "NoneType"), (object(), "object"), ({1}, "set")])
def test_context_of_another_type_is_refused_by_name(server, context, name):
    with pytest.raises(ConfigError, match=f"not {name};"):
        play(server, "FINAL(1)", context=context)


def test_no_room_for_output_is_refused_at_once():
    with pytest.raises(ValidationError, match="output_chars"):
        Harness(output_chars=0)


def test_messages_alternate(server):
    script = Family(block("x = 1\nprint(x)") + "\n" + block("y = 2"), "", "FINAL(1)")
    asyncio.run(RolloutRunner(Harness(max_turns=2), server, EchoLeaf()).run("q?", "c", script, 64))
    assert script.roles == [["system", "user"], ["user"], ["user"]]


def test_deadline_ignores_a_clock_that_is_set(monkeypatch):
    budget = Budget(Limits(seconds=100))
    monkeypatch.setattr(time, "time", lambda: 4e9)
    assert budget.spent() is None


def test_without_time_left_no_call_starts():
    budget = Budget(Limits(seconds=0))
    assert not budget.reserve_call()
    assert (budget.subcalls, budget.tripped) == (0, "seconds")


async def cancelled_in_its_leaf_call(runner: RolloutRunner, leaf: EchoLeaf, code: str):
    """Start a rollout, cancel it once its leaf was asked."""
    task = asyncio.ensure_future(runner.run("q?", "c", Script(block(code)), 64))
    deadline = time.monotonic() + 20
    while not leaf.prompts and time.monotonic() < deadline:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_cancelling_propagates_and_ends_the_worker(server):
    leaf = EchoLeaf(delay=lambda prompt: 30)
    runner = RolloutRunner(Harness(), server, leaf)
    asyncio.run(cancelled_in_its_leaf_call(runner, leaf, "import os\nllm_query(str(os.getpid()))"))
    assert gone(int(leaf.prompts[0]))


def test_cancelled_rollout_gives_back_its_leaf_slot(server):
    leaf = EchoLeaf(delay=lambda prompt: 30 if prompt == "slow" else 0)
    runner = RolloutRunner(Harness(), server, leaf, leaf_concurrency=1)

    async def both():
        await cancelled_in_its_leaf_call(runner, leaf, "llm_query('slow')")
        return await runner.run("q?", "c", Script(block("FINAL(llm_query('next'))")), 64)

    assert asyncio.run(asyncio.wait_for(both(), 30)).answer == "<next>"


def test_usage_of_two_rollouts_at_once_is_kept_apart(server):
    runner = RolloutRunner(Harness(), server, EchoLeaf(delay=lambda prompt: 0.01))

    async def both():
        scripts = [Script(block(f"llm_query_batched(['p'] * {n})"), "FINAL(1)") for n in (2, 5)]
        return await asyncio.gather(*(runner.run("q?", "c", script, 64) for script in scripts))

    assert [rollout.usage.leaf_calls for rollout in asyncio.run(both())] == [2, 5]


def test_usage_of_a_failed_rollout_is_kept(server):
    rollout, _, _ = play(server, block("llm_query('abc')"), InfrastructureError("down"))
    assert (rollout.error, rollout.usage.total) == ("down", 110 + 3 + 2)


def test_rollout_without_a_worker_fails_alone(server):
    broken = ReplServer()
    broken.close()

    async def both():
        runners = [RolloutRunner(Harness(), one, EchoLeaf()) for one in (broken, server)]
        return await asyncio.gather(*(runner.run("q?", "c", Script("FINAL(1)"), 64) for runner in runners))

    lost, fine = asyncio.run(both())
    assert lost.error and lost.answer is None
    assert (fine.error, fine.answer) == (None, "1")


def test_a_hundred_sessions_leave_nothing_behind(server):
    async def open_and_end(times: int):
        for _ in range(times):
            repl = await server.open("c")
            await repl.run("open('f', 'w').write('x')", None, 5, 5)
            repl.kill()

    def held():
        return len(os.listdir("/proc/self/fd")), threading.active_count(), len(os.listdir(server._scratch))

    asyncio.run(open_and_end(3))
    before = held()
    asyncio.run(open_and_end(100))
    assert all(now <= then + SPARES for now, then in zip(held(), before, strict=True))


def test_works_without_a_main_file(server):
    code = """
import asyncio, __main__
from test_harness import Script, EchoLeaf, RolloutRunner, ReplServer, Harness, block
assert not hasattr(__main__, "__file__")
with ReplServer() as server:
    print(asyncio.run(RolloutRunner(Harness(), server, EchoLeaf()).run("q?", "c", Script(block("FINAL(len(context))")), 64)).answer)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=TESTS, capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.returncode) == ("1", 0), done.stderr
