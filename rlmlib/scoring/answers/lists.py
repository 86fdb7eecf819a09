"""Several texts: sets in any order, lists in theirs, sets of line numbers."""

import ast
import json
import re
from collections.abc import Sequence

from .expressions import BROKEN, MOST_CHARS
from .markup import peel, peel_code
from .names import path
from .outcome import ASK, CORRECT, INCORRECT, Verdict3
from .places import is_region
from .restated import restates, shortened
from .text import fold, folded, words

_BULLET = re.compile(r"[ \t]{0,8}(?:[-*•]|\d{1,3}[.)])[ \t]{1,4}")
_NUMBERING = re.compile(r"\s*\d+(?=[.)])")
_LEAD = re.compile(r"((?:[\w'-]{1,30} ){0,8}?(?:are|is|were|was|includes?)):?\s|((?:[\w'-]{1,30} ){0,8}?[\w'-]{1,30}):\s")
_COMMAS = re.compile(r"[,;\n]")
_COMMAS_AND_WORDS = re.compile(r"[,;\n]|(?<=\s)(?:and|&)(?=\s)")
_PROSE_ITEM = re.compile(r"[^\W_][\w .,'&-]*")
_CODE_ITEM = re.compile(r"[\w./\\@-]+")
_LINE_ITEM = re.compile(r"(?:lines?\s{0,3}|L)?(\d{1,9})", re.IGNORECASE)
_ABOUT_CODE = re.compile(
    r"`|\b(?:class|function|method|file|module|package|import|decorator|identifier|exception|variable|attribute|argument|parameter|name)"
    r"(?:s|es|d|ed)?\b|__|\.py\b",
    re.IGNORECASE,
)
_MOST_ITEM_WORDS = 5
_NOT_PLAIN = frozenset(
    "or not except maybe perhaps possibly probably indirectly only also but is are was were if unless etc more others other plus "
    "either neither nor likely about than then".split()
)
_EMPTY = ("[]", "{}", "()", "set()", "list()")
_NOTHING = frozenset("none nothing empty no".split())
_AROUND_NOTHING = frozenset(
    "found exist exists valid matching such list set there are is pairs lines satisfy satisfies meet condition conditions".split()
)


def compare_sets(answer: str, gold: str, question: str) -> Verdict3:
    return _compare(answer, gold, question, ordered=False)


def compare_lists(answer: str, gold: str, question: str) -> Verdict3:
    return _compare(answer, gold, question, ordered=True)


def _compare(answer: str, gold: str, question: str, ordered: bool) -> Verdict3:
    """Right: the same items, one left out or added is wrong. Other wordings of an item are for the judge,
    as is letter case unless the question is known not to be about code.
    """
    rest = _without_lead(answer, question)
    wanted = [[_key(item) for item in items] for items in splits(gold)]
    calls = any(item.endswith("()") for item in wanted[0])
    given = [[_key(item) if calls else _key(item).removesuffix("()") for item in items] for items in splits(rest)]
    arranged = list if ordered else set
    if any(arranged(one) == arranged(other) for one in given for other in wanted):
        return CORRECT
    said, sought = given[0], wanted[0]
    if is_nothing(answer, question):
        return INCORRECT if sought else CORRECT
    if question and not _ABOUT_CODE.search(shortened(question)) and arranged(map(fold, said)) == arranged(map(fold, sought)):
        return CORRECT
    if not said or not all(map(_is_plain, said)) or _LEAD.match(rest):
        return ASK
    if set(said) != set(sought) and _is_near(said, sought):
        return ASK
    if set(said) < set(sought) or set(said) >= set(sought):
        return ASK if _adds_regions(said, sought) else INCORRECT
    is_code = all(map(_CODE_ITEM.fullmatch, said + sought)) and any(c in "_./\\" for item in sought for c in item)
    return INCORRECT if is_code else ASK


def _adds_regions(said: Sequence[str], sought: Sequence[str]) -> bool:
    """Whether all that is too much are states and countries, as in "Paris, France"."""
    added = set(said) - set(sought)
    return bool(added) and all(map(is_region, added)) and not any(map(is_region, sought))


def is_nothing(text: str, question: str) -> bool:
    """An empty list, or a few words that say that there is nothing."""
    text = peel_code(text)
    if text in _EMPTY:
        return True
    said = folded(peel(text)) if len(text) < 100 else []
    rest = [word for word in said if word not in _NOTHING and word not in _AROUND_NOTHING]
    return bool(_NOTHING & set(said)) and said != ["no"] and restates([], rest, question)


