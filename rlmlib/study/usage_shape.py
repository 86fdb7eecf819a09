"""How the use of the leaf goes over training: asked for almost everything, then almost never, then selectively."""

import numpy as np

from ..scoring.passk import wilson
from ..wording import interval, share
from .evidence import Missing
from .frames import Run, phases
from .seeds import Triple
from .shares import less
from .verdicts import above, all_of, below

WINDOW = 5  # steps of a mean
BUSY, QUIET, RETURN = 0.5, 0.25, 0.10  # shares of rollouts that ask the leaf: at first, in the middle phase, and how far it rises after


def rule_of_phases() -> str:
    """What `Shape.verdict` asks, in words."""
    return (
        f"over {BUSY:.0%} in the first {WINDOW} steps, under {QUIET:.0%} in some later ones, over {100 * RETURN:.0f} points more than "
        "that in the last ones, at every seed"
    )


class Shape:
    """How the share of rollouts that ask the leaf goes over a run's training, in means over WINDOW steps. Raises Missing.

    The lowest mean is of steps before the last ones, with which it is compared. It is that of the steps that look lowest, so its
    interval is a little too low.
    """

    def __init__(self, run: Run):
        rows = phases(run.dir)
        if len(rows) < 3 * WINDOW:
            raise Missing(f"{3 * WINDOW} training steps of {run.name}")
        self._prompts = run.params.training.rollouts_per_prompt  # rollouts that count as one, as they are of one prompt
        self._asked = np.array([(row["broad"] + row["selective"]) * row["rollouts"] for row in rows])
        self._rollouts = np.array([row["rollouts"] for row in rows])
        means = [self._share(start)[0] for start in range(len(rows) - 2 * WINDOW + 1)]
        self.first, self.low, self.last = self._share(0), self._share(int(np.argmin(means))), self._share(len(rows) - WINDOW)

    def _share(self, start: int) -> Triple:
        within = slice(start, start + WINDOW)
        return wilson(self._asked[within].sum() / self._prompts, self._rollouts[within].sum() / self._prompts)

    @property
    def verdict(self) -> str:
        return all_of([above(self.first, BUSY), below(self.low, QUIET), above(less(self.last, self.low), RETURN)])

    def __str__(self) -> str:
        first, low, last = (interval(part, share) for part in (self.first, self.low, self.last))
        return f"{first}, lowest {low}, then {last}"
