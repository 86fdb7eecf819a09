"""What confines a worker: the filter read as the kernel reads it, older kernels, lower limits, and how processes end."""

import asyncio
import errno
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from test_harness import EchoLeaf, Script, alive, block, gone, play

from rlmlib.config import Harness
from rlmlib.harness import repl as repl_module
from rlmlib.harness import sandbox
from rlmlib.harness.channel import _is_mostly_text
from rlmlib.harness.repl import BlockResult, Repl, ReplServer, WorkerDied, _result
from rlmlib.harness.repl_child import KEEP, MAX_PROMPT
from rlmlib.harness.rollout import RolloutRunner
from rlmlib.harness.scratch import remove_tree

# --- the filter, on both architectures

ALLOW, REFUSE, UNKNOWN, KILL = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS, 0x80000000
OWN_PID, HIGH = 4242, 1 << 40


def verdict(program: list[bytes], architecture: int, number: int, *arguments: int) -> int:
    """What a BPF program, read as the kernel does, says to one call."""
    data = struct.pack("=IIQ6Q", number, architecture, 0, *arguments, *[0] * (6 - len(arguments)))
    at, value = 0, 0
    while True:
        code, when, otherwise, operand = struct.unpack("=HBBI", program[at])
        at += 1
        match code:
            case 0x20:
                (value,) = struct.unpack_from("=I", data, operand)
            case 0x54:
                value &= operand
            case 0x06:
                return operand
            case 0x15 | 0x35 | 0x45:
                holds = {0x15: value == operand, 0x35: value >= operand, 0x45: bool(value & operand)}[code]
                at += when if holds else otherwise
            case _:
                raise AssertionError(f"no such instruction: {code:#x}")


RULES = {
    "plain send": ("SENDTO", (3, 1, 1, 0, 0, 0), ALLOW),
    "send to an address": ("SENDTO", (3, 1, 1, 0, 0x1000, 16), REFUSE),
    "send to a high address": ("SENDTO", (3, 1, 1, 0, HIGH, 16), REFUSE),
    "stream pair": ("SOCKETPAIR", (1, 1), ALLOW),
    "stream pair with flags": ("SOCKETPAIR", (1, 1 | 0o2000000 | 0o4000), ALLOW),
    "datagram pair": ("SOCKETPAIR", (1, 2), REFUSE),
    "datagram pair with flags": ("SOCKETPAIR", (1, 2 | 0o2000000), REFUSE),
    "packet pair": ("SOCKETPAIR", (1, 5), REFUSE),
    "pair of another family": ("SOCKETPAIR", (30, 1), REFUSE),
    "flags of a file": ("FCNTL", (3, 4), ALLOW),
    "copy of a descriptor": ("FCNTL", (3, 1030), ALLOW),
    "owner of a file": ("FCNTL", (3, 8), REFUSE),
    "owner of a file, other upper half": ("FCNTL", (3, HIGH | 8), REFUSE),
    "signal of a file": ("FCNTL", (3, 10), REFUSE),
    "owner by structure": ("FCNTL", (3, 15), REFUSE),
    "size of a terminal": ("IOCTL", (1, 0x5413), ALLOW),
    "owner by ioctl": ("IOCTL", (3, 0x8901), REFUSE),
    "group by ioctl": ("IOCTL", (3, 0x8902), REFUSE),
    "name of a thread": ("PRCTL", (15, 0x1000), ALLOW),
    "life without the server": ("PRCTL", (1, 0), REFUSE),
    "thread": ("CLONE", (0x10F00,), ALLOW),
    "process": ("CLONE", (17,), REFUSE),
    "new clone": ("CLONE3", (0x1000, 88), UNKNOWN),
    "signal to itself": ("KILL", (OWN_PID, 9), ALLOW),
    "signal to another": ("KILL", (1, 9), REFUSE),
    "signal to its thread": ("TGKILL", (OWN_PID, 7, 9), ALLOW),
    "signal to another's thread": ("TGKILL", (1, 1, 9), REFUSE),
    "own limits": ("PRLIMIT", (0, 7), ALLOW),
    "own limits by number": ("PRLIMIT", (OWN_PID, 7), ALLOW),
    "limits of another": ("PRLIMIT", (1, 7), REFUSE),
    "open to read": ("OPENAT", (0, 0, 0o2000000), ALLOW),
    "open to write from the start": ("OPENAT", (0, 0, 0o1101), ALLOW),
    "truncate as a reader": ("OPENAT", (0, 0, 0o1000), REFUSE),
    "truncate without a mode": ("OPENAT", (0, 0, 0o1003), REFUSE),
    "the older open to read": ("OPEN", (0, 0), ALLOW),
    "the older open truncates as a reader": ("OPEN", (0, 0o1000), REFUSE),
}


