"""Rollouts in real worker processes, with a scripted root model and a fake leaf."""

import asyncio
import hashlib
import json
import os
import time
from pathlib import Path

import pytest

from rlmlib.config import Harness
from rlmlib.errors import InfrastructureError
from rlmlib.harness.repl import ReplServer, WorkerDied
from rlmlib.harness.rollout import RolloutRunner
from rlmlib.harness.trajectory import Tokens
from rlmlib.models.base import ContextFull, Reply
from rlmlib.models.lexical_leaf import LexicalLeaf

CASES = json.loads((Path(__file__).parent / "data/protocol_cases.json").read_text())["ended"]
SECRET = "sk-not-for-the-worker"


@pytest.fixture(scope="module")
def unconfined():
    """Where the kernel offers less, and the user accepts it: a process of its own, and no more."""
    with pytest.warns(UserWarning, match="runs with your rights"), ReplServer(isolation="process") as running:
        yield running


@pytest.fixture(scope="module")
def server():
    os.environ["RLM_TEST_API_KEY"] = SECRET
    with ReplServer(memory_mb=1024) as running:
        yield running
    del os.environ["RLM_TEST_API_KEY"]


class Script:
    """A Session that says its lines; an Exception among them is raised. Out of lines, it says nothing.

    of_children: the lines of each of its children.
    """

    name = "script"

    def __init__(self, *lines, of_children=()):
        self.lines, self.heard, self.closed = list(lines), [], False
        self.of_children, self.children = list(of_children), []

    async def reply(self, messages, max_tokens):
        self.heard.append("\n".join(m.content for m in messages))
        line = self.lines.pop(0) if self.lines else ""
        if isinstance(line, Exception):
            raise line
        return Reply(line, prompt_tokens=100, completion_tokens=10, truncated=False)

    def child(self):
        self.children.append(Script(*self.of_children.pop(0)))
        return self.children[-1]

    def close(self):
        self.closed = True


class EchoLeaf:
    """Answers `<prompt>` after `delay(prompt)` seconds; fails on prompts that start with 'fail'. One token a character."""

    name = "echo"
    max_tokens = 2

    def __init__(self, window_tokens=1000, delay=lambda prompt: 0.0):
        self.window_tokens, self.delay = window_tokens, delay
        self.prompts, self.running, self.most = [], 0, 0

    def count_tokens(self, text):
        return len(text)

    async def complete(self, prompt):
        self.prompts.append(prompt)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(self.delay(prompt))
            if prompt.startswith("fail"):
                raise InfrastructureError("the leaf is down")
            return Reply(f"<{prompt}>", len(prompt), 2)
        finally:
            self.running -= 1


def block(*lines):
    return "```repl\n" + "\n".join(lines) + "\n```"


def play(server, *lines, context="some text", leaf=None, concurrency=8, **limits):
    """(rollout, script, leaf) of one rollout."""
    script, leaf = Script(*lines), leaf or EchoLeaf()
    settings = {"max_turns": max(2, len(lines)), "output_chars": 2000, "block_timeout_s": 5.0, **limits}
    runner = RolloutRunner(Harness(**settings), server, leaf, concurrency)
    rollout = asyncio.run(asyncio.wait_for(runner.run("q?", context, script, 64), 60))
    return rollout, script, leaf


def output_of(server, *lines, **options):
    """What the last of these code blocks printed, each in a turn of its own."""
    rollout, _, _ = play(server, *(block(line) for line in lines), **options)
    return rollout.turns[len(lines) - 1].outputs[0]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(pid: int, within_s: float = 5.0) -> bool:
    deadline = time.monotonic() + within_s
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not alive(pid)


# --- a session is complete Python that keeps its state


def test_state_persists_over_turns(server):
    assert output_of(server, "x = 42", "y = x + 8", "print(y)") == "50"


def test_state_persists_over_the_blocks_of_a_reply(server):
    rollout, _, _ = play(server, block("x = 1") + "\n" + block("print(x + 1)"))
    assert rollout.turns[0].outputs == ["", "2"]


def test_names_bound_before_an_exception_are_kept(server):
    assert output_of(server, "a = 7\n1 / 0\nb = 8", "print(a, 'b' in globals())") == "7 False"


def test_last_expression_is_shown(server):
    assert output_of(server, "6 * 7") == "42"


def test_last_expression_that_is_none_is_not_shown(server):
    assert output_of(server, "None") == ""


def test_function_sees_a_later_value_of_a_global(server):
    assert output_of(server, "x = 1\ndef f():\n    return x", "x = 2\nprint(f())") == "2"


def test_underscore_names_survive(server):
    assert output_of(server, "_x = 1", "print(_x)") == "1"


