"""Questions on one function or method: T09 to T16."""

import ast
from collections.abc import Iterator

from .analysis import FunctionNode, Module, dotted, inner_bodies
from .bindings import RULES, bindings, own_nodes, parameters
from .literals import literal_text
from .template import Case, Template

_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_OWN = "Leave out what stands inside functions, lambdas or classes nested in it."
_NAMED = "A method is written as Class.method."


def _parameter_counts(module: Module) -> Iterator[Case]:
    for name, node in module.functions.items():
        yield Case({"file": module.path, "function": name}, len(parameters(node)))


def _defaults(module: Module) -> Iterator[Case]:
    for name, node in module.functions.items():
        args = node.args
        plain = [*args.posonlyargs, *args.args]
        pairs = [*zip(reversed(plain), reversed(args.defaults), strict=False), *zip(args.kwonlyargs, args.kw_defaults, strict=True)]
        for arg, default in pairs:
            text = literal_text(default) if default else None
            if text:
                yield Case({"file": module.path, "function": name, "parameter": arg.arg}, text)


def _decorators(module: Module) -> Iterator[Case]:
    for name, node in module.functions.items():
        names = [dotted(item.func if isinstance(item, ast.Call) else item) for item in node.decorator_list]
        if names and all(names):
            yield Case({"file": module.path, "function": name}, names)


def _raised(module: Module) -> Iterator[Case]:
    for name, node in module.functions.items():
        raised = [inner.exc for inner in own_nodes(node.body) if isinstance(inner, ast.Raise) and inner.exc]
        names = [dotted(exc.func if isinstance(exc, ast.Call) else exc) for exc in raised]
        if names and all(text and text.split(".")[-1].lstrip("_")[:1].isupper() for text in names):
            yield Case({"file": module.path, "function": name}, sorted(set(names)))


def _local_lines(module: Module) -> Iterator[Case]:
    for function, node in module.functions.items():
        bound = bindings(node)
        for name, lines in bound.lines.items():
            if name not in bound.unclear:
                yield Case({"file": module.path, "function": function, "name": name}, lines)


def _loop_depths(module: Module) -> Iterator[Case]:
    for name, node in module.functions.items():
        yield Case({"file": module.path, "function": name}, _deepest(node))


def _deepest(function: FunctionNode) -> int:
    deepest, waiting = 0, [(function.body, 0)]
    while waiting:
        body, depth = waiting.pop()
        deepest = max(deepest, depth)
        for node in body:
            if isinstance(node, _LOOPS):
                waiting += [(node.body, depth + 1), (node.orelse, depth)]
            elif not hasattr(node, "decorator_list"):
                waiting += [(inner, depth) for inner in inner_bodies(node)]
    return deepest


def _returns(module: Module) -> Iterator[Case]:
    for name, node in module.functions.items():
        yield Case({"file": module.path, "function": name}, sum(isinstance(inner, ast.Return) for inner in own_nodes(node.body)))


def _annotations(module: Module) -> Iterator[Case]:
    for name, node in module.functions.items():
        if node.returns and not any(isinstance(inner, ast.Constant) and isinstance(inner.value, str) for inner in ast.walk(node.returns)):
            yield Case({"file": module.path, "function": name}, ast.unparse(node.returns))


def _template(id_, task, answer_type, phrasings, rules, of_file, word=""):
    return Template(id_, task, answer_type, phrasings, f"{rules} {_NAMED}".strip(), of_file=of_file, word=word or "def ")


TEMPLATES = (
    _template(
        "T09",
        "parameter_count",
        "number",
        (
            "How many parameters does `{function}` in `{file}` take?",
            "Count the parameters of `{function}` in `{file}`.",
            "What is the number of parameters in the signature of `{function}` in `{file}`?",
        ),
        "Count all kinds: positional-only, ordinary and keyword-only ones, `self` or `cls`, and `*args` and `**kwargs` as one each.",
        _parameter_counts,
    ),
    _template(
        "T10",
        "default_value",
        "literal",
        (
            "What is the default value of parameter `{parameter}` of `{function}` in `{file}`?",
            "Which default does `{function}` in `{file}` give its parameter `{parameter}`?",
            "To what value does `{parameter}` default in the signature of `{function}` in `{file}`?",
        ),
        "",
        _defaults,
    ),
    _template(
        "T11",
        "decorators",
        "list",
        (
            "Which decorators does `{function}` in `{file}` carry, from top to bottom?",
            "List the decorators above `{function}` in `{file}`, top one first.",
            "With what is `{function}` in `{file}` decorated, from the first decorator line to the last?",
        ),
        "Give each as the dotted name after the `@`, without call arguments.",
        _decorators,
        "@",
    ),
    _template(
        "T12",
        "raised_exceptions",
        "set",
        (
            "Which exceptions does `{function}` in `{file}` raise by `raise` statements of its own?",
            "Which exception names stand after `raise` in `{function}` in `{file}`?",
            "Find the names of all exceptions that the code of `{function}` in `{file}` raises.",
        ),
        "Give each name once, as written after `raise`, dots included and arguments not; a bare `raise` names none. " + _OWN,
        _raised,
        "raise ",
    ),
    _template(
        "T13",
        "local_binding_lines",
        "lines",
        (
            "On which lines of `{file}` does `{function}` bind its local variable `{name}`?",
            "Which lines of `{file}` give the local variable `{name}` of `{function}` a value?",
            "Where does `{name}`, a local variable of `{function}` in `{file}`, get bound or bound again?",
        ),
        RULES + " " + _OWN,
        _local_lines,
    ),
    _template(
        "T14",
        "loop_nesting",
        "number",
        (
            "How deeply are loops nested in `{function}` in `{file}`, at most?",
            "What is the greatest loop nesting in `{function}` in `{file}`?",
            "At the deepest place in `{function}` in `{file}`, how many loops lie around each other?",
        ),
        "Loops are `for`, `async for` and `while` statements; comprehensions are none, and the `else` part of a loop is outside it. "
        "One loop alone is 1. " + _OWN,
        _loop_depths,
    ),
    _template(
        "T15",
        "return_count",
        "number",
        (
            "How many `return` statements does `{function}` in `{file}` have?",
            "Count the `return` statements of `{function}` in `{file}`.",
            "What is the number of `return` statements in the body of `{function}` in `{file}`?",
        ),
        "Count those with a value and those without. " + _OWN,
        _returns,
        "return",
    ),
    _template(
        "T16",
        "return_annotation",
        "code",
        (
            "What is the return annotation of `{function}` in `{file}`?",
            "Which return type does the signature of `{function}` in `{file}` state?",
            "What stands after `->` in the definition of `{function}` in `{file}`?",
        ),
        "White space does not matter.",
        _annotations,
        "->",
    ),
)