@pytest.fixture(params=sandbox.ARCHITECTURES)
def machine(request):
    column, architecture = sandbox.ARCHITECTURES[request.param]
    return column, architecture, sandbox._program(column, architecture, OWN_PID)


@pytest.mark.parametrize(("call", "arguments", "expected"), RULES.values(), ids=RULES)
def test_filter_reads_arguments(machine, call, arguments, expected):
    column, architecture, program = machine
    number = getattr(sandbox, call)[column]
    if number is None:
        pytest.skip("there is no such call here")
    assert verdict(program, architecture, number, *arguments) == expected


def test_filter_refuses_what_it_lists_and_nothing_else(machine):
    column, architecture, program = machine
    listed = {numbers[column] for numbers in sandbox.REFUSED.values()} - {None}
    special = {getattr(sandbox, call)[column] for call, _, _ in RULES.values()}
    verdicts = {number: verdict(program, architecture, number) for number in range(600) if number not in special}
    assert {number for number, said in verdicts.items() if said == REFUSE} == listed
    assert set(verdicts.values()) == {ALLOW, REFUSE}


def test_filter_kills_on_another_architecture(machine):
    _, architecture, program = machine
    assert verdict(program, architecture ^ 1, 0) == KILL


@pytest.mark.parametrize(
    "call", "truncate memfd_create memfd_secret sendmsg sendmmsg inotify_add_watch getxattr lgetxattr fgetxattr listxattr".split()
)
def test_call_is_listed(call):
    assert call in sandbox.REFUSED


# --- kernels that know less

OLD_KERNEL = """
    import os, sys
    sys.path.insert(0, sys.argv[1])
    import sandbox
    honest, victim, folder = sandbox._call, sys.argv[2], sys.argv[3]
    listed = sandbox.readable
    sandbox.readable = lambda: [*listed(), os.path.dirname(victim)]
    sandbox._call = lambda function, *a: 1 if a[:2] == (444, None) else honest(function, *a)  # the first Landlock
    assert sandbox.confine(folder) == ["landlock", "seccomp"]
    os.chdir(folder)
    with open("own", "w") as own:
        own.write("text")
        own.truncate(1)
    assert os.stat("own").st_size == 1
    assert open(victim).read() == "precious"
    for attempt in (
        lambda: os.truncate(victim, 0), lambda: os.open(victim, os.O_RDONLY | os.O_TRUNC), lambda: os.open(victim, 3 | os.O_TRUNC),
        lambda: open(victim, "w"), lambda: os.open(victim, os.O_RDWR),
    ):
        try:
            attempt()
        except PermissionError:
            continue
        sys.exit("done, not refused")
"""


def test_first_landlock_lets_no_file_of_the_host_be_cut(tmp_path):
    victim, folder = tmp_path / "read" / "victim", tmp_path / "scratch"
    victim.parent.mkdir()
    folder.mkdir()
    victim.write_text("precious")
    script = textwrap.dedent(OLD_KERNEL)
    arguments = [sys.executable, "-I", "-c", script, Path(sandbox.__file__).parent, victim, folder]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, "") and victim.read_text() == "precious"


def with_lower_limits(limits: str) -> str:
    """Output of a rollout in a process with these hard limits."""
    code = f"""
        import resource
        {limits}
        from test_sandbox import *
        with ReplServer(memory_mb=4096, cpu_s=3600) as server:
            print(play(server, block("FINAL(6 * 7)"))[0].answer)
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parents[1])])}
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60, env=environment)
    return done.stdout.strip() or done.stderr


@pytest.mark.parametrize(
    ("limit", "value"), [("AS", 3 << 30), ("CPU", 60), ("FSIZE", 1 << 20), ("NOFILE", 50)], ids=["memory", "time", "file", "files"]
)
def test_hard_limits_below_ours_are_kept_to(limit, value):
    assert with_lower_limits(f"resource.setrlimit(resource.RLIMIT_{limit}, ({value}, {value}))") == "42"


# --- how processes end

HOST = """
    import asyncio, functools, os, sys, time
    from rlmlib.harness.repl import ReplServer
    async def main():
        server = ReplServer(memory_mb=512, spares=0)
        repl = await server.open("c")
        if sys.argv[1] == "forks" and os.fork() == 0:
            time.sleep(30)
            os._exit(0)
        say = functools.partial(print, server._process.pid, repl._pid, server._scratch, flush=True)
        asyncio.get_running_loop().call_later(0.2, say)
        await repl.run("import ctypes\\nctypes.CDLL(None).prctl(1, 0, 0, 0, 0)\\nwhile True: pass", None, 60, 60)
    asyncio.run(main())
