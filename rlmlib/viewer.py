"""Rollouts as one offline HTML page: the tree of turns, leaf calls and children, folded, searchable, filtered by outcome.

Here the tree becomes plain nodes with every text made safe and every number put in words; the page only
draws nodes. Model output is hostile: it travels as JSON, is drawn as text, and the page's policy runs no
script but its own and lets no request leave.
"""

import base64
import hashlib
import html
import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from .harness.export import blocks_with_outputs, call_tokens, cut
from .harness.trajectory import Call, Rollout, Tokens, Turn
from .runs import write_text

TEXT_CHARS = 20_000  # of one text in the page; longer ones lose their middle
LINE_CHARS = 120  # of a text in the line that opens it
FRAME_HEIGHT = 720  # pixels, in a notebook
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff]")
FAILED = re.compile(r"\w*(?:Error|Exception|Interrupt)\b")
TURN_NAMES = {"finalise": "forced to finish"}


def trajectory_html(
    rollouts: Rollout | Sequence[Rollout],
    contexts: Sequence[str | None] | None = None,
    title: str = "Rollouts",
    outcomes: Sequence[str] | None = None,
) -> str:
    """The page. Raises ValueError where `contexts` or `outcomes` do not hold one entry a rollout.

    An outcome is a short word to filter by, such as right and wrong (default: the function `outcome`).
    """
    rollouts = _listed(rollouts)
    outcomes = _one_each("outcomes", [outcome(r) for r in rollouts] if outcomes is None else outcomes, rollouts)
    contexts = _one_each("contexts", [None] * len(rollouts) if contexts is None else contexts, rollouts)
    shared = {context: place for place, context in enumerate(dict.fromkeys(c for c in contexts if c is not None))}
    roots = [
        _root_node(number, rollout, word, context, shared.get(context))
        for number, (rollout, word, context) in enumerate(zip(rollouts, outcomes, contexts, strict=True), 1)
    ]
    data = {"roots": roots, "shared": [[[False, _body(context)]] for context in shared]}
    return _template().render(
        title=line(title),
        summary=summary(rollouts),
        outcomes=Counter(root["badge"] for root in roots).most_common(),
        total=len(roots),
        data=json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),  # ASCII: no text can end the element
    )


def save(rollouts: Rollout | Sequence[Rollout], path: str | Path, **options) -> Path:
    """Write the page atomically; `options` are those of `trajectory_html`. Raises RunError."""
    path = Path(path)
    write_text(path, trajectory_html(rollouts, **options))
    return path


def show(rollouts: Rollout | Sequence[Rollout], height: int = FRAME_HEIGHT, **options):
    """Display the page in a notebook, `height` pixels high; elsewhere print the summary. `options` as for `trajectory_html`."""
    from IPython.display import display

    display(Inline(trajectory_html(rollouts, **options), summary(rollouts), height))


class Inline:
    """The page in a frame that can reach neither the notebook nor the network; in plain text its summary."""

    def __init__(self, page: str, text: str, height: int):
        self.page, self.text, self.height = page, text, height

    def _repr_html_(self) -> str:
        source = html.escape(self.page)
        look = f"width:100%;height:{self.height:d}px;border:1px solid #d9dbe0"
        return f'<iframe title="Rollouts" sandbox="allow-scripts" style="{look}" srcdoc="{source}"></iframe>'

    def __repr__(self) -> str:
        return self.text


def outcome(rollout: Rollout) -> str:
    """failed (by the machinery), forced (an answer only when demanded), or how it stopped."""
    if rollout.error is not None:
        return "failed"
    return "forced" if rollout.forced else rollout.stop


def summary(rollouts: Rollout | Sequence[Rollout]) -> str:
    """A line of plain text a rollout."""
    rows = (
        f"{number}. {outcome(r)}: {'no answer' if r.answer is None else line(r.answer)} ({'; '.join(_root_facts(r))})"
        for number, r in enumerate(_listed(rollouts), 1)
    )
    return "\n".join(rows) or "no rollouts"


