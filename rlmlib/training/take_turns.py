"""Sampling and training in turns: a step samples until its batch is full, with the weights of the step before it."""

import math

from ..config import Params
from ..engine import Engine
from ..errors import TrainingError
from .curriculum import Curriculum
from .groups import Batch, has_signal, jobs_of, no_signal, score

MIN_ACCEPTANCE = 0.2  # a wave is at most 1 / this times as large as what is missing


class TakeTurns:
    """The source of batches of training.max_async_level 0. A run with the same seed samples the same again."""

    def __init__(self, engine: Engine, params: Params, curriculum: Curriculum, acceptance: float = 1.0):
        self.engine, self.params, self.curriculum = engine, params, curriculum
        self.acceptance = acceptance  # share of groups that had a signal in the last step

    def __enter__(self) -> "TakeTurns":
        return self

    def __exit__(self, *_):
        """Nothing is under way between batches."""

    def batch(self, step: int) -> Batch:
        """Sample waves of groups until the batch is full of groups that carry a signal (refill).

        A wave is as large as `acceptance`, the share of groups that had a signal so far, suggests. Raises TrainingError.
        """
        config, batch = self.params.training, Batch()
        while len(batch.kept) < config.prompts_per_step:
            if batch.waves == config.max_waves:
                raise TrainingError(no_signal(batch, step, config.prompts_per_step))
            missing = config.prompts_per_step - len(batch.kept)
            share = len(batch.kept) / len(batch.groups) if batch.groups else self.acceptance
            size = min(math.ceil(missing / max(share, MIN_ACCEPTANCE)), config.max_wave_prompts)
            self._wave(batch, step, self.curriculum.draw(size, step))
        surplus = sum(group.verdict == "surplus" for group in batch.dropped)
        self.acceptance = (len(batch.kept) + surplus) / len(batch.groups)
        return batch

    def trained(self, version: int):
        """The policy was updated and pushed."""

    def sidelined(self, step: int) -> int:
        """Prompts that are set aside at a step."""
        return self.curriculum.sidelined(step)

    def state(self) -> dict:
        """What a checkpoint has to keep of it."""
        return {"curriculum": self.curriculum.state()}

    def _wave(self, batch: Batch, step: int, prompts: list[int]):
        config, per_prompt = self.params.training, self.params.training.rollouts_per_prompt
        attempts = self.engine.run([job for slot, p in enumerate(prompts) for job in jobs_of(self.params, p, (step, batch.waves, slot))])
        for slot, prompt in enumerate(prompts):
            group = score(prompt, attempts[slot * per_prompt : (slot + 1) * per_prompt], self.params, step)
            if group.verdict in ("all_wrong", "failed"):
                self.curriculum.sideline(prompt, step)
            keep = has_signal(group, config)
            if keep and len(batch.kept) == config.prompts_per_step:
                keep, group.verdict = False, "surplus"
            (batch.kept if keep else batch.dropped).append(group)
        batch.waves += 1
