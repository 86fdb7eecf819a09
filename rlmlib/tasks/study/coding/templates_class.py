"""Questions on one class: T17 and T18."""

import ast
from collections.abc import Iterator

from .analysis import FUNCTIONS, FunctionNode, Module
from .bindings import parameters
from .template import Case, Template

_NAMED = "A nested class is written as Outer.Inner."


def _method_counts(module: Module) -> Iterator[Case]:
    for name, node in module.classes.items():
        yield Case({"file": module.path, "class": name}, len({item.name for item in node.body if isinstance(item, FUNCTIONS)}))


def _assigning_methods(module: Module) -> Iterator[Case]:
    for name, node in module.classes.items():
        methods = [item for item in node.body if isinstance(item, FUNCTIONS)]
        if any(_nests_self(method) for method in methods):
            continue
        stored = {}
        for method in methods:
            for attribute in _stored(method):
                stored.setdefault(attribute, set()).add(method.name)
        for attribute, names in sorted(stored.items()):
            yield Case({"file": module.path, "class": name, "attribute": attribute}, sorted(names))


def _nests_self(method: FunctionNode) -> bool:
    """Whether something inside a method has a `self` of its own: whose attribute is stored would be debatable."""
    for node in ast.walk(method):
        if isinstance(node, ast.ClassDef):
            return True
        if isinstance(node, (*FUNCTIONS, ast.Lambda)) and node is not method and "self" in parameters(node):
            return True
    return False


def _stored(method: FunctionNode) -> set[str]:
    """Attributes of `self` that a method assigns."""
    if "self" not in parameters(method)[:1]:
        return set()
    nodes = list(ast.walk(method))
    bare = {id(node.target) for node in nodes if isinstance(node, ast.AnnAssign) and node.value is None}
    return {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
        and id(node) not in bare
    }


TEMPLATES = (
    Template(
        "T17",
        "method_count",
        "number",
        (
            "How many distinct method names does the body of class `{class}` in `{file}` define?",
            "Count the methods of class `{class}` in `{file}` by distinct name.",
            "What is the number of distinct methods defined directly in class `{class}` of `{file}`?",
        ),
        "Take `def` and `async def` statements directly in the class body, not those inside `if` or nested classes, and not inherited "
        "ones. " + _NAMED,
        of_file=_method_counts,
        word="class ",
    ),
    Template(
        "T18",
        "assigning_methods",
        "set",
        (
            "Which methods of class `{class}` in `{file}` assign to `self.{attribute}`?",
            "In which methods of class `{class}` in `{file}` is `self.{attribute}` given a value?",
            "Find the methods of class `{class}` in `{file}` that store something in `self.{attribute}`.",
        ),
        "Take methods defined directly in the class body whose first parameter is `self`. Plain, augmented and annotated assignments with "
        "a value count, parts of a tuple, loop and `with` targets too, also in functions nested in a method; `del` and stores to items "
        "do not. Give each bare method name once. " + _NAMED,
        of_file=_assigning_methods,
        word="self.",
    ),
)
