"""Where a codebase lies: the Python files of a folder, a wheel or an installed package, listed but not read."""

import functools
import importlib.machinery
import importlib.metadata
import importlib.util
import os
import platform
import re
import stat
import sys
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from ...errors import DataError

_ARCHIVES = {".whl", ".zip"}
_SUFFIXES = (".py", ".pyi")
_ENVIRONMENTS = {"site-packages", "node_modules", "venv"}
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError)  # the last for an unknown compression or a password


@dataclass
class Place:
    """Files by path, relative and with "/". sizes: in bytes. read: bytes of a path, None where it cannot be read.

    left_out: reason to paths of what is never read.
    """

    name: str
    version: str
    sizes: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    read: Callable[[str], bytes | None] = lambda path: None


def codebase_name(spec: str) -> str:
    """Name of a codebase, from its spec alone."""
    path = Path(spec).expanduser()
    if not is_path(spec):
        return spec
    if path.suffix.lower() in _ARCHIVES:
        return path.stem.split("-")[0] if path.suffix.lower() == ".whl" else path.stem
    return path.resolve().name


def locate(spec: str, stack: ExitStack) -> Place:
    """List a codebase. An archive stays open until the stack is closed."""
    if not is_path(spec):
        return _installed(spec)
    path = Path(spec).expanduser()
    if path.is_dir():
        place, found = Place(codebase_name(spec), ""), {}
        _list_folder(path.resolve(), codebase_name(spec), place, found)
        return place
    if not path.exists():
        raise DataError(f"codebase {spec!r}: no such file or folder; check the path")
    if path.suffix.lower() not in _ARCHIVES:
        raise DataError(f"codebase {spec!r}: neither a folder nor a .whl or .zip file; give one of these or an import name")
    return _archive(path, spec, stack)


def is_path(spec: str) -> bool:
    """Whether a spec is a folder, a wheel or a zip file, rather than an import name."""
    return "/" in spec or "\\" in spec or spec in (".", "..", "~") or Path(spec).suffix.lower() in _ARCHIVES


def _installed(spec: str) -> Place:
    """An installed package or module, found without importing it."""
    top, *inner = spec.split(".")
    try:  # what lies on the path itself comes first: hooks such as that of setuptools give another package for some names
        found = importlib.machinery.PathFinder.find_spec(top) or importlib.util.find_spec(top)
    except (ImportError, ValueError):
        found = None
    if found is None:
        raise DataError(f"codebase {spec!r}: no package of this import name is installed; install it, or write ./{spec} for a folder")
    place, files = Place(spec, _version(spec)), {}
    folders = [Path(folder, *inner) for folder in found.submodule_search_locations or ()]
    for folder in filter(Path.is_dir, folders):
        _list_folder(folder, "/".join([top, *inner]), place, files)
    if not folders and not inner and found.origin and found.origin.endswith(".py"):
        _list_file(Path(found.origin), f"{top}.py", place, files)
    return place


def _version(spec: str) -> str:
    """Of the distribution that holds a package; of Python for its own library; of all where several share a namespace."""
    top = spec.partition(".")[0]
    if top in sys.stdlib_module_names:
        return platform.python_version()
    holders = sorted(set(_distributions().get(top, ())))
    own = [name for name in holders if re.sub(r"[-_.]+", ".", name).lower() == spec.replace("_", ".").lower()]
    versions = [importlib.metadata.version(name) for name in own or holders]
    if len(versions) < 2:
        return "".join(versions)
    return ", ".join(f"{name} {version}" for name, version in zip(own or holders, versions, strict=True))


@functools.cache
def _distributions():
    return importlib.metadata.packages_distributions()


def _list_folder(root: Path, prefix: str, place: Place, files: dict[str, Path]):
    """Add the files under a folder to a place. files: where each of them lies."""
    for folder, folders, names in os.walk(root):
        inner = Path(folder).relative_to(root).parts
        for name in sorted(folders):
            path = "/".join((prefix, *inner, name))
            if os.path.islink(os.path.join(folder, name)):
                place.left_out["symlinks"].append(path)
            elif name.startswith(".") or name in _ENVIRONMENTS:
                place.left_out["hidden folders and environments"].append(path)
        folders[:] = [name for name in folders if not name.startswith(".") and name not in _ENVIRONMENTS]
        for name in names:
            if name.endswith(_SUFFIXES):
                _list_file(Path(folder, name), "/".join((prefix, *inner, name)), place, files)


def _list_file(file: Path, path: str, place: Place, files: dict[str, Path]):
    try:
        status = file.lstat()
    except OSError:
        place.left_out["files that cannot be read"].append(path)
        return
    if stat.S_ISLNK(status.st_mode):
        place.left_out["symlinks"].append(path)
    elif not stat.S_ISREG(status.st_mode):
        place.left_out["not plain files"].append(path)
    elif path not in files:
        files[path] = file
        place.sizes[path] = status.st_size
        place.read = lambda path: _bytes(files[path])


def _bytes(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except OSError:
        return None


def _archive(path: Path, spec: str, stack: ExitStack) -> Place:
    """A wheel or zip file. The folders that a wheel installs beside its packages are read as the packages they become."""

    def damaged(error) -> DataError:
        return DataError(f"codebase {spec!r}: the archive is damaged ({' '.join(str(error).split())}); get it again")

    try:
        archive = stack.enter_context(zipfile.ZipFile(path))
    except _DAMAGED as error:
        raise damaged(error) from None
    version = path.stem.split("-")[1] if path.suffix.lower() == ".whl" and "-" in path.stem else ""
    place, members = Place(codebase_name(spec), version), {}
    for info in archive.infolist():
        name = re.sub(r"^[^/]+\.data/(purelib|platlib)/", "", info.filename)
        if not name.endswith(_SUFFIXES):
            continue
        if stat.S_ISLNK(info.external_attr >> 16):
            place.left_out["symlinks"].append(name)
        else:
            members[name], place.sizes[name] = info, info.file_size

    def read(name: str) -> bytes:
        try:
            return archive.read(members[name])
        except _DAMAGED as error:
            raise damaged(error) from None

    place.read = read
    return place
