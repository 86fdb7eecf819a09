"""Invented names. Every full name belongs to training or to the held-out evaluation for good.

Given and family names come from two fixed word lists, so a held-out name is a new pair of
words that training has shown in other pairs. Towns are free inventions.
"""

import random
import zlib

_ONSETS = "b d f g h k l m n p r s t v z br dr gr kr st tr fl pl sk".split()
_VOWELS = "a e i o u".split()
_CODAS = "n r l s m".split()
_TOWN_ENDS = "burg ford holm wick mouth stead dale haven".split()


def _word(rng: random.Random, syllables: int) -> str:
    return ("".join(rng.choice(_ONSETS) + rng.choice(_VOWELS) for _ in range(syllables)) + rng.choice(_CODAS)).title()


def _words(seed: str, count: int) -> tuple[str, ...]:
    rng, found = random.Random(seed), {}
    while len(found) < count:
        found[_word(rng, 2)] = None
    return tuple(found)


GIVEN = _words("given names", 80)
CROWD = 2000  # names of one context before two words are too few
FAMILY = tuple(word for word in _words("family names", 170) if word not in GIVEN)


def heldout_name(name: str) -> bool:
    """A quarter of all names, chosen by checksum, is never used in training."""
    return zlib.crc32(name.encode()) % 4 == 0


def person(rng: random.Random, heldout: bool, used: set[str]) -> str:
    """A full name of the wanted side that is not in `used`; adds it there. Crowds get a middle name."""

    def make() -> str:
        middle = [rng.choice(FAMILY)] if len(used) >= CROWD else []
        return " ".join([rng.choice(GIVEN), *middle, rng.choice(FAMILY)])

    return _draw(heldout, make, used)


def town(rng: random.Random, heldout: bool, used: set[str]) -> str:
    return _draw(heldout, lambda: _word(rng, rng.choice((1, 2))) + rng.choice(_TOWN_ENDS), used)


def _draw(heldout: bool, make, used: set[str]) -> str:
    while True:
        name = make()
        if heldout_name(name) == heldout and name not in used:
            used.add(name)
            return name
