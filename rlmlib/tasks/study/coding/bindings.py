"""Which names a scope binds, and on which lines."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from .analysis import DEFINITIONS, FunctionNode, outer_parts

RULES = (
    "Count every binding: assignments (also augmented, with a value behind the annotation, by `:=`, or of a tuple's part), loop targets, "
    "`with ... as`, `except ... as`, imports, `def` and `class`. The line is the one on which the name stands; for `def`, `class` and "
    "`except` it is the line of that keyword. Targets of comprehensions and stores to attributes or items do not count."
)


@dataclass(frozen=True)
class Bindings:
    """lines: sorted line numbers by name. unclear: names not to ask about.

    Those are parameters, what is deleted or declared `global` or `nonlocal`, and what is bound where the line is debatable.
    """

    lines: dict[str, list[int]]
    unclear: frozenset[str]


def bindings(scope: ast.Module | FunctionNode) -> Bindings:
    """Bindings of a module's or function's own code. Parameters are none of them."""
    lines: dict[str, set[int]] = {}
    unclear: set[str] = set()
    for node in own_nodes(scope.body):
        for name, line in _bound(node):
            lines.setdefault(name, set()).add(line)
        unclear.update(_unclear(node))
    if not isinstance(scope, ast.Module):
        unclear.update(parameters(scope))
    for node in ast.walk(scope):
        if isinstance(node, ast.Nonlocal) or (isinstance(node, ast.Global) and isinstance(scope, ast.Module)):
            unclear.update(node.names)
    return Bindings({name: sorted(found) for name, found in sorted(lines.items())}, frozenset(unclear))


def own_nodes(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """Nodes that run in the scope of a body: nothing inside nested functions, lambdas or classes, no comprehension target.

    A nested definition is given, and so are its decorators, defaults, annotations and bases.
    """
    stack: list[ast.AST] = list(reversed(body))
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, DEFINITIONS):
            children = list(outer_parts(node))
        elif isinstance(node, ast.Lambda):
            children = [node.args]
        elif isinstance(node, ast.comprehension):
            children = [node.iter, *node.ifs]
        elif isinstance(node, ast.AnnAssign) and node.value is None and isinstance(node.target, ast.Name):
            children = [node.annotation]
        else:
            children = list(ast.iter_child_nodes(node))
        stack.extend(reversed(children))


def parameters(function: FunctionNode) -> list[str]:
    """Names of all kinds of parameters."""
    args = function.args
    starred = [arg for arg in (args.vararg, args.kwarg) if arg]
    return [arg.arg for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs, *starred)]


def _bound(node: ast.AST) -> list[tuple[str, int]]:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return [(node.id, node.lineno)]
    if isinstance(node, DEFINITIONS):
        return [(node.name, node.lineno)]
    if isinstance(node, ast.Import):
        return [(alias.asname or alias.name.partition(".")[0], alias.lineno) for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [(alias.asname or alias.name, alias.lineno) for alias in node.names if alias.name != "*"]
    if isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
        return [(node.name, node.lineno)]
    if isinstance(node, ast.MatchMapping) and node.rest:
        return [(node.rest, node.lineno)]
    return []


def _unclear(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del):
        return [node.id]
    if isinstance(node, ast.Global):
        return node.names
    if isinstance(node, (ast.MatchAs, ast.MatchStar, ast.MatchMapping)):
        return [name for name, _ in _bound(node)]
    if isinstance(node, ast.alias) and node.end_lineno != node.lineno:
        return [node.asname or node.name.partition(".")[0]]
    return []
