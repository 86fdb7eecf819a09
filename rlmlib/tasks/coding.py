"""Coding: questions on the syntax tree of real Python code, the running standard library.

Answers are computed by `ast` on the interpreter that asks, so they are right for the
code in the context whatever the Python version. Training and held-out questions come
from disjoint sets of modules.
"""

import ast
import functools
import random
import re
import sysconfig
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from ..errors import ConfigError
from .base import Example, Phrasings, Split, log_uniform

HEADER = "### file: "
TRIES = 200
_PLAIN_NAME = re.compile(r"[A-Za-z]{4,12}")  # what is asked about: one word, or a few in camel case
_TRAIN = (
    "argparse ast base64 bisect calendar cmd code codeop collections/__init__ configparser contextlib copy csv "
    "dataclasses datetime difflib dis doctest email/message email/utils email/header enum filecmp fileinput fnmatch "
    "fractions ftplib functools getopt gettext glob gzip hashlib heapq html/parser http/client http/cookies "
    "imaplib inspect ipaddress json/encoder json/decoder keyword linecache locale logging/__init__ logging/handlers "
    "mailbox mimetypes netrc ntpath numbers operator os pathlib pdb pickle pickletools platform plistlib poplib"
).split()
_HELDOUT = (
    "posixpath pprint profile pstats queue random reprlib sched selectors shelve shlex shutil smtplib socket "
    "socketserver ssl stat statistics string subprocess symtable tarfile tempfile textwrap threading timeit "
    "tokenize trace traceback turtle types typing unittest/case unittest/mock urllib/parse urllib/request uuid "
    "warnings wave weakref webbrowser xml/dom/minidom xmlrpc/client zipfile zipapp"
).split()

QUESTIONS = {
    "params": Phrasings(
        (
            "how many parameters the function `{n}` takes",
            "the number of parameters of the function `{n}`",
            "how many parameters `{n}` has",
            "the count of parameters of `{n}`",
            "the number of parameters that `{n}` takes",
        )
    ),
    "base": Phrasings(
        (
            "the first base class of the class `{n}`",
            "which class is the first base of `{n}`",
            "what the first base class of `{n}` is",
            "the class that is the first base of `{n}`",
            "which first base class `{n}` has",
        )
    ),
    "file": Phrasings(
        (
            "which file defines the class `{n}`",
            "in which file the class `{n}` is defined",
            "the file with the class `{n}`",
            "the file that defines the class `{n}`",
            "in what file the class `{n}` is",
        )
    ),
    "toplevel": Phrasings(
        (
            "how many functions the module body of {n} defines directly",
            "the number of functions defined directly in the module body of {n}",
            "how many functions are defined directly in the module body of {n}",
            "the count of functions directly in the module body of {n}",
        )
    ),
}


@dataclass(frozen=True)
class _Module:
    path: str
    source: str
    functions: tuple[tuple[str, int], ...]  # name, parameters of all kinds
    classes: tuple[tuple[str, str | None], ...]  # name, first base
    toplevel: int  # 0 where async functions would make the question ambiguous


@functools.cache
def _modules(heldout: bool) -> tuple[_Module, ...]:
    folder = Path(sysconfig.get_path("stdlib"))
    found = []
    for name in _HELDOUT if heldout else _TRAIN:
        path = folder / f"{name}.py"
        try:
            source = path.read_bytes().decode("utf-8").replace("\r\n", "\n")
            tree = ast.parse(source)
        except (OSError, UnicodeDecodeError, SyntaxError):
            continue  # this Python has no such module: ask about the others
        if len(source) <= 150_000:
            found.append(_read(f"{name}.py", source, tree))
    return tuple(found)


def _read(path: str, source: str, tree: ast.Module) -> _Module:
    functions, classes = [], []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            a = node.args
            count = len(a.posonlyargs + a.args + a.kwonlyargs) + bool(a.vararg) + bool(a.kwarg)
            functions.append((node.name, count))
        elif isinstance(node, ast.ClassDef):
            base = node.bases[0].id if node.bases and isinstance(node.bases[0], ast.Name) else None
            classes.append((node.name, base))
    plain = sum(isinstance(node, ast.FunctionDef) for node in tree.body)
    toplevel = 0 if any(isinstance(node, ast.AsyncFunctionDef) for node in tree.body) else plain
    return _Module(path, source, tuple(functions), tuple(classes), toplevel)


def make(rng: random.Random, split: Split, chars: tuple[int, int]) -> Example:
    """One question over whole files joined up to a target length. The name asked about is defined once."""
    pool = _modules(split == "heldout")
    for _ in range(TRIES):
        modules = _choose(rng, pool, log_uniform(rng, *chars), chars[1])
        task = rng.choice(list(QUESTIONS))
        candidates = _candidates(modules, task)
        if candidates:
            name, answer = rng.choice(candidates)
            context = "".join(f"{HEADER}{m.path}\n{m.source.rstrip()}\n" for m in modules)
            question = QUESTIONS[task].pick(rng, split).format(n=name)
            return Example("", "coding", task, split, question, context, answer)
    raise ConfigError(f"tasks.max_chars: {chars[1]} characters are too few for questions on code; use 5000 or more")


def _choose(rng, pool, target: int, ceiling: int) -> list[_Module]:
    modules, size = [], 0
    for module in rng.sample(pool, len(pool)):
        if size + len(module.source) <= max(target, 1.2 * min(len(m.source) for m in pool)) and size < target:
            modules.append(module)
            size += len(module.source)
    return modules if size <= ceiling else modules[:1]


def _candidates(modules, task: str) -> list[tuple[str, str]]:
    if task == "toplevel":
        return [(m.path, str(m.toplevel)) for m in modules if m.toplevel > 1]
    source = "\n".join(m.source for m in modules)
    if task == "params":
        defined = [(name, str(count)) for m in modules for name, count in m.functions if count > 0]
    elif task == "base":
        defined = [(name, base) for m in modules for name, base in m.classes if base]
    else:
        defined = [(name, m.path) for m in modules for name, _ in m.classes]
    times = Counter(name for m in modules for name, _ in (*m.functions, *m.classes))
    keyword = "def" if task == "params" else "class"

    def written_once(name: str) -> bool:  # also in docstrings, so that a text search finds the definition
        return sum(source.count(f"{keyword} {name}{end}") for end in "(:") == 1

    return [(n, answer) for n, answer in defined if times[n] == 1 and _PLAIN_NAME.fullmatch(n) and written_once(n)]
