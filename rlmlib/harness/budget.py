"""The budget of one rollout tree. It lives in the host, where model code cannot reach it."""

from dataclasses import dataclass


@dataclass
class SubcallBudget:
    """Leaf calls left to a rollout. A batch reserves all its calls at once, before any is sent."""

    limit: int
    used: int = 0
    refused: int = 0

    @property
    def left(self) -> int:
        return self.limit - self.used

    def reserve(self, wanted: int) -> int:
        """Take up to `wanted` calls; returns how many were granted (the first ones of a batch)."""
        granted = min(wanted, self.left)
        self.used += granted
        self.refused += wanted - granted
        return granted