def splits(text: str) -> list[list[str]]:
    """The items of a text, read in each way it allows: the likeliest first, then with "and" as part of an item."""
    items = _written_list(peel_code(text))
    if items is not None:
        return [items]
    text = _inner(peel_code(text))
    lines = [line for line in text.splitlines() if line.strip()]
    if lines and all(map(_BULLET.match, lines)) and _counts_up(lines):
        return [[_BULLET.sub("", line, count=1).strip() for line in lines]]
    return [_split(text, _COMMAS_AND_WORDS), _split(text, _COMMAS)]


def _counts_up(lines: Sequence[str]) -> bool:
    """Whether numbers before all lines only number them: 1, 2, 3. Else, and on a lone line, "10. 42" may be two numbers."""
    numbers = [int(found[0]) if found else None for found in (_NUMBERING.match(line) for line in lines)]
    return numbers == [None] * len(lines) or (len(lines) > 1 and numbers == list(range(1, len(lines) + 1)))


def _inner(text: str) -> str:
    """What stands in one pair of brackets around the whole."""
    if text[:1] + text[-1:] in ("[]", "()", "{}") and not any(c in "[](){}" for c in text[1:-1]):
        return text[1:-1]
    return text


def _written_list(text: str) -> list[str] | None:
    """The items of a JSON or Python list, tuple or set of plain values."""
    if text[:1] not in ("[", "(", "{"):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        try:
            found = ast.literal_eval(text) if len(text) <= MOST_CHARS else None
        except BROKEN:
            return None
    if not isinstance(found, (list, tuple, set)) or any(isinstance(item, (list, tuple, set, dict)) for item in found):
        return None
    return [str(item) for item in found]


def _split(text: str, separator: re.Pattern) -> list[str]:
    """Items between separators that stand in no bracket."""
    depth, shown = 0, []
    for c in text:
        depth = depth + 1 if c in "([{" else max(0, depth - 1) if c in ")]}" else depth
        shown.append(c if depth == 0 else "_")
    starts, ends = [0], []
    for found in separator.finditer("".join(shown)):
        ends.append(found.start())
        starts.append(found.end())
    items = [text[start:end].strip() for start, end in zip(starts, [*ends, len(text)], strict=True)]
    return [item for item in items if item]


def _key(item: str) -> str:
    """An item as it compares: prose without letter case, code as it is."""
    item = peel(item)
    if " " in item and _PROSE_ITEM.fullmatch(item):
        return " ".join(word for word in folded(item) if word != "the")
    item = item.removeprefix("@")
    return path(item) if "/" in item or "\\" in item else item


def _is_near(said: Sequence[str], sought: Sequence[str]) -> bool:
    """Equal but for letter case, accents, "()" behind them, or the folders and modules of the names."""
    mark = "/" if any("/" in item for item in sought) else "."
    last_parts = [{item.casefold().removesuffix("()").rpartition(mark)[2] for item in items} for items in (said, sought)]
    return set(map(fold, said)) == set(map(fold, sought)) or last_parts[0] == last_parts[1]


def _is_plain(item: str) -> bool:
    said = folded(item)
    return len(said) <= _MOST_ITEM_WORDS and not _NOT_PLAIN & set(said) and not any(c in item for c in "?(:")


def _without_lead(answer: str, question: str) -> str:
    """An answer without "The classes are" or "Lines:" before its items, if those words restate the question."""
    lead = _LEAD.match(answer)
    return answer[lead.end() :].strip() if lead and restates(words(lead[0]), [], question, colon=True) else answer


def compare_lines(answer: str, gold: str, question: str) -> Verdict3:
    """Line numbers as a set: "[10, 42]", "lines 42 and 10", "L10, L42"."""
    wanted, given = _line_numbers(gold, question), _line_numbers(answer, question)
    if wanted is None or given is None:
        return ASK
    return CORRECT if wanted == given else INCORRECT


def _line_numbers(text: str, question: str) -> frozenset[int] | None:
    if is_nothing(text, question):
        return frozenset()
    found = [_LINE_ITEM.fullmatch(peel(item)) for item in splits(_without_lead(text, question))[0]]
    return frozenset(int(match[1]) for match in found) if found and all(found) else None
