"""Hostile blocks in real workers, and rollouts whose machinery fails at random. `make chaos` runs this file alone, at full size."""

import asyncio
import http.server
import os
import random
import re
import subprocess
import threading
from collections import Counter

import pytest
from hostile import DIED, HOSTILE
from test_harness import EchoLeaf, Script, block, gone

from rlmlib.config import Harness
from rlmlib.harness.repl import ReplServer
from rlmlib.harness.rollout import RolloutRunner
from rlmlib.models.base import ModelError, Reply

ROLLOUTS = int(os.environ.get("CHAOS_ROLLOUTS", 120))
FAULT_SHARE = 0.1
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
    checks = [block("print(context)"), block("print(context)"), block("print(llm_query('hello'))")]
    rollout = play(server, block(code), *checks, "FINAL(done)")
    outputs = [turn.outputs[0] for turn in rollout.turns[:4]]
    assert re.search(expected, outputs[0]), outputs[0]
    assert SECRET not in "".join(outputs)
    assert rollout.error is None and rollout.answer == "done"
    for output in outputs[1:3]:  # an attack may take its session with it, or the next one
        assert output == "the context" or re.search(DIED, output), output
    assert outputs[3] == "<hello>", "the session did not recover"
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


class FaultyLeaf(EchoLeaf):
    """Fails one time in ten, in all the ways that a leaf can."""

    def __init__(self, rng):
        super().__init__()
        self.rng, self.faults = rng, Counter()

    async def complete(self, prompt):
        if self.rng.random() >= FAULT_SHARE:
            return Reply(f"<{prompt}>", len(prompt), 2)
        fault = self.rng.choice(("rate_limit", "unavailable", "hang", "garbage", "empty"))
        self.faults[fault] += 1
        if fault == "hang":
            await asyncio.sleep(60)
        if fault == "garbage":
            return Reply("\ud800\x00" * 1000, len(prompt), 2000)
        raise ModelError(fault, f"the leaf says {fault}", attempts=3, prompt_tokens=7)


def test_rollouts_with_faults_are_all_accounted_for():
    """Each rollout asks its leaf and answers with what it got. One worker in ten is killed in the middle of a block."""
    rng = random.Random(7)
    leaf, killed = FaultyLeaf(rng), []

    async def one(runner, server, number):
        code = f"import os\npid = os.getpid()\nr = llm_query_batched(['{number}a', '{number}b'])\nprint(r)"
        lines = [block(code), block("print(len(r))"), f"FINAL({number})"]
        if rng.random() < FAULT_SHARE:
            killed.append(number)
            lines[1] = block("os.kill(pid, 9)")
        return await runner.run("q?", f"context {number}", Script(*lines), 64)

    async def every(server):
        config = Harness(max_turns=4, output_chars=2000, block_timeout_s=5.0, leaf_timeout_s=0.3)
        runner, slots = RolloutRunner(config, server, leaf, 64), asyncio.Semaphore(16)

        async def slot(number):
            async with slots:
                return await one(runner, server, number)

        return await asyncio.wait_for(asyncio.gather(*(slot(n) for n in range(ROLLOUTS))), 600)

    with ReplServer(memory_mb=512) as server:
        rollouts = asyncio.run(every(server))
    assert [r.answer for r in rollouts] == [str(n) for n in range(ROLLOUTS)]  # none lost, none mixed up, none counted wrong
    assert all(r.error is None for r in rollouts)
    calls = [c for r in rollouts for c in r.calls]
    assert len(calls) == 2 * ROLLOUTS
    failed = Counter(c.error for c in calls)
    assert failed["late"] == leaf.faults["hang"]
    assert failed["failed"] == leaf.faults["rate_limit"] + leaf.faults["unavailable"] + leaf.faults["empty"]
    died = [n for n, r in enumerate(rollouts) if "a new session was started" in "".join(o for t in r.turns for o in t.outputs)]
    assert died == sorted(killed) and leaf.faults.total() and killed
