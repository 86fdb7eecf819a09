"""The learning rate of a step."""

import math

from ..config import Training


def lr_at(step: int, config: Training) -> float:
    """lr of step 0, 1, ...: rises linearly over `warmup_steps`, then stays, or falls to 0 after the last step as a line or half a cosine.

    The first step of a warm-up of w has lr / w, the step after it the whole lr.
    """
    if step < config.warmup_steps:
        return config.lr * (step + 1) / config.warmup_steps
    if config.schedule == "constant":
        return config.lr
    done = min(1.0, (step - config.warmup_steps) / max(1, config.steps - config.warmup_steps))
    return config.lr * (1 - done if config.schedule == "linear" else (1 + math.cos(math.pi * done)) / 2)
