"""`make demo`: base evaluation, training, evaluation again, report, each a notebook run by papermill.

    python -m rlmlib.demo [--params params/tiny.yaml] [--out outputs/demo] [--fresh]

Every stage skips what is done and resumes what is not, so the command can be killed at any
moment and given again. Exit codes: 0 done, 2 an error told in one line, 130 interrupted.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from . import config
from .command_line import end_as_by_ctrl_c, exit_code
from .errors import RunError
from .notebook import ROOT, shown
from .runs import RunDir, open_run, status_kept, write_json

STAGE_LIMIT_S = 4 * 3600
LEAST_FREE = 1 << 20  # bytes; with less, a stage can't say why it failed
ATTEMPTS_LOG = "attempts.jsonl"


@dataclass(frozen=True)
class Stage:
    """A notebook of the demo and the file that its result is."""

    name: str
    notebook: str
    parameters: dict
    result: str


def stages(run: RunDir, params_path: Path, steps: int) -> list[Stage]:
    common = {"params": str(params_path), "run_dir": str(run.path.resolve())}
    return [
        Stage("evaluate base", "50_evaluate", {**common, "label": "base", "step": -1}, "eval/base/summary.json"),
        Stage("train", "40_train", common, f"checkpoints/step_{steps}/manifest.json"),
        Stage("evaluate trained", "50_evaluate", {**common, "label": "trained", "step": steps}, "eval/trained/summary.json"),
        Stage("report", "90_report", {"run_dir": common["run_dir"]}, "summary.json"),
    ]


def demo(params_path: Path, out: Path, fresh: bool) -> RunDir:
    """Run all stages. Raises RlmError with the reason in one line."""
    params = config.load(params_path)
    run = open_run(out, params, fresh)
    with status_kept(run, "demo"):
        plan = stages(run, params_path.resolve(), params.training.steps)
        for number, stage in enumerate(plan, 1):
            title = f"[{number}/{len(plan)}] {stage.name}"
            if is_done(run, stage):
                print(f"{title}: done already")
                continue
            began = time.monotonic()
            run_stage(run, stage, title)
            print(f"{title}: done in {time.monotonic() - began:.0f} s")
    return run


def is_done(run: RunDir, stage: Stage) -> bool:
    """A result is there; a report counts only if it covers the trained policy (it may be rendered midway by hand)."""
    path = run / stage.result
    if stage.notebook != "90_report" or not path.exists():
        return path.exists()
    return bool(json.loads(path.read_text()).get("trained"))


def run_stage(run: RunDir, stage: Stage, title: str):
    """Execute a notebook in a process group of its own, showing the progress that it writes."""
    log = run / f"logs/{stage.name.replace(' ', '_')}.log"
    failure = run / "logs/failure.json"
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        failure.unlink(missing_ok=True)
        (run / "progress.json").unlink(missing_ok=True)
        write_json(run / "logs/stage.json", {"notebook": stage.notebook, "name": stage.name, "parameters": stage.parameters})
        output = open(log, "ab")  # noqa: SIM115 - handed to the child
    except OSError as error:
        raise RunError(f"{log}: cannot be written ({error.strerror}); is the disk full or the folder read-only?") from None
    command = [sys.executable, "-m", "rlmlib.execute", str(run.path.resolve()), str(os.getpid())]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))}
    with output:
        child = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, env=environment, start_new_session=True)
    stop = threading.Event()
    watcher = threading.Thread(target=_watch, args=(run, title, stop), daemon=True)
    watcher.start()
    try:
        code = child.wait(timeout=STAGE_LIMIT_S)
    except subprocess.TimeoutExpired:
        raise RunError(f"{stage.name}: took over {STAGE_LIMIT_S // 3600} h and was stopped; run again to resume") from None
    finally:
        stop.set()
        watcher.join(timeout=5)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL if child.poll() is not None else signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(timeout=15)
    if code:
        raise RunError(_reason(failure, stage, code, log))
    if not (run / stage.result).exists():
        raise RunError(f"{stage.name}: ended without {stage.result}; see {shown(log)}")


def _reason(failure: Path, stage: Stage, code: int, log: Path) -> str:
    try:
        told = json.loads(failure.read_text())
        return f"{stage.name}: {told['message']}"
    except (OSError, ValueError, KeyError):
        pass
    if shutil.disk_usage(log.parent).free < LEAST_FREE:
        return f"{stage.name}: the disk is full, so not even the reason could be written; free some and run the same command again"
    how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
    return f"{stage.name}: {how}; run the same command again to go on; details in {shown(log)}"


def _watch(run: RunDir, title: str, stop: threading.Event):
    """A bar with an ETA, drawn from progress.json."""
    from tqdm import tqdm

    pause = 0.5 if sys.stdout.isatty() else 15.0  # a log file gets a line now and then
    bar = None
    while not stop.wait(0.5):
        try:
            state = json.loads((run / "progress.json").read_text())
        except (OSError, ValueError):
            continue
        if bar is None:
            start = {"total": state["total"], "initial": state["done"]}
            bar = tqdm(**start, desc=title, unit="", mininterval=pause, file=sys.stdout, dynamic_ncols=True)
        bar.set_postfix_str(state["note"], refresh=False)
        bar.update(state["done"] - bar.n)
    if bar is not None:
        bar.close()


def verdict(run: RunDir) -> str:
    """Where the report is, and the three numbers that matter."""
    summary = json.loads((run / "summary.json").read_text())
    base, trained = summary["base"], summary["trained"]

    def line(name: str, key: str, form) -> str:
        return "  {:<24}{} -> {}".format(name, *(f"{form(v)} [{form(low)}, {form(high)}]" for v, low, high in (base[key], trained[key])))

    percent, tokens = (lambda x: f"{100 * x:.1f} %"), (lambda x: f"{x:,.0f}")
    return "\n".join(
        [
            f"Held-out questions, {summary['n_rollouts']} rollouts each, base -> trained [95 % intervals]:",
            line("right answers", "pass_at_1", percent),
            line("leaf tokens a rollout", "leaf_tokens_mean", tokens),
            line("no final answer", "missing_final", percent),
            f"Report: {shown(run / 'report.html')}   ({summary['seconds']:.0f} s of compute, seed {summary['seed']})",
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m rlmlib.demo", description=__doc__.split("\n")[0])
    parser.add_argument("--params", type=Path, default=ROOT / "params/tiny.yaml", help="params file (default: params/tiny.yaml)")
    parser.add_argument("--out", type=Path, default=ROOT / "outputs/demo", help="run directory (default: outputs/demo)")
    parser.add_argument("--fresh", action="store_true", help="delete the run directory first")
    arguments = parser.parse_args()
    end_as_by_ctrl_c()
    return exit_code(lambda: print(verdict(demo(arguments.params, arguments.out, arguments.fresh))), arguments.out)


if __name__ == "__main__":
    sys.exit(main())
