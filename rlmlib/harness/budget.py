"""The budget of one rollout tree. It lives in the host, where model code cannot reach it.

Root, children and leaves draw on the same one. What a call may cost at most is reserved before it is
sent, and settled when it ends. A limit that was hit stays hit: the budget latches.
"""

import math
import time
from dataclasses import dataclass, field

from .trajectory import Tokens


@dataclass(frozen=True)
class Limits:
    """Of a rollout tree. None: no limit."""

    subcalls: int = 50  # leaf calls and children
    delegated_tokens: int | None = None  # of leaf calls, prompt and completion
    total_tokens: int | None = None  # of all model calls
    dollars: float | None = None
    seconds: float | None = None  # wall clock


@dataclass
class Budget:
    """What is left. `tripped` is the first limit that was hit, or None."""

    limits: Limits
    subcalls: int = 0
    delegated: int = 0
    total: int = 0
    dollars: float = 0.0
    tripped: str | None = None
    began: float = field(default_factory=time.monotonic)

    def reserve_call(self, tokens: int = 0) -> bool:
        """Take one subcall that may cost `tokens`; False, and nothing is taken, where it does not fit."""
        if self.tripped and self.tripped != "subcalls":
            return False
        for kind, used, limit in (
            ("subcalls", self.subcalls + 1, self.limits.subcalls),
            ("delegated_tokens", self.delegated + tokens, self.limits.delegated_tokens),
            ("total_tokens", self.total + tokens, self.limits.total_tokens),
        ):
            if limit is not None and used > limit:
                self._trip(kind)
                return False
        if self.spent():
            return False
        self.subcalls += 1
        self.delegated += tokens
        self.total += tokens
        return True

    def settle_call(self, reserved: int, actual: Tokens):
        """Replace what was reserved for a call by what it did cost."""
        self.delegated += actual.total - reserved
        self.charge(actual, reserved)

    def charge(self, tokens: Tokens, reserved: int = 0):
        """Add what a model call cost."""
        self.total += tokens.total - reserved
        self.dollars += tokens.dollars or 0.0
        self.spent()

    def spent(self) -> str | None:
        """The limit that ends the rollout, or None: total tokens, dollars or time."""
        for kind, used, limit in (
            ("total_tokens", self.total, self.limits.total_tokens),
            ("dollars", self.dollars, self.limits.dollars),
            ("seconds", time.monotonic() - self.began, self.limits.seconds),
        ):
            if limit is not None and used >= limit:
                self._trip(kind)
        return self.tripped if self.tripped in ("total_tokens", "dollars", "seconds") else None

    def seconds_left(self) -> float:
        limit = self.limits.seconds
        return math.inf if limit is None else max(0.0, limit - (time.monotonic() - self.began))

    @property
    def subcalls_left(self) -> int:
        return self.limits.subcalls - self.subcalls

    def left(self) -> dict[str, float]:
        """What the model is told by budget(): what is left of each limit that there is."""
        limits = self.limits
        used = {
            "subcalls": self.subcalls,
            "delegated_tokens": self.delegated,
            "total_tokens": self.total,
            "dollars": self.dollars,
            "seconds": time.monotonic() - self.began,
        }
        left = {kind: limit - used[kind] for kind, limit in vars(limits).items() if limit is not None}
        return {kind: round(max(0, value), 4) for kind, value in left.items()}

    def _trip(self, kind: str):
        self.tripped = self.tripped or kind
