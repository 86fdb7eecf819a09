"""Literals with one spelling."""

import ast

_MOST_LINES = 400


def literal_text(node: ast.expr) -> str | None:
    """A literal as Python prints it. None for what is no literal, or has no one spelling: a set prints in any order."""
    if node.end_lineno - node.lineno > _MOST_LINES or any(isinstance(inner, ast.Set) for inner in ast.walk(node)):
        return None
    try:
        printed = repr(ast.literal_eval(node))
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None
    return printed if printed == ast.unparse(node) else None
