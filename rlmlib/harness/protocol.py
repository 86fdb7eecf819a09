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
_RUNNABLE = {"repl", "python"}


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
    final = None
    for match in _FINAL.finditer(prose):
        inner = _inside_parentheses(prose, match.end())
        if match[1] == "FINAL_VAR":
            name = inner.strip().strip("'\"`").strip()
            if name.isidentifier():
                return None, name
        elif inner.strip():
            final = _unquote(inner.strip())
    return final, None


def _inside_parentheses(text: str, start: int) -> str:
    """Text from `start` to the parenthesis that balances; else to the last ')' of the line."""
    depth = 1
    for index in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[index], 0)
        if depth == 0:
            rest_of_line = text[index + 1 :].split("\n", 1)[0]
            if ")" in rest_of_line and "(" not in rest_of_line:
                return text[start : index + 1 + rest_of_line.rindex(")")]
            return text[start:index]
    return text[start:].split("\n", 1)[0].rstrip(" )*`")


def _unquote(text: str) -> str:
    """'x' -> x where the whole is one Python string literal; anything else is kept."""
    if text[:1] in "'\"":
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError):
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
