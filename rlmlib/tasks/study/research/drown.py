"""Distractors to a token target, and the places of the pages among them."""

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import numpy as np

from .pool import Pool

Side = Literal["train", "eval", "shared"]
ROOM = 2  # times the longest context that a half must hold: below it the contexts of a half are much the same pages
MISFITS = 16  # pages drawn in vain before the last ones are chosen by their size


class Distractors:
    """The pieces of several pools as one numbered list, each text once and none with a barred title.

    longest: tokens of the longest context to come. Where each half of the texts, by digest, holds ROOM times as many,
    train and eval draw from a half each; else both draw from all of them, and `shared` is true.
    repeated, barred: pieces left out because their text came before, or for their title.
    """

    def __init__(self, pools: Sequence[Pool], barred: Iterable[str], longest: int):
        self._pools = pools
        self._starts = np.cumsum([0, *(len(pool.tokens) for pool in pools)])
        self._tokens = np.concatenate([pool.tokens for pool in pools])
        digests = np.concatenate([pool.digests for pool in pools])
        barred = list(barred)
        unwanted = [start + n for start, pool in zip(self._starts, pools, strict=False) for n in pool.titled(barred)]
        first = np.zeros(len(digests), dtype=bool)
        first[np.unique(digests, return_index=True)[1]] = True
        kept = first.copy()
        kept[unwanted] = False
        self.repeated, self.barred = int((~first).sum()), int(first.sum() - kept.sum())
        half = digests % 2
        self._numbers = {
            "train": np.flatnonzero(kept & (half == 0)),
            "eval": np.flatnonzero(kept & (half == 1)),
            "shared": np.flatnonzero(kept),
        }
        self.shared = min(self.available("train"), self.available("eval")) < ROOM * longest

    def side(self, split: Literal["train", "eval"]) -> Side:
        """Which part of the list a split draws from."""
        return "shared" if self.shared else split

    def available(self, side: Side) -> int:
        """Tokens of all its pieces."""
        return int(self._tokens[self._numbers[side]].sum())

    def draw(self, side: Side, budget: int, seed: str) -> np.ndarray:
        """Numbers of random pieces that come as near to a budget of tokens as a few last choices bring them."""
        numbers = self._numbers[side]
        return numbers[nearest_sum(self._tokens[numbers], budget, random.Random(seed))]

    def tokens(self, numbers: np.ndarray) -> int:
        return int(self._tokens[numbers].sum())

    def pieces(self, numbers: np.ndarray) -> list[str]:
        """Pool by pool, not in the order of the numbers."""
        numbers = np.sort(numbers)
        found = []
        for start, end, pool in zip(self._starts, self._starts[1:], self._pools, strict=False):
            found += pool.pieces(numbers[(start <= numbers) & (numbers < end)] - start)
        return found


def nearest_sum(sizes: np.ndarray, budget: int, rng: random.Random) -> list[int]:
    """Places of sizes drawn without replacement, those that fit, until MISFITS did not; then the best for what is left.

    That is the largest that fits, as often as one does, and at the end one that goes beyond the budget if that is nearer.
    """
    chosen, left = [], budget
    free = np.ones(len(sizes), dtype=bool)

    def take(i: int):
        nonlocal left
        chosen.append(i)
        free[i] = False
        left -= int(sizes[i])

    misfits = 0
    for i in shuffled(len(sizes), rng):
        if sizes[i] <= left:
            take(i)
        else:
            misfits += 1
            if misfits == MISFITS:
                break
    while (fitting := np.flatnonzero(free & (sizes <= left))).size:
        take(int(fitting[sizes[fitting].argmax()]))
    rest = np.flatnonzero(free)
    if rest.size and sizes[rest].min() - left < left:
        take(int(rest[sizes[rest].argmin()]))
    return chosen


def shuffled(count: int, rng: random.Random) -> Iterator[int]:
    """0 to count - 1 in random order, at a cost that grows with what is taken and not with the count."""
    moved: dict[int, int] = {}
    for last in range(count - 1, -1, -1):
        i = rng.randrange(last + 1)
        yield moved.get(i, i)
        moved[i] = moved.get(last, last)


def arranged(own: Sequence[str], others: Sequence[str], seed: str) -> str:
    """The context: all pieces in random order, so that each place is as likely for every one."""
    pieces = [*own, *others]
    random.Random(seed).shuffle(pieces)
    return "".join(pieces)