@pytest.mark.parametrize(
    ("code", "printed"),
    [
        ("class A:\n    pass\nprint(A.__name__)", "A"),
        ("from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int = 1\nprint(A())", "A(x=1)"),
        ("n = 3\nprint([i * n for i in range(n)], (lambda: n)())", "[0, 3, 6] 3"),
        ("try:\n    1 / 0\nexcept ZeroDivisionError:\n    print('ok')", "ok"),
        ("import asyncio\nasync def f():\n    return 1\nprint(asyncio.run(f()))", "1"),
        ("import re, json, collections\nprint(json.dumps(collections.Counter(re.findall('a', 'banana'))))", '{"a": 3}'),
        ("print('café ☕ 日本語')", "café ☕ 日本語"),
        ("import sys\nprint('note', file=sys.stderr)", "note"),
    ],
)
def test_code_is_complete_python(server, code, printed):
    assert output_of(server, code) == printed


def test_traceback_has_the_line_of_the_block(server):
    output = output_of(server, "a = 1\ndef boom():\n    return a / 0\nboom()")
    assert "line 3, in boom" in output and "return a / 0" in output and "ZeroDivisionError" in output


def test_traceback_shows_nothing_of_the_harness(server):
    assert "repl_child" not in output_of(server, "1 / 0")


def test_syntax_error_is_shown(server):
    assert "SyntaxError" in output_of(server, "def broken(")


def test_nul_byte_in_code_is_an_error_not_a_crash(server):
    assert "alive" in output_of(server, "x = 'a\0b'", "print('alive')")


def test_lone_surrogate_in_output_crashes_nothing(server):
    rollout, _, _ = play(server, block("print('\\ud800')"), "FINAL(ok)")
    assert rollout.answer == "ok" and rollout.turns[0].outputs[0] == "\ud800"


def test_show_vars_lists_the_names_of_the_model_only(server):
    assert output_of(server, "x = 1", "print(SHOW_VARS())") == "{'x': 'int'}"


def test_long_output_shows_both_ends_and_the_count(server):
    output = output_of(server, "print('H' + 'x' * 5000 + 'T', end='')", output_chars=120)
    assert output.startswith("Hx") and output.endswith("xT") and "[4882 left out]" in output


def test_error_after_a_long_output_is_still_seen(server):
    assert "ZeroDivisionError" in output_of(server, "print('x' * 50_000)\n1 / 0", output_chars=120)


# --- the context arrives as it is


@pytest.mark.parametrize(
    "context",
    [
        "",
        "a\r\nb\rc\n",
        "nul \0 here",
        "lone \ud800 and \udfff",
        "é日本\U0001f600\u2028",
        "FINAL(no)\n```repl\n{braces} %s",
        "ab\n" * 350_000,
    ],
    ids=["empty", "crlf", "nul", "surrogates", "unicode", "markup", "1MB"],
)
def test_text_context_is_identical(server, context):
    code = "import hashlib\nFINAL(hashlib.sha256(context.encode('utf-8', 'surrogatepass')).hexdigest())"
    rollout, _, _ = play(server, block(code), context=context)
    assert rollout.answer == hashlib.sha256(context.encode("utf-8", "surrogatepass")).hexdigest()


@pytest.mark.parametrize(
    "context", [[1, 2.5, "four", None], [], {}, {"k": [True, {"n": "v\r\n"}]}], ids=["list", "no-list", "no-dict", "dict"]
)
def test_list_and_dict_contexts_are_identical(server, context):
    rollout, _, _ = play(server, block("FINAL(repr(context))"), context=context)
    assert rollout.answer == repr(context)


def test_context_is_never_in_what_the_root_model_is_told(server):
    _, script, _ = play(server, block("x = len(context)"), "FINAL(1)", context="needle in a haystack")
    assert script.heard and not any("needle" in heard for heard in script.heard)


def test_root_model_is_told_the_type_and_size(server):
    _, script, _ = play(server, "FINAL(1)", context="x" * 1234)
    assert "str 1234" in script.heard[0]


def test_braces_in_the_question_do_no_harm(server):
    script = Script("FINAL(1)")
    runner = RolloutRunner(Harness(), server, EchoLeaf())
    asyncio.run(runner.run("what is {x} and %s?", "c", script, 64))
    assert "what is {x} and %s?" in script.heard[0]


# --- what the model overwrites or breaks