def _listed(rollouts: Rollout | Sequence[Rollout]) -> list[Rollout]:
    return [rollouts] if isinstance(rollouts, Rollout) else list(rollouts)


def _one_each(name: str, values: Sequence, rollouts: list[Rollout]) -> list:
    if len(values) != len(rollouts):
        raise ValueError(f"{len(values)} {name} for {len(rollouts)} rollouts; give one for each")
    return list(values)


# --- texts and numbers in words ----------------------------------------------------------------


def visible(text: str) -> str:
    """Control, direction, invisible and surrogate characters as escapes."""
    return UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def line(text: str, limit: int = LINE_CHARS) -> str:
    """The beginning of a text as one line."""
    words = " ".join(visible(text[: 4 * limit]).split())
    return words if len(words) <= limit and len(text) <= 4 * limit else words[:limit].rstrip() + "…"


def _body(text: str) -> str:
    return visible(cut(text, TEXT_CHARS))


def _number(value: int) -> str:
    return f"{value:,}".replace(",", "\u202f")


def _plural(count: int, noun: str, nouns: str | None = None) -> str:
    return f"{_number(count)} {noun if count == 1 else nouns or noun + 's'}"


def _spent(tokens: Tokens) -> str:
    thinking = f" ({_number(tokens.thinking)} thinking)" if tokens.thinking else ""
    return f"{_number(tokens.prompt)} + {_number(tokens.completion)} tokens{thinking}"


def _dollars(dollars: float | None) -> list[str]:
    """Nothing where nothing was paid, as with local models."""
    if dollars is None:
        return ["price unknown"]
    if not dollars:
        return []
    return ["under $0.0001" if dollars < 1e-4 else f"${dollars:.4f}" if dollars < 1 else f"${dollars:,.2f}"]


def _root_facts(rollout: Rollout) -> list[str]:
    usage = rollout.usage
    children = [_plural(usage.children, "child", "children")] if usage.children else []
    refused = [_plural(usage.refused_calls, "refused call")] if usage.refused_calls else []
    counts = [_plural(len(rollout.turns), "turn"), *children, _plural(usage.leaf_calls, "leaf call"), *refused]
    return [*counts, f"{_number(usage.total)} tokens", f"{rollout.seconds:.1f} s", *_dollars(usage.dollars)]


# --- nodes -------------------------------------------------------------------------------------
# A node is a line that opens: kind (its colour), label, badge, title, facts; below it fields (texts) and nodes.
# A field has parts, (is code, text) each, and a column: 0 the whole width, 1 left, 2 right. A note stands where there is no text.


def _node(kind: str, label: str, title: str, facts: list[str], fields: list[dict], nodes: list[dict], badge: str = "", tone: str = ""):
    """tone: of the badge: good, bad, or neither."""
    texts = {"label": label, "title": line(title), "facts": visible(" · ".join(facts)), "badge": line(badge, 24)}
    return {"kind": kind, **texts, "tone": tone, "fields": fields, "nodes": nodes}


def _field(name: str, text: str | None, column: int = 0) -> list[dict]:
    """A list, so that a text that is not there leaves no field."""
    return [] if text is None else [{"name": name, "parts": [[False, _body(text)]], "column": column}]


def _note(name: str, note: str, column: int) -> list[dict]:
    return [{"name": name, "parts": [], "note": note, "column": column}]


def _tone(outcome: str) -> str:
    return "good" if outcome in ("final", "right") else "" if outcome == "forced" else "bad"


def _root_node(number: int, rollout: Rollout, word: str, context: str | None, place: int | None) -> dict:
    fields = _field("Question", rollout.question or None) + _field("Answer", rollout.answer) + _field("Failure", rollout.error)
    by_model = [
        f"{model or 'unnamed model'} at depth {depth}: " + ", ".join([_spent(tokens), *_dollars(tokens.dollars)])
        for (model, depth), tokens in rollout.usage_by_model().items()
    ]
    fields += _field("Use of models", "\n".join(by_model) or None)
    nodes = [] if context is None else [_context_node(context, place)]
    nodes += [_turn_node(index, turn) for index, turn in enumerate(rollout.turns, 1)]
    answer = "no answer" if rollout.answer is None else rollout.answer
    title = f"{answer} — {rollout.question}" if rollout.question else answer
    return _node("root", f"#{number}", title, _root_facts(rollout), fields, nodes, word, _tone(word))


