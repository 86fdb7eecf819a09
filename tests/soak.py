"""`make soak`: 100 tiny steps, killed -9 at 50 random moments, must end as a run that nobody disturbed.

    python tests/soak.py [--steps 100] [--kills 50] [--seed 0] [--out outputs/soak]

Both runs train the same params in child processes. After each kill the run directory must be readable and no process of the
run may be left; at the end metrics (all but seconds) and adapter must be equal, bit for bit. Exit code 0 if so.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from rlmlib.runs import RunDir, write_text
from rlmlib.training import checkpoint

ROOT = Path(__file__).resolve().parent.parent
STEP_LIMIT_S = 300  # without a new step in this time a run hangs
PARAMS = """\
name: soak
policy: {{threads: 1}}
harness: {{max_turns: 3, output_chars: 120}}
tasks: {{min_chars: 1500, max_chars: 3000, coding: 0.0, research: 0.65, two_hop: 0.0, pool: 64}}
training:
  {{steps: {steps}, prompts_per_step: 2, keep_all_right: true, warmup_steps: 10, schedule: cosine, evaluate_every: 7, evaluate_examples: 2}}
"""


def start(params: Path, out: Path) -> subprocess.Popen:
    command = [sys.executable, "-m", "rlmlib.training.launch", "--params", str(params), "--out", str(out)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SOAK_RUN": str(out.resolve())}
    with open(out.with_suffix(".log"), "ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True, cwd=ROOT)


def rows(out: Path) -> list[dict]:
    """Metrics without what no two runs share."""
    return [{k: v for k, v in row.items() if not k.endswith("_seconds")} for row in RunDir(out).metrics]


def left_over(out: Path, wait_s: float = 10.0) -> list[int]:
    """Processes of the run that live on after its kill; those that die of it get a moment."""
    mark = f"SOAK_RUN={out.resolve()}".encode()
    deadline = time.monotonic() + wait_s
    while True:
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (folder / "environ").read_bytes() and (folder / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
                    found.append(int(folder.name))
            except OSError:
                continue
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.1)


def wait_for_step(child: subprocess.Popen, out: Path, count: int):
    """Until the run has so many steps, or has ended."""
    deadline = time.monotonic() + STEP_LIMIT_S
    while len(RunDir(out).metrics) < count and child.poll() is None:
        if time.monotonic() > deadline:
            child.kill()
            sys.exit(f"FAIL no step in {STEP_LIMIT_S} s; see {out.with_suffix('.log')}")
        time.sleep(0.02)


def undisturbed(params: Path, out: Path) -> float:
    """Seconds a step."""
    child, began = start(params, out), time.monotonic()
    wait_for_step(child, out, 1)
    first, steps = time.monotonic(), len(rows(out))
    while child.poll() is None:
        wait_for_step(child, out, len(rows(out)) + 1)
    if child.returncode:
        sys.exit(f"FAIL the undisturbed run ended with {child.returncode}; see {out.with_suffix('.log')}")
    print(f"undisturbed: {len(rows(out))} steps in {time.monotonic() - began:.0f} s", flush=True)
    return (time.monotonic() - first) / max(1, len(rows(out)) - steps)


def disturbed(params: Path, out: Path, kills: int, steps: int, step_s: float, rng: random.Random):
    """Train, killing the run and all its children at random moments: while it starts, samples, trains, or writes."""
    for number in range(kills):
        before, child = len(rows(out)), start(params, out)
        share = (steps - 1 - before) / (kills - number)  # steps that this life may make, so that the kills last to the end
        ahead = rng.randint(0, max(0, round(2 * share)))
        wait_for_step(child, out, before + ahead)
        time.sleep(rng.uniform(0, step_s if ahead else 6.0))
        if child.poll() is not None:
            sys.exit(f"FAIL the run ended before kill {number + 1} with {child.returncode}; see {out.with_suffix('.log')}")
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        if found := left_over(out):
            sys.exit(f"FAIL kill {number + 1} left processes: {found}")
        run = RunDir(out)
        for step in checkpoint.steps(run):
            checkpoint.verify(run / f"checkpoints/step_{step}")
        print(f"kill {number + 1}: {before} steps at the start, {len(rows(out))} at the end", flush=True)
    child = start(params, out)
    while child.poll() is None:
        wait_for_step(child, out, len(rows(out)) + 1)
    if child.returncode:
        sys.exit(f"FAIL the last life ended with {child.returncode}; see {out.with_suffix('.log')}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("outputs/soak"))
    arguments = parser.parse_args()
    shutil.rmtree(arguments.out, ignore_errors=True)
    params, calm, stormy = (arguments.out / name for name in ("params.yaml", "calm", "stormy"))
    write_text(params, PARAMS.format(steps=arguments.steps))
    step_s = undisturbed(params, calm)
    disturbed(params, stormy, arguments.kills, arguments.steps, step_s, random.Random(arguments.seed))
    for number, (expected, found) in enumerate(zip(rows(calm), rows(stormy), strict=True)):
        if expected != found:
            changed = ", ".join(key for key in expected if expected[key] != found.get(key))
            sys.exit(f"FAIL step {number} differs from the undisturbed run: {changed}")
    adapters = [(out / f"checkpoints/step_{arguments.steps}/adapter_model.safetensors").read_bytes() for out in (calm, stormy)]
    if adapters[0] != adapters[1]:
        sys.exit("FAIL the adapters differ")
    print(f"ok {arguments.steps} steps with {arguments.kills} kills are those of the undisturbed run")


if __name__ == "__main__":
    main()
