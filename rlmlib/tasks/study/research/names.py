"""Invented names. Every word of a name belongs to the training world or to that of the evaluation, never to both."""

import functools
import random
import zlib
from typing import Literal

Split = Literal["train", "eval"]

_ONSETS = "b br d f g h j k l m n p r s st t th tr v w z".split()
_VOWELS = "a e i o u ei".split()
_CODAS = "l m n r s t x nd rk rn ss th".split()
_PLACE_ENDS = "bach brook by combe dorf dun field ford gard ham holt keep lund march mere mont ness stow thorpe wick worth".split()
_COUNTS = {"given": 320, "family": 1100, "place": 2600, "proper": 2600}  # words a split

_ADJECTIVES = (
    "amber ashen bitter blind borrowed brazen broken burning cold crooked crystal distant drowned empty fading fallen forgotten frozen "
    "gilded golden hidden hollow humble iron ivory last leaden little lonely marble midnight narrow nameless northern paper patient "
    "quiet restless rusted sacred scarlet second silent silver sleeping southern stolen sunken velvet wandering western white wooden"
).split()
_NOUNS = (
    "anchor apprentice arch banner bell bridge candle cathedral choir clock compass crown daughter falcon ferry fountain garden "
    "gate glacier harbour harvest heron hourglass island key lantern ledger lighthouse loom map mask meadow mill mirror needle oath "
    "orchard parade pilgrim prophet quarry raven river road sail season shepherd shore sparrow staircase storm summer tower traveller "
    "valley voyage wall watchman well wheel window winter wolf"
).split()

SCHOOLS = ("Academy", "College", "Conservatory", "Institute", "University")
HOUSES = ("Archive", "Gallery", "Library", "Museum", "Collection")
EVENTS = ("Assembly", "Congress", "Exhibition", "Expedition", "Festival", "Regatta", "Rising", "Synod", "Tournament")
FORMS = (
    "cantata",
    "comedy",
    "epic",
    "fresco",
    "memoir",
    "mosaic",
    "novel",
    "opera",
    "oratorio",
    "symphony",
    "tapestry",
    "tragedy",
    "treatise",
)
_TITLES = (
    "The {adjective} {noun} of {proper}",
    "A {adjective} {noun} for {proper}",
    "{proper}, or the {adjective} {noun}",
    "{proper} and the {adjective} {noun}",
    "The {noun} of {proper}",
)


def split_of(word: str) -> Split:
    """The world that a word belongs to, for good."""
    return "eval" if zlib.crc32(word.encode()) % 2 else "train"


def _syllables(rng: random.Random, count: int) -> str:
    return "".join(rng.choice(_ONSETS) + rng.choice(_VOWELS) for _ in range(count))


def _word(rng: random.Random, kind: str) -> str:
    if kind == "place":
        parts = _syllables(rng, rng.choice((1, 2))), rng.choice(_CODAS), rng.choice(_PLACE_ENDS)
    else:
        parts = _syllables(rng, 2 if kind == "given" else rng.choice((2, 3))), rng.choice(_CODAS)
    return "".join(parts).title()


@functools.cache
def words(split: Split) -> dict[str, tuple[str, ...]]:
    """Lists of given names, family names, place names and other proper names; no word is in two of them."""
    rng = random.Random("research/names")
    lists: dict[str, dict[str, list[str]]] = {side: {kind: [] for kind in _COUNTS} for side in ("train", "eval")}
    taken: dict[str, None] = {}
    for kind, count in _COUNTS.items():
        while any(len(lists[side][kind]) < count for side in lists):
            word = _word(rng, kind)
            found = lists[split_of(word)][kind]
            if word not in taken and len(found) < count:
                taken[word] = None
                found.append(word)
    own = {kind: tuple(found) for kind, found in lists[split].items()}
    return own | {
        "adjective": tuple(word for word in map(str.title, _ADJECTIVES) if split_of(word) == split),
        "noun": tuple(word for word in map(str.title, _NOUNS) if split_of(word) == split),
    }


class Namer:
    """Gives each thing of one world a name of its own. Few family names, so that many people share one."""

    def __init__(self, split: Split, rng: random.Random, people: int):
        self._rng, self._words = rng, words(split)
        self._families = rng.sample(self._words["family"], max(6, people // 4))
        self._taken: dict[str, None] = {}

    def person(self) -> str:
        return self._new(lambda: f"{self._pick('given')} {self._rng.choice(self._families)}")

    def town(self) -> str:
        return self._new(lambda: self._pick("place"))

    def province(self) -> str:
        return self._new(lambda: f"{self._pick('proper')} Province")

    def river(self) -> str:
        return self._new(lambda: self._pick("proper"))

    def school(self) -> str:
        return self._new(lambda: f"{self._pick('proper')} {self._rng.choice(SCHOOLS)}")

    def house(self) -> str:
        return self._new(lambda: f"{self._pick('proper')} {self._rng.choice(HOUSES)}")

    def event(self) -> str:
        return self._new(lambda: f"{self._pick('proper')} {self._rng.choice(EVENTS)}")

    def work(self) -> str:
        return self._new(lambda: self._rng.choice(_TITLES).format(**{kind: self._pick(kind) for kind in ("adjective", "noun", "proper")}))

    def _pick(self, kind: str) -> str:
        return self._rng.choice(self._words[kind])

    def _new(self, make) -> str:
        while (name := make()) in self._taken:
            pass
        self._taken[name] = None
        return name
