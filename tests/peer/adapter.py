"""A pytest plugin that lets the tests of rlms run against this project: stand-ins for the modules they import.

What a test runs goes through a real conversation: its code is a turn of the root, in a confined worker; llm_query ends at
a leaf; rlm_query starts a child RLM, whose root hands its context to the leaf. The stand-ins hold no logic of subcalls,
sessions, parsing or cutting, so these are what is tested. What they do add:
- `context_1`, `history_0` and the like are variables that a block binds: a session here has one context.
- A worker has one stream of output. It is `stdout`, and `stderr` too where the block failed.
- `locals` are read by blocks that print them.
"""

import ast
import asyncio
import itertools
import sys
from collections.abc import Callable, Mapping
from types import ModuleType, SimpleNamespace

import pytest
from choice import LEFT_OUT, left_out

from rlmlib.background import BackgroundLoop
from rlmlib.config import Harness
from rlmlib.errors import InfrastructureError
from rlmlib.harness.budget import Budget, Limits
from rlmlib.harness.protocol import cut_output, parse_reply
from rlmlib.harness.repl import BlockResult, Repl, ReplServer
from rlmlib.harness.rollout import RolloutRunner, _Conversation
from rlmlib.models.base import Reply

LIMIT_S = 30.0  # of one call into a stand-in
MANY = 1_000  # subcalls: none of these tests is about budgets
clients: dict[tuple, object] = {}  # address of a running LMHandler -> its model
shared = SimpleNamespace()  # loop and server of all conversations


def wait(work):
    return shared.loop.run(work, LIMIT_S, "a stand-in")


class Watched:
    """The REPL server of one conversation; keeps what the last block did, which a turn records as text only.

    A child's blocks end before the block that asked for the child, so after a turn `last` is the root's.
    """

    def __init__(self):
        self.last: BlockResult | None = None

    async def open(self, context, drafts: bool = False) -> Repl:
        repl = await shared.server.open(context, drafts)
        run = repl.run

        async def watched(*arguments) -> BlockResult:
            self.last = await run(*arguments)
            return self.last

        repl.run = watched
        return repl


class Root:
    """Session of a root whose next reply is the block that a test runs."""

    name = "root"

    def __init__(self):
        self.line = ""
        self.children: list[Child] = []

    async def reply(self, messages, max_tokens: int) -> Reply:
        return Reply(self.line, prompt_tokens=0, completion_tokens=0)

    def child(self) -> "Child":
        self.children.append(Child(len(self.children), self.children[-1] if self.children else None))
        return self.children[-1]

    def close(self): ...


class Child:
    """Session of a child whose one block is a leaf call with its whole context; so the limit of leaf calls at once holds for it.

    Children ask in the order in which they were started, as some tests hand out their answers in the order of the calls.
    """

    name = "child"

    def __init__(self, number: int, before: "Child | None"):
        self.number, self.before = number, before
        self.has_asked = asyncio.Event()

    async def reply(self, messages, max_tokens: int) -> Reply:
        if self.before is not None:
            await self.before.has_asked.wait()
        return Reply(f"```repl\nFINAL(llm_query('child {self.number}: ' + context))\n```", prompt_tokens=0, completion_tokens=0)

    def close(self):
        self.has_asked.set()


class Model:
    """The leaf: a test's `subcall_fn` for a child, the client of a test's LMHandler for the root.

    An error is named as Python does, with its class, as the tests look for "Error" and for its message.
    """

    name, window_tokens, max_tokens = "model", 10**8, 1

    def __init__(self, repl: "LocalREPL", root: Root):
        self.repl, self.root = repl, root

    def count_tokens(self, text: str) -> int:
        return len(text)

    async def complete(self, prompt: str) -> Reply:
        head, _, rest = prompt.partition(": ")
        try:
            if head.startswith("child "):
                self.root.children[int(head.removeprefix("child "))].has_asked.set()
                text = (await asyncio.to_thread(self.repl.subcall_fn, rest, None)).response
            elif self.repl.lm_handler_address in clients:
                text = await asyncio.to_thread(clients[self.repl.lm_handler_address].completion, prompt)
            else:
                raise ConnectionError("no model is set up")
        except Exception as error:
            raise InfrastructureError(f"{type(error).__name__}: {error}") from error
        return Reply(text, prompt_tokens=0, completion_tokens=0)


