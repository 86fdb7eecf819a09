"""Which codebases, and which files of them, make a context of a given length."""

import hashlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...sources.codebases import Codebase, SourceFile, choose_part
from ..recipe import sha256

EVAL_SHARE = 0.22
NEAR_ENOUGH = 0.02  # of the target may be missing
PARTS_TRIED = 8
MOST_SHARES = 4  # a codebase is joined only if it fills at least a quarter of what is missing, where there is such a one


@dataclass(frozen=True)
class Share:
    """What one codebase gives to a context: the part of it that `budget` tokens and the context's seed choose."""

    codebase: Codebase
    budget: int
    files: tuple[SourceFile, ...]

    @property
    def tokens(self) -> int:
        return sum(file.tokens for file in self.files)

    @property
    def sha256(self) -> str:
        return sha256("".join(file.piece for file in self.files))


def share(codebase: Codebase, budget: int, seed: str) -> Share:
    """The first of a few random parts of a codebase that comes near its budget, else the largest of them."""
    sizes = {file.path: file.tokens for file in codebase.files}
    enough = (1 - NEAR_ENOUGH) * min(budget, sum(sizes.values()))
    chosen, most = [], -1
    for attempt in range(PARTS_TRIED):
        paths = choose_part(sizes, budget, f"{seed}/{codebase.name}/{attempt}")
        size = sum(sizes[path] for path in paths)
        if size > most:
            chosen, most = paths, size
        if most >= enough:
            break
    kept = set(chosen)
    return Share(codebase, budget, tuple(file for file in codebase.files if file.path in kept))


def draw(codebases: Sequence[Codebase], target: int, seed: str) -> list[Share]:
    """Codebases in a random order until their shares come near the target in tokens; less where there is no more."""
    rng = random.Random(f"{seed}/codebases")
    sizes = {codebase.name: sum(file.tokens for file in codebase.files) for codebase in codebases}
    rest, shares, room = list(codebases), [], target
    while rest and room > NEAR_ENOUGH * target:
        large = [codebase for codebase in rest if sizes[codebase.name] * MOST_SHARES >= room]
        codebase = rng.choice(large or sorted(rest, key=lambda item: -sizes[item.name])[:MOST_SHARES])
        rest.remove(codebase)
        part = share(codebase, room, seed)
        if part.files:
            shares.append(part)
            room -= part.tokens
    return shares


def files_of(shares: Sequence[Share]) -> list[SourceFile]:
    """All files, sorted by path."""
    return sorted((file for part in shares for file in part.files), key=lambda file: file.path)


def split_packages(sizes: Mapping[str, int], seed: int, eval_share: float = EVAL_SHARE) -> tuple[list[str], list[str]]:
    """(train, eval) of codebase specs, disjoint, in an order that hashes of the names and the seed give.

    sizes: tokens or bytes by spec. The names come in their order into eval, as long as its share of the sizes allows.
    """
    order = sorted(sizes, key=lambda name: hashlib.sha256(f"{seed}/{name}".encode()).hexdigest())
    room = eval_share * sum(sizes.values())
    train, evaluation = [], []
    for name in order:
        if sizes[name] <= room:
            evaluation.append(name)
            room -= sizes[name]
        else:
            train.append(name)
    return train, evaluation
