"""Rows of a rollouts file with the outcomes there are, and a run directory that holds them."""

from pathlib import Path

from rlmlib.engine import Attempt, row
from rlmlib.harness.trajectory import Call, Rollout, Tokens, Turn
from rlmlib.runs import RunDir, rewrite_jsonl
from rlmlib.tasks.base import Example

HOSTILE = "<script>alert(1)</script>\u202e\n</pre>"


def attempt(number=0, index=0, correct=True, leaf_tokens=100, levels=0, **options) -> dict:
    """A row as the engine writes it. levels: of children. options: of Rollout, and family, question, answer, context."""
    told = {"family": "research", "question": f"question {number}", "answer": f"answer {number}", "context": "a context", **options}
    example = Example(f"heldout-{number:05d}", told["family"], f"task {number % 2}", "heldout", told["question"], told["context"], "gold")
    calls = [Call("leaf", "m", "prompt", "reply", Tokens(leaf_tokens), attempts=1)] if leaf_tokens else []
    for _ in range(levels):
        calls = [Call("child", "m", "prompt", "reply", attempts=1, child=Rollout("x", "final", turns=[Turn("child", "r", calls=calls)]))]
    turns = [Turn("root", f"reply {number}", ["print(1)"], ["1"], "policy", Tokens(10, 2), calls)]
    rest = {key: value for key, value in told.items() if key in ("forced", "error")}
    return row(Attempt(example, index, Rollout(told["answer"], "final", turns=turns, **rest), correct))


ROWS = [
    attempt(0),
    attempt(1, correct=False, leaf_tokens=0),
    attempt(2, correct=False, answer=None, family="coding"),
    attempt(3, forced=True, leaf_tokens=300),
    attempt(4, correct=False, forced=True, levels=1),
    attempt(5, correct=False, error="the leaf is down", levels=2),
]


def run_with_rollouts(folder: Path) -> RunDir:
    run = RunDir(folder)
    rewrite_jsonl(run / "rollouts/step_2.jsonl", ROWS[:2])
    rewrite_jsonl(run / "rollouts/step_10.jsonl", ROWS)
    rewrite_jsonl(run / "eval/base/rollouts.jsonl", ROWS)
    rewrite_jsonl(run / "eval/trained/rollouts.jsonl", [attempt(n, leaf_tokens=7) for n in (4, 1, 9)])
    return run
