"""The training loop, as the write-up tells it: sample groups, score, shape, drop, step, push, log."""

import math
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch

from .. import engine as engines
from ..config import Params
from ..engine import Attempt, Engine, Job
from ..errors import TrainingError
from ..progress import Progress
from ..runs import RunDir, append_jsonl, rewrite_jsonl
from ..scoring.reward import Outcome, advantages, rewards
from ..tasks.mixture import example
from . import checkpoint
from .curriculum import Curriculum
from .policy import Policy, load_policy
from .step import TrainItem, update

TRAIN_STREAM = 1  # first part of every sampling key, so that training and evaluation never share random numbers
MIN_ACCEPTANCE = 0.2  # a wave is at most 1 / this times as large as what is missing
MAX_SKIPPED = 5  # steps in a row without a finite gradient


@dataclass
class Group:
    """The rollouts of one prompt. verdict: kept, all_wrong, all_right, surplus (the batch was full), failed (infrastructure)."""

    prompt: int
    attempts: list[Attempt]
    rewards: list[float]
    verdict: str


@dataclass
class Batch:
    """What a step sampled: the groups it trains on, and all that were dropped on the way."""

    kept: list[Group] = field(default_factory=list)
    dropped: list[Group] = field(default_factory=list)
    waves: int = 0

    @property
    def groups(self) -> list[Group]:
        return self.kept + self.dropped


def train(params: Params, run: RunDir, show: Callable[[str], None] | None = None, after_step: Callable[[dict], None] | None = None):
    """Train to params.training.steps, from the newest checkpoint where there is one.

    Raises CheckpointError on a corrupt checkpoint and TrainingError when there is nothing to learn from.
    """
    config = params.training
    with run.lock():
        policy = load_policy(params)
        optimizer = torch.optim.AdamW(policy.trainable, lr=config.lr, betas=(config.beta1, config.beta2), weight_decay=config.weight_decay)
        curriculum = Curriculum(params.tasks.pool, config.sideline_steps, random.Random(params.seed))
        done = resume(run, policy, optimizer, curriculum)
        progress = Progress(run / "progress.json", "train", config.steps, done, show)
        row = {"acceptance": 1.0, **(run.metrics[-1] if done else {})}
        skipped = 0
        with Engine(params, policy) as engine:
            for step in range(done, config.steps):
                began = time.monotonic()
                batch = sample_batch(engine, params, curriculum, step, row["acceptance"])
                sampled = time.monotonic()
                stats = update(policy, optimizer, train_items(batch), config, params.sampling.temperature)
                engine.push(policy)
                seconds = {"sample_seconds": sampled - began, "train_seconds": time.monotonic() - sampled}
                row = {"step": step, **metrics(batch), **stats, **seconds, "sidelined": curriculum.sidelined(step)}
                log(run, step, batch, row)
                skipped = skipped + 1 if stats["skipped"] else 0
                if skipped >= MAX_SKIPPED:
                    raise TrainingError(f"step {step}: no finite gradient for {skipped} steps; lower training.lr")
                if (step + 1) % config.checkpoint_every == 0 or step + 1 == config.steps:
                    checkpoint.save(run, step + 1, policy, optimizer, {"curriculum": curriculum.state()}, config.keep_last)
                progress.update(step + 1, f"correct {row['correct']:.2f}, leaf tokens {row['leaf_tokens_mean']:.0f}")
                if after_step:
                    after_step(row)


def resume(run: RunDir, policy: Policy, optimizer, curriculum: Curriculum) -> int:
    """Restore the newest checkpoint, cut the logs back to it; returns the number of steps done."""
    done = checkpoint.steps(run)
    step = done[-1] if done else 0
    if done:
        curriculum.restore(checkpoint.load(run, step, policy, optimizer)["curriculum"])
    rows = run.metrics
    if any(row["step"] >= step for row in rows):
        rewrite_jsonl(run / "metrics.jsonl", [row for row in rows if row["step"] < step])
    return step


def sample_batch(engine: Engine, params: Params, curriculum: Curriculum, step: int, acceptance: float) -> Batch:
    """Sample waves of groups until the batch is full of groups that carry a signal (refill).

    A wave is as large as `acceptance`, the share of groups that had a signal so far, suggests.
    """
    config, batch = params.training, Batch()
    per_prompt = config.rollouts_per_prompt
    while len(batch.kept) < config.prompts_per_step:
        if batch.waves == config.max_waves:
            raise TrainingError(no_signal(batch, step, config.prompts_per_step))
        missing = config.prompts_per_step - len(batch.kept)
        share = len(batch.kept) / len(batch.groups) if batch.groups else acceptance
        size = min(math.ceil(missing / max(share, MIN_ACCEPTANCE)), config.max_wave_prompts)
        prompts = curriculum.draw(size, step)
        jobs = [
            Job(example(params.tasks, "train", prompt, params.seed), index, (TRAIN_STREAM, params.seed, step, batch.waves, slot, index))
            for slot, prompt in enumerate(prompts)
            for index in range(per_prompt)
        ]
        attempts = engine.run(jobs)
        for slot, prompt in enumerate(prompts):
            group = score(prompt, attempts[slot * per_prompt : (slot + 1) * per_prompt], params)
            if group.verdict in ("all_wrong", "failed"):
                curriculum.sideline(prompt, step)
            keep = group.verdict == "kept" or (group.verdict == "all_right" and config.keep_all_right)
            if keep and len(batch.kept) == config.prompts_per_step:
                keep, group.verdict = False, "surplus"
            (batch.kept if keep else batch.dropped).append(group)
        batch.waves += 1
    return batch


