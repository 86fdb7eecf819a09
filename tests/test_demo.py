"""`python -m rlmlib.demo` on smoke parameters: whole, killed and resumed, and what errors look like."""

import contextlib
import json
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rlmlib.demo import is_done
from rlmlib.notebook import ROOT
from rlmlib.runs import RunDir, read_jsonl
from rlmlib.stages import Stage
from rlmlib.training import checkpoint

LIMIT_S = 600
STEPS = 3


def start(out, *extra, params="params/smoke.yaml"):
    command = [sys.executable, "-m", "rlmlib.demo", "--params", str(params), "--out", str(out), *extra]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(out, *extra, **options):
    process = start(out, *extra, **options)
    output, errors = process.communicate(timeout=LIMIT_S)
    return process.returncode, output, errors


@pytest.fixture(scope="module")
def params(tmp_path_factory):
    """Smoke parameters with one thread each, as three demos run at once."""
    text = (ROOT / "params/smoke.yaml").read_text().replace("steps: 2", f"steps: {STEPS}")
    path = tmp_path_factory.mktemp("params") / "smoke3.yaml"
    path.write_text(text + "policy:\n  threads: 1\n")
    return path


@pytest.fixture(scope="module")
def demos(tmp_path_factory, params):
    """The slow demos, side by side: name -> future."""
    scenarios = {"whole": run_whole, "killed": run_killed, "full disk": run_on_a_full_disk}
    with ThreadPoolExecutor(len(scenarios)) as pool:
        yield {name: pool.submit(scenario, tmp_path_factory.mktemp("demo"), params) for name, scenario in scenarios.items()}


@pytest.fixture(scope="module")
def whole(demos):
    return demos["whole"].result()


@pytest.fixture(scope="module")
def killed(demos):
    return demos["killed"].result()


def run_whole(folder, params):
    """An uninterrupted demo: (run directory, what it printed)."""
    code, output, errors = run(folder / "demo", params=params)
    assert code == 0, errors
    return RunDir(folder / "demo"), output


def run_killed(folder, params):
    """A demo that is killed with signal 9 in training, and run again to its end.

    Gives (run directory, steps done when it was killed, modification times of what was done, what of it lived on).
    """
    out = folder / "demo"
    process, deadline = start(out, params=params), time.monotonic() + LIMIT_S
    run_dir = RunDir(out)
    while not checkpoint.steps(run_dir):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    below = descendants(process.pid)  # the stage's process, its kernel, their workers
    process.kill()
    process.communicate(timeout=30)
    until = time.monotonic() + 60
    while any(map(alive, below)) and time.monotonic() < until:
        time.sleep(0.05)
    left = [pid for pid in below if alive(pid)]
    done = checkpoint.steps(run_dir)[-1]
    before = {p: p.stat().st_mtime_ns for p in (out / "eval/base/rollouts.jsonl", out / "rollouts/step_0.jsonl")}
    code, _, errors = run(out, params=params)
    assert code == 0, errors
    return run_dir, done, before, left


def run_on_a_full_disk(folder, params):
    """The disk is filled for real once training has begun, on a small file system of its own: (exit code, errors, what was done
    before), or None where it can't be mounted."""
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)], capture_output=True, timeout=30)
    if mounted.returncode:
        return None
    try:
        process, deadline = start(folder / "demo", params=params), time.monotonic() + LIMIT_S
        while not checkpoint.steps(RunDir(folder / "demo")):
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.05)
        fill(folder / "ballast")
        _, errors = process.communicate(timeout=LIMIT_S)
        return process.returncode, errors, checkpoint.steps(RunDir(folder / "demo"))
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True, timeout=30)


def fill(path: Path):
    """Take all that is left of a disk."""
    with open(path, "wb", buffering=0) as ballast, contextlib.suppress(OSError):
        while True:
            ballast.write(b"x" * 4096)


def descendants(pid: int) -> list[int]:
    children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, timeout=10).stdout.split()
    return [int(child) for child in children] + [found for child in children for found in descendants(int(child))]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_leaves_a_report_and_the_three_numbers(whole):
    run_dir, output = whole
    assert (run_dir / "report.html").stat().st_size > 100_000
    assert all(words in output for words in ("right answers", "leaf tokens a rollout", "no final answer", "report.html"))