def _context_node(context: str, place: int) -> dict:
    """Its text is stored once in the page, at `place`, however many rollouts read it."""
    field = {"name": "What the variable context holds", "shared": place, "column": 0}
    return _node("context", "Context", context, [_plural(len(context), "character")], [field], [])


def _turn_node(number: int, turn: Turn) -> dict:
    pairs = blocks_with_outputs(turn)
    outputs = [field for index, (code, output) in enumerate(pairs, 1) for field in _output(index, code, output, len(turn.blocks))]
    fields = _reply(turn) + (outputs or _note("Output", "no code ran", 2))
    facts = [turn.model] if turn.model else []
    facts += [_spent(turn.tokens), f"{turn.seconds:.1f} s", *_dollars(turn.tokens.dollars)]
    facts += [_plural(len(turn.calls), "call")] if turn.calls else []
    badge, tone = TURN_NAMES.get(turn.kind, ""), ""
    if any(_ends_in_error(output) for output in turn.outputs):
        badge, tone = "error", "bad"
    return _node(
        "turn", f"Turn {number}", (turn.blocks or [turn.reply])[0], facts, fields, [_call_node(c) for c in turn.calls], badge, tone
    )


def _ends_in_error(output: str) -> bool:
    return bool(FAILED.match(output.rstrip().rpartition("\n")[2]))


def _reply(turn: Turn) -> list[dict]:
    """The reply with its blocks marked as code in place; a block that is not in it word for word follows by itself."""
    parts, loose, at = [], [], 0
    for index, block in enumerate(turn.blocks, 1):
        found = turn.reply.find(block, at)
        if found < 0:
            loose.append({"name": f"Block {index} as it ran", "parts": [[True, _body(block)]], "column": 1})
            continue
        parts += [[False, _body(turn.reply[at:found])], [True, _body(block)]]
        at = found + len(block)
    parts.append([False, _body(turn.reply[at:])])
    return [{"name": "Reply", "parts": [part for part in parts if part[1]], "column": 1}, *loose]


def _output(index: int, code: str | None, output: str | None, blocks: int) -> list[dict]:
    name = "Answer refused" if code is None else "Output" if blocks == 1 else f"Output of block {index}"
    if output is None:
        return _note(name, "was not run to its end", 2)
    return _field(name, output, 2) if output else _note(name, "printed nothing", 2)


def _call_node(call: Call) -> dict:
    child = call.child
    tokens = call_tokens(call)
    facts = [call.model] if call.model else []
    facts += [_spent(tokens), f"{call.seconds:.1f} s", *_dollars(tokens.dollars)]
    facts += [f"{call.attempts} attempts"] if call.attempts > 1 else []
    fields = _field("Prompt", call.prompt, 1) + _field("Answer" if call.error is None else "Told in place of an answer", call.text, 2)
    if child is None:
        kind = "child" if call.kind == "child" else "leaf"  # a refused child has no tree
        return _node(kind, kind.capitalize(), call.prompt, facts, fields, [], call.error or "", "bad")
    fields += _field("Question", child.question if child.question != call.prompt else None) + _field("Failure", child.error)
    word = call.error or outcome(child)
    turns = [_turn_node(index, turn) for index, turn in enumerate(child.turns, 1)]
    return _node("child", "Child", call.prompt, [_plural(len(turns), "turn"), *facts], fields, turns, word, _tone(word))


# --- the page ----------------------------------------------------------------------------------


def _template():
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"), autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["sha256"] = lambda text: base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return environment.get_template("viewer.html.j2")
