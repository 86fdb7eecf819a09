"""What a reply of the model means: its code blocks and its final answer. Pure functions.

Rules, where peers differ:
- A block starts at a fence tagged `repl` or `python` (any case) and ends at a line that
  is a fence of at least the same length; an unclosed one runs to the end of the reply
  (a reply cut at the token limit). Text inside <think> is a draft and never runs.
- A final answer is `FINAL(...)` or `FINAL_VAR(name)` at the start of a line, outside
  every fence. Quotes inside are kept as text, except one pair that spans the whole.
"""

import ast
import re
from dataclasses import dataclass

_OPEN = re.compile(r"^([ \t]*(?:[-*+][ \t]+)?)(`{3,})[ \t]*([A-Za-z]*)[ \t]*(.*)$")
_THINK = re.compile(r"<think>.*?(</think>|\Z)", re.DOTALL)
_FINAL = re.compile(r"^[ \t]*(?:\*\*|`)?(FINAL_VAR|FINAL)\(", re.MULTILINE)
_PARENTHESIS = re.compile(r"[()]")
_RUNNABLE = {"repl", "python"}
_MOST_NAME_CHARS = 1000  # of a variable's name, with what is around it


@dataclass(frozen=True)
class ParsedReply:
    """blocks: code to run, in order. final: text of FINAL(...). final_var: name of FINAL_VAR(...)."""

    blocks: tuple[str, ...]
    final: str | None
    final_var: str | None


def parse_reply(text: str | None) -> ParsedReply:
    """Split a reply into runnable blocks and a final answer; None and "" are an empty reply."""
    text = _THINK.sub("", (text or "").replace("\r\n", "\n"))
    blocks, prose = _split_fences(text)
    final, final_var = _find_final(prose)
    return ParsedReply(tuple(blocks), final, final_var)


def _split_fences(text: str) -> tuple[list[str], str]:
    blocks, prose, code = [], [], None
    fence, tag, indent = "", "", ""
    for line in text.split("\n"):
        if code is None:
            opening = _OPEN.match(line)
            if opening and "`" not in opening[4]:
                indent, fence, tag, code = opening[1], opening[2], opening[3].lower(), []
            else:
                prose.append(line)
            continue
        stripped = line.strip()
        if stripped.startswith(fence) and set(stripped) == {"`"}:
            _keep(blocks, tag, code, indent)
            code = None
        elif stripped.endswith(fence) and "`" not in stripped[: -len(fence)]:
            code.append(line.rstrip()[: -len(fence)])
            _keep(blocks, tag, code, indent)
            code = None
        else:
            code.append(line)
    if code is not None:
        _keep(blocks, tag, code, indent)
    return blocks, "\n".join(prose)


def _keep(blocks: list[str], tag: str, code: list[str], indent: str) -> None:
    if tag not in _RUNNABLE:
        return
    width = len(indent)
    if width and all(not line[:width].strip() for line in code):
        code = [line[width:] for line in code]
    source = "\n".join(code)
    if source.strip():
        blocks.append(source)


def _find_final(prose: str) -> tuple[str | None, str | None]:
    """First FINAL_VAR wins over the last FINAL; empty parentheses are no answer."""
    marks = list(_FINAL.finditer(prose))
    closing = _closing_parentheses(prose) if marks else {}
    for match in marks:
        close = closing.get(match.end() - 1)
        if match[1] == "FINAL_VAR" and (close is None or close - match.end() <= _MOST_NAME_CHARS):
            name = _inside_parentheses(prose, match.end(), close).strip().strip("'\"`").strip()
            if name.isidentifier():
                return None, name
    for match in reversed(marks):
        if match[1] == "FINAL":
            inner = _inside_parentheses(prose, match.end(), closing.get(match.end() - 1)).strip()
            if inner:
                return _unquote(inner), None
    return None, None


def _closing_parentheses(text: str) -> dict[int, int]:
    """Where each parenthesis that is opened in a text, and closed, is closed: found for all at once, as a reply may open many."""
    closing, opened = {}, []
    for match in _PARENTHESIS.finditer(text):
        if match[0] == "(":
            opened.append(match.start())
        elif opened:
            closing[opened.pop()] = match.start()
    return closing


def _inside_parentheses(text: str, start: int, close: int | None) -> str:
    """Text from `start` to the parenthesis at `close`, or to a later one of that line; else to the last ')' of the line."""
    line_end = text.find("\n", start if close is None else close)
    line_end = len(text) if line_end < 0 else line_end
    if close is None:
        return text[start:line_end].rstrip(" )*`")
    last = text.rfind(")", close + 1, line_end)
    return text[start : close if last < 0 or text.find("(", close + 1, line_end) >= 0 else last]


def _unquote(text: str) -> str:
    """'x' -> x where the whole is one Python string literal; anything else is kept."""
    if text[:1] in "'\"":
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):  # the last two: nested too deeply
            return text
        if isinstance(value, str):
            return value
    return text


def cut_output(text: str, limit: int, total: int | None = None) -> str:
    """Head and tail of a long output, and how many characters were left out between them.

    `total` is the true length where `text` itself has lost its middle already.
    """
    total = len(text) if total is None else total
    if total <= limit:
        return text
    tail = limit // 3
    head = limit - tail
    return f"{text[:head]}...[{total - head - tail} left out]...{text[len(text) - tail :]}"
