"""Functions that stand in the codebases of both splits, as packages copy from one another."""

import hashlib
from collections.abc import Iterable, Iterator

from ...sources.codebases import SourceFile

LEAST_LINES = 10


def twins(first: Iterable[SourceFile], second: Iterable[SourceFile]) -> list[str]:
    """ "path:line and path:line" of each function of `second` whose lines, apart from indents, stand in `first` too."""
    known = {digest: place for place, digest in _functions(first)}
    return [f"{known[digest]} and {place}" for place, digest in _functions(second) if digest in known]


def _functions(files: Iterable[SourceFile]) -> Iterator[tuple[str, bytes]]:
    for file in files:
        functions = [function for function in file.facts.functions if function.lines >= LEAST_LINES]
        lines = [line.strip() for line in file.text.split("\n")] if functions else []
        for function in functions:
            text = "\n".join(lines[function.line - 1 : function.end_line])
            yield f"{file.path}:{function.line}", hashlib.sha256(text.encode()).digest()
