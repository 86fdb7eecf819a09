"""Peers as subprocesses of a venv of their own, benchmarks/.venv, which this file makes. TRL lies in it as a folder to put before ours."""

import json
import os
import re
import select
import shutil
import subprocess
import sys
from pathlib import Path

from tools.install import ROOT, find_links

HERE = Path(__file__).resolve().parent
VENV = HERE / ".venv"
PINS = {"rlms": ["rlms==0.1.3"], "dspy": ["dspy[deno]==3.4.1"]}
TRL = "trl==1.16.0"  # that of environment.yml does not train on a CPU; torch, transformers and peft are ours for both
INSTALL_LIMIT_S = 900
SECRET = re.compile("KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)


class Unavailable(Exception):
    """A peer cannot be installed, started or measured; the message is one line."""


def environment() -> dict[str, str]:
    """Ours without secrets. Deno keeps what it fetches in the venv."""
    return {name: value for name, value in os.environ.items() if not SECRET.search(name)} | {"DENO_DIR": str(VENV / "deno")}


def install(name: str) -> str:
    """Install a peer unless it is there, and return the Python to run it with."""
    python, pins = str(VENV / "bin/python"), PINS[name]
    if not _installed(name, pins):
        if not Path(python).exists():
            _run([sys.executable, "-m", "venv", str(VENV)], pins)
        _install(python, pins)
        (VENV / f"{name}.installed").write_text("\n".join(pins))
    return python


def trl_folder() -> Path:
    """Install TRL alone unless it is there, and return the folder to put before the packages of this Python."""
    folder = VENV / "trl"
    if not _installed("trl", [TRL]):
        folder.mkdir(parents=True, exist_ok=True)
        _install(sys.executable, [TRL], "--no-deps", "--upgrade", "--target", str(folder))
        (VENV / "trl.installed").write_text(TRL)
    return folder


def _installed(name: str, pins: list[str]) -> bool:
    stamp = VENV / f"{name}.installed"
    return stamp.exists() and stamp.read_text().split() == pins


def _install(python: str, pins: list[str], *options: str):
    uv = shutil.which("uv") or shutil.which("uv", path=str(ROOT / ".venv/bin"))
    links = [part for folder in find_links() for part in ("--find-links", folder)]
    install = [uv, "pip", "install", "--quiet", "--python", python, *links] if uv else [python, "-m", "pip", "install", "-q"]
    _run([*install, *options, *pins], pins)


def _run(command: list[str], pins: list[str]):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_LIMIT_S, env=environment())
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{pins[0]} could not be installed ({type(error).__name__}); is a package index reachable?") from None
    if done.returncode:
        raise Unavailable(f"{pins[0]} could not be installed: {' '.join(done.stderr.split())[-160:]}")


class Peer:
    """peers.py running in the venv: a request is a line of JSON, and so is its answer."""

    def __init__(self, name: str, limit_s: float):
        self._limit_s = limit_s
        command = [install(name), str(HERE / "peers.py"), name]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment(), cwd=HERE
        )
        self.version = self._answer()["version"]

    def measure(self, what: str, chars: int, repeats: int) -> list[float]:
        try:
            print(json.dumps({"measure": what, "chars": chars, "repeats": repeats}), file=self._process.stdin, flush=True)
        except BrokenPipeError:
            raise Unavailable("its process ended") from None
        return self._answer()["values"]

    def _answer(self) -> dict:
        ready, _, _ = select.select([self._process.stdout], [], [], self._limit_s)
        line = self._process.stdout.readline() if ready else ""
        if not line:
            self.close()
            raise Unavailable("its process ended" if ready else f"no answer in {self._limit_s:.0f} s")
        answer = json.loads(line)
        if "error" in answer:
            self.close()
            raise Unavailable(answer["error"])
        return answer

    def close(self):
        self._process.kill()
        self._process.wait(timeout=10)
        self._process.stdin.close()
        self._process.stdout.close()
