"""The study's reward and advantage, for one group (the rollouts of one prompt). Pure functions.

p      = mean(c)                                     group solve rate
beta   = 0 if p <= p0 else beta_max * ((p - p0) / (1 - p0)) ** gamma
u_i    = (T_i - Tmin) / (Tmax - Tmin)                0 where all are equal
r_i    = clip(c_i - forced_penalty * c_i * forced_i - beta(p) * u_i + child_bonus * c_i * [children_i > 0])
A_i    = r_i - mean(r)                               no division by std, no length weight
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ..config import Reward

STUDY = Reward()
CLIP = {"all_rollouts": (-0.5, 1.0), "correct_only": (0.0, 1.0)}


@dataclass(frozen=True)
class Outcome:
    """What the reward sees of one rollout. cost is in tokens."""

    correct: bool
    cost: float
    forced: bool = False
    children: int = 0


def beta(p: float, config: Reward = STUDY) -> float:
    """Weight of the cost penalty at group solve rate p in [0, 1]."""
    if p <= config.p0:
        return 0.0
    return config.beta_max * ((p - config.p0) / (1 - config.p0)) ** config.gamma


def relative_costs(costs: Sequence[float]) -> list[float]:
    """u in [0, 1]: 0 for the cheapest, 1 for the dearest; zeros where there is nothing to compare."""
    if len(costs) < 2 or max(costs) == min(costs):
        return [0.0] * len(costs)
    low, high = min(costs), max(costs)
    return [(cost - low) / (high - low) for cost in costs]


def rewards(group: Sequence[Outcome], config: Reward = STUDY) -> list[float]:
    """r_i of every rollout of a group, in order. The bonus, which is not the study's, raises the upper bound of the clip with it."""
    weight = beta(sum(o.correct for o in group) / len(group), config)
    low, high = CLIP[config.scope]
    if config.scope == "all_rollouts":
        shares = relative_costs([o.cost for o in group])
    else:
        paying = iter(relative_costs([o.cost for o in group if o.correct]))
        shares = [next(paying) if o.correct else 0.0 for o in group]
    earned = []
    for outcome, share in zip(group, shares, strict=True):
        bonus = config.child_bonus if outcome.correct and outcome.children else 0.0
        forced = config.forced_penalty if outcome.correct and outcome.forced else 0.0
        earned.append(min(high + bonus, max(low, outcome.correct - forced - weight * share + bonus)))
    return earned


def advantages(group_rewards: Sequence[float]) -> list[float]:
    """A_i = r_i - mean(r). Sums to zero. None of none."""
    mean = sum(group_rewards) / max(1, len(group_rewards))
    return [r - mean for r in group_rewards]
