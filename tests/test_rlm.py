"""RLM: one question over one context, with a scripted chat model, and with the small policy of the package."""

import subprocess
import sys

import pytest
from test_harness import EchoLeaf, block

from rlmlib import RLM
from rlmlib.errors import ConfigError
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
