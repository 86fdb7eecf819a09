"""S-NIAH: one needle in a haystack, generated as RULER does (NVIDIA/RULER, niah_single_1 to 3, Apache-2.0).

The sentence of the needle, the noise and the question are RULER's, as scores are compared to it. A context here holds one
sentence a line, so that its tokens can be counted exactly while it grows, and begins at a random sentence of its haystack.
"""

import itertools
import random
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from importlib import resources
from pathlib import Path

from ...errors import ConfigError, DataError
from ..sources.rows import file_rows, lines
from ..study import tokens
from .base import BenchmarkItem

LENGTHS = tuple(2**power for power in range(13, 21))
TASKS = 50  # of each length
SHORTEST = 256  # tokens: the needle and a few lines of hay
DEPTHS = tuple(round(step * 100 / 39, 1) for step in range(40))  # percent of the lines before the needle
KINDS = {"niah_single_1": "number", "niah_single_2": "number", "niah_single_3": "uuid"}  # variant -> what its needle holds
NOISE = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."
NEEDLE = "One of the special magic {kind}s for {key} is: {value}."
QUESTION = "What is the special magic {kind} for {key} mentioned in the provided text?"

LONGEST_LINE = 60  # words; text without full stops is cut here


def load(
    source: str | Path | None = None,
    limit: int | None = TASKS,
    seed: int = 0,
    *,
    lengths: Sequence[int] = LENGTHS,
    variant: str | None = None,
) -> Iterator[BenchmarkItem]:
    """`limit` items of each length, the context at most that many Qwen tokens and less than one line short of it.

    source: a .txt file, or a .jsonl file with a field `text`, to be the haystack (RULER has essays); None for noise. It repeats
    where it is too short. variant: niah_single_1 (noise, number), 2 (text, number) or 3 (text, UUID); by default the first
    that fits the source.
    """
    variant = variant or ("niah_single_1" if source is None else "niah_single_2")
    if variant not in KINDS:
        raise ConfigError(f"variant '{variant}' is none; use one of {', '.join(KINDS)}")
    if (source is None) != (variant == "niah_single_1"):
        wanted = "no source; leave it out" if source is not None else "a text; name a .txt or .jsonl file as its source"
        raise ConfigError(f"{variant} needs {wanted}")
    if unfit := [length for length in lengths if length < SHORTEST]:
        raise ConfigError(f"lengths: {unfit[0]} tokens are too few; use {SHORTEST} or more")
    sentences = [NOISE] if source is None else read_sentences(Path(source))
    return _items(sentences, TASKS if limit is None else limit, seed, lengths, variant)


def read_sentences(path: Path) -> list[str]:
    """The sentences of a text file, or of the field `text` of a .jsonl file, in one line each. Raises DataError."""
    text = "\n".join(_texts(path)) if path.suffix == ".jsonl" else "".join(lines(path))
    sentences = [line.split() for line in re.split(r"(?<=[.!?])\s+|\n", text)]
    found = [" ".join(words[start : start + LONGEST_LINE]) for words in sentences for start in range(0, len(words), LONGEST_LINE)]
    if not found:
        raise DataError(f"{path}: holds no text; name another file")
    return found


def _texts(path: Path) -> Iterator[str]:
    for place, row in file_rows(path):
        if not isinstance(row.get("text"), str):
            raise DataError(f"{place} has no text in the field 'text'")
        yield row["text"]


def _items(sentences: list[str], count: int, seed: int, lengths: Sequence[int], variant: str) -> Iterator[BenchmarkItem]:
    text, measured = "\n".join(sentences), cache(tokens.count)
    for length in lengths:
        for index in range(count):
            rng = random.Random(f"{seed}/{variant}/{length}/{index}")
            key, value = _unused(text, partial(_key, rng)), _unused(text, partial(_value, rng, variant))
            needle = NEEDLE.format(kind=KINDS[variant], key=key, value=value) + "\n"
            start, depth = rng.randrange(len(sentences)), rng.choice(DEPTHS)
            lines, total = [], measured(needle)
            for sentence in itertools.chain(sentences[start:], itertools.cycle(sentences)):
                line = f"{sentence}\n"
                if total + measured(line) > length:
                    break
                lines.append(line)
                total += measured(line)
            lines.insert(round(len(lines) * depth / 100), needle)
            yield BenchmarkItem(
                id=f"s_niah/{variant}/{length}/{seed}/{index}",
                benchmark="s_niah",
                question=QUESTION.format(kind=KINDS[variant], key=key),
                context="".join(lines),
                golds=(value,),
                answer_type="number" if KINDS[variant] == "number" else "identifier",
                score="ruler",
                metadata={"length": length, "tokens": total, "variant": variant, "depth": depth},
            )


def _unused(text: str, draw: Callable[[], str]) -> str:
    """What is drawn until the haystack does not hold it: the needle is to be the only one."""
    while (drawn := draw()) in text:
        pass
    return drawn


def _value(rng: random.Random, variant: str) -> str:
    if KINDS[variant] == "uuid":
        return str(uuid.UUID(int=rng.getrandbits(128), version=4))
    return str(rng.randint(1_000_000, 9_999_999))


def _key(rng: random.Random) -> str:
    return f"{rng.choice(_words('adjective'))}-{rng.choice(_words('noun'))}"


@cache
def _words(kind: str) -> list[str]:
    """A word list of the package wonderwords, single words only."""
    text = (resources.files("wonderwords") / f"assets/{kind}list.txt").read_text(encoding="utf-8")
    return sorted({word for word in text.split("\n") if word.isalpha() and word.islower()})
