"""A rollout's tree as plain data: a dict for JSON files and back, and a log that the rlms visualizer loads."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import zip_longest
from pathlib import Path

from ..errors import RunError
from ..runs import rewrite_jsonl
from .trajectory import Call, Rollout, Tokens, Turn

SHORTEST_CUT = 80  # characters; below it the note of what is left out would be most of the text


def cut(text: str, limit: int) -> str:
    """Head and tail of a long text, two to one, with the count left out between them; at most `limit` characters.

    So a text that was cut once is not cut again by the same limit. Raises ValueError.
    """
    if limit < SHORTEST_CUT:
        raise ValueError(f"a text cannot be cut to {limit} characters; allow {SHORTEST_CUT} or more")
    if len(text) <= limit:
        return text
    kept = limit - len(_left_out(len(text)))
    tail = kept // 3
    return text[: kept - tail] + _left_out(len(text) - kept) + text[len(text) - tail :]


def _left_out(count: int) -> str:
    return f"\n[... {count:,} characters left out ...]\n"


def blocks_with_outputs(turn: Turn) -> list[tuple[str | None, str | None]]:
    """(code, output) in order.

    output None: the block was not reached or did not end. code None: an output after the blocks, about the answer.
    """
    return list(zip_longest(turn.blocks, turn.outputs))


def call_tokens(call: Call) -> Tokens:
    """Tokens of a subcall; for a child those of its whole tree."""
    if call.child is None:
        return call.tokens
    usage = call.child.usage
    return usage.root + usage.child + usage.leaf_tokens


# --- a dict and back ---------------------------------------------------------------------------


def to_dict(rollout: Rollout, prompt_chars: int = 2000) -> dict:
    """The whole tree, ready for json.dumps; the sampled token ids are not in it.

    Prompts of subcalls, which are excerpts of the context, are cut to `prompt_chars` characters each;
    so is a child's question, which comes from its prompt.
    """
    values = {**vars(rollout), "turns": [_turn(turn, prompt_chars) for turn in rollout.turns]}
    del values["sequence"]
    return values


def _turn(turn: Turn, prompt_chars: int) -> dict:
    calls = [_call(call, prompt_chars) for call in turn.calls]
    lists = {"blocks": list(turn.blocks), "outputs": list(turn.outputs), "calls": calls}
    return {**vars(turn), **lists, "tokens": dict(vars(turn.tokens))}


def _call(call: Call, prompt_chars: int) -> dict:
    child = call.child and to_dict(call.child, prompt_chars)
    if child:
        child["question"] = cut(child["question"], prompt_chars)
    values = {**vars(call), "prompt": cut(call.prompt, prompt_chars), "tokens": dict(vars(call.tokens)), "child": child}
    del values["sequence"]
    return values


def from_dict(values: dict) -> Rollout:
    """The rollout that `to_dict` wrote, with prompts as they were cut. Other keys are ignored. Raises RunError."""
    try:
        return _rollout(values)
    except (AttributeError, TypeError) as error:
        raise RunError(f"this is no rollout as to_dict writes it ({error}); export it again") from None


def _rollout(values: dict) -> Rollout:
    return _build(Rollout, values, turns=[_read_turn(turn) for turn in values.get("turns", [])])


def _read_turn(values: dict) -> Turn:
    calls = [_read_call(call) for call in values.get("calls", [])]
    return _build(Turn, values, calls=calls, tokens=_build(Tokens, values.get("tokens", {})))


def _read_call(values: dict) -> Call:
    child = values.get("child")
    return _build(Call, values, child=child and _rollout(child), tokens=_build(Tokens, values.get("tokens", {})))


def _build(kind, values: dict, **parts):
    """A dataclass from the keys of `values` that are its fields; `parts` take their place."""
    known = {name: value for name, value in values.items() if name in kind.__dataclass_fields__}
    return kind(**{**known, **parts})


# --- the log of the package rlms ---------------------------------------------------------------


def to_rlms_jsonl(rollout: Rollout, path: str | Path, context: str | None = None, began: datetime | None = None) -> Path:
    """Write one rollout as a log that the visualizer of the package rlms (0.1.3) loads: metadata, then a line a turn.

    What that format asks for and a tree does not hold:
    - messages: rebuilt from question, replies and outputs, without the harness's wording
    - times of day: durations are counted from `began` (default: now)
    - which block made a call: all calls of a turn stand under its first block
    - the harness's limits: max_depth and max_iterations are those reached
    - seconds of a single block: null
    The context, where given, stands once, whole, among the variables of the first block. Raises RunError.
    """
    path, began = Path(path), began or datetime.now()
    head = {"type": "metadata", "timestamp": began.isoformat(), **_metadata(rollout)}
    rewrite_jsonl(path, [head, *_iterations(rollout, context, began)])
    return path


def _metadata(rollout: Rollout) -> dict:
    model = rollout.turns[0].model if rollout.turns else ""
    return {
        "root_model": model,
        "max_depth": max(part.depth for part in rollout.tree()) - rollout.depth + 1,  # leaves count as a depth there
        "max_iterations": len(rollout.turns),
        "backend": "rlmlib",
        "backend_kwargs": {"model_name": model},
        "environment_type": "rlmlib",
        "environment_kwargs": {},
        "other_backends": None,
    }


def _iterations(rollout: Rollout, context: str | None, began: datetime) -> Iterator[dict]:
    quoted = rollout.question.replace('"', "'")  # the visualizer takes the question from between these quotes
    messages = [{"role": "user", "content": f'original query: "{quoted}"'}]
    clock, variables = began, {} if context is None else {"context": context}
    for number, turn in enumerate(rollout.turns, 1):
        last = number == len(rollout.turns)
        blocks = _code_blocks(turn, variables, clock)
        yield {
            "type": "iteration",
            "iteration": number,
            "timestamp": clock.isoformat(),
            "prompt": list(messages),
            "response": turn.reply,
            "code_blocks": blocks,
            "final_answer": rollout.answer if last else None,
            "iteration_time": turn.seconds,
        }
        messages += [{"role": "assistant", "content": turn.reply}, {"role": "user", "content": "\n".join(turn.outputs)}]
        clock += timedelta(seconds=turn.seconds)
        variables = {} if blocks else variables


def _code_blocks(turn: Turn, variables: dict, clock: datetime) -> list[dict]:
    blocks = [
        {
            "code": code,
            "result": {
                "stdout": output or "",  # the harness keeps one stream
                "stderr": "",
                "locals": {},
                "execution_time": None,
                "rlm_calls": [],
                "final_answer": None,
            },
        }
        for code, output in blocks_with_outputs(turn)
        if code is not None
    ]
    if blocks:
        blocks[0]["result"] |= {"locals": variables, "rlm_calls": [_rlm_call(call, clock) for call in turn.calls]}
    return blocks


def _rlm_call(call: Call, clock: datetime) -> dict:
    """A subcall. The visualizer reads the flat counts, the package itself usage_summary and metadata."""
    tokens = call_tokens(call)
    usage = {"total_calls": call.attempts, "total_input_tokens": tokens.prompt, "total_output_tokens": tokens.completion}
    if tokens.dollars is not None:
        usage["total_cost"] = tokens.dollars
    record = {
        "root_model": call.model,
        "prompt": call.prompt,
        "response": call.text,
        "prompt_tokens": tokens.prompt,
        "completion_tokens": tokens.completion,
        "usage_summary": {"model_usage_summaries": {call.model: usage}},
        "execution_time": call.seconds,
    }
    if call.child is not None:
        record["metadata"] = {"run_metadata": _metadata(call.child), "iterations": list(_iterations(call.child, None, clock))}
    if call.error is not None:
        record["error"] = call.error
    return record
