"""Groups of rollouts: scored, judged worth training on or not, and turned into what a step trains on."""

from collections import Counter
from dataclasses import dataclass, field

from ..config import Params, Training
from ..engine import Attempt, Job
from ..harness.trajectory import Rollout
from ..models.conversation import TokenSequence
from ..scoring.reward import Outcome, advantages, rewards
from ..tasks.mixture import example
from .step import TrainItem
from .watch import NO_SIGNAL

TRAIN_STREAM = 1  # first part of every sampling key, so that training and evaluation never share random numbers


@dataclass
class Group:
    """The rollouts of one prompt.

    verdict: kept, all_wrong, all_right, surplus (the batch was full), failed (infrastructure), stale (too many updates since it
    was begun; its rollouts may be missing).
    version: of the policy when it was begun. again: the group before it of this prompt was stale.
    """

    prompt: int
    attempts: list[Attempt]
    rewards: list[float]
    verdict: str
    version: int = 0
    again: bool = False


@dataclass
class Batch:
    """What a step trains on, and all that was dropped since the last one."""

    kept: list[Group] = field(default_factory=list)
    dropped: list[Group] = field(default_factory=list)
    waves: int = 0
    queued: int = 0  # groups that wait for the next step

    @property
    def groups(self) -> list[Group]:
        return self.kept + self.dropped


def jobs_of(params: Params, prompt: int, key: tuple[int, ...]) -> list[Job]:
    """The rollouts of a prompt. `key` seeds them and must be used once in a run."""
    chosen = example(params.tasks, "train", prompt, params.seed)
    return [Job(chosen, index, (TRAIN_STREAM, params.seed, *key, index)) for index in range(params.training.rollouts_per_prompt)]


def score(prompt: int, attempts: list[Attempt], params: Params, version: int = 0) -> Group:
    """Rewards and verdict of a group. An infrastructure failure drops the group; it is never a wrong answer."""
    outcomes = [outcome(a, params.reward.cost_basis) for a in attempts]
    right = sum(o.correct for o in outcomes)
    if any(a.rollout.error for a in attempts):
        verdict = "failed"
    elif right == 0:
        verdict = "all_wrong"
    else:
        verdict = "all_right" if right == len(attempts) else "kept"
    return Group(prompt, attempts, rewards(outcomes, params.reward), verdict, version)


def outcome(attempt: Attempt, basis: str) -> Outcome:
    """What the reward sees of an attempt. basis: reward.cost_basis."""
    usage = attempt.rollout.usage
    return Outcome(attempt.correct, usage.total if basis == "total" else usage.leaf, attempt.rollout.forced, usage.children)


def has_signal(group: Group, config: Training) -> bool:
    """Whether a group is worth a place in the batch: equal rewards have no gradient, and would only dilute that of the others."""
    wanted = group.verdict == "kept" or (group.verdict == "all_right" and config.keep_all_right)
    return wanted and len(set(group.rewards)) > 1


def train_items(batch: Batch, config: Training) -> list[TrainItem]:
    """Every sequence that a step trains, with its advantage: the root's, its children's, and some subcalls of the policy itself."""
    return [
        TrainItem(sequence, advantage * weight)
        for group in batch.kept
        for attempt, advantage in zip(group.attempts, advantages(group.rewards), strict=True)
        for sequence, weight in trained_sequences(attempt.rollout, config)
        if any(sequence.mask)
    ]


def trained_sequences(rollout: Rollout, config: Training) -> list[tuple[TokenSequence, float]]:
    """(sequence, weight) of a rollout's tree. REPL output and prompts are masked in them; leaf calls are left out.

    A child weighs as the root does (the study), or 1 / children; so many subcalls that the policy answered are trained as
    training.trained_subcalls says, the first ones.
    """
    root, *children = rollout.tree()
    weight = 1 / len(children) if config.child_weight == "share" and children else 1.0
    subcalls = [call.sequence for part in rollout.tree() for call in part.calls if call.sequence is not None]
    conversations = [(root.sequence, 1.0), *((child.sequence, weight) for child in children)]
    return conversations + [(sequence, 1.0) for sequence in subcalls[: config.trained_subcalls]]


def no_signal(batch: Batch, step: int, wanted: int) -> str:
    """Why a batch could not be filled, and what to do."""
    counts = Counter(g.verdict for g in batch.dropped)
    seen = ", ".join(f"{count} {verdict.replace('_', ' ')}" for verdict, count in counts.most_common())
    errors = sorted({a.rollout.error for g in batch.dropped for a in g.attempts if a.rollout.error})
    if errors and counts["failed"] * 2 > len(batch.dropped):
        advice = f"most failed: {errors[0]}"
    elif counts["stale"] * 2 > len(batch.dropped):
        advice = "most were too old when they were done; raise training.max_off_policy_steps or lower harness.deadline_s"
    elif step and counts["all_wrong"] * 2 > len(batch.dropped):
        advice = "it had a signal before, so the policy has collapsed: begin another run with a lower training.lr"
    else:
        advice = "make the tasks easier or harder (tasks.*), or raise sampling.temperature or training.max_waves"
    groups = len(batch.dropped) + len(batch.kept)
    return f"step {step}: {groups} groups gave {len(batch.kept)} of {wanted} {NO_SIGNAL} ({seen}); {advice}"
