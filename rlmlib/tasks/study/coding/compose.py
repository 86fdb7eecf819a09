"""Which codebases, and which files of them, make a context of a given length."""

import hashlib
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...sources.codebases import Codebase, SourceFile, choose_part
from ...sources.places import codebase_name
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


def split_packages(specs: Iterable[str], seed: int, eval_share: float = EVAL_SHARE) -> tuple[list[str], list[str]]:
    """(train, eval) of codebase specs, disjoint and sorted.

    A hash of the name and the seed decides alone, so a codebase keeps its split whatever its size and whichever others are given;
    only where a split would be empty it takes the one nearest to it.
    """
    drawn = sorted((_fraction(f"{seed}/{codebase_name(spec)}"), spec) for spec in specs)
    in_eval = min(max(sum(place < eval_share for place, _ in drawn), 1), len(drawn) - 1)
    names = [spec for _, spec in drawn]
    return sorted(names[in_eval:]), sorted(names[:in_eval])


def _fraction(text: str) -> float:
    return int(hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:12], 16) / 16**12
