"""What a rollout leaves behind: a tree of turns, leaf calls and child rollouts, with what each cost.

Usage is never kept beside the tree: it is summed over it, so the two cannot disagree.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Tokens:
    """Tokens of model calls. completion holds the thinking tokens too; dollars is None where no price is known."""

    prompt: int = 0
    completion: int = 0
    thinking: int = 0
    dollars: float | None = 0.0

    @property
    def total(self) -> int:
        return self.prompt + self.completion

    def __add__(self, other: "Tokens") -> "Tokens":
        known = self.dollars is not None and other.dollars is not None
        dollars = self.dollars + other.dollars if known else None
        return Tokens(self.prompt + other.prompt, self.completion + other.completion, self.thinking + other.thinking, dollars)


@dataclass
class Call:
    """A subcall of a block. kind: leaf or child.

    prompt: what was sent, or its first characters and how many there were in all (see harness.rollout.kept_prompt).
    sequence: its tokens where the policy answered it itself (models.conversation.TokenSequence).
    error is None, or why there is no answer: budget, batch, too_long, failed or late. `text` is then what
    the model was told in its place.
    """

    kind: str
    model: str
    prompt: str
    text: str = ""
    tokens: Tokens = Tokens()
    seconds: float = 0.0
    attempts: int = 0  # requests sent, failed ones included; 0 for a call that was refused
    error: str | None = None
    child: "Rollout | None" = None
    sequence: object = None


@dataclass
class Turn:
    """One reply, the blocks it ran, what they printed and the subcalls they made. kind: root, child or finalise."""

    kind: str
    reply: str
    blocks: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    model: str = ""
    tokens: Tokens = Tokens()  # prompt re-counts the conversation so far, as an API bills it
    calls: list[Call] = field(default_factory=list)
    seconds: float = 0.0


@dataclass(frozen=True)
class Usage:
    """Sums over a rollout's tree. leaf: subcalls of leaf models; root: turns of the root; child: turns of its children."""

    root: Tokens = Tokens()
    child: Tokens = Tokens()
    leaf_tokens: Tokens = Tokens()
    leaf_calls: int = 0
    children: int = 0
    refused_calls: int = 0

    @property
    def leaf(self) -> int:
        """Leaf tokens, prompt and completion: the study's subcall cost."""
        return self.leaf_tokens.total

    @property
    def total(self) -> int:
        """All tokens of all model calls: the study's T."""
        return self.root.total + self.child.total + self.leaf

    @property
    def dollars(self) -> float | None:
        return (self.root + self.child + self.leaf_tokens).dollars


@dataclass
class Rollout:
    """One attempt at a question.

    stop: final, missing (no answer even when forced), length (the conversation was full), timeout, or budget:<kind>.
    error: an infrastructure failure; the rollout then counts for nothing.
    failures: why earlier attempts at it did not count.
    refused_unkept: refused calls that are counted here, as a block can make millions, and not in its turns.
    sequence: the token ids of its conversation where the policy was sampled (models.conversation.TokenSequence).
    """

    answer: str | None = None
    stop: str = "missing"
    forced: bool = False
    turns: list[Turn] = field(default_factory=list)
    seconds: float = 0.0
    error: str | None = None
    depth: int = 0
    question: str = ""
    sequence: object = None
    failures: list[str] = field(default_factory=list)
    refused_unkept: int = 0

    @property
    def missing(self) -> bool:
        return self.answer is None

    @property
    def calls(self) -> list[Call]:
        """Subcalls of this rollout itself, in order."""
        return [call for turn in self.turns for call in turn.calls]

    @property
    def children(self) -> list["Rollout"]:
        return [call.child for call in self.calls if call.child is not None]

    def tree(self) -> Iterator["Rollout"]:
        """This rollout, then its children and theirs, depth first."""
        yield self
        for child in self.children:
            yield from child.tree()

    @property
    def usage(self) -> Usage:
        """Sums over the whole tree."""
        root = sum((turn.tokens for turn in self.turns), Tokens())
        below = [child.usage for child in self.children]
        child = sum((u.root + u.child for u in below), Tokens())
        own = [call for call in self.calls if call.kind == "leaf" and call.attempts]
        leaf = sum((call.tokens for call in own), Tokens()) + sum((u.leaf_tokens for u in below), Tokens())
        return Usage(
            root=root,
            child=child,
            leaf_tokens=leaf,
            leaf_calls=len(own) + sum(u.leaf_calls for u in below),
            children=len(below) + sum(u.children for u in below),
            refused_calls=self.refused_unkept + sum(call.error in REFUSALS for call in self.calls) + sum(u.refused_calls for u in below),
        )

    def usage_by_model(self) -> dict[tuple[str, int], Tokens]:
        """Tokens by (model, depth): turns at the depth of their rollout, leaf calls one below."""
        found: dict[tuple[str, int], Tokens] = defaultdict(Tokens)
        for rollout in self.tree():
            for turn in rollout.turns:
                found[turn.model, rollout.depth] += turn.tokens
            for call in rollout.calls:
                if call.kind == "leaf" and call.attempts:
                    found[call.model, rollout.depth + 1] += call.tokens
        return dict(found)


REFUSALS = ("budget", "batch", "too_long")
