"""Scripted demonstrations: the strategies, wasteful and good, that the cold start clones.

A strategy is a generator: it yields replies and is sent what the harness answered. The
mixture sets what the base policy is like before RL (see MIXTURE): it knows good
strategies but seldom picks them, often calls leaves on everything, and often never
gives a final answer. RL re-weights what is here; it invents no strategy.
"""

import random
import re
from collections.abc import Generator

from ..models.base import Message, Reply
from ..tasks.base import Example

Strategy = Generator[str, str, None]

# Share of each strategy among demonstrations. Where a strategy does not fit the question
# (code alone over hidden labels), `select` takes its place.
MIXTURE = {
    "select": 0.13,  # search in code, one short leaf call                   good
    "delegate": 0.05,  # the same, but a child RLM makes the call            good at depth 1, dear at depth 2
    "code": 0.07,  # code alone                                              good
    "broad": 0.06,  # leaf calls on everything, then reduce                  right but dear
    "broad_lost": 0.17,  # the same again and again, never finishes          dear, missing
    "dither": 0.06,  # prints pieces of the context, never finishes          missing
    "stall": 0.05,  # has the answer, never says so                          missing
    "first_chunk": 0.15,  # asks about the beginning only                    wrong
    "send_all": 0.12,  # one call with the whole context, often refused      wrong
    "guess": 0.07,  # answers without looking                                wrong
    "slip": 0.07,  # a wrong variable name, then gives up                    wrong
}
CHILD = "child"  # the strategy of every child
CHUNK_LINES = {"research": 8, "aggregation": 80}


def block(*lines: str) -> str:
    return "```repl\n" + "\n".join(lines) + "\n```"


def key_of(example: Example) -> str:
    """What to search for: the name in back-ticks, the user, the person or the file."""
    question = example.question
    for pattern in (r"`([^`]+)`", r"(\S+\.py)", r"([A-Z][a-z]+ [A-Z][a-z]+)", r"(?:label|[Aa]bout) (\w+)"):
        found = re.search(pattern, question)
        if found:
            return found[1]
    return ""


def _label(example: Example) -> str:
    found = re.search(r"(?:label|[Aa]bout) (\w+)", example.question)
    return found[1] if found else ""


def _head(example: Example) -> list[str]:
    return [f'q = "{example.question}"']


def _select_lines(example: Example) -> list[str]:
    key = f'k = "{key_of(example)}"'
    if example.task == "born_country":
        return [
            key,
            'p = [x for x in context.split("\\n") if k in x]',
            'b = llm_query("Where was " + k + " born?\\n" + "\\n".join(p))',
            'p = [x for x in context.split("\\n") if x.startswith(b)]',
            'a = llm_query("In which country is " + b + "?\\n" + "\\n".join(p))',
        ]
    if example.task == "teacher_occupation":
        return [
            key,
            'p = [x for x in context.split("\\n") if k in x]',
            'b = llm_query("Who was the teacher of " + k + "?\\n" + "\\n".join(p))',
            'p = [x for x in context.split("\\n") if x.startswith(b)]',
            'a = llm_query("What did " + b + " work as?\\n" + "\\n".join(p))',
        ]
    if example.family == "coding":
        word = "def" if example.task == "params" else "class"
        return [*_head(example), key, f'i = context.find("{word} " + k + "(")', 'a = llm_query(q + "\\n" + context[i:i+400])']
    return [
        *_head(example),
        key,
        'p = [x for x in context.split("\\n") if k in x]',
        'a = llm_query(q + "\\n" + "\\n".join(p))',
    ]


def _code_lines(example: Example) -> list[str] | None:
    key = f'k = "{key_of(example)}"'
    if example.task == "shown_count":
        return [key, 'a = sum(x.endswith("| " + k) for x in context.split("\\n"))']
    if example.task == "shown_user":
        return [
            key,
            f'l = "| {_label(example)}"',
            'a = sum(k in x and x.endswith(l) for x in context.split("\\n"))',
        ]
    if example.task == "shown_most":
        return ['c = [x.split(" | ")[-1] for x in context.split("\\n")]', "a = max(set(c), key=c.count)"]
    if example.task == "base":
        return [key, 'a = context.split("class " + k + "(")[1].split(")")[0].split(",")[0]']
    if example.task == "file":
        return [
            key,
            'for f in context.split("### file: "):',
            '    if "class " + k + "(" in f or "class " + k + ":" in f:',
            '        a = f.split("\\n")[0]',
        ]
    if example.task == "toplevel":
        return [
            "import ast",
            key,
            'f = context.split("### file: " + k + "\\n")[1].split("### file: ")[0]',
            "a = len([n for n in ast.parse(f).body if isinstance(n, ast.FunctionDef)])",
        ]
    if example.task == "params":
        return [
            "import ast",
            key,
            'for f in context.split("### file: ")[1:]:',
            '    if "def " + k + "(" in f:',
            '        for n in ast.walk(ast.parse(f.split("\\n", 1)[1])):',
            "            if isinstance(n, ast.FunctionDef) and n.name == k:",
            "                g = n.args",
            "                a = len(g.posonlyargs + g.args + g.kwonlyargs) + bool(g.vararg) + bool(g.kwarg)",
        ]
    return None


