"""Hostile blocks in real workers, and rollouts whose machinery fails at random. `make chaos` runs this file alone, at full size."""

import asyncio
import http.server
import os
import random
import re
import signal
import subprocess
import threading
from collections import Counter

import pytest
from hostile import HOSTILE, STOPPED
from judge_support import RIGHT, ScriptedModel
from servers import Answer, OpenAIServer, openai_error, openai_reply
from test_harness import EchoLeaf, Script, block, gone

from rlmlib.config import Harness
from rlmlib.harness.repl import ReplServer
from rlmlib.harness.rollout import RolloutRunner
from rlmlib.harness.workers import WorkerPool
from rlmlib.models.base import ModelError
from rlmlib.models.openai_compatible import OpenAICompatibleChat
from rlmlib.models.retry import RetryPolicy
from rlmlib.models.sessions import ChatLeaf
from rlmlib.scoring.judge import Judge

ROLLOUTS = int(os.environ.get("CHAOS_ROLLOUTS", 150))
FAULT_SHARE = 0.1
DIED_LINE = "a new session was started"
SECRET = "sk-in-the-host-only"


@pytest.fixture(scope="module")
def server():
    os.environ["RLM_TEST_API_KEY"] = SECRET
    with ReplServer(memory_mb=512) as running:
        yield running
    del os.environ["RLM_TEST_API_KEY"]


@pytest.fixture(scope="module")
def web():
    """A local server that counts who reaches it: (port, requests)."""
    requests = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            requests.append(self.path)

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield running.server_address[1], requests
        running.shutdown()


def play(server, *lines, **limits):
    settings = {"max_turns": len(lines), "output_chars": 3000, "block_timeout_s": 1.0, **limits}
    runner = RolloutRunner(Harness(**settings), server, EchoLeaf())
    return asyncio.run(asyncio.wait_for(runner.run("q?", "the context", Script(*lines), 64), 60))


def descendants(pid: int) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, timeout=10).stdout.split()
    return [int(p) for child in found for p in (child, *descendants(int(child)))]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_block(server, web, tmp_path, name):
    code, expected = HOSTILE[name]
    file = tmp_path / "secret"
    file.write_text(SECRET)
    before = (file.stat().st_mode, file.stat().st_mtime_ns)
    for place, value in (("HOST_FILE", file), ("HOST_PORT", web[0]), ("HOST_PID", os.getpid())):
        code = code.replace(place, str(value))
    hold, ask = block("print(context)"), block("print(llm_query('hello'))")
    checks = [hold, hold, ask, ask]
    rollout = play(server, block(code), *checks, "FINAL(done)")
    outputs = [turn.outputs[0] for turn in rollout.turns[:5]]
    assert re.search(expected, outputs[0]), outputs[0]
    assert SECRET not in "".join(outputs)
    assert rollout.error is None and rollout.answer == "done"
    for output in outputs[1:4]:  # an attack may take its session with it, the next one, or a frame
        assert output in ("the context", "<hello>") or re.search(STOPPED, output), output
    assert outputs[4] == "<hello>", "the session did not recover"
    assert (file.read_text(), (file.stat().st_mode, file.stat().st_mtime_ns)) == (SECRET, before)
    assert not web[1]


def test_after_all_of_it_the_next_rollout_is_fine_and_no_process_is_left():
    with ReplServer(memory_mb=512, spares=0) as own:
        for name in ("thread bomb", "fork bomb", "close everything", "swallow interrupts", "memory bit by bit"):
            play(own, block(HOSTILE[name][0]), "FINAL(1)")
        rollout = play(own, block("import os\nFINAL(os.getpid())"))
        assert gone(int(rollout.answer))
        server = own._process.pid
        assert [p for p in descendants(server) if not gone(p, 2)] == []
    assert gone(server)


# --- machinery that fails