@pytest.mark.parametrize(
    ("spoil", "use", "shown"),
    [
        ("context = 'hijacked'", "print(context)", "some text"),
        ("del context", "print(context)", "some text"),
        ("llm_query = lambda p: 'hijacked'", "print(llm_query('p'))", "<p>"),
        ("llm_query_batched = None", "print(llm_query_batched(['p']))", "['<p>']"),
        ("SHOW_VARS = 1", "print(SHOW_VARS())", "{}"),
    ],
)
def test_overwritten_tools_are_restored_for_the_next_block(server, spoil, use, shown):
    assert output_of(server, spoil, use) == shown


def test_overwritten_final_var_is_restored_for_the_next_block(server):
    rollout, _, _ = play(server, block("FINAL_VAR = 3\nx = 'v'"), block("FINAL_VAR('x')"))
    assert rollout.answer == "v"


HARMLESS = {
    "sys.exit": "import sys\nsys.exit(3)",
    "SystemExit": "raise SystemExit",
    "KeyboardInterrupt": "raise KeyboardInterrupt",
    "GeneratorExit": "raise GeneratorExit",
    "recursion": "def f():\n    return f()\nf()",
    "memory": "b = bytearray(8 << 30)",
    "stdin": "import sys\nassert sys.stdin.read() == ''\ninput()",
    "stdout closed": "import sys\nsys.stdout.close()",
    "std fds closed": "import os\nfor n in (0, 1, 2):\n    os.close(n)",
    "chdir": "import os\nos.chdir('/')",
    "bad exception": "class E(Exception):\n    def __str__(self):\n        raise ValueError\nraise E",
    "bad repr": "class R:\n    def __repr__(self):\n        raise ValueError\nR()",
    "sigint ignored": "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)",
    "traced": "import sys\nsys.settrace(lambda *a: None)",
}


@pytest.mark.parametrize("code", HARMLESS.values(), ids=HARMLESS)
def test_mischief_that_python_survives_keeps_the_state(server, code):
    assert output_of(server, "kept = 'still here'", code, "print(kept)") == "still here"


DEADLY = {
    "os._exit": "import os\nos._exit(7)",
    "segfault": "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)",
    "kill": "import os\nos.kill(0, 9)",
    "all fds closed": "import os\nos.closerange(0, 256)",
    "stack overflow": "import sys\nsys.setrecursionlimit(10**9)\ndef f():\n    f()\nf()",
    "channel garbage": "import os\nfds = [int(n) for n in os.listdir('/proc/self/fd')]\nfor n in fds:\n    os.write(n, b'\\xff' * 64)",
    "builtins replaced": "import builtins\nbuiltins.str = builtins.isinstance = builtins.len = None",
    "json replaced": "import json\njson.dumps = json.loads = None",
    "stopped": "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
    "both interrupts swallowed": "while True:\n    try:\n        while True:\n            pass\n    except BaseException:\n        pass",
    "big integer": "x = 10 ** (10 ** 8)\ny = str(x)",
    "regular expression": "import re\nre.match('(a+)+$', 'a' * 60 + 'b')",
}


@pytest.mark.parametrize("code", DEADLY.values(), ids=DEADLY)
def test_mischief_that_kills_a_worker_leaves_the_rollout_going(server, code):
    rollout, _, _ = play(server, block(code), block("print('alive')"), "FINAL(done)", block_timeout_s=0.5)
    assert (rollout.turns[1].outputs, rollout.answer, rollout.error) == (["alive"], "done", None)


def test_model_is_told_that_its_variables_are_gone(server):
    _, script, _ = play(server, block("import os\nos._exit(7)"), "FINAL(x)")
    assert "your variables are gone" in script.heard[1]


def test_block_that_killed_its_worker_is_not_run_again(server):
    rollout, _, leaf = play(server, block("llm_query('once')\nimport os\nos._exit(1)"), "FINAL(x)")
    assert leaf.prompts == ["once"] and rollout.answer == "x"


def test_endless_loop_is_stopped_and_keeps_the_state(server):
    rollout, _, _ = play(server, block("kept = 1"), block("while True:\n    pass"), block("print(kept)"), block_timeout_s=0.4)
    assert "time limit" in rollout.turns[1].outputs[0] and rollout.turns[2].outputs == ["1"]


def test_sleeping_block_is_stopped_and_keeps_the_state(server):
    rollout, _, _ = play(server, block("kept = 1"), block("import time\ntime.sleep(99)"), block("print(kept)"), block_timeout_s=0.4)
    assert rollout.turns[2].outputs == ["1"]


def test_endless_loop_of_refused_subcalls_is_stopped(server):
    rollout, _, _ = play(server, block("while True:\n    llm_query('x')"), "FINAL(done)", max_subcalls=1, block_timeout_s=0.5)
    assert rollout.answer == "done" and "time limit" in rollout.turns[0].outputs[0]


