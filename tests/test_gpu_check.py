"""The GPU check without a GPU: what it says then, its rehearsal's cheap part, and that no failure hides another."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BENCHMARKS = ROOT / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import gpu_check  # noqa: E402
import gpu_table  # noqa: E402
from processes import answer_of  # noqa: E402
from venv_of_peers import Unavailable  # noqa: E402


def test_without_a_gpu_it_says_so_in_one_line():
    command = [sys.executable, str(BENCHMARKS / "gpu_check.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=os.environ | {"CUDA_VISIBLE_DEVICES": ""})
    assert done.returncode == 3 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and "no CUDA GPU" in done.stderr and "tools/install.py --profile gpu" in done.stderr


def test_rehearsal_of_the_head(tmp_path, capsys):
    assert gpu_check.main(["--rehearse", "--parts", "head", "--out", str(tmp_path)]) == 0
    (path,) = tmp_path.iterdir()
    result = json.loads(path.read_text())
    assert path.name == f"gpu-rehearsal-{result['date']}.json"
    checks = result["parts"]["head"]["checks"]
    assert {row["status"] for row in checks} == {"ok"} and len(checks) == 4
    assert all(0 < row["value"] < row["limits"]["most"] for row in checks), "bfloat16 is never exact"
    assert "ok    log-probs, largest error" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("on_gpu", "left_out", "code"),
    [(False, {"broken", "crashed", "wrong"}, 0), (True, {"broken", "crashed", "wrong"}, 1), (False, set(), 1)],
)
def test_a_failing_part_hides_no_other(monkeypatch, tmp_path, on_gpu, left_out, code):
    def broken(bench):
        """Its process fails."""
        raise Unavailable("numbers: out of memory")

    def crashed(bench):
        """It has a fault of its own."""
        return {}["absent"]

    def missing(bench):
        """Its package is not there."""
        raise gpu_check.NotRun("vllm is not installed")

    def wrong(bench):
        """A number is over its limit."""
        return [gpu_check.check("error", 0.2, 0.1)]

    def right(bench):
        """All is well."""
        return [gpu_check.check("error", 0.05, 0.1)]

    parts = {part: 1 for part in (broken, crashed, missing, wrong, right)}
    monkeypatch.setattr(gpu_check, "PARTS", parts)
    monkeypatch.setattr(gpu_check.torch.cuda, "is_available", lambda: on_gpu)
    monkeypatch.setattr(gpu_check.Bench, "work", lambda *_, **__: {"card": "NVIDIA H200", "memory_gb": 150.0})
    chosen = ",".join(part.__name__ for part in parts if part.__name__ not in left_out)
    assert gpu_check.main(["--parts", chosen, "--out", str(tmp_path), *([] if on_gpu else ["--rehearse"])]) == code
    (path,) = tmp_path.iterdir()
    assert path.name.startswith("gpu-nvidia-h200-" if on_gpu else "gpu-rehearsal-")
    found = {name: (part["status"], part["why"]) for name, part in json.loads(path.read_text())["parts"].items()}
    assert found["missing"] == ("not run", "vllm is not installed") and found["right"] == ("ok", "")
    if not left_out:
        assert found["broken"] == ("FAIL", "numbers: out of memory") and found["crashed"] == ("FAIL", "KeyError: 'absent'")
        assert found["wrong"] == ("FAIL", "see its checks")


@pytest.mark.parametrize(
    ("value", "limits", "status"),
    [
        (1.0, {"most": 1.0}, "ok"),
        (1.1, {"most": 1.0}, "FAIL"),
        (0.9, {"least": 1.0}, "FAIL"),
        (True, {"equal": True}, "ok"),
        (19, {"equal": 20}, "FAIL"),
        (float("nan"), {}, "FAIL"),
        (None, {"most": 1.0}, "FAIL"),
    ],
)
def test_limits(value, limits, status):
    assert gpu_check.check("it", value, **limits)["status"] == status


def test_a_package_that_is_missing_is_named(tmp_path):
    with pytest.raises(gpu_check.NotRun, match="absent_package is not installed; install the gpu set"):
        gpu_check.Bench(tmp_path, True).python("absent_package")
    assert gpu_check.Bench(tmp_path, True).python("torch") == sys.executable


def test_a_process_that_hangs_is_ended_with_its_children(tmp_path):
    script, child = tmp_path / "hang.py", tmp_path / "child"
    code = f"import os, sys, time; open({str(child)!r}, 'w').write(str(os.getpid())); time.sleep(300)"
    script.write_text(f"import subprocess, sys; subprocess.run([sys.executable, '-c', {code!r}])")
    with pytest.raises(Unavailable, match="work: no result in 3 s"):
        answer_of(script, "work", {}, 3)
    until = time.monotonic() + 30
    while Path(f"/proc/{child.read_text()}").exists() and "State:\tZ" not in Path(f"/proc/{child.read_text()}/status").read_text():
        assert time.monotonic() < until, "the child is still there"
        time.sleep(0.05)


def test_the_error_of_a_process_is_its_reason(tmp_path, capsys):
    script = tmp_path / "fail.py"
    script.write_text(
        "import atexit, sys\natexit.register(lambda: print('engine shut down', file=sys.stderr))\nraise ValueError('of the head')"
    )
    with pytest.raises(Unavailable, match="^work: ValueError: of the head$"):
        answer_of(script, "work", {}, 60)
    assert "engine shut down" in capsys.readouterr().err


def made_up(card: str) -> dict:
    told = [gpu_check.check("tokens a second", 7000.4), gpu_check.check("peak memory, allocated, MB", 24_321)]
    part = {"status": "ok", "why": "", "checks": told, "seconds": 100.0}
    missing = {"status": "not run", "why": "trl is not installed", "checks": [], "seconds": 0.1}
    where = {"card": card, "memory_gb": 150.0, "driver": "580.1", "cuda": "13.0", "date": "2026-12-01", "commit": "abc"}
    return where | {"parts": {"steps": part, "trl": missing}}


def test_table_has_a_row_a_run():
    lines = gpu_table.table([made_up("NVIDIA H200"), made_up("NVIDIA L4")]).splitlines()
    assert len(lines) == 6
    assert lines[4] == "| NVIDIA H200, 150.0 GB, driver 580.1, CUDA 13.0 | 2026-12-01, abc | 7,000 | - | - | 24.3 | - | - | - | 1 of 2 |"


def test_readme_has_the_table_of_the_results_that_are_there(tmp_path):
    readme = ROOT / "README.md"
    copy = tmp_path / "README.md"
    copy.write_text(readme.read_text())
    gpu_table.fill_in(copy)
    assert copy.read_text() == readme.read_text() and len(gpu_table.MARKS.findall(copy.read_text())) == 1
    (tmp_path / "gpu-nvidia-h200-2026-12-01.json").write_text(json.dumps(made_up("NVIDIA H200")))
    gpu_table.fill_in(copy, tmp_path)
    assert "| NVIDIA H200, 150.0 GB" in copy.read_text() and gpu_table.NONE not in copy.read_text()


def test_ours_is_told_beside_trl():
    parts = {"steps": made_up("x")["parts"]["steps"]}
    assert gpu_check.side_by_side(parts) == []
    rows = gpu_check.side_by_side(parts | {"trl": parts["steps"]})
    assert [row["value"] for row in rows] == [1.0, 1.0]
