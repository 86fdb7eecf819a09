"""A small run directory with rows of metrics, for tests of what reads one."""

from pathlib import Path

from rlmlib import config
from rlmlib.runs import RunDir, append_jsonl, open_run

STEPS = 4
VALUES = {
    "name": "small",
    "policy": {"threads": 1},
    "harness": {"max_turns": 3, "output_chars": 120},
    "tasks": {"min_chars": 1500, "max_chars": 2500, "coding": 0.0, "research": 0.65, "two_hop": 0.0, "pool": 32},
    "training": {"steps": STEPS, "prompts_per_step": 2, "keep_all_right": True},
}


def metrics_row(step: int) -> dict:
    shares = dict.fromkeys(("llm_usage", "all_wrong", "missing", "forced", "dropped_high", "dropped_low"), 0.25)
    seconds = {"sample_seconds": 2.0, "train_seconds": 1.0}
    return {"step": step, "correct": 0.5, "leaf_tokens_mean": 1234.5, "entropy": 0.5, **shares, **seconds}


def new_run(folder: Path) -> RunDir:
    return open_run(folder, config.validate(VALUES))


def add_steps(run: RunDir, *steps: int):
    append_jsonl(run / "metrics.jsonl", map(metrics_row, steps))