def test_endless_printing_is_stopped_and_bounded(server):
    rollout, _, _ = play(server, block("while True:\n    print('x' * 1000)"), "FINAL(done)", block_timeout_s=0.4, output_chars=150)
    assert rollout.answer == "done" and len(rollout.turns[0].outputs[0]) < 250


def test_huge_print_is_counted_not_kept(server):
    output = output_of(server, "print('x' * 50_000_000)", output_chars=100)
    assert "[49999901 left out]" in output and len(output) < 200


def test_forked_copy_of_the_worker_does_not_speak_for_it(unconfined):
    lines = [block("import os\npid = os.fork()\nprint('first')"), block("print('second')"), block("print('third')"), "FINAL(done)"]
    rollout, _, _ = play(unconfined, *lines)
    assert [t.outputs for t in rollout.turns[:3]] == [["first"], ["second"], ["third"]]


def test_threads_may_ask_at_once(server):
    code = """from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(8) as pool:
    FINAL(list(pool.map(llm_query, [str(i) for i in range(16)])))"""
    rollout, _, _ = play(server, block(code), leaf=EchoLeaf(delay=lambda prompt: 0.002 * (int(prompt) % 3)))
    assert rollout.answer == repr([f"<{i}>" for i in range(16)])


def test_subcall_from_a_thread_that_outlives_its_block_hangs_nothing(server):
    late = (
        "import threading, time\ndef ask():\n    time.sleep(0.1)\n    llm_query('late')\nthreading.Thread(target=ask, daemon=True).start()"
    )
    rollout, _, _ = play(server, block(late), block("time.sleep(0.3)\nprint('second')"), block("print('third')"), "FINAL(done)")
    assert rollout.answer == "done" and rollout.turns[2].outputs == ["third"]


def test_working_folder_of_the_host_is_untouched(server):
    before = os.getcwd()
    play(server, block("import os\nos.chdir('/')"))
    assert os.getcwd() == before


def test_worker_has_no_keys_in_its_environment(server):
    output = output_of(server, "import os\nprint(dict(os.environ))", output_chars=5000)
    assert "PATH" in output and SECRET not in output and "KEY" not in output


def test_worker_has_only_known_environment_names(server):
    rollout, _, _ = play(server, block("import os\nFINAL(' '.join(sorted(os.environ)))"))
    assert set(rollout.answer.split()) <= {"GLIBC_TUNABLES", "HOME", "LANG", "LC_CTYPE", "PATH", "TMPDIR"}


def test_worker_cannot_import_the_project(server):
    assert "ModuleNotFoundError" in output_of(server, "import rlmlib")


def test_limits_are_not_in_reach_of_the_model(server):
    code = "import os\nos.environ['RLM_MAX_SUBCALLS'] = '99'\nfor i in range(4):\n    print(llm_query('p'))"
    assert output_of(server, code, max_subcalls=2).splitlines() == ["<p>", "<p>", "error: no subcalls left", "error: no subcalls left"]


def test_worker_is_gone_after_its_rollout(server):
    rollout, _, _ = play(server, block("import os\nFINAL(os.getpid())"))
    assert gone(int(rollout.answer))


def test_scratch_folder_is_gone_after_its_rollout(server):
    rollout, _, _ = play(server, block("import os\nopen('f', 'w').write('x')\nFINAL(os.getcwd())"))
    assert rollout.answer and not Path(rollout.answer).exists()


def test_child_process_of_an_unconfined_worker_is_gone_after_its_rollout(unconfined):
    rollout, _, _ = play(unconfined, block("import subprocess\nFINAL(subprocess.Popen(['sleep', '600']).pid)"))
    assert gone(int(rollout.answer))


def test_worker_is_gone_after_the_server_is_closed():
    async def pid_of(server):
        repl = await server.open("c")
        await repl.run("import os\npid = os.getpid()", None, 5, 5)
        return repl, int(await repl.value("pid"))

    with ReplServer() as own:
        _kept, pid = asyncio.run(pid_of(own))
        was_alive = alive(pid)
    assert was_alive and gone(pid)


def test_server_that_was_killed_is_started_again_and_the_rollout_goes_on():
    with ReplServer() as own:
        own._process.kill()
        own._process.wait(timeout=10)
        rollout, _, _ = play(own, block("x = 1"), "FINAL(1)")
    assert rollout.error is None
    assert rollout.answer == "1"


def test_spare_workers_that_died_are_passed_over():
    async def after_the_spares_died(own):
        repl = await own.open("c")
        await asyncio.sleep(0.2)  # spares are forked meanwhile
        assert own._spares
        repl.kill()
        own._process.kill()
        own._process.wait(timeout=10)
        await asyncio.sleep(0.2)  # the kernel ends them then
        repl = await own.open("d")
        result = await repl.run("print(context)", None, 5, 5)
        repl.kill()
        return result.output

    with ReplServer() as own:
        assert asyncio.run(after_the_spares_died(own)) == "d\n"


