"""The length and cost penalties of the literature beside the study's reward: pure functions over one group of rollouts.

Each takes the rollouts of one prompt (at least one) and gives their rewards in order. c is 1 for a right rollout, else 0;
T is its cost in tokens, which the papers call length; p is the mean of c over the group of K rollouts. Defaults are the
values of the paper or of its published code; where there are none, the docstring says so. A forced answer and started
children count in `study` alone. What a formula promises is declared in PENALTIES, of its default values; PROMISES says what
each word means.
"""

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev

from ..config import Reward
from .reward import STUDY, Outcome, rewards

EASY, MEDIUM = 2 / 3, 1 / 3  # least solve rates of LASER-D's easy and medium prompts

PROMISES = {
    "dominance": "no right rollout earns less than a wrong one of its group",
    "monotone": "of two right rollouts that differ in cost alone, the dearer never earns more",
    "strict": "of two right rollouts that differ in cost alone, the dearer earns less",
    "equivariant": "the order of the rollouts in the group does not matter",
    "wrong_alike": "all wrong rollouts of a group earn the same, whatever they cost",
    "unsolved_alike": "all rollouts of a group without a right one earn the same",
    "scale_free": "costs that are all so many times larger give the same rewards",
}


@dataclass(frozen=True)
class Promises:
    """What a formula keeps for every group, at its default values. The words are explained in PROMISES."""

    dominance: bool
    monotone: bool
    strict: bool
    equivariant: bool
    wrong_alike: bool
    unsolved_alike: bool
    scale_free: bool


@dataclass(frozen=True)
class Penalty:
    """A formula of this file with its title for charts, its equation, its source and its promises. Called, it gives rewards."""

    title: str
    equation: str
    source: str
    function: Callable[..., list[float]]
    promises: Promises

    def __call__(self, group: Sequence[Outcome], **parameters) -> list[float]:
        return self.function(group, **parameters)

    @property
    def defaults(self) -> dict[str, object]:
        """The formula's parameters and their default values."""
        return {name: given.default for name, given in list(inspect.signature(self.function).parameters.items())[1:]}


def study(group: Sequence[Outcome], config: Reward = STUDY) -> list[float]:
    """r = clip(c - forced_penalty c forced - beta(p) u), u = (T - Tmin) / (Tmax - Tmin). Source: scoring/reward.py.

    A right rollout stays above a wrong one, as beta(p) and the forced penalty together are under 1. Dearer is never better;
    it is no worse where p is at most p0, as cost is free there. Wrong rollouts pay too, but not in a group without a right one.
    """
    return rewards(group, config)


def linear(group: Sequence[Outcome], per_1k: float = 0.05) -> list[float]:
    """r = c - per_1k T / 1000. The plain static penalty; it is of no paper, and its default is ours.

    It cannot know the task: right rollouts that need over 1 / per_1k thousand tokens earn less than a wrong one that stops
    at once. Wrong rollouts pay as well, and so they do where none is right.
    """
    return [o.correct - per_1k * o.cost / 1000 for o in group]


def alp(group: Sequence[Outcome], beta: float = 1e-7) -> list[float]:
    """r = c - beta T max(p, 1 / K). Adaptive Length Penalty: Xiang et al., "Just Enough Thinking", arXiv 2506.05256.

    The paper writes beta / N with a constant N, which is part of beta here; its beta is 1e-7 for each token. All rollouts pay,
    the more so the easier the prompt, and at least 1 / K where none is right. A right one is above a wrong one while costs
    are under 1 / beta tokens. So small a beta is felt where advantages are divided by the standard deviation of the group, as in
    GRPO, and the group is all right; under advantages that are not divided it is next to nothing.
    """
    weight = beta * max(fmean(o.correct for o in group), 1 / len(group))
    return [o.correct - weight * o.cost for o in group]


def arora_zanette(group: Sequence[Outcome], alpha: float = 0.1) -> list[float]:
    """r = c (1 - alpha sigmoid(z)), z = (T - mean) / std of T over the right rollouts. Arora, Zanette, arXiv 2502.04463.

    The standard deviation is that of the population, as in the authors' code; where it is zero, z is zero (their code adds
    1e-7 to it instead). The paper compares alphas from 0 to 0.4; 0.1 is the one of their usage example. Wrong is 0 and right
    over 1 - alpha, whatever they cost.
    """
    costs = [o.cost for o in group if o.correct]
    spread = pstdev(costs) if costs else 0.0
    scores = [(o.cost - fmean(costs)) / spread if o.correct and spread else 0.0 for o in group]
    return [o.correct * (1 - alpha / (1 + math.exp(-z))) for o, z in zip(group, scores, strict=True)]


def kimi(group: Sequence[Outcome], weight: float = 0.4) -> list[float]:
    """r = c + weight l, l = 0.5 - (T - Tmin) / (Tmax - Tmin) if right, min(0, l) if wrong. Kimi k1.5, arXiv 2501.12599.

    Tmin and Tmax are of the whole group; l is 0 for all where they are equal. The paper gives no weight; 0.4 is that of
    the reproduction in the code of LASER. The paper's warm-up, training without the penalty at first, is left out. Right
    earns at least 1 - weight / 2, wrong at most 0. Long wrong rollouts pay, short ones gain nothing.
    """
    low, high = min(o.cost for o in group), max(o.cost for o in group)
    lengths = [0.5 - (o.cost - low) / (high - low) if high > low else 0.0 for o in group]
    return [o.correct + weight * (length if o.correct else min(0.0, length)) for o, length in zip(group, lengths, strict=True)]