class LocalREPL:
    """A conversation, turn by turn: from outside the runner's loop, as a test decides what comes next and looks in between.

    It stands in for rlms' other REPLs too. Arguments that no chosen test needs are refused.
    """

    def __init__(
        self,
        lm_handler_address: tuple | None = None,
        context_payload=None,
        subcall_fn: Callable | None = None,
        max_concurrent_subcalls: int = 4,
        cell_timeout: float | None = None,
        persistent: bool = False,
        kernel_mode: str | None = None,
    ):
        self.lm_handler_address, self.subcall_fn = lm_handler_address, subcall_fn
        self.locals = Variables(self)
        self._config = Harness(
            depth=1 if subcall_fn is None else 2,
            max_batch=MANY,
            block_timeout_s=cell_timeout or LIMIT_S,
            leaf_timeout_s=LIMIT_S,
            final="answer_dict",
        )
        self._concurrency = max_concurrent_subcalls
        self._root, self._server = Root(), Watched()
        self._conversation: _Conversation | None = None  # opened with the first block, as its context must be known
        self._counts = {"context": 0, "history": 0}
        if context_payload is not None:
            self.add_context(context_payload)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.cleanup()

    def execute_code(self, code: str) -> SimpleNamespace:
        """Run a block as the root's next turn."""
        return wait(self._turn(code))

    async def _turn(self, code: str) -> SimpleNamespace:
        if self._conversation is None:
            await self._open("")
        self._root.line, self._server.last = f"````repl\n{code}\n````", None
        await self._conversation._turn("root", [])
        turn = self._conversation.rollout.turns[-1]
        block = self._server.last or BlockResult("".join(turn.outputs), 0, None, failed=bool(turn.outputs))  # no block, or a dead worker
        answered = [SimpleNamespace(response=call.text) for call in turn.calls if not _failed(call)]
        stderr = block.output if block.failed else ""
        return SimpleNamespace(stdout=block.output, stderr=stderr, rlm_calls=answered, final_answer=block.final)

    async def _open(self, context):
        runner = RolloutRunner(self._config, self._server, Model(self, self._root), self._concurrency)
        self._conversation = _Conversation(runner, "", context, self._root, 1, Budget(Limits(MANY)))
        await self._conversation._open()

    def add_context(self, payload, index: int | None = None) -> int:
        if self._conversation is not None:
            return self._add("context", payload, index)
        wait(self._open(payload))
        self.execute_code("context_0 = context")
        self._counts["context"] = 1
        return 0

    def add_history(self, messages: list, index: int | None = None) -> int:
        index = self._add("history", messages, index)
        if index == 0:
            self.execute_code("history = history_0")
        return index

    def _add(self, kind: str, value, index: int | None) -> int:
        index = self._counts[kind] if index is None else index
        self.execute_code(f"{kind}_{index} = {value!r}")
        self._counts[kind] = max(self._counts[kind], index + 1)
        return index

    def get_context_count(self) -> int:
        return self._counts["context"]

    def get_history_count(self) -> int:
        return self._counts["history"]

    @property
    def temp_dir(self) -> str:
        """The worker's scratch folder, which the host sees too."""
        return self.execute_code("import os\nprint(os.getcwd())").stdout.strip()

    @property
    def ended(self) -> bool:
        return self._conversation is not None and self._conversation.repl is None

    def cleanup(self):
        wait(self._close())

    async def _close(self):
        if self._conversation is not None and self._conversation.repl is not None:
            self._conversation.repl.kill()
            self._conversation.repl = None


