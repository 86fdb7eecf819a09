"""`make demo`: base evaluation, training, evaluation again, report, each a notebook run by papermill.

    python -m rlmlib.demo [--params params/tiny.yaml] [--out outputs/demo] [--fresh]

Every stage skips what is done and resumes what is not, so the command can be killed at any
moment and given again. Exit codes: 0 done, 2 an error told in one line, 130 interrupted.
"""

import argparse
import json
import subprocess
import sys
import threading
import time
from pathlib import Path

from . import config
from .command_line import end_as_by_ctrl_c, exit_code
from .errors import RunError
from .notebook import ROOT, shown
from .runs import RunDir, open_run, read_json, status_kept
from .stages import Stage, StageProcess, evaluation, training

STAGE_LIMIT_S = 4 * 3600


def stages(run: RunDir, params_path: Path, steps: int) -> list[Stage]:
    return [
        evaluation(run, params_path, "base"),
        training(run, params_path, steps),
        evaluation(run, params_path, "trained", steps),
        Stage("report", "80_run_report", {"run_dir": str(run.path.resolve())}, "summary.json"),
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
    """Whether its result is there; of a report, which may have been rendered midway by hand, that it covers the trained policy."""
    if stage.notebook == "80_run_report":
        return bool(read_json(run / stage.result).get("trained"))
    return (run / stage.result).exists()


def run_stage(run: RunDir, stage: Stage, title: str):
    """Execute a notebook, showing the progress that it writes. Raises RunError with the reason."""
    process = StageProcess(run, stage, run / f"logs/{stage.name.replace(' ', '_')}.log")
    stop = threading.Event()
    watcher = threading.Thread(target=_watch, args=(run, title, stop), daemon=True)
    watcher.start()
    try:
        process.wait(STAGE_LIMIT_S)
    except subprocess.TimeoutExpired:
        raise RunError(f"{stage.name}: took over {STAGE_LIMIT_S // 3600} h and was stopped; run again to resume") from None
    finally:
        stop.set()
        watcher.join(timeout=5)
        process.end()
    if problem := process.problem():
        raise RunError(f"{stage.name}: {problem}")


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