def test_summary_holds_the_three_numbers_with_intervals(whole):
    summary = json.loads((whole[0] / "summary.json").read_text())
    for label in ("base", "trained"):
        for key in ("pass_at_1", "leaf_tokens_mean", "missing_final"):
            value, low, high = summary[label][key]
            assert low <= value <= high
    assert summary["n_rollouts"] == 12 and summary["seed"] == 7 and summary["seconds"] > 0


def test_the_adapter_was_really_trained(whole):
    rows = whole[0].metrics
    assert [row["step"] for row in rows] == list(range(STEPS))
    assert all(row["grad_norm"] > 0 and row["trained_tokens"] > 0 for row in rows)


def test_sampler_and_trainer_agree_at_equal_weights(whole):
    assert max(row["max_logprob_gap"] for row in whole[0].metrics) < 1e-3


def test_a_finished_demo_says_so_and_redoes_nothing(whole, params):
    run_dir, _ = whole
    before = (run_dir / "report.html").stat().st_mtime_ns
    code, output, _ = run(run_dir.path, params=params)
    assert code == 0 and output.count("done already") == 4
    assert (run_dir / "report.html").stat().st_mtime_ns == before


def test_after_kill_9_nothing_done_is_redone(killed):
    run_dir, done, before, _ = killed
    assert 0 < done < STEPS
    assert all(path.stat().st_mtime_ns == at for path, at in before.items())
    assert [row["step"] for row in run_dir.metrics] == list(range(STEPS))


def test_nothing_lives_on_after_kill_9(killed):
    assert killed[3] == []


def test_after_kill_9_the_run_ends_as_if_it_had_not_been_killed(whole, killed):
    def essence(run_dir):
        summary = json.loads((run_dir / "summary.json").read_text())
        timeless = [{k: v for k, v in row.items() if "seconds" not in k} for row in run_dir.metrics]
        answers = [(r["example"], r["index"], r["answer"]) for r in read_jsonl(run_dir / "eval/trained/rollouts.jsonl")]
        return {k: summary[k] for k in ("base", "trained", "n_rollouts", "seed")}, timeless, answers

    assert essence(killed[0]) == essence(whole[0])


def test_no_key_pattern_is_in_any_file_of_the_run(whole):
    secret = re.compile(r"(AIza[\w-]{30,}|sk-[A-Za-z0-9]{20,}|hf_[A-Za-z0-9]{20,})")
    texts = (p for p in whole[0].path.rglob("*") if p.suffix in (".json", ".jsonl", ".ipynb", ".html", ".log"))
    assert not [p for p in texts if secret.search(p.read_text(errors="replace"))]


def one_line(errors: str) -> str:
    lines = [line for line in errors.splitlines() if line.strip()]
    assert len(lines) == 1, errors
    return lines[0]


def test_a_misspelt_parameter_ends_in_one_line(tmp_path):
    bad = tmp_path / "bad.yaml"
    bad.write_text("name: bad\ntraining:\n  learning_rte: 0.1\n")
    code, _, errors = run(tmp_path / "demo", params=bad)
    assert code == 2
    assert "training.learning_rte: no such parameter" in one_line(errors)
    assert not (tmp_path / "demo").exists()


def test_unwritable_outputs_end_in_one_line(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    code, _, errors = run(tmp_path / "file/demo")
    assert code == 2
    assert "cannot be written" in one_line(errors)


def test_a_corrupt_checkpoint_ends_in_one_line(whole, params, tmp_path):
    broken = tmp_path / "demo"
    shutil.copytree(whole[0].path, broken)
    shutil.rmtree(broken / "eval/trained")
    weights = broken / f"checkpoints/step_{STEPS}/adapter_model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    code, _, errors = run(broken, params=params)
    assert code == 2
    line = one_line(errors)
    assert "corrupt checkpoint" in line and "adapter_model.safetensors" in line and "delete" in line


def test_a_full_disk_ends_in_one_line_and_loses_nothing(demos):
    result = demos["full disk"].result()
    if result is None:
        pytest.skip("mounting a file system needs root; test_runs.py simulates the full disk at the write")
    code, errors, saved = result
    assert code == 2
    assert "full" in one_line(errors)
    assert saved  # what was there before stays


@pytest.mark.parametrize("text, done", [('{"trained": {"a": 1}}', True), ('{"trained": null}', False), ("{", False), (None, False)])
def test_a_report_is_done_once_it_covers_the_trained_policy(tmp_path, text, done):
    if text is not None:
        (tmp_path / "summary.json").write_text(text)
    assert is_done(RunDir(tmp_path), Stage("report", "80_run_report", {}, "summary.json")) is done