def _chunk_lines(example: Example) -> list[str]:
    if example.family == "coding":
        return ["c = [context[i:i+7000] for i in range(0, len(context), 6500)]"]
    n = CHUNK_LINES[example.family]
    return ['s = context.split("\\n")', f'c = ["\\n".join(s[i:i+{n}]) for i in range(0, len(s), {n})]']


def _map(question: str) -> str:
    return f'r = llm_query_batched([{question} + "\\n" + x for x in c])'


def _broad_lines(example: Example) -> list[str]:
    keep = 'r = [x for x in r if x != "NOT_FOUND"]'
    key = f'k = "{key_of(example)}"'
    if example.task == "born_country":
        first, second = '"Where was " + k + " born?"', '"In which country is " + r[0] + "?"'
    elif example.task == "teacher_occupation":
        first, second = '"Who was the teacher of " + k + "?"', '"What did " + r[0] + " work as?"'
    else:
        counts = example.task in ("shown_count", "shown_user", "hidden_user")
        if counts:
            reduce = ["a = sum(int(x) for x in r)"]
        elif example.task in ("shown_most", "hidden_topic"):
            reduce = [keep, "a = max(set(r), key=r.count)"]
        else:
            reduce = [keep, "a = r[0]"]
        return [*_head(example), *_chunk_lines(example), _map("q"), *reduce]
    return [key, *_chunk_lines(example), _map(first), keep, _map(second), keep, "a = r[0]"]


def _finish(rng: random.Random, lines: list[str]) -> Strategy:
    """Run the block, then say FINAL_VAR(a): in the same reply, or after seeing it printed."""
    if rng.random() < 0.3:
        yield block(*lines, "print(a)") + "\nFINAL_VAR(a)"
    else:
        yield block(*lines, "print(a)")
        yield "FINAL_VAR(a)"


def _select(example, rng):
    yield from _finish(rng, _select_lines(example))


def _delegate(example, rng):
    yield from _finish(rng, [line.replace("llm_query(", "rlm_query(") for line in _select_lines(example)])


def _child(example, rng):
    """What a child is for: its context is a request with all that answers it."""
    yield from _finish(rng, ["a = llm_query(context)"])


def _code(example, rng):
    yield from _finish(rng, _code_lines(example) or _select_lines(example))


def _broad(example, rng):
    yield from _finish(rng, _broad_lines(example))


def _broad_lost(example, rng):
    """Maps over everything, looks at a few replies, and starts again."""
    lines = [*_head(example), *_chunk_lines(example), _map("q"), "print(r[:2])"]
    while True:
        yield block(*lines)
        lines = rng.choice(([_map("q"), "print(r[-2:])"], ["print(r[:4])"], ["print(len(r))"]))


def _dither(example, rng):
    while True:
        start = rng.choice((0, 200, 500, 1000))
        yield block(rng.choice((f"print(context[{start}:{start + 100}])", "print(len(context))")))


def _stall(example, rng):
    yield block(*(_code_lines(example) or _select_lines(example)), "print(a)")
    while True:
        yield block("print(a)")


def _first_chunk(example, rng):
    yield from _finish(rng, [*_head(example), 'a = llm_query(q + "\\n" + context[:7000])'])


def _send_all(example, rng):
    yield from _finish(rng, [*_head(example), 'a = llm_query(q + "\\n" + context)'])


def _guess(example, rng):
    yield f"FINAL({rng.choice(('0', '1', '2', 'NOT_FOUND'))})"


def _slip(example, rng):
    lines = _code_lines(example) or _select_lines(example)
    yield block(*lines, "print(b)") if lines[-1].startswith("a") else block(*lines, "print(ans)")
    yield "FINAL(NOT_FOUND)"


STRATEGIES = {
    "select": _select,
    "delegate": _delegate,
    "code": _code,
    "broad": _broad,
    "broad_lost": _broad_lost,
    "dither": _dither,
    "stall": _stall,
    "first_chunk": _first_chunk,
    "send_all": _send_all,
    "guess": _guess,
    "slip": _slip,
}


def draw(rng: random.Random) -> str:
    return rng.choices(list(MIXTURE), list(MIXTURE.values()))[0]


class ScriptedSession:
    """A Session that plays one strategy and keeps the conversation it had."""

    def __init__(self, example: Example, strategy: str, seed: str):
        self._example, self._seed = example, seed
        rng = random.Random(seed)
        if strategy in ("select", "delegate") and example.task in ("file", "toplevel", "shown_count", "shown_most"):
            strategy = "code"  # no short excerpt holds the answer
        self.strategy = strategy
        self.conversation: list[tuple[str, str]] = []
        self.children: list[ScriptedSession] = []
        self._script = (_child if strategy == CHILD else STRATEGIES[strategy])(example, rng)
        self._started = False

    async def reply(self, messages: list[Message], max_tokens: int) -> Reply:
        self.conversation += [(m.role, m.content) for m in messages]
        try:
            text = self._script.send(messages[-1].content) if self._started else next(self._script)
        except StopIteration:  # the code failed, so there was nothing to say FINAL_VAR about
            text = "FINAL(NOT_FOUND)"
        self._started = True
        self.conversation.append(("assistant", text))
        return Reply(text, 0, 0, False)

    def child(self) -> "ScriptedSession":
        self.children.append(ScriptedSession(self._example, CHILD, f"{self._seed}/{len(self.children)}"))
        return self.children[-1]

    def close(self):
        self._script.close()
