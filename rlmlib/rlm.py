"""Ask one question over one context: the harness on its own, without training."""

import itertools
import os
import weakref
from pathlib import Path

from . import config
from .background import BackgroundLoop
from .config import Harness
from .errors import ConfigError
from .harness.repl import ReplServer
from .harness.rollout import RolloutRunner, check_context, server_of
from .harness.trajectory import Rollout
from .harness.workers import WorkerPool
from .models import choose
from .models.base import ChatModel, Leaf

ROOT_TOKENS = 2048  # of a reply of an API root, as the study has it
LEAF_TOKENS = 2048
MAX_WAIT_S = 24 * 3600.0


class RLM:
    """A recursive language model: a root that writes code over a long context, and the leaf that it asks about excerpts.

    root: "tiny" (the small policy of this package), "gemini/NAME", "NAME@URL" (an OpenAI-compatible server such as vLLM
    or llama.cpp), or a ChatModel. leaf: the same but "lexical" (the offline stand-in) in place of "tiny"; or a Leaf.
    harness: limits; see rlmlib.config.Harness. Raises ConfigError.

        with RLM("gemini/NAME") as rlm:
            print(rlm.ask("Which year?", text).answer)

    It keeps a thread and a process, which end with the `with` block, with `close`, or at the latest when nothing refers to it
    any more. It cannot be used in a process that was forked from its own.
    """

    def __init__(self, root: str | ChatModel, leaf: str | ChatModel | Leaf = "lexical", harness: Harness | None = None, seed: int = 0):
        self.harness, self._session, self._turn_tokens = _root(root, harness, seed)
        self.leaf = _leaf(leaf, self.harness)
        self._server = server_of(self.harness)
        self._background = BackgroundLoop("RLM")
        self._close = weakref.finalize(self, _end, self._background, self._server, os.getpid())

    def ask(self, question: str, context, timeout_s: float | None = None) -> Rollout:
        """The answer and how it came about: `answer`, `turns`, `usage`, `usage_by_model()`, `stop`, `error`.

        context: a str, list or dict; a pathlib.Path is read as UTF-8 text. timeout_s: of one attempt (default: harness.deadline_s).
        Raises ConfigError for another context, InfrastructureError once closed or after os.fork.
        """
        if isinstance(context, Path):
            context = context.read_text(encoding="utf-8", errors="surrogateescape")
        check_context(context)
        work = self._ask(question, context, timeout_s or self.harness.deadline_s)
        return self._background.run(work, MAX_WAIT_S, "the question")

    async def _ask(self, question: str, context, deadline_s: float) -> Rollout:
        harness = self.harness.model_copy(update={"deadline_s": deadline_s})
        runner = RolloutRunner(harness, self._server, self.leaf)

        async def attempt(number: int) -> Rollout:
            session = self._session()
            try:
                return await runner.run(question, context, session, self._turn_tokens)
            finally:
                session.close()

        return await WorkerPool(1, deadline_s, harness.attempts).run(attempt)

    def close(self):
        """End its thread and its process. May be called again."""
        self._close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _end(background: BackgroundLoop, server: ReplServer, process: int):
    """Close both, in the process that opened them: in a forked copy they are still the other's."""
    if os.getpid() == process:
        background.close()
        server.close()


def _root(root, harness: Harness | None, seed: int):
    """(harness, a function that opens a session, tokens of a turn)."""
    if root == "tiny":
        from .engine import build_sampler
        from .notebook import ROOT
        from .training.trainers import load_policy

        params = config.load(ROOT / "params/tiny.yaml")
        sampler, numbers = build_sampler(params, load_policy(params, adapter=False)), itertools.count()
        return harness or params.harness, lambda: sampler.session(seed, next(numbers)), params.sampling.max_turn_tokens
    from .models.sessions import ChatSession

    harness = harness or Harness(prompts="full", max_turns=15, output_chars=4000, block_timeout_s=30.0)
    model = choose.chat_model(choose.parse(root), harness.deadline_s) if isinstance(root, str) else root
    if not hasattr(model, "chat"):
        raise ConfigError(f"root: {type(model).__name__} is no ChatModel; give a name such as gemini/NAME, or an object with a chat method")
    return harness, lambda: ChatSession(model), ROOT_TOKENS


def _leaf(leaf, harness: Harness) -> Leaf:
    from .models.sessions import ChatLeaf

    if leaf == "lexical":
        return choose.leaf(config.Leaf())
    if isinstance(leaf, str):
        leaf = choose.chat_model(choose.parse(leaf), harness.leaf_timeout_s)
    return ChatLeaf(leaf, LEAF_TOKENS) if hasattr(leaf, "chat") else leaf
