"""Questions on one file: T01 to T08 and T19."""

import ast
from collections import defaultdict
from collections.abc import Iterator

from .analysis import DEFINITIONS, FUNCTIONS, Module, dotted
from .bindings import RULES, bindings
from .literals import literal_text
from .template import Case, Template

_CONSTANT_RULES = "It is assigned once, in the module body."


def _top_functions(module: Module) -> Iterator[Case]:
    yield Case({"file": module.path}, sum(isinstance(node, FUNCTIONS) for node in module.tree.body))


def _classes(module: Module) -> Iterator[Case]:
    yield Case({"file": module.path}, sum(isinstance(node, ast.ClassDef) for node in ast.walk(module.tree)))


def _lambdas(module: Module) -> Iterator[Case]:
    yield Case({"file": module.path}, sum(isinstance(node, ast.Lambda) for node in ast.walk(module.tree)))


def _globals(module: Module) -> Iterator[Case]:
    statements = (node for node in ast.walk(module.tree) if isinstance(node, ast.Global))
    yield Case({"file": module.path}, sorted({name for node in statements for name in node.names}))


def _bound_lines(module: Module) -> Iterator[Case]:
    if any(called in module.text for called in ("exec(", "globals()", "import *")):
        return  # names may be bound without a statement that says so
    bound = bindings(module.tree)
    for name, lines in bound.lines.items():
        if name not in bound.unclear:
            yield Case({"file": module.path, "name": name}, lines)


def _all_names(module: Module) -> Iterator[Case]:
    uses = sum(isinstance(node, ast.Name) and node.id == "__all__" for node in ast.walk(module.tree))
    value = dict(_constants(module)).get("__all__")
    if uses != 1 or not isinstance(value, (ast.List, ast.Tuple)):
        return  # it is changed after its assignment, or no literal
    names = [item.value for item in value.elts if isinstance(item, ast.Constant) and isinstance(item.value, str)]
    if len(names) == len(value.elts) == len(set(names)):
        yield Case({"file": module.path}, len(names))


def _constant_values(module: Module) -> Iterator[Case]:
    for name, value in _constants(module):
        text = literal_text(value) if name.isupper() else None
        if text:
            yield Case({"file": module.path, "name": name}, text)


def _literal_sizes(module: Module) -> Iterator[Case]:
    for name, value in _constants(module):
        if isinstance(value, ast.Dict) and None not in value.keys:
            entries = value.keys
        elif isinstance(value, ast.Set) and not any(isinstance(item, ast.Starred) for item in value.elts):
            entries = value.elts
        else:
            continue
        if len({ast.dump(entry) for entry in entries}) == len(entries):
            yield Case({"file": module.path, "name": name}, len(entries))


def _constants(module: Module) -> Iterator[tuple[str, ast.expr]]:
    """(name, value) of names that are bound once, by an assignment of their own in the module body itself."""
    bound = bindings(module.tree)
    for node in module.tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
        elif isinstance(node, ast.AnnAssign) and node.value:
            target = node.target
        else:
            continue
        if isinstance(target, ast.Name) and len(bound.lines[target.id]) == 1 and target.id not in bound.unclear:
            yield target.id, node.value


def _decorated(module: Module) -> Iterator[Case]:
    found = defaultdict(list)
    for node in ast.walk(module.tree):
        if isinstance(node, DEFINITIONS):
            calls = (item.func if isinstance(item, ast.Call) else item for item in node.decorator_list)
            for decorator in {dotted(call) for call in calls} - {None}:
                found[decorator].append(node.name)
    for decorator, names in sorted(found.items()):
        if len(set(names)) == len(names):
            yield Case({"file": module.path, "decorator": decorator}, sorted(names))


TEMPLATES = (
    Template(
        "T01",
        "top_level_functions",
        "number",
        (
            "How many functions does the module body of `{file}` define directly?",
            "Count the functions that are defined directly at the top level of `{file}`.",
            "What is the number of functions defined directly in the module body of `{file}`?",
        ),
        "Count `def` and `async def` statements of the module body itself, a repeated name each time; leave out those inside "
        "classes, other functions, `if`, `try`, `with` and loops.",
        of_file=_top_functions,
        word="def ",
    ),
    Template(
        "T02",
        "classes_in_file",
        "number",
        (
            "How many classes are defined in `{file}`?",
            "Count the class definitions in `{file}`.",
            "What is the number of `class` statements in `{file}`?",
        ),
        "Count every `class` statement, also conditional ones and those nested in classes or functions.",
        of_file=_classes,
        word="class ",
    ),
    Template(
        "T03",
        "lambdas_in_file",
        "number",
        (
            "How many lambda expressions are in `{file}`?",
            "Count the lambda expressions of `{file}`.",
            "What is the number of `lambda` expressions in the code of `{file}`?",
        ),
        "Count nested ones and those inside f-strings too; comments and other strings are no code.",
        of_file=_lambdas,
        word="lambda",
    ),
    Template(
        "T04",
        "global_names",
        "set",
        (
            "Which names stand in `global` statements of `{file}`?",
            "Which names does `{file}` declare by `global` statements?",
            "Find all names that `global` statements in `{file}` list.",
        ),
        "Take the statements of all functions and classes, each name once.",
        of_file=_globals,
        word="global ",
    ),
    Template(
        "T05",
        "module_binding_lines",
        "lines",
        (
            "On which lines of `{file}` is the module-level name `{name}` bound or bound again?",
            "Which lines of `{file}` give the module-level name `{name}` a value?",
            "Find the lines of `{file}` on which `{name}` is bound in the module's own scope.",
        ),
        "The module's own scope includes its `if`, `try`, `with` and loop blocks, but no function or class body. " + RULES,
        of_file=_bound_lines,
    ),
    Template(
        "T06",
        "names_in_all",
        "number",
        (
            "How many names does `__all__` of `{file}` list?",
            "Count the names in the `__all__` of `{file}`.",
            "What is the length of `__all__` in `{file}`?",
        ),
        _CONSTANT_RULES,
        of_file=_all_names,
        word="__all__",
    ),
    Template(
        "T07",
        "constant_value",
        "literal",
        (
            "What value does `{file}` assign to the constant `{name}`?",
            "Which literal is assigned to `{name}` in `{file}`?",
            "What is the value of the module constant `{name}` of `{file}`?",
        ),
        _CONSTANT_RULES,
        of_file=_constant_values,
    ),
    Template(
        "T08",
        "literal_size",
        "number",
        (
            "How many entries does the dict or set literal `{name}` in `{file}` have?",
            "Count the entries of the dict or set that `{file}` assigns to `{name}`.",
            "What is the number of keys or elements written in the literal `{name}` of `{file}`?",
        ),
        _CONSTANT_RULES + " Count the entries of the outermost braces only.",
        of_file=_literal_sizes,
        word="{",
    ),
    Template(
        "T19",
        "decorated_definitions",
        "set",
        (
            "Which definitions in `{file}` carry the decorator `{decorator}`?",
            "Which functions, methods and classes of `{file}` are decorated with `{decorator}`?",
            "Find the names of all definitions in `{file}` that have `@{decorator}` above them.",
        ),
        "The decorator counts with call arguments and without. Take `def`, `async def` and `class` at any depth, by the bare name "
        "after that keyword.",
        of_file=_decorated,
        word="@",
    ),
)
