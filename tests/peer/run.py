"""Runs the tests of rlms 0.1.3 (github.com/alexzhang13/rlm) that any such REPL should pass, against this project's.

    make peer-tests

The source package is fetched with pip, checked against its hash, and unpacked into a temporary folder; nothing of it is
kept. choice.py says which tests are run, adapter.py how. Fails where fewer than 95 % of them pass.
"""

import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

from choice import DIFFERENT, FILES, FILES_LEFT_OUT, left_out

PACKAGE, SHA256 = "rlms==0.1.3", "00fa074b2c7bf5acf0607120e4dbfc58679365fbbceed96dff2af28577ca23e9"
WANTED = 0.95
FETCH_LIMIT_S, TESTS_LIMIT_S = 180, 300
HERE = Path(__file__).resolve().parent


class PeerError(Exception):
    """The tests could not be had or run."""


def fetch(folder: Path) -> Path:
    """The source package, as its hash says."""
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{PACKAGE} --hash=sha256:{SHA256}\n")
    name = PACKAGE.split("==")[0]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", name, "--require-hashes"]
    try:
        done = subprocess.run(
            [*command, "--requirement", str(requirements), "--dest", str(folder)], capture_output=True, text=True, timeout=FETCH_LIMIT_S
        )
        problem = pip_error(done.stderr) if done.returncode else None
    except subprocess.TimeoutExpired:
        problem = f"no answer in {FETCH_LIMIT_S} s"
    if problem:
        raise PeerError(f"the source of {PACKAGE} cannot be had ({problem}); run this where pip reaches an index that has it")
    return next(folder.glob(f"{name}-*.tar.gz"))


def pip_error(text: str) -> str:
    if "DO NOT MATCH THE HASHES" in text:
        return "what was sent has another hash"
    return next((line for line in reversed(text.splitlines()) if line.startswith("ERROR: ")), "pip failed without a word")


def unpack(source: Path, folder: Path) -> dict[str, str]:
    """Write its test files into the folder; their names and texts."""
    found = {}
    with tarfile.open(source) as archive:
        for member in archive.getmembers():
            path = Path(member.name)
            if member.isfile() and path.parts[1:] == ("tests", path.name) and path.name.startswith("test_"):
                found[path.name] = archive.extractfile(member).read().decode()
    if found.keys() != {*FILES, *FILES_LEFT_OUT}:
        raise PeerError(f"the test files of {PACKAGE} are not those that choice.py names; bring it up to date")
    for name, text in found.items():
        (folder / name).write_text(text)
    return found


def run(folder: Path) -> dict[str, str | None]:
    """Outcome of each test: None where it passed, or the first line of why not."""
    (folder / "pytest.ini").write_text("[pytest]\n")  # so that no settings of a folder above apply
    report = folder / "report.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "adapter", "-p", "no:cacheprovider", f"--junitxml={report}", *FILES]
    paths = [str(HERE), str(HERE.parent.parent)]
    environment = {"PATH": os.environ.get("PATH", os.defpath), "PYTHONPATH": os.pathsep.join(paths)}  # no keys for code of others
    try:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=TESTS_LIMIT_S)
    except subprocess.TimeoutExpired:
        raise PeerError(f"the tests took over {TESTS_LIMIT_S} s; run them again on a machine that is less busy") from None
    if done.returncode not in (0, 1):  # 1: some failed
        problem = (done.stdout + done.stderr).strip().splitlines()[-1]
        raise PeerError(f"pytest ended with {done.returncode} ({problem}); mend adapter.py or choice.py")
    found = outcomes(ElementTree.parse(report))
    if silent := set(FILES) - {file_of(name) for name in found}:
        raise PeerError(f"no test of {', '.join(sorted(silent))} was run; see what its imports need")
    return found


def file_of(name: str) -> str:
    return f"test_{name.split('::')[0]}.py"


def outcomes(report: ElementTree.ElementTree) -> dict[str, str | None]:
    found = {}
    for case in report.iter("testcase"):
        file = next((part for part in case.get("classname").split(".") if part.startswith("test_")), "")
        trouble = next((child for child in case if child.tag in ("failure", "error", "skipped")), None)
        why = None if trouble is None else (trouble.get("message") or trouble.tag).splitlines()[0]
        found[f"{file.removeprefix('test_')}::{case.get('name')}"] = why
    return found


def print_left_out(texts: dict[str, str], names: Iterable[str]):
    by_reason = defaultdict(list)
    for name in names:
        if reason := left_out(name):
            by_reason[reason].append(name)
    for reason, group in sorted(by_reason.items()):
        print(f"left out {len(group):3}  {reason}")
        for name in group:
            print(f"              {name}")
    for file, reason in FILES_LEFT_OUT.items():
        print(f"left out {len(re.findall(r'^ *def test_', texts[file], re.MULTILINE)):3}  {file}: {reason}")


def print_chosen(chosen: dict[str, str | None]):
    counts, passed = Counter(map(file_of, chosen)), Counter(file_of(name) for name, why in chosen.items() if why is None)
    for file, count in counts.items():
        print(f"passed {passed[file]:3} of {count:3}  {file}")
    for name, why in chosen.items():
        if why and name in DIFFERENT:
            print(f"differs     {name}: {DIFFERENT[name]}")
        elif why:
            print(f"FAILED      {name}: {why}")
        elif name in DIFFERENT:
            print(f"passed now  {name}: take it off DIFFERENT")


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="peer-tests-") as name:
        folder = Path(name)
        try:
            texts = unpack(fetch(folder), folder)
            found = run(folder)
        except PeerError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
    print_left_out(texts, found)
    chosen = {name: why for name, why in found.items() if left_out(name) is None}
    print_chosen(chosen)
    passed = sum(why is None for why in chosen.values())
    print(f"{passed} of {len(chosen)} chosen tests of {PACKAGE} pass ({passed / len(chosen):.1%}; {WANTED:.0%} wanted)")
    return 0 if passed >= WANTED * len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