def test_context_that_does_not_fit_is_an_infrastructure_failure():
    with ReplServer(memory_mb=100) as own:
        rollout, _, _ = play(own, block("x = 1"), "FINAL(1)", context="x" * 150_000_000)
    assert "memory_mb" in rollout.error and rollout.answer is None


def test_server_may_be_closed_twice():
    own = ReplServer()
    own.close()
    own.close()
    assert own._process.returncode is not None


def test_open_after_close_is_an_infrastructure_failure():
    own = ReplServer()
    own.close()
    rollout, _, _ = play(own, "FINAL(1)")
    assert rollout.error and rollout.answer is None


def test_rollouts_leave_no_open_files_behind(server):
    play(server, "FINAL(1)")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        play(server, block("x = 1"), "FINAL(1)")
    assert len(os.listdir("/proc/self/fd")) <= before


def test_outputs_of_two_rollouts_do_not_mix(server):
    async def both():
        runner = RolloutRunner(Harness(output_chars=2000), server, EchoLeaf())
        code = "import time\nfor i in range(20):\n    print({!r})\n    time.sleep(0.002)"
        scripts = [Script(block(code.format(name)), "FINAL(1)") for name in "AB"]
        return await asyncio.gather(*(runner.run("q", "c", s, 64) for s in scripts))

    a, b = asyncio.run(both())
    assert (a.turns[0].outputs, b.turns[0].outputs) == (["\n".join("A" * 20)], ["\n".join("B" * 20)])


# --- subcalls and their budget


def test_leaf_answers(server):
    assert output_of(server, "print(llm_query('hello'))") == "<hello>"


def test_batched_answers_keep_their_order(server):
    leaf = EchoLeaf(delay=lambda prompt: 0.06 - 0.02 * int(prompt))
    assert output_of(server, "print(llm_query_batched(['0', '1', '2']))", leaf=leaf) == "['<0>', '<1>', '<2>']"


def test_empty_batch_is_an_empty_list(server):
    assert output_of(server, "print(llm_query_batched([]))") == "[]"


def test_rlm_query_falls_back_to_the_leaf(server):
    assert output_of(server, "print(rlm_query('a'), rlm_query_batched(['b', 'c']))") == "<a> ['<b>', '<c>']"


def test_prompt_that_is_no_text_is_an_error_of_the_block(server):
    rollout, _, leaf = play(server, block("llm_query(5)"), "FINAL(1)")
    assert "TypeError" in rollout.turns[0].outputs[0] and leaf.prompts == []


def test_failing_leaf_returns_its_error_as_text(server):
    assert output_of(server, "print(llm_query('fail'))") == "error: the leaf is down"


def test_one_failing_prompt_does_not_fail_its_batch(server):
    assert output_of(server, "print(llm_query_batched(['a', 'fail', 'b']))") == "['<a>', 'error: the leaf is down', '<b>']"


def test_budget_is_shared_by_all_turns(server):
    rollout, _, leaf = play(server, block("llm_query('a')"), block("llm_query('b')"), block("print(llm_query('c'))"), max_subcalls=2)
    assert rollout.turns[2].outputs == ["error: no subcalls left"] and leaf.prompts == ["a", "b"]


def test_budget_is_shared_by_all_kinds_of_calls(server):
    code = "print([llm_query('a'), rlm_query('b'), *llm_query_batched(['c']), *rlm_query_batched(['d'])])"
    assert output_of(server, code, max_subcalls=2) == "['<a>', '<b>', 'error: no subcalls left', 'error: no subcalls left']"


def test_budget_survives_a_new_session(server):
    lines = [block("llm_query('a')\nimport os\nos._exit(1)"), block("print(llm_query('b'))")]
    rollout, _, _ = play(server, *lines, max_subcalls=1)
    assert rollout.turns[1].outputs == ["error: no subcalls left"]


def test_budget_is_not_shared_by_rollouts(server):
    for _ in range(2):
        assert output_of(server, "print(llm_query('a'))", max_subcalls=1) == "<a>"


def test_over_budget_texts_are_in_place(server):
    code = "print(llm_query_batched(['a', 'b', 'c']))"
    assert output_of(server, code, max_subcalls=2) == "['<a>', '<b>', 'error: no subcalls left']"


