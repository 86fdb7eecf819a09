"""Facts of one Python file: a small index for questions over many files, and its definitions for questions on it alone."""

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from ...sources.codebases import parse

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINITIONS = (*FUNCTIONS, ast.ClassDef)


@dataclass(frozen=True, slots=True)
class Function:
    """A `def` at any depth. line and end_line: of the def itself, without decorators. at_top: in the module body itself."""

    name: str
    line: int
    end_line: int
    at_top: bool
    is_async: bool
    is_generator: bool
    has_docstring: bool

    @property
    def lines(self) -> int:
        return self.end_line - self.line + 1


@dataclass(frozen=True, slots=True)
class Class:
    """A `class` at any depth. bases: last name parts; `Generic[T]` is Generic, what is no dotted name is left out."""

    name: str
    bases: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Index:
    """What questions over many files need of each. imports: (module, name or None), relative ones resolved.

    calls: call expressions by the last part of the called name.
    """

    functions: tuple[Function, ...]
    classes: tuple[Class, ...]
    imports: tuple[tuple[str, str | None], ...]
    relative: frozenset[str]
    calls: dict[str, int]
    bare_excepts: int
    finallys: int


@dataclass(frozen=True)
class Module:
    """One file for questions on it alone.

    functions and classes: by qualified name, those in the module body or in class bodies, under `if` and `try` too,
    whose qualified name is defined once.
    """

    path: str
    text: str
    tree: ast.Module
    functions: dict[str, FunctionNode]
    classes: dict[str, ast.ClassDef]


def read_module(path: str, text: str) -> Module:
    tree = parse(text)
    found: dict[str, list] = {}
    waiting = [(tree.body, "")]
    while waiting:
        body, prefix = waiting.pop()
        for node in body:
            if isinstance(node, DEFINITIONS):
                found.setdefault(prefix + node.name, []).append(node)
                if isinstance(node, ast.ClassDef):
                    waiting.append((node.body, f"{prefix}{node.name}."))
            else:
                waiting.extend((inner, prefix) for inner in inner_bodies(node))
    single = {name: nodes[0] for name, nodes in sorted(found.items()) if all(len(found[outer]) == 1 for outer in _outers(name))}
    functions = {name: node for name, node in single.items() if isinstance(node, FUNCTIONS)}
    classes = {name: node for name, node in single.items() if isinstance(node, ast.ClassDef)}
    return Module(path, text, tree, functions, classes)


def index(path: str, tree: ast.Module) -> Index:
    """One walk over the whole tree. It keeps its own stack, so that deep expressions do no harm."""
    at_top = {id(node) for node in tree.body}
    functions, classes, imports, calls = [], [], [], Counter()
    generators: set[int] = set()
    bare_excepts = finallys = 0
    stack: list[tuple[ast.AST, ast.AST | None]] = [(tree, None)]  # a node and the function whose own code it is
    while stack:
        node, owner = stack.pop()
        kind = node.__class__
        if kind is ast.Call:
            name = last_part(node.func)
            if name:
                calls[name] += 1
        elif kind in FUNCTIONS:
            functions.append(node)
            stack.extend((child, node) for child in node.body)
            stack.extend((child, owner) for child in outer_parts(node))
            continue
        elif kind is ast.Lambda:
            stack.append((node.body, None))
            stack.append((node.args, owner))
            continue
        elif kind is ast.ClassDef:
            classes.append(node)
        elif kind is ast.Yield or kind is ast.YieldFrom:
            generators.add(id(owner))
        elif kind is ast.Import or kind is ast.ImportFrom:
            imports.append(node)
        elif kind is ast.ExceptHandler:
            bare_excepts += node.type is None
        elif kind is ast.Try or kind.__name__ == "TryStar":
            finallys += bool(node.finalbody)
        for field in node._fields:
            value = getattr(node, field, None)
            if value.__class__ is list:
                stack.extend((child, owner) for child in value if isinstance(child, ast.AST))
            elif isinstance(value, ast.AST):
                stack.append((value, owner))
    named = [entry for node in imports for entry in imported(node, path)]
    relative = {module for node in imports if isinstance(node, ast.ImportFrom) and node.level for module, _ in imported(node, path)}
    return Index(
        tuple(_function(node, id(node) in at_top, id(node) in generators) for node in sorted(functions, key=_position)),
        tuple(Class(node.name, base_names(node)) for node in sorted(classes, key=_position)),
        tuple(sorted(set(named), key=str)),
        frozenset(relative),
        dict(calls),
        bare_excepts,
        finallys,
    )


def _function(node: FunctionNode, at_top: bool, is_generator: bool) -> Function:
    documented = ast.get_docstring(node, clean=False) is not None
    is_async = isinstance(node, ast.AsyncFunctionDef)
    return Function(node.name, node.lineno, node.end_lineno, at_top, is_async, is_generator, documented)


def _position(node) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _outers(name: str) -> Iterator[str]:
    """A.B.c gives A, A.B and A.B.c."""
    parts = name.split(".")
    return (".".join(parts[:end]) for end in range(1, len(parts) + 1))


def inner_bodies(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The statement lists of a compound statement: of `if`, loops, `with`, `try`, `match`."""
    for field in ("body", "orelse", "finalbody"):
        if getattr(node, field, None):
            yield getattr(node, field)
    for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield part.body


def outer_parts(node) -> Iterator[ast.AST]:
    """Parts of a definition that run outside of it: decorators, defaults, annotations, bases."""
    yield from (*node.decorator_list, *getattr(node, "type_params", ()))
    if isinstance(node, ast.ClassDef):
        yield from (*node.bases, *node.keywords)
    else:
        yield node.args
        if node.returns:
            yield node.returns


def imported(node: ast.Import | ast.ImportFrom, path: str) -> list[tuple[str, str | None]]:
    """What an import statement names: `import a.b` gives ("a.b", None), `from .b import c` in p/q.py gives ("p.b", "c").

    Nothing where a relative import leads out of the codebase.
    """
    if isinstance(node, ast.Import):
        return [(alias.name, None) for alias in node.names]
    folders = path.split("/")[:-1]
    if node.level > len(folders):
        return []
    package = folders[: len(folders) - node.level + 1] if node.level else []
    module = ".".join([*package, *([node.module] if node.module else [])])
    return [(module, alias.name) for alias in node.names]


def dotted(node: ast.expr) -> str | None:
    """`a.b.c` as text; None for what is no dotted name."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else None


def last_part(node: ast.expr) -> str | None:
    """c for `c`, `a.b.c` and `f(x).c`."""
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else None


def base_names(node: ast.ClassDef) -> tuple[str, ...]:
    bases = (base.value if isinstance(base, ast.Subscript) else base for base in node.bases)
    return tuple(name for name in map(last_part, bases) if name)
