"""Questions over all files of a context, or of one folder in it: T20 to T28."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from .template import Case, Template
from .view import View

_SOFT_KEYWORDS = {"match", "case", "type", "_"}
_LEAST_LETTERS = 4  # of a name to ask about
_TOTALS = {
    "functions defined with `async def`": lambda index: sum(item.is_async for item in index.functions),
    "generator functions": lambda index: sum(item.is_generator for item in index.functions),
    "`except` clauses that name no exception (`except:`)": lambda index: index.bare_excepts,
    "functions without a docstring": lambda index: sum(not item.has_docstring for item in index.functions),
    "`try` statements with a `finally` part": lambda index: index.finallys,
}


def _importers(view: View) -> Iterator[Case]:
    files, modules, relative = defaultdict(set), set(), set()
    for path, index in view.files.items():
        relative |= index.relative
        for module, name in index.imports:
            modules.add(module)
            for prefix in _prefixes(f"{module}.{name}" if name else module):
                files[prefix].add(path)
    # A folder such as src/ before a package gives one module two names: by its path, and as others import it.
    double = {suffix for module in relative for suffix in _suffixes(module)} & modules
    for module in sorted(modules):
        if module not in double and double.isdisjoint(_suffixes(module)):
            yield Case({"module": module}, sorted(files[module]))


def _prefixes(name: str) -> Iterator[str]:
    parts = name.split(".")
    return (".".join(parts[:end]) for end in range(1, len(parts) + 1))


def _suffixes(name: str) -> Iterator[str]:
    """Proper ones, of whole parts."""
    parts = name.split(".")
    return (".".join(parts[start:]) for start in range(1, len(parts)))


def _defining_files(view: View) -> Iterator[Case]:
    for name, found in sorted(view.classes.items()):
        yield Case({"class": name}, sorted({path for path, _ in found}))


def _function_files(view: View) -> Iterator[Case]:
    times = Counter(item.name for index in view.files.values() for item in index.functions)
    for path, index in view.files.items():
        for item in index.functions:
            if item.at_top and times[item.name] == 1 and item.name not in view.classes and len(item.name) >= _LEAST_LETTERS:
                yield Case({"function": item.name}, path)


def _subclasses(view: View) -> Iterator[Case]:
    found = defaultdict(list)
    for name, definitions in view.classes.items():
        for _, defined in definitions:
            for base in set(defined.bases):
                found[base].append(name)
    for base, names in sorted(found.items()):
        if len(set(names)) == len(names):
            yield Case({"base": base}, sorted(names))


def _chains(view: View) -> Iterator[Case]:
    lengths: dict[str, int | None] = {}
    for name in sorted(view.classes):
        length = _chain_length(name, view, lengths)
        if length:
            yield Case({"class": name}, length)


def _chain_length(name: str, view: View, lengths: dict[str, int | None]) -> int | None:
    """Classes of the longest chain that ends in a class; None where a name on it is defined twice, or leads back to itself."""
    if name not in lengths:
        lengths[name] = None  # holds while its bases are looked at, so that a circle ends here
        definitions = view.classes[name]
        bases = [base for base in definitions[0][1].bases if base in view.classes]
        above = [_chain_length(base, view, lengths) for base in bases]
        if len(definitions) == 1 and None not in above:
            lengths[name] = 1 + max(above, default=0)
    return lengths[name]


def _longest_function(view: View) -> Iterator[Case]:
    functions = sorted((item for index in view.files.values() for item in index.functions), key=lambda item: -item.lines)
    if len(functions) > 1 and functions[0].lines > functions[1].lines:
        yield Case(_scope(view), functions[0].name)


def _most_classes(view: View) -> Iterator[Case]:
    counts = sorted(((len(index.classes), path) for path, index in view.files.items()), reverse=True)
    if len(counts) > 1 and counts[0][0] > counts[1][0]:
        yield Case(_scope(view), counts[0][1])


def _totals(view: View) -> Iterator[Case]:
    for what, count in _TOTALS.items():
        yield Case({"what": what} | _scope(view), sum(map(count, view.files.values())))


def _call_counts(view: View) -> Iterator[Case]:
    calls = Counter()
    for index in view.files.values():
        calls.update(index.calls)
    for name, count in sorted(calls.items()):
        if len(name) >= _LEAST_LETTERS and name not in _SOFT_KEYWORDS:
            yield Case({"function": name} | _scope(view), count)


def _scope(view: View) -> dict[str, str]:
    return {"folder": view.folder, "where": view.where}


TEMPLATES = (
    Template(
        "T20",
        "importing_files",
        "set",
        (
            "Which files import the module `{module}`?",
            "Find the paths of all files that import `{module}`.",
            "In which files is there an import of the module `{module}`?",
        ),
        "Write each import as a dotted name: `import a.b` as a.b, `from a.b import c` as a.b.c, and in p/q.py `from . import c` as p.c and "
        "`from .d import c` as p.d.c (p/__init__.py likewise). A file imports `{module}` if one of its names is `{module}` or begins "
        "with `{module}.`; imports inside functions and conditional ones count. Give each file's path.",
        of_view=_importers,
    ),
    Template(
        "T21",
        "files_with_class",
        "set",
        (
            "Which files define a class named `{class}`?",
            "Find the paths of all files with a definition of a class `{class}`.",
            "In which files is there a class of the name `{class}`?",
        ),
        "Every `class` statement counts, also nested and conditional ones. Give each file's path.",
        of_view=_defining_files,
    ),
    Template(
        "T22",
        "file_of_function",
        "path",
        (
            "Which file defines the function `{function}`?",
            "In which file is the top-level function `{function}` defined?",
            "Find the file whose module body defines `{function}`.",
        ),
        "It is defined once, in the module body of one file.",
        of_view=_function_files,
    ),
    Template(
        "T23",
        "subclasses",
        "set",
        (
            "Which classes list `{base}` among their bases?",
            "Find all classes that inherit directly from `{base}`.",
            "Which classes name `{base}` as a direct base class?",
        ),
        "Take all files, nested and conditional classes too. A base counts by the last part of its name, what follows in square brackets "
        "ignored: `m.{base}` and `{base}[T]` are `{base}`. Give the bare names of the classes.",
        of_view=_subclasses,
    ),
    Template(
        "T24",
        "inheritance_chain",
        "number",
        (
            "How many classes are on the longest inheritance chain that ends in class `{class}`?",
            "How long is the longest chain of base classes that leads down to class `{class}`?",
            "Count the classes on the longest line of inheritance from the topmost base down to `{class}`.",
        ),
        "Only classes defined in the context count, `{class}` included. A base is matched to its class by the last part of its name, "
        "what follows in square brackets ignored.",
        of_view=_chains,
    ),
    Template(
        "T25",
        "longest_function",
        "identifier",
        (
            "Which function spans the most lines in {where}?",
            "What is the name of the longest function, by lines, in {where}?",
            "Find the function with the most lines in {where}.",
        ),
        "Take `def` and `async def` at any depth, methods too. Count from the line of `def` to the last line of the body, without "
        "decorators, with everything nested. Give the bare name after `def`.",
        of_view=_longest_function,
        foldered=True,
    ),
    Template(
        "T26",
        "file_with_most_classes",
        "path",
        (
            "Which file defines the most classes, of {where}?",
            "In {where}, which one has the largest number of class definitions?",
            "Find the file with the most `class` statements among {where}.",
        ),
        "Every `class` statement counts, also nested and conditional ones.",
        of_view=_most_classes,
        foldered=True,
    ),
    Template(
        "T27",
        "totals",
        "number",
        (
            "How many {what} are there in {where}?",
            "Count the {what} in {where}.",
            "What is the total number of {what} in {where}?",
        ),
        "Functions are `def` and `async def` at any depth, methods too, a repeated name each time. A generator function has a `yield` "
        "or `yield from` of its own, not only in functions or lambdas nested in it. A docstring is a plain string literal as the first "
        "statement, no f-string and no bytes.",
        of_view=_totals,
        foldered=True,
    ),
    Template(
        "T28",
        "call_count",
        "number",
        (
            "How many call expressions in {where} call something named `{function}`?",
            "Count the calls of `{function}` in {where}.",
            "What is the number of calls of `{function}` in {where}?",
        ),
        "A call counts when the last part of the called name is `{function}`: `{function}(...)` and `x.{function}(...)`, decorators with "
        "arguments and calls inside f-strings included; definitions, comments and other strings are no calls.",
        of_view=_call_counts,
        foldered=True,
    ),
)