class FaultyServer(OpenAIServer):
    """A leaf server that fails one request in ten, each in one of the ways that servers do; and kills one worker in ten.

    A prompt is the rollout's number and its worker's process id.
    """

    def __init__(self, rng: random.Random):
        super().__init__()
        self.rng, self.faults, self.killed = rng, Counter(), set()

    def echo(self, request):
        number, pid = request.body["messages"][-1]["content"].split()
        if self.rng.random() < FAULT_SHARE and number not in self.killed:
            self.killed.add(number)
            os.kill(int(pid), signal.SIGKILL)
        if self.rng.random() >= FAULT_SHARE:
            return openai_reply(f"number {number}")
        fault = self.rng.choice(("429", "500", "hang", "garbage", "empty"))
        self.faults[fault] += 1
        return {
            "429": openai_error(429),
            "500": openai_error(500),
            "hang": openai_reply("late", delay_s=5.0),
            "garbage": Answer(b"<html>no JSON"),
            "empty": openai_reply(""),
        }[fault]


def one_in_ten_is_down(rng: random.Random):
    """A judge model that is down, or speaks nonsense, one time in ten."""

    def line(text, number):
        draw = rng.random()
        return ModelError("unavailable", "the judge is down") if draw < FAULT_SHARE / 2 else "maybe" if draw < FAULT_SHARE else RIGHT

    return ScriptedModel(line)


async def rollouts_with_faults(server: ReplServer, http: FaultyServer, judge_model):
    """ROLLOUTS rollouts with two leaf calls each, 16 at once, each judged: (rollouts, verdicts)."""
    policy = RetryPolicy(attempts=3, first_delay_s=0.01, max_delay_s=0.02, attempt_timeout_s=2.0)
    leaf = ChatLeaf(OpenAICompatibleChat(OpenAIServer.MODEL, http.url, window_tokens=4096, policy=policy), 64)
    config = Harness(max_turns=3, output_chars=2000, block_timeout_s=20.0, leaf_timeout_s=20.0)
    runner, pool = RolloutRunner(config, server, leaf, 32), WorkerPool(16, 60.0, 3)

    async def one(number: int, judge):
        code = f"import os\nprint(llm_query_batched([f'{number} {{os.getpid()}}'] * 2))"
        lines = [block(code), block("print('going on')"), f"FINAL({number})"]
        rollout = await pool.run(lambda attempt: runner.run("q?", f"context {number}", Script(*lines), 64))
        return rollout, await judge.verdict("Which?", [f"number {number}"], rollout.answer)

    async with Judge(judge_model) as judge:
        pairs = await asyncio.gather(*(one(number, judge) for number in range(ROLLOUTS)))
    await leaf.chat_model.aclose()
    return [r for r, _ in pairs], [v for _, v in pairs]


def test_rollouts_with_faults_are_all_accounted_for():
    rng = random.Random(7)
    judge_model = one_in_ten_is_down(rng)
    with ReplServer(memory_mb=512) as server, FaultyServer(rng) as http:
        rollouts, verdicts = asyncio.run(asyncio.wait_for(rollouts_with_faults(server, http, judge_model), 600))

    # none lost, none mixed up, none a failure of its own
    assert [r.answer for r in rollouts] == [str(n) for n in range(ROLLOUTS)]
    assert all(r.error is None for r in rollouts)
    # every request to the leaf is in the usage of one call, the failed ones too
    calls = [call for r in rollouts for call in r.calls]
    assert len(calls) == 2 * ROLLOUTS
    assert sum(call.attempts for call in calls) >= len(http.requests)  # more where an attempt timed out before it was sent
    assert {call.error for call in calls} <= {None, "failed"}
    assert all(call.text == f"number {n}" for n, r in enumerate(rollouts) for call in r.calls if call.error is None)
    # a killed worker is told to the model, and only that one
    died = {str(n) for n, r in enumerate(rollouts) if DIED_LINE in r.turns[0].outputs[0]}
    assert died == http.killed and all(r.turns[1].outputs == ["going on"] for r in rollouts)
    # a judge that fails leaves the verdict open; none is counted wrong
    assert all(v.correct is not False for v in verdicts)
    assert sum(v.correct is None for v in verdicts) > 0 and all(v.reason for v in verdicts if v.correct is None)
    assert http.killed and set(http.faults) == {"429", "500", "hang", "garbage", "empty"}
