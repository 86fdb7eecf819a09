"""How much work a run is: tokens, leaf and judge calls, dollars, hours and bytes on disk. Estimates, each with what it rests on.

What the run itself has measured comes first: the means of its last steps, else its evaluation of the base policy. Where there is
neither, the figures below stand in for it.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..config import ApiModel, Params
from ..models import prices
from ..runs import RunDir
from . import checkpoint
from .architecture import Architecture
from .memory import trainable, weight_bytes

LAST_STEPS = 10
STUDY_LEAF_TOKENS = 139_000  # of a rollout, mean: the study's base Qwen3-4B over contexts of 437,000 tokens
ACCEPTANCE = 0.5  # share of groups that carry a signal
TURNS_SHARE = 0.5  # of harness.max_turns
REPLY_SHARE = 0.25  # of the tokens that a reply may have, the policy's and a leaf's
WINDOW_SHARE = 0.5  # of the leaf's window that a call fills
JUDGE_TOKENS = (700, 200)  # prompt and reply of a verdict
CHARS_PER_TOKEN = 4
DATASET_CONTEXT_CHARS = 2_500_000  # mean: 437,000 tokens in the middle, 1.9 million at most
CALL_BYTES = 600  # of a leaf call in a rollouts file, its prompt cut

# (model, device): seconds of a rollout, training on it included, and the source
SECONDS_PER_ROLLOUT = {
    ("tiny", "cpu"): (0.1, "30 steps of params/tiny.yaml take 6 minutes on two CPU cores"),
}


@dataclass(frozen=True)
class Rates:
    """Means of a rollout, the share of groups with a signal, and the seconds of a step; None: not known. source: whence they are."""

    leaf_tokens: float
    leaf_calls: float
    reply_tokens: float
    acceptance: float
    source: str
    leaf_dollars: float | None = None
    step_seconds: float | None = None


@dataclass(frozen=True)
class Work:
    """Of the steps that are left."""

    steps: int
    rollouts: float  # a step: sampled, those that are dropped included
    tokens: float  # a step: sampled by the policy and read by it, at their final length
    trained_tokens: float  # a step: positions of the sequences that are trained on
    leaf_calls: float  # in all, as all that follow
    leaf_tokens: float
    judge_calls: float
    leaf_dollars: float | None
    judge_dollars: float | None
    hours: float | None
    hours_source: str

    @property
    def dollars(self) -> float | None:
        known = self.leaf_dollars is not None and self.judge_dollars is not None
        return self.leaf_dollars + self.judge_dollars if known else None


def rates(params: Params, run: RunDir | None) -> Rates:
    """From the run where it has measured them, else assumed."""
    assumed = _assumed(params)
    rows = run.metrics[-LAST_STEPS:] if run else []
    if rows:
        mean = lambda name, default: _mean([row.get(name) for row in rows], default)  # noqa: E731
        seconds = [row["sample_seconds"] + row["train_seconds"] for row in rows if "sample_seconds" in row and "train_seconds" in row]
        return Rates(
            mean("leaf_tokens_mean", assumed.leaf_tokens),
            mean("leaf_calls", assumed.leaf_calls),
            mean("reply_tokens", assumed.reply_tokens),
            mean("acceptance", assumed.acceptance),
            f"the last {len(rows)} steps of this run",
            mean("dollars", None),
            _mean(seconds, None),
        )
    base = _base(run)
    if base:
        calls, tokens = base["leaf_calls"][0], base["leaf_tokens_mean"][0]
        return Rates(tokens, calls, assumed.reply_tokens, assumed.acceptance, "eval/base of this run, and assumptions")
    return assumed


def _assumed(params: Params) -> Rates:
    leaf, harness = params.leaf, params.harness
    call = WINDOW_SHARE * leaf.window_tokens + REPLY_SHARE * leaf.max_tokens
    most = harness.max_delegated_tokens or STUDY_LEAF_TOKENS
    tokens = min(STUDY_LEAF_TOKENS, most, call * harness.max_subcalls)
    reply = TURNS_SHARE * harness.max_turns * REPLY_SHARE * params.sampling.max_turn_tokens
    return Rates(tokens, tokens / call, reply, ACCEPTANCE, "assumptions")


def _mean(values: Sequence, default):
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else default


def _base(run: RunDir | None) -> dict:
    """The held-out split of the base policy's evaluation; {} where there is none."""
    try:
        return json.loads((run / "eval/base/summary.json").read_text())["heldout"] if run else {}
    except (OSError, ValueError, KeyError):
        return {}


