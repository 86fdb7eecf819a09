"""What an answer marks as final: "Answer: ...", \\boxed{...}, <answer>, FINAL(...), JSON, a last line in bold."""

import json
import re

from .announced import leads_to, takes_back

_ROUNDS = 6  # of wrappers taken off: `**"x"**`
_WRAPPERS = [("**", "**"), ("__", "__"), ("`", "`"), ("*", "*"), ('"', '"'), ("'", "'"), ("“", "”"), ("‘", "’"), ("«", "»"), ("$", "$")]
_BRACKETS = [("(", ")"), ("[", "]"), ("{", "}"), ("\\text{", "}"), ("\\boxed{", "}"), ("<b>", "</b>")]
_FENCE = re.compile(r"```[\w+-]*\n(.*)\n?```", re.DOTALL)
_JSON_KEYS = {"answer", "final_answer", "final answer", "finalanswer", "result", "label", "user", "date", "value"}

_BOXES = [
    re.compile(r"\$?\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}\$?"),
    re.compile(r"<answer>([^<]*)</answer>", re.IGNORECASE),
    re.compile(r"^[ \t]*FINAL\((.*)\)[ \t]*$", re.MULTILINE),
]
_BOLD_LINE = re.compile(r"^[ \t]*\*\*([^*\n]+)\*\*[ \t]*$", re.MULTILINE)
_MARK = re.compile(
    r"(?:^|(?<=[.!?])[ \t]{1,3})[ \t>#*`-]{0,6}"
    r"(?:(?:so|thus|hence|therefore|wait|actually|finally|overall)\b,?[ \t]{1,3})?"
    r"(?:(?:the|my|our)[ \t]{1,3})?(?:(?:final|correct|right|short|exact)[ \t]{1,3}){0,2}"
    r"(?:answer[*`]{0,3}[ \t]{0,3}(?:[:=]|(?:is|was)\b:?)|(?:label|user|date|result)[*`]{0,3}[ \t]{0,3}:)\*{0,2}",
    re.IGNORECASE | re.MULTILINE,
)


def without_thoughts(answer: str) -> str:
    return answer.rpartition("</think>")[2].strip()


def peel(text: str) -> str:
    """Text without the quotes, emphasis, brackets and code fence around the whole of it, and without a last full stop."""
    return _peel(text, _WRAPPERS + _BRACKETS, ".,;:")


def peel_code(text: str) -> str:
    """The same for code, whose own quotes, brackets and full stops count."""
    return _peel(text, [("**", "**"), ("`", "`"), ("$", "$")], "")


def _peel(text: str, wrappers: list[tuple[str, str]], stops: str) -> str:
    text = text.strip()
    for _ in range(_ROUNDS):
        peeled = _without_wrapper(text, wrappers)
        if peeled[:-1].strip() and peeled[-1] in stops and peeled[-2] not in stops:
            peeled = peeled[:-1].strip()
        if peeled == text:
            break
        text = peeled
    return text


def _without_wrapper(text: str, wrappers: list[tuple[str, str]]) -> str:
    if text.startswith("```") and (fenced := _FENCE.fullmatch(text)):
        return fenced[1].strip()
    for left, right in wrappers:
        if text.endswith(right) and text.startswith(left):
            inner = text[len(left) : -len(right)]
            if inner.strip() and left not in inner and right not in inner:
                return inner.strip()
    return text


def final_spans(answer: str, question: str = "") -> list[str]:
    """The spans marked as final, in order; the whole answer when none is. The last one holds all that follows its mark.

    What takes a mark back, or does not lead to it, leaves the whole answer.
    """
    answer = peel_code(answer)
    value = _json_value(answer)
    if value is not None:
        return [value]
    text = answer
    for box in _BOXES:
        text = box.sub(lambda found: _unbox(found, question), text)
    text = _BOLD_LINE.sub(r"\1", text)
    marks = list(_MARK.finditer(text))
    if not marks:
        return [_last_bold_line(answer, question) or answer]
    if any(takes_back(text[: mark.start()]) for mark in marks):
        return [answer]
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    spans = [text[mark.end() : end].strip() for mark, end in zip(marks, ends, strict=True)]
    if not spans[-1]:
        return [answer]
    return [span.split("\n", 1)[0] for span in spans[:-1] if any(c.isalnum() for c in span)] + spans[-1:]


def _json_value(text: str) -> str | None:
    """The value of a JSON object that has an answer and nothing else, as text."""
    if not text.startswith("{"):
        return None
    try:
        found = json.loads(text, object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or len(found) != 1:
        return None
    key, value = next(iter(found.items()))
    if key.casefold() not in _JSON_KEYS:
        return None
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _without_repeats(items: list[tuple[str, object]]) -> dict | None:
    """A JSON object; None where it has a key twice, and so two answers."""
    return dict(items) if len(dict(items)) == len(items) else None


def _unbox(box: re.Match, question: str) -> str:
    """A box as a marked line of its own, unless it is empty or the words before it do not lead to it."""
    return f"\nAnswer: {box[1]}" if box[1].strip() and leads_to(box.string[: box.start()], question) else box[0]


def _last_bold_line(text: str, question: str) -> str | None:
    """The last line, if it alone is in bold and what stands before leads to it, but not as something else behind a colon."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    bold = [line for line in lines if _BOLD_LINE.fullmatch(line)]
    if len(lines) > 1 and bold == lines[-1:] and not lines[-2].endswith(":") and leads_to(text.rstrip()[: -len(bold[0])], question):
        return bold[0]
    return None
