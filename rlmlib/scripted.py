"""A root that says given lines, and a leaf that counts words: to show what the harness does without any model."""

from collections.abc import Sequence

from .config import Harness
from .harness.prompts import FULL
from .models.base import Message, Reply
from .rlm import RLM


class ScriptedRoot:
    """A ChatModel that says `lines` in order, and `child` lines in conversations of children; nothing once they are used up."""

    name, window_tokens = "script", 1_000_000

    def __init__(self, lines: Sequence[str], child: Sequence[str] = ()):
        self.lines, self.child = list(lines), list(child)

    def count_tokens(self, text: str) -> int:
        return len(text) // 4 + 1

    async def chat(self, messages: Sequence[Message], max_tokens: int) -> Reply:
        lines = self.child if FULL.child_question in messages[1].content else self.lines
        text = lines.pop(0) if lines else ""
        return Reply(text, sum(self.count_tokens(m.content) for m in messages), self.count_tokens(text))


class WordCountLeaf:
    """A Leaf that answers with the number of words of its prompt."""

    name, window_tokens, max_tokens = "word count", 4_000, 8

    def count_tokens(self, text: str) -> int:
        return len(text) // 4 + 1

    async def complete(self, prompt: str) -> Reply:
        return Reply(f"{len(prompt.split())} words", self.count_tokens(prompt), 2)


def block(code: str) -> str:
    """A reply that is one code block."""
    return f"```repl\n{code}\n```"


def outputs(context, limits: Harness, *codes: str):
    """Run code blocks in one session, a turn each; a table of what the model would be shown."""
    import pandas as pd

    with RLM(ScriptedRoot([*map(block, codes), "FINAL(done)"]), WordCountLeaf(), limits) as rlm:
        rollout = rlm.ask("?", context)
    if rollout.error:
        raise RuntimeError(rollout.error)
    shown = [{"code": code, "the model is shown": turn.outputs[0]} for code, turn in zip(codes, rollout.turns, strict=False)]
    style = {"white-space": "pre-wrap", "overflow-wrap": "anywhere", "text-align": "left", "vertical-align": "top"}
    left = [{"selector": "th", "props": "text-align: left"}]
    return pd.DataFrame(shown).style.format(escape="html").set_properties(**style).set_table_styles(left).hide()