def work(params: Params, device_kind: str, run: RunDir | None = None) -> Work:
    """What is left to do of a run."""
    config, known = params.training, rates(params, run)
    steps = max(0, config.steps - (checkpoint.steps(run)[-1] if run and checkpoint.steps(run) else 0))
    groups = config.prompts_per_step / max(known.acceptance, 1 / config.max_waves)
    evaluations = config.evaluate_examples / config.evaluate_every if config.evaluate_every else 0
    rollouts = groups * config.rollouts_per_prompt + evaluations
    length = sequence_tokens(params, known.reply_tokens)
    total = rollouts * steps
    calls, tokens = known.leaf_calls * total, known.leaf_tokens * total
    judged = 0.0
    if params.judge.engine != "none":
        judged = total * sum(getattr(params.tasks, family, 0.0) for family in params.judge.families)
    if known.leaf_dollars is not None:
        leaf_dollars = known.leaf_dollars * total
    else:
        replies = calls * REPLY_SHARE * params.leaf.max_tokens
        leaf_dollars = price(params.leaf, max(0.0, tokens - replies), min(tokens, replies))
    hours, source = _hours(params, known, device_kind, rollouts, steps)
    return Work(
        steps=steps,
        rollouts=rollouts,
        tokens=rollouts * length,
        trained_tokens=config.prompts_per_step * config.rollouts_per_prompt * length,
        leaf_calls=calls,
        leaf_tokens=tokens,
        judge_calls=judged,
        leaf_dollars=leaf_dollars,
        judge_dollars=price(params.judge, *(judged * part for part in JUDGE_TOKENS)),
        hours=hours,
        hours_source=source,
    )


def sequence_tokens(params: Params, reply_tokens: float) -> float:
    """Mean length of a conversation: its replies, and the outputs that it is shown between them."""
    shown = TURNS_SHARE * params.harness.max_turns * params.harness.output_chars / CHARS_PER_TOKEN
    return min(params.sampling.max_sequence_tokens, reply_tokens + shown)


def price(config: ApiModel, prompt_tokens: float, completion_tokens: float) -> float | None:
    """Dollars of a leaf's or judge's tokens; None where no price is known."""
    if config.free or config.engine not in ("gemini", "openai"):
        return 0.0
    return prices.dollars(config.model, prompt_tokens, completion_tokens)


def _hours(params: Params, known: Rates, device_kind: str, rollouts: float, steps: int) -> tuple[float | None, str]:
    if known.step_seconds is not None:
        return known.step_seconds * steps / 3600, known.source
    seconds, source = SECONDS_PER_ROLLOUT.get((params.policy.model, device_kind), (None, "nothing was measured yet"))
    return (None if seconds is None else seconds * rollouts * steps / 3600), source


def disk(params: Params, model: Architecture, device_kind: str, rollouts: float, run: RunDir | None = None) -> dict[str, int]:
    """Bytes of the whole run's directory by what they are for. rollouts: of a step."""
    config, policy = params.training, params.policy
    trained, width = trainable(model, policy, weight_bytes(policy, device_kind))
    written = config.steps // config.checkpoint_every
    kept = min(written, config.keep_last + 1 + (config.steps // config.keep_every if config.keep_every else 0)) + 1  # one is being written
    known = rates(params, run)
    line = sequence_tokens(params, known.reply_tokens) * CHARS_PER_TOKEN + known.leaf_calls * CALL_BYTES
    files = [path.stat().st_size for path in sorted((run / "rollouts").glob("step_*.jsonl"))[-LAST_STEPS:]] if run else []
    step_bytes = _mean(files, rollouts * line)
    contexts = min(params.tasks.pool, rollouts / config.rollouts_per_prompt * config.steps) + params.evaluation.heldout_examples
    sizes = {
        "checkpoints": kept * trained * 3 * width,
        "rollouts": round(step_bytes * config.steps),
        "contexts": round(contexts * context_chars(params)),
    }
    if policy.sampler == "vllm" or policy.sampler == "server" and not policy.vllm.exchange:
        sizes["weights for the sampler"] = 2 * trained * width
    return sizes


def context_chars(params: Params) -> float:
    """Mean length of a context: of log-uniform lengths between the least and the most."""
    low, high = params.tasks.min_chars, params.tasks.max_chars
    if params.tasks.dataset:
        return DATASET_CONTEXT_CHARS
    return low if low == high else (high - low) / float(np.log(high / low))


def used(path: Path) -> int:
    """Bytes that a folder's files have already."""
    return sum(file.lstat().st_size for file in path.rglob("*") if file.is_file()) if path.is_dir() else 0
