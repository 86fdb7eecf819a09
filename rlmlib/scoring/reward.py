"""The study's reward and advantage, for one group (the rollouts of one prompt). Pure functions.

p      = mean(c)                                     group solve rate
beta   = 0 if p <= p0 else beta_max * ((p - p0) / (1 - p0)) ** gamma
u_i    = (T_i - Tmin) / (Tmax - Tmin)                0 where all are equal
r_i    = clip(c_i - forced_penalty * c_i * forced_i - beta(p) * u_i)
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
    """r_i of every rollout of a group, in order."""
    weight = beta(sum(o.correct for o in group) / len(group), config)
    low, high = CLIP[config.scope]
    if config.scope == "all_rollouts":
        shares = relative_costs([o.cost for o in group])
    else:
        paying = iter(relative_costs([o.cost for o in group if o.correct]))
        shares = [next(paying) if o.correct else 0.0 for o in group]
    return [
        min(high, max(low, o.correct - config.forced_penalty * (o.correct and o.forced) - weight * u))
        for o, u in zip(group, shares, strict=True)
    ]


def advantages(group_rewards: Sequence[float]) -> list[float]:
    """A_i = r_i - mean(r). Sums to zero. None of none."""
    mean = sum(group_rewards) / max(1, len(group_rewards))
    return [r - mean for r in group_rewards]