def shorter_better(group: Sequence[Outcome], alpha: float = 2.0, beta: float = 0.001) -> list[float]:
    """r = alpha c - beta |T - S|, S: the least T of a right rollout, or the mean T where none is right. arXiv 2504.21370.

    Defaults are those of the authors' code. Right rollouts over alpha / beta tokens above S earn less than a wrong one at S.
    Wrong rollouts pay for being shorter than S as for being longer.
    """
    optimal = min((o.cost for o in group if o.correct), default=fmean(o.cost for o in group))
    return [alpha * o.correct - beta * abs(o.cost - optimal) for o in group]


def laser(group: Sequence[Outcome], alpha: float = 0.5, target: float = 4096) -> list[float]:
    """r = c (1 + alpha [T <= target]). LASER: Liu et al., arXiv 2505.15612; alpha and one of the targets of its scripts.

    Simplified in one thing: wrong is 0 here, where the authors' code gives -0.5. A step, so two right rollouts on one side
    of the target earn the same, and nothing is gained by being much shorter.
    """
    return [o.correct * (1 + alpha * (o.cost <= target)) for o in group]


def laser_d(group: Sequence[Outcome], alpha: float = 0.5, easy: float = 2048, medium: float = 4096, hard: float = 8192) -> list[float]:
    """LASER with the target of the prompt's difficulty: easy from p = 2/3, medium from 1/3, else hard. arXiv 2505.15612.

    The idea of LASER-D alone: the paper finds its three targets again and again during training, from how many right answers
    a monitored set gives within each length; here they are given, and the defaults are ours. Promises are those of LASER.
    """
    solved = fmean(o.correct for o in group)
    return laser(group, alpha, easy if solved >= EASY else medium if solved >= MEDIUM else hard)


def gr3(group: Sequence[Outcome], alpha: float = 0.33) -> list[float]:
    """r = c / (1 + alpha T / mean(T)), the mean over the whole group. Group Relative Reward Rescaling, arXiv 2603.10535.

    The paper rescales any reward that is not negative; here it is c. Its rule for choosing alpha, so that good long rollouts
    keep a positive advantage, is left out; 0.33 is its default. T / mean(T) is 1 where all costs are 0. Wrong is 0 and right
    over 0, at whatever cost.
    """
    mean = fmean(o.cost for o in group)
    return [o.correct / (1 + alpha * (o.cost / mean if mean else 1.0)) for o in group]


_ALWAYS = {"monotone": True, "equivariant": True}  # every formula here is kinder to the cheaper of two right rollouts
_ABSOLUTE = Promises(dominance=False, strict=True, wrong_alike=False, unsolved_alike=False, scale_free=False, **_ALWAYS)
_GATED = Promises(dominance=True, strict=True, wrong_alike=True, unsolved_alike=True, scale_free=True, **_ALWAYS)
_STEP = Promises(dominance=True, strict=False, wrong_alike=True, unsolved_alike=True, scale_free=False, **_ALWAYS)

PENALTIES = {
    "study": Penalty(
        "Study", "clip(c - 0.25 c forced - beta(p) u)", "scoring/reward.py", study,
        Promises(dominance=True, strict=False, wrong_alike=False, unsolved_alike=True, scale_free=True, **_ALWAYS),
    ),
    "linear": Penalty("Linear", "c - per_1k T / 1000", "no paper", linear, _ABSOLUTE),
    "alp": Penalty("ALP", "c - beta T max(p, 1 / K)", "arXiv 2506.05256", alp, _ABSOLUTE),
    "arora_zanette": Penalty("Arora-Zanette", "c (1 - alpha sigmoid(z))", "arXiv 2502.04463", arora_zanette, _GATED),
    "kimi": Penalty(
        "Kimi k1.5", "c + weight l; l = 0.5 - u, wrong: min(0, l)", "arXiv 2501.12599", kimi,
        Promises(dominance=True, strict=True, wrong_alike=False, unsolved_alike=False, scale_free=True, **_ALWAYS),
    ),
    "shorter_better": Penalty("ShorterBetter", "alpha c - beta |T - S|", "arXiv 2504.21370", shorter_better, _ABSOLUTE),
    "laser": Penalty("LASER", "c (1 + alpha [T <= target])", "arXiv 2505.15612", laser, _STEP),
    "laser_d": Penalty("LASER-D", "LASER, target by p", "arXiv 2505.15612", laser_d, _STEP),
    "gr3": Penalty("GR3", "c / (1 + alpha T / mean T)", "arXiv 2603.10535", gr3, _GATED),
}  # fmt: skip


def all_rewards(group: Sequence[Outcome], config: Reward = STUDY) -> dict[str, list[float]]:
    """Rewards of a group under every formula, by its name in PENALTIES. config: of the study's; the others at their defaults."""
    return {name: penalty(group, config=config) if name == "study" else penalty(group) for name, penalty in PENALTIES.items()}