def test_refused_calls_are_counted(server):
    rollout, _, _ = play(server, block("llm_query_batched(['a', 'b', 'c'])"), "FINAL(1)", max_subcalls=2)
    assert (rollout.usage.refused_calls, rollout.usage.leaf_calls) == (1, 2)


def test_budget_of_zero_refuses_all(server):
    assert output_of(server, "print(llm_query('a'))", max_subcalls=0) == "error: no subcalls left"


def test_too_long_a_prompt_is_refused_before_it_is_sent(server):
    rollout, _, leaf = play(server, block("print(llm_query('x' * 86))"), "FINAL(1)", leaf=EchoLeaf(window_tokens=100))
    assert "over the limit of 85" in rollout.turns[0].outputs[0] and leaf.prompts == []


def test_prompt_of_exactly_the_limit_is_sent(server):
    assert output_of(server, "print(len(llm_query('x' * 85)))", leaf=EchoLeaf(window_tokens=100)) == "87"


def test_offline_leaf_refuses_prompts_over_its_share_of_the_window(server):
    leaf = LexicalLeaf(window_tokens=2400)
    refused = output_of(server, "print(llm_query('Where was A B born?' + chr(10) + 'x' * 8200))", leaf=leaf)
    read = output_of(server, "print(llm_query('Where was A B born?' + chr(10) + 'x' * 8000))", leaf=leaf)
    assert refused.startswith("error: prompt of 2056 tokens is over the limit of 2040") and read == "NOT_FOUND"


def test_too_long_a_prompt_uses_no_budget(server):
    code = "print([t[:6] for t in llm_query_batched(['x' * 86, 'a', 'b'])])"
    assert output_of(server, code, leaf=EchoLeaf(window_tokens=100), max_subcalls=2) == "['error:', '<a>', '<b>']"


def test_prompts_beyond_the_largest_batch_use_no_budget(server):
    rollout, _, leaf = play(server, block("print(llm_query_batched(['a', 'b', 'c']))"), "FINAL(1)", max_batch=2)
    assert leaf.prompts == ["a", "b"] and "holds at most 2" in rollout.turns[0].outputs[0] and rollout.usage.leaf_calls == 2


def test_no_more_leaf_calls_at_once_than_allowed(server):
    leaf = EchoLeaf(delay=lambda prompt: 0.01)
    play(server, block("llm_query_batched([str(i) for i in range(12)])"), "FINAL(1)", leaf=leaf, concurrency=3)
    assert leaf.most == 3


def test_subcalls_left_are_shown(server):
    _, script, _ = play(server, block("llm_query('a')"), "FINAL(1)", max_subcalls=7)
    assert "[6 left]" in script.heard[1]


def test_waiting_for_leaves_is_not_charged_to_the_block(server):
    leaf = EchoLeaf(delay=lambda prompt: 0.9)
    assert output_of(server, "print(llm_query('slow'))", leaf=leaf, block_timeout_s=0.5) == "<slow>"


def test_waiting_for_leaves_has_a_limit_of_its_own(server):
    leaf = EchoLeaf(delay=lambda prompt: 30)
    output = output_of(server, "print(llm_query('slow'))", leaf=leaf, leaf_timeout_s=0.2)
    assert output == "error: no answer in time"


def test_calls_that_ended_before_the_leaf_limit_are_in_the_usage(server):
    leaf = EchoLeaf(delay=lambda prompt: 30 if prompt == "slow" else 0)
    rollout, _, _ = play(server, block("llm_query_batched(['fast', 'slow'])"), "FINAL(1)", leaf=leaf, leaf_timeout_s=0.3)
    assert [(call.error, call.tokens.total) for call in rollout.calls] == [(None, len("fast") + 2), ("late", len("slow"))]


def test_usage_sums_over_turns_and_leaves(server):
    rollout, _, _ = play(server, block("llm_query('abc')"), block("llm_query_batched(['de', 'fail'])"), "FINAL(1)")
    usage = rollout.usage
    assert (usage.root, usage.leaf_tokens) == (Tokens(300, 30), Tokens(5, 4))
    assert (usage.leaf_calls, usage.total) == (3, 339)


def test_usage_of_the_turns_is_the_usage_of_the_rollout(server):
    rollout, _, _ = play(server, block("llm_query('abc')"), block("llm_query_batched(['de', 'f'])"), "FINAL(1)")
    assert [len(t.calls) for t in rollout.turns] == [1, 2, 0]
    assert sum(c.tokens.total for t in rollout.turns for c in t.calls) == rollout.usage.leaf


# --- how a rollout ends


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["id"])
def test_answer_of_a_rollout(server, case):
    assert play(server, *case["replies"])[0].answer == case["answer"]


