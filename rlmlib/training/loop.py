"""The training loop, as the write-up tells it: sample groups, score, shape, drop, step, push, log."""

import random
import time
from collections.abc import Callable

from .. import engine as engines
from ..config import Params
from ..engine import Engine
from ..errors import Stopped, TrainingError
from ..progress import Progress
from ..runs import RunDir, append_jsonl, rewrite_jsonl
from ..scoring.reward import advantages
from ..tracking import Tracker
from . import checkpoint
from .ahead import Ahead
from .curriculum import Curriculum
from .groups import Batch, train_items
from .metrics import metrics
from .oom import out_of_memory_named
from .policy import Policy
from .preflight import check, preflight
from .ranks import ALONE, Ranks
from .schedule import lr_at
from .short_evaluation import evaluate_shortly
from .step import make_optimizer, update
from .take_turns import TakeTurns
from .trainers import import_first, load_policy
from .watch import MAX_SKIPPED, best_checkpoint, diverged, skipped_last

Source = TakeTurns | Ahead


def train(
    params: Params,
    run: RunDir,
    show: Callable[[str], None] | None = None,
    after_step: Callable[[dict], None] | None = None,
    ranks: Ranks = ALONE,
):
    """Train to params.training.steps, from the newest checkpoint where there is one. On several ranks it is called on rank 0.

    Raises ConfigError where it cannot fit or start (see preflight.py), CheckpointError on a corrupt checkpoint, TrainingError when
    there is nothing to learn from, the run diverges, or memory is short, and Stopped where run.ask_to_stop() was called meanwhile.
    """
    config = params.training
    with run.lock():
        run.forget_stop()  # meant for a process that was here before
        import_first(params)
        check(preflight(params, run, ranks=ranks.size), params)
        with out_of_memory_named(params, "loading the policy"):
            policy = load_policy(params)
        done, state = resume(run, policy)
        ranks.prepare(policy, config.parallel)  # after the weights are loaded, and before the optimiser is made
        optimizer = make_optimizer(policy, config)
        if done:
            checkpoint.load_optimizer(run, done, optimizer, ranks)
        rows = run.metrics
        stop_where_hopeless(run, rows, params)
        progress = Progress(run / "progress.json", "train", config.steps, done, show)
        with out_of_memory_named(params, "starting the sampler"), ranks.gathered(policy):
            engine = Engine(params, policy, config.max_async_level == 0, run / "pushed")
        with engine, source_of(engine, params, state, rows, done) as source, Tracker(params, run, done) as tracker:
            for step in range(done, config.steps):
                batch, row = train_step(step, params, policy, optimizer, engine, source, ranks)
                if config.evaluate_every and (step + 1) % config.evaluate_every == 0:
                    row |= evaluate_shortly(engine, params, run, step + 1)
                log(run, step, batch, row)
                tracker.log(step, row)
                rows.append(row)
                stop = run.stop_asked
                if stop or (step + 1) % config.checkpoint_every == 0 or step + 1 == config.steps:
                    checkpoint.save(run, step + 1, policy, optimizer, source.state(), ranks)
                    checkpoint.prune(run, config, best_checkpoint(rows, checkpoint.steps(run), config.watch.window))
                stop_where_hopeless(run, rows, params)
                progress.update(step + 1, f"correct {row['correct']:.2f}, leaf tokens {row['leaf_tokens_mean']:.0f}")
                if after_step:
                    after_step(row)
                if stop:
                    stop_as_asked(run, step + 1, config.steps)


def resume(run: RunDir, policy: Policy) -> tuple[int, dict]:
    """Restore the newest checkpoint, cut the logs back to it; returns (steps done, state of the source of batches)."""
    saved = checkpoint.steps(run)
    step = saved[-1] if saved else 0
    state = checkpoint.load(run, step, policy) if saved else {}
    rows = run.metrics
    if any(row["step"] >= step for row in rows):
        rewrite_jsonl(run / "metrics.jsonl", [row for row in rows if row["step"] < step])
    return step, state


def source_of(engine: Engine, params: Params, state: dict, rows: list[dict], done: int) -> Source:
    """Where batches come from: sampled in turns with training, or beside it. state: of the checkpoint after `done` steps."""
    curriculum = Curriculum(params.tasks.pool, params.training.sideline_steps, random.Random(params.seed))
    if state:
        curriculum.restore(state["curriculum"])
    if params.training.max_async_level:
        return Ahead(engine, params, curriculum, done, state.get("begun", 0), state.get("again", ()))
    return TakeTurns(engine, params, curriculum, rows[-1]["acceptance"] if rows else 1.0)


def train_step(
    step: int, params: Params, policy: Policy, optimizer, engine: Engine, source: Source, ranks: Ranks = ALONE
) -> tuple[Batch, dict]:
    """Sample, train, push: the batch and its metrics row."""
    config = params.training
    began = time.monotonic()
    with out_of_memory_named(params, "sampling"):
        batch = source.batch(step)
    sampled = time.monotonic()
    lr = lr_at(step, config)
    for group in optimizer.param_groups:
        group["lr"] = lr
    items = train_items(batch, config)
    with out_of_memory_named(params, "a training step", [len(item.sequence.ids) for item in items]):
        stats = update(policy, optimizer, items, config, params.sampling.temperature, ranks)
    with out_of_memory_named(params, "pushing weights"), ranks.gathered(policy):
        engine.push(policy)
    source.trained(step + 1)
    seconds = {"sample_seconds": sampled - began, "train_seconds": time.monotonic() - sampled}
    row = {"step": step, **metrics(batch, step), **stats, "lr": lr, **seconds, "sidelined": source.sidelined(step)}
    return batch, row


def stop_where_hopeless(run: RunDir, rows: list[dict], params: Params):
    """Raises TrainingError where the last steps had no finite gradient, or the run diverges."""
    if not rows:
        return
    step = rows[-1]["step"]
    skipped = skipped_last(rows)
    if skipped >= MAX_SKIPPED:
        raise TrainingError(f"step {step}: no finite gradient for {skipped} steps; begin another run with a lower training.lr")
    if why := diverged(rows, params.training.watch):
        best = best_checkpoint(rows, checkpoint.steps(run), params.training.watch.window)
        kept = f"step_{best} is the best checkpoint" if best else "there is no checkpoint yet"
        advice = "begin another run with a lower training.lr, or more training.kl_tau or warmup_steps"
        raise TrainingError(f"step {step}: stopped, as {why}; {kept}; {advice}")


def stop_as_asked(run: RunDir, done: int, steps: int):
    """The request is met by a checkpoint of `done` steps. Raises Stopped, unless the run is at its end anyway."""
    run.forget_stop()
    if done < steps:
        raise Stopped(f"step {done}: stopped as asked, with a checkpoint; run again to go on")


def log(run: RunDir, step: int, batch: Batch, row: dict):
    """All rollouts of the step, then its metrics row (the checkpoint that follows makes both final)."""
    lines = []
    for group in batch.groups:
        for attempt, reward, advantage in zip(group.attempts, group.rewards, advantages(group.rewards), strict=True):
            name = run.store_context(attempt.example.context)
            told = {"reward": reward, "advantage": advantage, "verdict": group.verdict, "trained": group in batch.kept}
            lines.append(engines.row(attempt, name, version=group.version, **told))
    rewrite_jsonl(run / f"rollouts/step_{step}.jsonl", lines)
    append_jsonl(run / "metrics.jsonl", [row])
