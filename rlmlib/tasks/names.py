"""Invented names. Every name belongs to training or to the held-out evaluation for good."""

import random
import zlib

_ONSETS = "b d f g h k l m n p r s t v z br dr gr kr st tr fl pl sk".split()
_VOWELS = "a e i o u".split()
_CODAS = "n r l s m".split()
_TOWN_ENDS = "burg ford holm wick mouth stead dale haven".split()


def heldout_name(name: str) -> bool:
    """A quarter of all names, chosen by checksum, is never used in training."""
    return zlib.crc32(name.encode()) % 4 == 0


def _word(rng: random.Random, syllables: int) -> str:
    return "".join(rng.choice(_ONSETS) + rng.choice(_VOWELS) for _ in range(syllables)) + rng.choice(_CODAS)


def _draw(rng: random.Random, heldout: bool, make, used: set[str]) -> str:
    while True:
        name = make()
        if heldout_name(name) == heldout and name not in used:
            used.add(name)
            return name


def person(rng: random.Random, heldout: bool, used: set[str]) -> str:
    return _draw(rng, heldout, lambda: f"{_word(rng, 2).title()} {_word(rng, 2).title()}", used)


def town(rng: random.Random, heldout: bool, used: set[str]) -> str:
    return _draw(rng, heldout, lambda: _word(rng, rng.choice((1, 2))).title() + rng.choice(_TOWN_ENDS), used)


def user(rng: random.Random, heldout: bool, used: set[str]) -> str:
    return _draw(rng, heldout, lambda: f"user {rng.randrange(1000, 10000)}", used)