"""


@pytest.mark.parametrize("kind", ["alone", "forks"])
def test_host_that_is_killed_leaves_no_process(kind):
    """Though model code asked to live on, and though a child of the host holds its sockets."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    arguments = [sys.executable, "-c", textwrap.dedent(HOST), kind]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True) as host:
        server, worker, scratch = host.stdout.readline().split()
        try:
            assert alive(int(server)) and alive(int(worker))
            host.kill()
            host.wait(timeout=10)
            assert gone(int(server)) and gone(int(worker))
        finally:
            os.killpg(host.pid, signal.SIGKILL) if kind == "forks" else None
            remove_tree(scratch, 5)


def test_worker_ends_with_its_server():
    async def inside(own):
        repl = await own.open("c")
        running = asyncio.create_task(repl.run("while True: pass", None, 60, 60))
        await asyncio.sleep(0.1)
        own._process.kill()
        own._process.wait(timeout=10)
        with pytest.raises(WorkerDied):
            await asyncio.wait_for(running, 10)
        repl.kill()

    with ReplServer(spares=0) as own:
        asyncio.run(inside(own))


def test_rollout_goes_on_when_the_thread_that_made_its_server_ends():
    made, seen = [], threading.Event()

    def make():
        made.append(ReplServer(spares=0))
        seen.wait(10)

    async def inside(own):
        repl = await own.open("c")
        await repl.run("x = 41", None, 5, 5)
        seen.set()
        thread.join()
        await asyncio.sleep(0.1)
        result = await repl.run("print(x + 1)", None, 5, 5)
        repl.kill()
        return result.output

    thread = threading.Thread(target=make)
    thread.start()
    while not made:
        time.sleep(0.01)
    with made[0] as own:
        assert asyncio.run(inside(own)) == "42\n" and own._process.poll() is None


def test_server_outlives_a_fork_that_fails(tmp_path, monkeypatch):
    child = tmp_path / "child.py"
    wrapped = f"""
        import os, runpy, sys
        honest, left = os.fork, [True, False, False, True]
        def fork():
            if left and not left.pop(0):
                raise BlockingIOError(11, "no more processes")
            return honest()
        os.fork = fork
        runpy.run_path({str(repl_module._CHILD)!r}, run_name="__main__")
    """
    child.write_text(textwrap.dedent(wrapped))
    monkeypatch.setattr(repl_module, "_CHILD", child)

    async def inside(own):
        first = await own.open("c")
        await first.run("x = 1", None, 5, 5)
        process = own._process
        for _ in range(2):
            with pytest.raises(repl_module.InfrastructureError, match="did not start"):
                await own.open("d")
        last = await own.open("e")
        outputs = [(await first.run("print(x)", None, 5, 5)).output, (await last.run("print(context)", None, 5, 5)).output]
        first.kill(), last.kill()
        return outputs, own._process is process

    with ReplServer(spares=0) as own:
        assert asyncio.run(inside(own)) == (["1\n", "e\n"], True)


# --- folders


def folders_of(server: ReplServer) -> list[str]:
    return os.listdir(server._scratch)


def test_worker_that_was_never_met_leaves_no_folder():
    async def inside(own):
        for wait_s in (0, 0, 0, 0.001, 0.003, 0.01, 0.03):
            repl = own._worker()
            await asyncio.sleep(wait_s)
            repl.kill()
        await asyncio.sleep(0.3)
        return folders_of(own)

    with ReplServer(spares=0) as own:
        assert asyncio.run(inside(own)) == []
        scratch = own._scratch
    assert not os.path.exists(scratch)


DEEP = "import os\nfor _ in range(1200):\n    os.mkdir('d')\n    os.chdir('d')\n    open('f', 'w').close()\nos.chmod('.', 0)\nFINAL(1)"


def test_deep_tree_of_a_worker_is_removed():
    with pytest.warns(UserWarning, match="with your rights"), ReplServer(isolation="process", spares=0) as own:
        rollout, _, _ = play(own, block(DEEP), block_timeout_s=30)  # which kills the worker: no more than a second for its folder
        assert rollout.answer == "1" and rollout.error is None
        scratch = own._scratch
    assert not os.path.exists(scratch)


def test_tree_is_removed_however_it_is_made(tmp_path):
    outside, tree = tmp_path / "outside", tmp_path / "tree"
    outside.write_text("kept")
    (tree / "a/b").mkdir(parents=True)
    (tree / "a/c").mkdir()
    (tree / "a/b/link").symlink_to(tmp_path)
    (tree / "a/b/hard").hardlink_to(outside)
    (tree / "a/c/locked").mkdir(mode=0)
    (tree / "a").chmod(0o500)
    assert remove_tree(str(tree), 5) and not tree.exists() and outside.read_text() == "kept"


