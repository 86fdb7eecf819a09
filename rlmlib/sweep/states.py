"""What a run of a sweep is at: read from its directory, whoever asks, and true also after its parent was killed."""

import time
from dataclasses import dataclass

from ..runs import RunDir, last_jsonl, read_json
from .grid import Planned

HEARTBEAT_S = 5.0  # between two signs of life of a run's parent
LOST_S = 60.0  # without one, nobody minds the run any more
LOST = "its parent ended without a word; run the sweep again to go on"
NO_RESULT = "was done, but its evaluation is not there; run the sweep again to make it"


@dataclass(frozen=True)
class State:
    """One line of the status table. eta_s: of the phase, where one is known. correct and tokens are the newest known."""

    name: str
    state: str  # queued, running, done, failed, timeout or lost
    reason: str = ""
    phase: str = ""
    done: int = 0
    total: int = 0
    correct: float | None = None
    tokens: float | None = None
    eta_s: float | None = None


def state_of(planned: Planned, run: RunDir) -> State:
    """The state of a run, from status.json, progress.json and what it has measured."""
    state, reason = true_status(run)
    if state == "done" and not (run / result(planned.kind)).exists():
        state, reason = "queued", NO_RESULT
    progress = read_json(run / "progress.json") if state == "running" else {}
    correct, tokens = measured(planned, run)
    return State(
        planned.name,
        state,
        reason,
        str(progress.get("phase", "")),
        int(progress.get("done", 0)),
        int(progress.get("total", 0)),
        correct,
        tokens,
        progress.get("eta_s"),
    )


def true_status(run: RunDir) -> tuple[str, str]:
    """(state, reason): what status.json says, unless whoever kept it is gone. A demo gives no sign of life, but holds the lock."""
    status = run.status
    if status.get("state") == "running" and time.time() - status.get("heartbeat", 0) > LOST_S and run.holder is None:
        return "lost", LOST
    return status.get("state", "queued"), status.get("reason", "")


def measured(planned: Planned, run: RunDir) -> tuple[float | None, float | None]:
    """(share right, mean leaf tokens): held-out where the run was evaluated, else of its last training step."""
    held = read_json(run / result(planned.kind)).get("heldout")
    if held:
        return held["correct"][0], held["leaf_tokens_mean"][0]
    row = last_jsonl(run / "metrics.jsonl")
    return row.get("correct"), row.get("leaf_tokens_mean")


LABELS = {"train": "trained", "untrained": "base", "plain": "plain"}  # kind -> name of its evaluation


def result(kind: str) -> str:
    """The file in a run directory that a run of this kind ends with."""
    return f"eval/{LABELS[kind]}/summary.json"


def count(states: list[State]) -> dict[str, int]:
    """How many runs are in each state, in the order of a run's life."""
    order = ("queued", "running", "done", "failed", "timeout", "lost")
    return {name: found for name in order if (found := sum(s.state == name for s in states))}