class Variables(Mapping):
    """The names that blocks have bound, read from the worker; none once it has ended."""

    def __init__(self, repl: LocalREPL):
        self._repl = repl

    def __getitem__(self, name: str):
        shown = self._repl.execute_code(f"print(repr({name}))")
        if shown.stderr:
            raise KeyError(name)
        return ast.literal_eval(shown.stdout)

    def __iter__(self):
        return iter([] if self._repl.ended else ast.literal_eval(self._repl.execute_code("print(list(SHOW_VARS()))").stdout))

    def __len__(self) -> int:
        return len(list(iter(self)))


def _failed(call) -> bool:
    """Whether a call has no answer: by itself, or as the leaf call of its child has none."""
    return call.error is not None or (call.child is not None and any(below.error for below in call.child.calls))


class LMHandler:
    """Serves a test's model to the sessions that are given its address."""

    _numbers = itertools.count()

    def __init__(self, client):
        self.client, self.address = client, ("stand-in", next(self._numbers))

    def start(self):
        clients[self.address] = self.client

    def stop(self):
        clients.pop(self.address, None)


class BaseLM:
    def __init__(self, model_name: str):
        self.model_name = model_name


def find_code_blocks(text: str) -> list[str]:
    return list(parse_reply(text).blocks)


def format_iteration(iteration, max_character_length: int = 20_000) -> list[dict]:
    """The messages that a turn adds to the conversation."""
    outputs = [cut_output(block.result.stdout, max_character_length) for block in iteration.code_blocks]
    return [{"role": "assistant", "content": iteration.response}, {"role": "user", "content": "\n".join(outputs)}]


def refused(*_, **__):
    raise AssertionError("this test uses what the adapter does not stand in for; leave it out in choice.py, with the reason")


class Record(SimpleNamespace):
    """One of rlms' dataclasses: tests build it from keywords, and nothing here reads its usage."""

    def __init__(self, *_, **fields):
        super().__init__(**fields)


RECORDS = ("CodeBlock", "ModelUsageSummary", "REPLResult", "RLMChatCompletion", "RLMIteration", "UsageSummary")
MODULES = {
    "rlm": {},
    "rlm.clients": {},
    "rlm.clients.base_lm": {"BaseLM": BaseLM},
    "rlm.core": {},
    "rlm.core.lm_handler": {"LMHandler": LMHandler},
    "rlm.core.types": dict.fromkeys(RECORDS, Record),
    "rlm.environments": {"SupportsPersistence": object},
    "rlm.environments.docker_repl": {"DockerREPL": LocalREPL},
    "rlm.environments.ipython_repl": {"IPythonREPL": LocalREPL},
    "rlm.environments.local_repl": {"LocalREPL": LocalREPL},
    "rlm.utils": {},
    "rlm.utils.parsing": {
        "convert_context_for_repl": refused,
        "find_code_blocks": find_code_blocks,
        "format_execution_result": refused,
        "format_iteration": format_iteration,
    },
}


def pytest_configure(config: pytest.Config):
    for name, contents in MODULES.items():
        module = sys.modules[name] = ModuleType(name)
        vars(module).update(contents)
    shared.loop, shared.server = BackgroundLoop("peer-tests"), ReplServer()
    config.add_cleanup(shared.loop.close)
    config.add_cleanup(shared.server.close)


def pytest_collection_modifyitems(items: list[pytest.Item]):
    """Skip what is left out, and nothing else: that Docker or a kernel is there does not matter, as all runs in a worker."""
    if unknown := LEFT_OUT.keys() - {name_of(item) for item in items}:
        raise pytest.UsageError(f"choice.py leaves out tests that are not there: {', '.join(sorted(unknown))}")
    for node in {node for item in items for node in item.listchain()}:
        node.own_markers = [mark for mark in node.own_markers if mark.name != "skipif"]
    for item in items:
        if reason := left_out(name_of(item)):
            item.add_marker(pytest.mark.skip(reason=reason))


def name_of(item: pytest.Item) -> str:
    return f"{item.path.stem.removeprefix('test_')}::{item.name}"
