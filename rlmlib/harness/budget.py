"""The budget of one rollout tree. It lives in the host, where model code cannot reach it.

Root, children and leaves draw on the same one. What a call may cost at most is reserved before it is
sent, and settled when it ends. A limit that was hit stays hit: the budget latches.

Tokens are reserved when a call is asked for, dollars when it is about to be sent: their estimate is so far above the
mean that a whole batch would seldom fit, though its calls, one after the other, do.
"""

import asyncio
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
    """What is left. `tripped` is the first limit that was hit, or None. delegated and total hold what is reserved too."""

    limits: Limits
    subcalls: int = 0
    delegated: int = 0
    total: int = 0
    dollars: float = 0.0
    tripped: str | None = None
    began: float = field(default_factory=time.monotonic)
    reserved: int = 0  # tokens of the calls that have not ended
    held: dict[int, float] = field(default_factory=dict)  # dollars that the calls under way may cost, by a number of their own
    dearest: dict[str, float] = field(default_factory=dict)  # dollars of the dearest call of each model so far
    _holds: int = 0
    _settled: asyncio.Event = field(default_factory=asyncio.Event)

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
        self.reserved += tokens
        return True

    def settle_call(self, reserved: int, actual: Tokens):
        """Replace what was reserved for a call by what it did cost."""
        self.delegated += actual.total - reserved
        self.charge(actual, reserved)

    def give_back(self, reserved: int):
        """Undo `reserve_call` for a call that was not sent."""
        self.subcalls -= 1
        self.settle_call(reserved, Tokens())

    def charge(self, tokens: Tokens, reserved: int = 0):
        """Add what a model call cost."""
        self.total += tokens.total - reserved
        self.reserved -= reserved
        self.dollars += tokens.dollars or 0.0
        self.spent()

    def exceeded(self) -> str | None:
        """The limit that keeps a call which has its reservation from being sent after all, or None.

        Calls that ran while it waited for its turn may have cost more than what was reserved for them, or had nothing reserved.
        """
        for kind, used, reserved, limit in (
            ("delegated_tokens", self.delegated - self.reserved, self.reserved, self.limits.delegated_tokens),
            ("total_tokens", self.total - self.reserved, self.reserved, self.limits.total_tokens),
        ):
            if limit is not None and (used >= limit or used + reserved > limit):
                self._trip(kind)
                return kind
        return self._ended()

    async def hold_dollars(self, model: str, estimate: float | None = None) -> int | None:
        """Set dollars aside for a call about to be sent: the number of the hold, for `release`. None where none are left.

        estimate: what it costs at most; where no price is known, the model's dearest call so far stands in for it. A call
        that does not fit beside those under way waits for them. One that is alone may go: so a tree overspends by one call
        at most.
        """
        cost, limit = 0.0, self.limits.dollars
        while limit is not None:
            if self.dollars >= limit:
                self._trip("dollars")
                return None
            cost = self.dearest.get(model, math.inf) if estimate is None else estimate
            if not self.held or self.dollars + sum(self.held.values()) + cost <= limit:
                break
            self._settled.clear()
            await self._settled.wait()
        self._holds += 1
        self.held[self._holds] = cost
        return self._holds

    def release(self, hold: int, model: str = "", answered: Tokens | None = None):
        """Take a hold back, after its call was charged. answered: what it cost, where the model gave an answer."""
        del self.held[hold]
        if answered is not None:
            self.dearest[model] = max(self.dearest.get(model, 0.0), answered.dollars or 0.0)
        self._settled.set()

    def spent(self) -> str | None:
        """The limit that ends the rollout, or None: total tokens, dollars or time."""
        self._ended()
        return self.tripped if self.tripped in ("total_tokens", "dollars", "seconds") else None

    def _ended(self) -> str | None:
        """The first of those limits that is used up, reservations left aside, or None."""
        for kind, used, limit in (
            ("total_tokens", self.total - self.reserved, self.limits.total_tokens),
            ("dollars", self.dollars, self.limits.dollars),
            ("seconds", time.monotonic() - self.began, self.limits.seconds),
        ):
            if limit is not None and used >= limit:
                self._trip(kind)
                return kind
        return None

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
