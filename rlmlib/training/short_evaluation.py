"""A short evaluation on the way: some held-out questions, one rollout each, by the engine that trains."""

import numpy as np

from .. import engine as engines
from ..config import Params
from ..engine import Engine, Job
from ..runs import RunDir, rewrite_jsonl
from ..tasks.mixture import example

SHORT_EVALUATION_STREAM = 3  # first part of the sampling keys; the same questions and keys at every step, so that steps compare


def evaluate_shortly(engine: Engine, params: Params, run: RunDir, step: int) -> dict:
    """{eval_correct, eval_leaf_tokens_mean, eval_missing} after `step` updates; rollouts go to rollouts/eval_STEP.jsonl.

    Rollouts that failed for the machinery are left out; where all did, the values are None. Sampling for training goes on
    meanwhile, where it runs beside training.

    The questions are not among those of `evaluation`, so that choosing a checkpoint by them does not flatter its figures there. A
    data set has no others: there they are the first ones of its evaluation split, as in the study.
    """
    first = 0 if params.tasks.dataset else params.evaluation.heldout_examples
    chosen = [example(params.tasks, "heldout", first + number, params.seed) for number in range(params.training.evaluate_examples)]
    attempts = engine.run([Job(found, 0, (SHORT_EVALUATION_STREAM, params.seed, number)) for number, found in enumerate(chosen)])
    lines = [engines.row(attempt, run.store_context(attempt.example.context)) for attempt in attempts]
    rewrite_jsonl(run / f"rollouts/eval_{step}.jsonl", lines)
    counted = [line for line in lines if line["error"] is None]
    means = {name: float(np.mean([line[name] for line in counted])) if counted else None for name in ("correct", "leaf_tokens", "missing")}
    return {"eval_correct": means["correct"], "eval_leaf_tokens_mean": means["leaf_tokens"], "eval_missing": means["missing"]}
