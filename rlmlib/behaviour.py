"""How a rollout used its leaf: the study's phases of behaviour, defined on what a rollouts file says.

broad      leaf calls took at least half as many tokens as the whole context has, or one was refused as too long for the leaf
selective  leaf calls on less than that, or children
code_only  no leaf call; code ran
blind      neither: the answer, if any, was given without looking
"""

from collections import Counter
from collections.abc import Iterable

BROAD_SHARE = 0.5  # of the context's tokens that go through leaves
CHARS_PER_TOKEN = 4
KINDS = ("broad", "selective", "code_only", "blind")


def behaviour(row: dict) -> str:
    """One of KINDS. row: a line of rollouts/step_N.jsonl or of an evaluation's rollouts.jsonl."""
    context_tokens = row["context_chars"] / CHARS_PER_TOKEN
    if row["leaf_tokens"] and row["leaf_tokens"] >= BROAD_SHARE * context_tokens:
        return "broad"
    if any(call["error"] == "too_long" for turn in row["turns"] for call in turn["calls"]):
        return "broad"
    if row["leaf_calls"] or row["children"]:
        return "selective"
    return "code_only" if any(turn["blocks"] for turn in row["turns"]) else "blind"


def shares(rows: Iterable[dict]) -> dict[str, float]:
    """Share of each kind among rollouts that the machinery did not fail; they sum to 1. {} of none."""
    counts = Counter(behaviour(row) for row in rows if row["error"] is None)
    total = sum(counts.values())
    return {kind: counts[kind] / total for kind in KINDS} if total else {}
