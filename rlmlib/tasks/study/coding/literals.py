"""Literals with one spelling."""

import ast

_MOST_LINES = 400


def literal_text(node: ast.expr) -> str | None:
    """A literal as Python prints it. None for what is no literal, or prints in more than one way, such as a set."""
    if node.end_lineno - node.lineno > _MOST_LINES:
        return None
    try:
        printed = repr(ast.literal_eval(node))
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None
    return printed if printed == ast.unparse(node) else None
