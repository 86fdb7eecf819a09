"""Makes .venv with the exact versions of environment.yml. Standard library only.

    python3.11 tools/install.py [--profile cpu|gpu] [--print]

uv does the work where it is found or can be had from the package index; pip otherwise.
Does nothing when the environment is up to date.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / "installed"
UV = "uv==0.13.9"
SUPPORTED = ((3, 11), (3, 12))
STEP_LIMIT_S = 1800


def pins(text: str, profile: str) -> list[str]:
    """Requirements of a profile from the pip list of environment.yml: cpu leaves out lines tagged [gpu]."""
    found = []
    for line in text.splitlines():
        match = re.match(r"\s+- ([A-Za-z0-9_.-]+==[^\s#]+)\s*(?:#\s*\[(\w+)\])?", line)
        if match and (match[2] is None or match[2] == profile):
            found.append(match[1])
    return found


def run(command: list[str], quiet: bool = False) -> bool:
    """Run a step with a time limit; False where it failed."""
    try:
        output = subprocess.DEVNULL if quiet else None
        return subprocess.run(command, stdout=output, stderr=output, timeout=STEP_LIMIT_S, cwd=ROOT).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def find_links() -> list[str]:
    """Local wheel folders that pip is set up to use; uv does not read pip's settings."""
    return [part for part in os.environ.get("PIP_FIND_LINKS", "").split() if Path(part).is_dir()]


def installers(python: str, profile: str) -> list[list[str]]:
    """Commands to try, fastest first; each is to be followed by the requirements."""
    commands = []
    uv = shutil.which("uv")
    if uv is None and run([python, "-m", "pip", "install", "--quiet", UV], quiet=True):
        uv = str(VENV / "bin" / "uv")
    if uv:
        # compiled once here: where Python may not write byte code, each kernel would else spend 10 s on it
        base = [uv, "pip", "install", "--python", python, "--quiet", "--compile-bytecode"]
        folders = [option for folder in find_links() for option in ("--find-links", folder)]
        if folders:
            commands.append(base + folders)
        if profile == "cpu":
            commands.append([*base, "--torch-backend", "cpu"])  # PyTorch's own CPU builds, a tenth of the size
    commands.append([python, "-m", "pip", "install", "--quiet"])
    return commands


def made_by_this_python() -> bool:
    """Whether .venv is there, runs, and is of this version of Python."""
    try:
        command = [VENV / "bin" / "python", "-c", "import sys; print(sys.version)"]
        asked = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return asked.stdout.strip() == sys.version


def install(profile: str) -> None:
    requirements = pins((ROOT / "environment.yml").read_text(), profile)
    wanted = hashlib.sha256("\n".join([profile, sys.version, str(ROOT), *requirements]).encode()).hexdigest()
    if STAMP.exists() and STAMP.read_text() == wanted:
        return
    if sys.version_info[:2] not in SUPPORTED:
        sys.exit(f"error: Python 3.11 or 3.12 is needed, this is {sys.version.split()[0]}; try make PYTHON=python3.11")
    print(f"installing {len(requirements)} packages and what they need into {VENV.name} ({profile} set)", flush=True)
    if not made_by_this_python():
        venv.create(VENV, with_pip=True, clear=VENV.exists())
    python = str(VENV / "bin" / "python")
    if not any(run([*command, *requirements]) for command in installers(python, profile)):
        sys.exit("error: the packages could not be installed; is a package index reachable? Run the command again to retry")
    site = subprocess.run([python, "-c", "import site; print(site.getsitepackages()[0])"], capture_output=True, text=True, timeout=60)
    Path(site.stdout.strip(), "rlmlib-source.pth").write_text(f"{ROOT}\n")  # rlmlib is used from this checkout
    STAMP.write_text(wanted)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--profile", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--print", action="store_true", help="print the requirements and stop")
    arguments = parser.parse_args()
    if arguments.print:
        print("\n".join(pins((ROOT / "environment.yml").read_text(), arguments.profile)))
    else:
        install(arguments.profile)


if __name__ == "__main__":
    main()
