"""Python codebases as text: the files of a folder, a wheel or an installed package, and what was left out of them."""

import ast
import hashlib
import io
import random
import re
import tokenize
import warnings
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from ...errors import DataError
from ..study import tokens
from .places import Place, locate

MAX_FILE_BYTES = 400_000
MAX_BYTES = 12_000_000  # some three million tokens, more than the longest context
_VENDORED = {"_vendor", "_vendored", "vendor", "vendored", "extern", "externals", "_externals", "third_party", "thirdparty"}
_TEST_FOLDERS = {"test", "tests"}
_TEST_FILE = re.compile(r"(test_.*|.*_test|conftest)\.py")
_ODD_PATH = re.compile(r"[\x00-\x1f\x7f\\]| =====|^/|(^|/)\.\.(/|$)|[\ud800-\udfff]")
_HEADER = re.compile(r"^===== file: ", re.MULTILINE)
_DEFINITION = re.compile(r"^\s*(async def|def|class)\s", re.MULTILINE)
_TABLE_TOKENS = 4_000  # smaller files are too cheap to matter
_TABLE_CHARS_PER_TOKEN = 2.5  # code has 3 to 5, tables of numbers and escapes less


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file. path: relative, with "/". text: no BOM, lines end with a line feed, the last one too. tokens: of its piece.

    facts: what the reader was asked to take from the syntax tree, so that no file is parsed twice for it.
    """

    path: str
    text: str
    tokens: int
    facts: object = None

    @property
    def piece(self) -> str:
        """The file as it stands in a context: a header line, then its text. Its first line is the one after the header."""
        return piece(self.path, self.text)


@dataclass(frozen=True)
class Codebase:
    """Files sorted by path. left_out: a line for each reason, with the number of files and the first of them."""

    name: str
    version: str
    files: tuple[SourceFile, ...]
    left_out: list[str]


def piece(path: str, text: str) -> str:
    return f"===== file: {path} =====\n{text}"


def read_codebase(
    spec: str,
    *,
    tests: bool = False,
    max_file_bytes: int = MAX_FILE_BYTES,
    max_bytes: int = MAX_BYTES,
    facts: Callable[[str, ast.Module], object] = lambda path, tree: None,
) -> Codebase:
    """Read a folder, a wheel (.whl, .zip) or an installed package, given by its import name.

    A word without "/" is an import name; write ./name for a folder beside you. tests: keep the tests. max_file_bytes: larger
    files are left out. max_bytes: of all files together; of a larger codebase whole folders are kept, the same ones each time.
    facts: of a file's path and syntax tree.
    Raises DataError where there is no such codebase, a wheel is damaged, or nothing is left to read.
    """
    with ExitStack() as stack:
        place = locate(spec, stack)
        left_out = defaultdict(list, {reason: list(paths) for reason, paths in place.left_out.items()})
        sizes = _wanted_sizes(place, tests, max_file_bytes, max_bytes, left_out)
        files = []
        for path in sorted(sizes):
            try:
                files.append(_read(path, place.read(path), facts))
            except _LeftOut as reason:
                left_out[str(reason)].append(path)
    lines = [f"{len(paths):,} {reason} (first: {ascii(min(paths))[1:-1]})" for reason, paths in sorted(left_out.items())]
    if not files:
        why = f"; left out: {'; '.join(lines)}" if lines else ""
        raise DataError(f"codebase {spec!r}: no Python file to ask about; give another folder, wheel or package{why}")
    return Codebase(place.name, place.version, tuple(files), lines)


def fingerprint(spec: str, *, tests: bool = False, max_file_bytes: int = MAX_FILE_BYTES, max_bytes: int = MAX_BYTES) -> str:
    """Hexadecimal digest of the version of a codebase and of the bytes of all files that `read_codebase` would open."""
    with ExitStack() as stack:
        place = locate(spec, stack)
        digest = hashlib.sha256(place.version.encode())
        for path in sorted(_wanted_sizes(place, tests, max_file_bytes, max_bytes, defaultdict(list))):
            digest.update(path.encode() + b"\0" + hashlib.sha256(place.read(path) or b"").digest())
        return digest.hexdigest()


def choose_part(sizes: Mapping[str, int], budget: int, seed: str) -> list[str]:
    """Sorted paths of whole folders, else whole files, that together stay within a budget and come near it.

    The order in which folders and files are tried is drawn from the seed.
    """
    chosen = []

    def fill(paths: list[str], depth: int, room: int) -> int:
        groups = defaultdict(list)
        for path in paths:
            groups["/".join(path.split("/")[: depth + 1])].append(path)
        names = sorted(groups)
        random.Random(f"{seed}/{depth}/{names[0]}").shuffle(names)
        for name in names:
            size = sum(sizes[path] for path in groups[name])
            if size <= room:
                chosen.extend(groups[name])
                room -= size
            elif groups[name] != [name]:
                room = fill(groups[name], depth + 1, room)
        return room

    if sizes:
        fill(sorted(sizes), 0, budget)
    return sorted(chosen)


class _LeftOut(Exception):
    """Why a file cannot be part of a context."""


def _wanted_sizes(place: Place, tests: bool, max_file_bytes: int, max_bytes: int, left_out: dict[str, list[str]]) -> dict[str, int]:
    """Path to bytes of the files to open. The others are added to left_out."""
    sizes = {}
    for path, size in place.sizes.items():
        reason = _unwanted(path, size, tests, max_file_bytes)
        if reason:
            left_out[reason].append(path)
        else:
            sizes[path] = size
    if sum(sizes.values()) > max_bytes:
        kept = set(choose_part(sizes, max_bytes, place.name))
        left_out[f"files beyond max_bytes={max_bytes:,}"].extend(path for path in sizes if path not in kept)
        sizes = {path: size for path, size in sizes.items() if path in kept}
    return sizes


def _unwanted(path: str, size: int, tests: bool, max_file_bytes: int) -> str | None:
    *folders, name = path.lower().split("/")
    if _ODD_PATH.search(path):
        return "files with a name that fits in no header line"
    if name.endswith(".pyi"):
        return "stubs (.pyi)"
    if not _VENDORED.isdisjoint(folders):
        return "files in vendored packages"
    if not tests and (not _TEST_FOLDERS.isdisjoint(folders) or _TEST_FILE.fullmatch(name)):
        return "tests"
    if size > max_file_bytes:
        return f"files over max_file_bytes={max_file_bytes:,}"
    return None


def _read(path: str, data: bytes | None, facts: Callable[[str, ast.Module], object]) -> SourceFile:
    if data is None:
        raise _LeftOut("files that cannot be read")
    if b"\0" in data:
        raise _LeftOut("files with NUL bytes")
    text = _decoded(data).replace("\r\n", "\n").replace("\r", "\n")
    if text and not text.endswith("\n"):
        text += "\n"
    if _HEADER.search(text):
        raise _LeftOut("files that hold a header line of a context")
    tree = _tree(text)
    count = tokens.count(piece(path, text))
    if count > _TABLE_TOKENS and (len(text) < _TABLE_CHARS_PER_TOKEN * count or not _DEFINITION.search(text)):
        raise _LeftOut("files of tables or without definitions")
    return SourceFile(path, text, count, facts(path, tree))


def _decoded(data: bytes) -> str:
    """Text by BOM or coding cookie, as Python reads it."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding)
        text.encode("utf-8")  # some codecs give lone surrogates, which no context can hold
    except (SyntaxError, ValueError, LookupError):
        raise _LeftOut("files that do not decode by their coding line, else UTF-8") from None
    return text


def _tree(text: str) -> ast.Module:
    try:
        return parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _LeftOut("files that this Python cannot parse") from None


def parse(text: str) -> ast.Module:
    """The syntax tree, without warnings about the text: they would be errors under `-W error`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)
