"""What stands before a marked answer: whether it leads to it, or takes it back ("Anything but" on the line before)."""

import re

from .restated import ARTICLES, PREPOSITIONS, restates
from .text import fold, words

_MOST_CHARS = 300  # that are read before a mark
_MOST_WORDS = 2  # of a sentence that can only be about what follows: "Not this."
_DENIES = re.compile(
    r"\b(?:not|never|no|none|neither|nor|wrong|incorrect|false|untrue|mistaken?|except|excluding|but|or|than|rejected|unlike|doubt|"
    r"ruled out|opposite|instead|unless|whether)\b|n['’]t\b",
    re.IGNORECASE,
)
_POINTS_ON = re.compile(r"\b(?:this|these|following|below|next|here|answer)\b", re.IGNORECASE)
_CLOSERS = "\"'”’)]"
_MARKUP = re.compile(r"[*_`$#>]|^[ \t]*-[ \t]", re.MULTILINE)


def runs_on(before: str) -> tuple[str, str]:
    """(what comes before it, the line that breaks off and so runs into a mark); the second is empty behind a finished sentence."""
    text = _MARKUP.sub("", before[-_MOST_CHARS:]).rstrip()
    ends = [0, *(found.end() for found in re.finditer(r"[.!?](?=\s)|\n", text))]
    return text[: ends[-1]].rstrip(), "" if text.rstrip(_CLOSERS)[-1:] in tuple(".!?") else text[ends[-1] :].strip()


def takes_back(before: str) -> bool:
    """Whether the line that runs into a mark denies what is marked: "Wrong:"."""
    return bool(_DENIES.search(runs_on(before)[1]))


def leads_to(before: str, question: str) -> bool:
    """Whether what stands before a mark without words of its own leaves it an answer.

    What runs into it is the beginning of a sentence that restates the question, and no finished sentence before denies what follows.
    """
    earlier, line = runs_on(before)
    if not line:
        return not _denies_next(_MARKUP.sub("", before[-_MOST_CHARS:]).rstrip())
    said = words(line)
    begins = line[0].isupper() and not {fold(word) for word in said} <= ARTICLES | PREPOSITIONS
    return begins and restates(said, [], question, colon=line.endswith(":")) and not takes_back(earlier) and not _denies_next(earlier)


def _denies_next(text: str) -> bool:
    """Whether the last sentence of a text denies what follows it: "The following is wrong." """
    last = re.split(r"[.!?]\s+|\n", text.rstrip(" .!?\n"))[-1]
    return bool(_DENIES.search(last)) and (bool(_POINTS_ON.search(last)) or len(words(last)) <= _MOST_WORDS)
