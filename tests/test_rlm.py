"""RLM: one question over one context, with a scripted chat model, and with the small policy of the package."""

import os
import subprocess
import sys

import pytest
from test_harness import EchoLeaf, block

from rlmlib import RLM
from rlmlib.config import Harness
from rlmlib.errors import ConfigError, InfrastructureError
from rlmlib.models.base import Reply
from rlmlib.models.choose import parse
from rlmlib.notebook import ROOT


class ChatDouble:
    """A ChatModel that says its lines, whoever asks."""

    name, window_tokens = "double", 100_000

    def __init__(self, *lines):
        self.lines, self.heard = list(lines), []

    def count_tokens(self, text):
        return len(text)

    async def chat(self, messages, max_tokens):
        self.heard.append(list(messages))
        return Reply(self.lines.pop(0), 10, 3, thinking_tokens=1, dollars=0.5)


def test_answer_trajectory_usage_and_stop_reason():
    leaf = ChatDouble("blue")
    with RLM(ChatDouble(block("a = llm_query('colour? ' + context[:5])"), "FINAL_VAR(a)"), leaf) as rlm:
        rollout = rlm.ask("Which colour?", "azure and more")
    assert (rollout.answer, rollout.stop, rollout.error) == ("blue", "final", None)
    assert leaf.heard[0][0].content == "colour? azure"
    assert {key: t.total for key, t in rollout.usage_by_model().items()} == {("double", 0): 26, ("double", 1): 13}
    assert rollout.usage.dollars == 1.5


def test_history_grows_over_the_turns():
    root = ChatDouble(block("print(1)"), "FINAL(x)")
    with RLM(root, EchoLeaf()) as rlm:
        rlm.ask("q", "c")
    assert [m.role for m in root.heard[1]] == ["system", "user", "assistant", "user"]


def test_context_may_be_a_file(tmp_path):
    (tmp_path / "big.txt").write_text("x" * 10_000_000)
    with RLM(ChatDouble(block("FINAL(len(context))")), EchoLeaf()) as rlm:
        assert rlm.ask("How long?", tmp_path / "big.txt").answer == "10000000"


def test_works_inside_a_running_event_loop():
    import asyncio

    async def notebook():
        with RLM(ChatDouble("FINAL(1)"), EchoLeaf()) as rlm:
            return rlm.ask("q", "c").answer

    assert asyncio.run(notebook()) == "1"


def test_small_policy_and_offline_leaf_need_nothing():
    with RLM(root="tiny", leaf="lexical") as rlm:
        rollout = rlm.ask("Find out the trade of Ada Berg.", "Ada Berg. By trade Ada Berg was a potter.\n" * 3)
    assert rollout.turns and rollout.error is None and rollout.usage.root.completion > 0


def test_names_of_models():
    assert parse("gemini/gemini-3-flash-preview").engine == "gemini"
    local = parse("Qwen/Qwen3-4B@http://127.0.0.1:8000/v1")
    assert (local.engine, local.model, local.base_url, local.free) == ("openai", "Qwen/Qwen3-4B", "http://127.0.0.1:8000/v1", True)


def test_a_name_that_is_none_says_what_to_write():
    with pytest.raises(ConfigError, match="write gemini/NAME"):
        RLM(root="gpt")


def test_without_a_key_one_line_says_which_variable_to_set(monkeypatch):
    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match="GEMINI_API_KEY"):
        RLM(root="gemini/gemini-3-flash-preview")


def test_importing_the_name_loads_nothing_heavy():
    heavy = ("torch", "transformers", "google.genai", "openai", "pandas")
    code = f"import sys\nfrom rlmlib import RLM\nprint([m for m in {heavy} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert out.stdout.strip() == "[]", out.stderr


# --- its life


@pytest.fixture
def closed_sessions(monkeypatch):
    """How many sessions were closed so far."""
    from rlmlib.models.sessions import ChatSession

    closed = []
    monkeypatch.setattr(ChatSession, "close", lambda self: closed.append(self))
    return closed


@pytest.mark.parametrize("context", [None, b"bytes", 5])
def test_a_context_that_is_none_is_refused_and_the_next_question_is_answered(context):
    with RLM(root="tiny", leaf="lexical") as rlm:
        with pytest.raises(ConfigError, match="a context is a str, list or dict"):
            rlm.ask("q", context)
        assert rlm.ask("Find out the trade of Ada Berg.", "Ada Berg was a potter.", timeout_s=20).error is None


def test_a_context_that_no_worker_can_have_leaves_no_session_open():
    with RLM(root="tiny", leaf="lexical") as rlm:
        with pytest.raises(ConfigError, match="context: holds"):
            rlm.ask("q", [ChatDouble()])
        assert rlm.ask("Find out the trade of Ada Berg.", "Ada Berg was a potter.", timeout_s=20).error is None


def test_session_is_closed_after_a_question(closed_sessions):
    with RLM(ChatDouble("FINAL(1)"), EchoLeaf()) as rlm:
        rlm.ask("q", "c")
    assert closed_sessions


def test_closed_twice_and_asked_afterwards():
    rlm = RLM(ChatDouble("FINAL(1)"), EchoLeaf())
    rlm.close()
    rlm.close()
    with pytest.raises(InfrastructureError, match="is closed; open a new one"):
        rlm.ask("q", "c")


def test_slow_code_is_the_rollouts_own_end_and_not_tried_again():
    root = ChatDouble("\n".join([block("import time", "time.sleep(0.4)")] * 20))
    with RLM(root, EchoLeaf(), Harness(block_timeout_s=1.0)) as rlm:
        rollout = rlm.ask("q", "c", timeout_s=4)
    assert (rollout.stop, rollout.error, rollout.failures) == ("timeout", None, [])


SCRIPT = """
import glob, os, sys, tempfile, threading, time
sys.path[:0] = {paths}
from test_harness import EchoLeaf
from test_rlm import ChatDouble
from rlmlib import RLM
def left():
    return len(glob.glob(tempfile.gettempdir() + "/rlm-repl-*")), sum("RLM" in t.name for t in threading.enumerate())
"""


def script(tmp_path, code: str) -> str:
    """What a script prints, and what it leaves in its own folder for temporary files."""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    source = SCRIPT.format(paths=[str(ROOT), str(ROOT / "tests")]) + code
    out = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60, env=environment)
    assert out.returncode == 0, out.stderr
    return f"{out.stdout.strip()} {[path.name for path in tmp_path.glob('rlm-repl-*')]}"


def test_one_that_nothing_refers_to_any_more_is_closed(tmp_path):
    assert script(tmp_path, "r = RLM(ChatDouble('FINAL(1)'), EchoLeaf())\nr.ask('q', 'c')\nprint(left())\ndel r\nprint(left())") == (
        "(1, 1)\n(0, 0) []"
    )


def test_script_that_never_closes_it_leaves_nothing_behind(tmp_path):
    assert script(tmp_path, "r = RLM(ChatDouble('FINAL(1)'), EchoLeaf())\nprint(r.ask('q', 'c').answer)") == "1 []"


FORK = """
r = RLM(ChatDouble("FINAL(1)", "FINAL(2)"), EchoLeaf())
pid = os.fork()
if pid == 0:
    try:
        r.ask("q", "c")
    except Exception as error:
        print(error, flush=True)
    r.close()
    sys.exit(0)
os.waitpid(pid, 0)
print(r.ask("q", "c").answer)
"""


def test_a_forked_process_is_told_so_and_does_no_harm_to_its_parent(tmp_path):
    shown = script(tmp_path, FORK)
    assert "was opened before os.fork" in shown and shown.endswith("\n1 []")