def no_signal(batch: Batch, step: int, wanted: int) -> str:
    """Why a batch could not be filled, and what to do."""
    counts = Counter(g.verdict for g in batch.dropped)
    seen = ", ".join(f"{count} {verdict.replace('_', ' ')}" for verdict, count in counts.most_common())
    errors = sorted({a.rollout.error for g in batch.dropped for a in g.attempts if a.rollout.error})
    if errors and counts["failed"] * 2 > len(batch.dropped):
        advice = f"most failed: {errors[0]}"
    else:
        advice = "make the tasks easier or harder (tasks.*), or raise sampling.temperature or training.max_waves"
    return f"step {step}: {batch.waves} waves gave {len(batch.kept)} of {wanted} groups with a signal ({seen}); {advice}"


def score(prompt: int, attempts: list[Attempt], params: Params) -> Group:
    """Rewards and verdict of a group. An infrastructure failure drops the group; it is never a wrong answer."""
    basis = params.reward.cost_basis
    outcomes = [Outcome(a.correct, a.rollout.usage.total if basis == "total" else a.rollout.usage.leaf, a.rollout.forced) for a in attempts]
    right = sum(o.correct for o in outcomes)
    if any(a.rollout.error for a in attempts):
        verdict = "failed"
    elif right == 0:
        verdict = "all_wrong"
    else:
        verdict = "all_right" if right == len(attempts) else "kept"
    return Group(prompt, attempts, rewards(outcomes, params.reward), verdict)


def train_items(batch: Batch) -> list[TrainItem]:
    return [
        TrainItem(sequence, advantage)
        for group in batch.kept
        for attempt, advantage in zip(group.attempts, advantages(group.rewards), strict=True)
        for sequence in attempt.sequences
        if any(sequence.mask)
    ]


def metrics(batch: Batch) -> dict:
    """Means over everything that was sampled in the step, dropped groups included."""
    attempts = [a for g in batch.groups if g.verdict != "failed" for a in g.attempts]
    rollouts = [a.rollout for a in attempts]
    usages = [r.usage for r in rollouts]
    leaf = np.array([u.leaf for u in usages])
    verdicts = [g.verdict for g in batch.groups]
    spread = [len({a.rollout.usage.total for a in g.attempts}) > 1 for g in batch.kept]
    return {
        "reward": float(np.mean([r for g in batch.kept for r in g.rewards])),
        "correct": float(np.mean([a.correct for a in attempts])),
        "leaf_tokens_mean": float(leaf.mean()),
        "leaf_tokens_median": float(np.median(leaf)),
        "leaf_tokens_p95": float(np.percentile(leaf, 95)),
        "leaf_calls": float(np.mean([u.leaf_calls for u in usages])),
        "llm_usage": float(np.mean([u.leaf_calls > 0 for u in usages])),
        "children": float(np.mean([u.children for u in usages])),
        "total_tokens": float(np.mean([u.total for u in usages])),
        "reply_tokens": float(np.mean([u.root.completion for u in usages])),
        "turns": float(np.mean([len(r.turns) for r in rollouts])),
        "missing": float(np.mean([r.missing for r in rollouts])),
        "forced": float(np.mean([r.forced for r in rollouts])),
        "all_wrong": verdicts.count("all_wrong") / len(verdicts),
        "all_right": verdicts.count("all_right") / len(verdicts),
        "failed_groups": verdicts.count("failed"),
        "cost_spread": float(np.mean(spread)),
        "acceptance": (len(batch.kept) + verdicts.count("surplus")) / len(verdicts),
        "groups": len(verdicts),
        "waves": batch.waves,
    }


def log(run: RunDir, step: int, batch: Batch, row: dict):
    """All rollouts of the step, then its metrics row (the checkpoint that follows makes both final)."""
    lines = []
    for group in batch.groups:
        for attempt, reward, advantage in zip(group.attempts, group.rewards, advantages(group.rewards), strict=True):
            name = run.store_context(attempt.example.context)
            trained = group in batch.kept
            lines.append(engines.row(attempt, name, reward=reward, advantage=advantage, verdict=group.verdict, trained=trained))
    rewrite_jsonl(run / f"rollouts/step_{step}.jsonl", lines)
    append_jsonl(run / "metrics.jsonl", [row])