def test_final_as_text(server):
    rollout, _, _ = play(server, "The answer is:\nFINAL(42)")
    assert (rollout.answer, rollout.stop, rollout.forced, rollout.missing) == ("42", "final", False, False)


def test_final_var_by_value_in_a_block(server):
    rollout, _, _ = play(server, block("x = [1, 2]\nFINAL_VAR(x)"))
    assert rollout.answer == "[1, 2]"


def test_final_in_a_block_ends_it_at_once(server):
    rollout, _, leaf = play(server, block("FINAL('a')\nllm_query('never')"), block("FINAL('b')"))
    assert rollout.answer == "a" and leaf.prompts == [] and len(rollout.turns) == 1


def test_blocks_after_a_final_are_not_run(server):
    rollout, _, leaf = play(server, block("FINAL('a')") + "\n" + block("llm_query('never')"))
    assert rollout.answer == "a" and leaf.prompts == []


def test_final_is_not_caught_by_except_exception(server):
    rollout, _, _ = play(server, block("try:\n    FINAL('a')\nexcept Exception:\n    print('caught')"))
    assert rollout.answer == "a"


def test_final_var_of_a_missing_name_goes_on_with_a_message(server):
    rollout, script, _ = play(server, "FINAL_VAR(nothing)", "FINAL(7)")
    assert "no variable named 'nothing'" in script.heard[1] and rollout.answer == "7"


def test_final_var_of_a_missing_name_in_a_block_goes_on(server):
    rollout, _, _ = play(server, block("FINAL_VAR('nothing')"), "FINAL(7)")
    assert "no variable named 'nothing'" in rollout.turns[0].outputs[0] and rollout.answer == "7"


def test_final_var_whose_text_fails_goes_on(server):
    rollout, _, _ = play(server, block("class R:\n    def __str__(self):\n        raise ValueError\nr = R()"), "FINAL_VAR(r)", "FINAL(7)")
    assert (rollout.answer, rollout.error) == ("7", None)


def test_final_beside_code_is_taken_after_the_code_ran(server):
    rollout, _, _ = play(server, block("x = 'ran'") + "\nFINAL_VAR(x)")
    assert rollout.answer == "ran"


def test_final_beside_code_can_be_ignored(server):
    rollout, _, _ = play(server, block("print(5)") + "\nFINAL(guess)", "FINAL(seen)", final_beside_code="ignore")
    assert rollout.answer == "seen"


def test_final_called_in_code_counts_where_text_beside_code_is_ignored(server):
    rollout, _, _ = play(server, block("FINAL(5)"), final_beside_code="ignore")
    assert rollout.answer == "5"


def test_what_a_block_prints_is_no_answer(server):
    rollout, _, _ = play(server, block("print('FINAL(no)')"), "FINAL(yes)")
    assert rollout.answer == "yes"


def test_empty_answer_goes_on(server):
    rollout, _, _ = play(server, block("FINAL('  ')"), "FINAL()", "FINAL(x)")
    assert (rollout.answer, len(rollout.turns)) == ("x", 3)


def test_reply_without_code_or_answer_gets_a_reminder(server):
    _, script, _ = play(server, "let me think", "FINAL(1)")
    assert "no code" in script.heard[1]


def test_empty_reply_uses_a_turn(server):
    rollout, _, _ = play(server, "", "FINAL(1)")
    assert (len(rollout.turns), rollout.answer) == (2, "1")


def test_question_is_asked_again_each_turn(server):
    _, script, _ = play(server, block("x = 1"), "", "FINAL(1)", prompts="full", max_turns=2)
    assert len(script.heard) == 3 and all("q?" in heard for heard in script.heard)


def test_answer_to_the_finalise_message_is_forced(server):
    rollout, script, _ = play(server, "", "", "FINAL(late)", max_turns=2)
    assert "FINAL now" in script.heard[2] and (rollout.answer, rollout.forced, rollout.stop) == ("late", True, "final")
    assert [t.kind for t in rollout.turns] == ["root", "root", "finalise"]


def test_forced_answer_may_be_a_variable(server):
    rollout, _, _ = play(server, block("x = 5"), "FINAL_VAR(x)", max_turns=1)
    assert (rollout.answer, rollout.forced) == ("5", True)


def test_code_is_not_run_after_the_finalise_message(server):
    rollout, _, leaf = play(server, "", block("llm_query('never')\nFINAL('no')"), max_turns=1)
    assert leaf.prompts == [] and rollout.missing


def test_no_answer_even_when_forced_is_missing(server):
    rollout, _, _ = play(server, "", "", "I do not know", max_turns=2)
    assert (rollout.answer, rollout.missing, rollout.forced, rollout.stop) == (None, True, False, "missing")


