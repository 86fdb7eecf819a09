"""Which prompts are drawn next: uniform with replacement, all-wrong ones set aside for a while."""

import random
from dataclasses import dataclass, field


@dataclass
class Curriculum:
    """Prompts 0..pool-1. A prompt sidelined at step s is drawn again from step s + sideline_steps + 1."""

    pool: int
    sideline_steps: int
    rng: random.Random
    until: dict[int, int] = field(default_factory=dict)

    def draw(self, count: int, step: int) -> list[int]:
        """`count` prompts for a step, with replacement; all of the pool when everything is sidelined."""
        available = [i for i in range(self.pool) if self.until.get(i, -1) < step] or list(range(self.pool))
        return [self.rng.choice(available) for _ in range(count)]

    def sideline(self, prompt: int, step: int):
        self.until[prompt] = step + self.sideline_steps

    def sidelined(self, step: int) -> int:
        return sum(last >= step for last in self.until.values())

    def state(self) -> dict:
        version, internal, gauss = self.rng.getstate()
        return {"until": {str(k): v for k, v in self.until.items()}, "rng": [version, list(internal), gauss]}

    def restore(self, state: dict):
        self.until = {int(k): v for k, v in state["until"].items()}
        version, internal, gauss = state["rng"]
        self.rng.setstate((version, tuple(internal), gauss))