def test_tree_that_takes_too_long_is_left_without_raising(tmp_path):
    (tmp_path / "tree/a").mkdir(parents=True)
    assert not remove_tree(str(tmp_path / "tree"), -1)
    assert remove_tree(str(tmp_path / "tree"), 5)


def test_tree_that_is_not_there_is_gone(tmp_path):
    assert remove_tree(str(tmp_path / "none"), 1)


def test_what_is_no_folder_is_left(tmp_path):
    (tmp_path / "file").write_text("x")
    assert not remove_tree(str(tmp_path / "file"), 1) and (tmp_path / "file").exists()


# --- what a worker says


def test_output_and_count_are_the_hosts():
    message = {"op": "done", "block": 7, "output": "y" * 10**6, "total": -5, "final": None, "failed": False}
    assert _result(message, 7) == BlockResult("y" * 2 * KEEP, 10**6, None, False)


@pytest.mark.parametrize(
    ("frame", "mostly_text"),
    [
        (json.dumps({"prompts": ["x" * 100_000] * 1000}), True),
        (json.dumps({"prompts": ['\\"\n\ud800' * 100_000]}), True),
        ('{"x": [' + "[]," * 100_000 + "[]]}", False),
        ('{"x": [' + '"",' * 100_000 + '""]}', False),
        ('{"x": ' + "9" * 100_000 + "}", False),
        ('"' + '\\"' * 2_000_000, True),  # never closed: parsing refuses it
        ('"[' * 100_000 + "]" * 100_000, False),
        ('""' * 100_000, False),
    ],
    ids=["prompts", "escapes", "lists", "texts", "number", "open", "mixed", "touching"],
)
def test_frames_are_large_by_texts_only(frame, mostly_text):
    began = time.monotonic()
    assert _is_mostly_text(frame.encode()) is mostly_text
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_frames_are_ascii(encoding):
    async def receive():
        ours, theirs = socket.socketpair()
        repl = Repl("none", ours, strict=True)
        body = '{"op": "ready", "pid": "\u00e9"}'.encode(encoding)
        with theirs:
            theirs.sendall(struct.pack(">I", len(body)) + body)
            with pytest.raises(WorkerDied, match="malformed"):
                await repl._channel.receive(5)
            repl.kill()

    asyncio.run(receive())


# --- prompts


@pytest.fixture(scope="module")
def server():
    with ReplServer(memory_mb=1024) as running:
        yield running


def test_prompt_that_no_leaf_takes_uses_no_budget_and_is_not_sent(server):
    code = f"print([t[:47] for t in llm_query_batched(['a', 'x' * {MAX_PROMPT + 1}, 'b', 'x' * 30_000_000, 'c'])])"
    rollout, _, leaf = play(server, block(code), "FINAL(1)", max_subcalls=2)
    refused = ["error: prompt of 10,000,001 characters is over ", "error: prompt of 30,000,000 characters is over "]
    assert rollout.turns[0].outputs == [str(["<a>", refused[0], "<b>", refused[1], "error: no subcalls left"])]
    assert leaf.prompts == ["a", "b"]


def test_child_takes_a_context_that_no_leaf_takes(server):
    script = Script(block("print(rlm_query('x' * 20_000_000))"), "FINAL(1)", of_children=[[block("FINAL(len(context))")]])
    runner = RolloutRunner(Harness(depth=2), server, EchoLeaf())
    rollout = asyncio.run(asyncio.wait_for(runner.run("q?", "c", script, 64), 60))
    assert rollout.turns[0].outputs == ["20000000"]


@pytest.mark.parametrize("call", ["llm_query_batched", "rlm_query_batched"])
def test_batch_of_more_than_a_thousand_prompts_is_an_error_of_the_block(server, call):
    rollout, _, leaf = play(server, block(f"{call}(['x'] * 1001)"), block("print('on')"))
    assert "ValueError: a batch of 1,001 prompts is over the limit of 1,000" in rollout.turns[0].outputs[0]
    assert leaf.prompts == [] and rollout.turns[1].outputs == ["on"]


def test_texts_that_fill_more_than_a_frame_are_an_error_of_the_block(server):
    rollout, _, leaf = play(server, block("kept = 'on'\nrlm_query('x' * 34_000_000)"), block("print(kept)"))
    assert "over the limit of 33,554,432" in rollout.turns[0].outputs[0] and rollout.turns[1].outputs == ["on"]