def test_answer_on_the_last_turn_is_not_forced(server):
    rollout, _, _ = play(server, "", "FINAL(x)", max_turns=2)
    assert (rollout.answer, rollout.forced) == ("x", False)


def test_full_conversation_ends_as_length(server):
    rollout, _, _ = play(server, block("x = 1"), ContextFull())
    assert (rollout.stop, rollout.missing, rollout.error) == ("length", True, None)


def test_rollout_over_its_time_ends_as_timeout(server):
    rollout, _, _ = play(server, block("import time\ntime.sleep(0.3)"), "FINAL(late)", rollout_timeout_s=0.2)
    assert (rollout.stop, rollout.missing) == ("timeout", True)


def test_failure_of_the_machinery_is_an_error_not_an_answer(server):
    rollout, _, _ = play(server, block("x = 1"), InfrastructureError("the sampler is down"))
    assert (rollout.error, rollout.answer) == ("the sampler is down", None)


@pytest.mark.parametrize("lines", [["FINAL(1)"], [InfrastructureError("down")], [ContextFull()]], ids=["final", "error", "full"])
def test_session_is_closed_however_it_ended(server, lines):
    assert play(server, *lines)[1].closed


def test_full_prompts_fill_their_places(server):
    rollout, script, _ = play(server, block("print(1)"), "", "FINAL(1)", prompts="full", max_turns=2)
    assert rollout.answer == "1" and not any("{" in heard for heard in script.heard)


def test_next_session_starts_empty(server):
    play(server, block("leak = 1"), "FINAL(1)")
    assert output_of(server, "print('leak' in globals())") == "False"


# --- the session by itself


def run_in(server, work):
    async def inside():
        repl = await server.open("c")
        try:
            return await work(repl)
        finally:
            repl.kill()

    return asyncio.run(asyncio.wait_for(inside(), 30))


def test_value_of_a_missing_name_is_none(server):
    assert run_in(server, lambda repl: repl.value("nothing")) is None


def test_value_of_a_tool_is_none(server):
    assert run_in(server, lambda repl: repl.value("llm_query")) is None


def test_use_after_kill_is_a_dead_worker(server):
    async def work(repl):
        repl.kill()
        with pytest.raises(WorkerDied):
            await repl.run("1", None, 5, 5)
        return True

    assert run_in(server, work)


def test_session_may_be_killed_twice(server):
    async def work(repl):
        repl.kill()
        repl.kill()
        return repl._pid

    assert run_in(server, work) is None


def test_failed_block_is_marked(server):
    async def work(repl):
        return [(await repl.run(code, None, 5, 5)).failed for code in ("1 / 0", "x = 1", "import warnings\nwarnings.warn('w')")]

    assert run_in(server, work) == [True, False, False]


def test_sessions_draw_different_random_numbers(server):
    assert output_of(server, "import random\nprint(random.random())") != output_of(server, "import random\nprint(random.random())")


def test_output_of_the_last_turn_reaches_the_forced_answer(server):
    _, script, _ = play(server, block("x = 1"), block("print('found it')"), "FINAL(1)", max_turns=2)
    assert "found it" in script.heard[2] and script.heard[2].endswith("FINAL now")


def test_block_that_prints_nothing_is_not_told_that_there_was_no_code(server):
    _, script, _ = play(server, block("x = 1"), "nothing", "FINAL(1)")
    assert "no code" not in script.heard[1] and "no code" in script.heard[2]


TEXTS = ["", "short", "na\u00efve \U0001f600", "\ud83d\ude00", "a\x00b\r\n", "x" * 40_000, "\u00e9" * 200_001, "\udcff" * 70_000]


@pytest.mark.parametrize("context", TEXTS, ids=lambda text: f"{len(text)} characters {ascii(text[:5])}")
def test_text_contexts_arrive_as_they_are(server, context):
    """Short ones, long ones, and halves of characters that UTF-8 does not have."""
    code = "import hashlib\nFINAL(hashlib.sha256(context.encode('utf-8', 'surrogatepass')).hexdigest())"
    rollout, _, _ = play(server, block(code), context=context)
    assert rollout.answer == hashlib.sha256(context.encode("utf-8", "surrogatepass")).hexdigest()


def test_workers_kept_for_a_loop_that_ended_are_not_used_in_the_next():
    async def one(own):
        repl = await own.open("d")
        output = (await repl.run("print(context)", None, 5, 5)).output
        repl.kill()
        await asyncio.sleep(0.2)  # spares are made meanwhile
        assert own._spares
        return output

    with ReplServer() as own:
        assert [asyncio.run(one(own)) for _ in range(3)] == ["d\n"] * 3
