"""`make dataset`: recipes of all examples from their sources, families side by side.

    python -m rlmlib.tasks.study.build [--params params/dataset.yaml] [--data FOLDER] [--out outputs/dataset] [--fresh]

A family that was built from the same parameters and sources is not built again, so the command can be killed and given again.
"""

import argparse
import dataclasses
import hashlib
import json
import multiprocessing
import os
import platform
import shutil
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from ...errors import RlmError, RunError
from ...notebook import ROOT, shown
from ...runs import RunDir, changed_keys, read_jsonl, rewrite_jsonl, write_json
from . import lengths, params, store, tokens
from .families import NAMES, family
from .fingerprints import made_of
from .params import DatasetParams
from .recipe import Family, Recipe

SPLITS = ("train", "eval")
WRITTEN = ("parts", store.RECIPES, "summary.json", "params.json")  # params.json, which shows what the folder is, goes last
TELL_EVERY_S = 20.0


def build(dataset: DatasetParams, out: Path, processes: int = 2, show: Callable[[str], None] = print, fresh: bool = False) -> dict:
    """Write OUT/recipes.jsonl and OUT/summary.json; returns the summary. fresh: whatever is there is built again.

    Raises DataError where a source is not as it should be, RunError where the folder is in use or holds something else.
    """
    began = time.monotonic()
    dataset.sources.check()
    with RunDir(out).lock(wait_s=0):
        _claim(out, dataset, fresh)
        digests = {name: made_of(name, dataset) for name in NAMES}
        waiting = []
        for name in NAMES:
            if why := _unbuilt(out, name, dataset, digests[name]):
                waiting.append(name)
                show(f"{name}: {why}")
        if waiting:
            _build_families(waiting, dataset, out, digests, processes, lambda line: show(f"[{time.monotonic() - began:4.0f} s] {line}"))
        parts = {name: _read_part(out, name) for name in NAMES}
        recipes = [recipe for name in NAMES for recipe in parts[name][1]]
        store.write_recipes(out, recipes)
        told = {key: {name: parts[name][0][key] for name in NAMES} for key in ("warnings", "notes")}
        summary = {**summarise(recipes, dataset), **told, "seconds": round(time.monotonic() - began, 1)}
        write_json(out / "summary.json", summary)
    return summary


def _build_families(names: list[str], dataset: DatasetParams, out: Path, digests: dict, processes: int, show: Callable[[str], None]):
    context = multiprocessing.get_context("spawn")
    lines = context.SimpleQueue()
    with ProcessPoolExecutor(min(processes, len(names)), context, _begin_worker, (lines,)) as pool:
        jobs = {pool.submit(build_family, name, dataset, out, digests[name]) for name in names}
        try:
            while jobs:
                done, jobs = wait(jobs, timeout=0.2)
                while not lines.empty():
                    show(lines.get())
                for job in done:
                    job.result()
        except BaseException as error:  # the others would go on for minutes before the error is seen
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            if isinstance(error, BrokenProcessPool):
                raise RunError(f"{shown(out)}: a building process was killed, mostly for want of memory; give the command again") from None
            raise


_tell: Callable[[str], None] = print


def _begin_worker(lines):
    """Where the lines of this process go; and it does not outlive the build, however that ends."""
    global _tell
    _tell = lines.put

    def end_with_parent():
        multiprocessing.parent_process().join()
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


def build_family(name: str, dataset: DatasetParams, out: Path, digests: dict[str, str]) -> int:
    """Build one family in this process; returns how many recipes it has. digests: what it is made of."""
    _tell(f"{name}: reading its sources")
    made = family(name, dataset, out / "cache")
    warned = _tell_warnings(made, 0)
    recipes, told, wanted = [], time.monotonic(), sum(dataset.counts(split)[name] for split in SPLITS)
    for split in SPLITS:
        targets = targets_of(name, split, dataset, made)
        warned = _tell_warnings(made, warned)
        for number, recipe in enumerate(made.recipes(split, targets, dataset.seed)):
            recipes.append(dataclasses.replace(recipe, id=f"{split}-{name}-{number:05d}"))
            if time.monotonic() - told > TELL_EVERY_S:
                told = time.monotonic()
                _tell(f"{name}: {len(recipes):,} of {wanted:,} recipes")
    rewrite_jsonl(out / f"parts/{name}.jsonl", (dataclasses.asdict(recipe) for recipe in recipes))
    write_json(out / f"parts/{name}.json", {"made_of": digests, "warnings": made.warnings, "notes": made.notes})
    _tell(f"{name}: {len(recipes):,} recipes")
    return len(recipes)


def _tell_warnings(made: Family, told: int) -> int:
    """Those that were not told yet; returns how many there are."""
    for warning in made.warnings[told:]:
        _tell(f"{made.name}: {warning}")
    return len(made.warnings)


def targets_of(name: str, split: str, dataset: DatasetParams, made) -> list[int]:
    """Context lengths to aim at. They stay under what the sources of a family hold."""
    wanted = dataset.lengths
    high = min(wanted.high, made.available(split))
    return lengths.targets(dataset.counts(split)[name], wanted.low, min(wanted.median, high), high, dataset.seed, f"{name}/{split}")


def summarise(recipes: list[Recipe], dataset: DatasetParams) -> dict:
    """Sizes, shares and lengths, in all and by family and split, and one hash of all recipes."""
    digest = hashlib.sha256("\n".join(f"{r.id} {r.sha256} {r.question} {r.answer}" for r in recipes).encode()).hexdigest()
    groups = {"all": recipes}
    for split in SPLITS:
        groups[split] = [r for r in recipes if r.split == split]
        groups |= {f"{split}/{name}": [r for r in groups[split] if r.family == name] for name in NAMES}
    return {
        "name": dataset.name,
        "seed": dataset.seed,
        "sha256": digest,
        "tokenizer": tokens.TOKENIZER,
        "python": platform.python_version(),
        "lengths": {group: lengths.summary([r.tokens for r in found]) for group, found in groups.items() if found},
        "shares": {split: {name: len(groups[f"{split}/{name}"]) / (len(groups[split]) or 1) for name in NAMES} for split in SPLITS},
    }


def _claim(out: Path, dataset: DatasetParams, fresh: bool):
    """Take a folder for these parameters. Raises RunError where it holds a whole dataset of others, or something else.

    Where the sources lie is not compared: their contents are (see made_of).
    """
    path, wanted = out / "params.json", dataset.model_dump(mode="json")
    if path.exists():
        try:
            there = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            there = None
        if there is not None and "sources" not in there:
            raise RunError(f"{shown(out)}: holds something else than a dataset; name another folder by OUT=...")
        if not fresh and (out / store.RECIPES).exists():
            if there is None:
                raise RunError(f"{shown(path)}: cannot be read; restore it, or start over (FRESH=1)")
            if changed := sorted(set(changed_keys(there, wanted)) - {"sources.folder"}):
                named = ", ".join(changed)
                raise RunError(f"{shown(out)}: holds a dataset of other parameters ({named}); name another OUT=..., or add FRESH=1")
    if fresh:
        for name in WRITTEN:
            _remove(out / name)
    write_json(path, wanted)


def _unbuilt(out: Path, name: str, dataset: DatasetParams, digests: dict[str, str]) -> str | None:
    """Why a family has to be built; None where it is there."""
    if not (out / f"parts/{name}.json").exists():
        return "is to be built"
    try:
        about, recipes = _read_part(out, name)
        if changed := sorted(key for key in about["made_of"].keys() | digests.keys() if about["made_of"].get(key) != digests.get(key)):
            return f"is built again, as what it was made of has changed: {', '.join(changed)}"
    except (RlmError, ValueError, TypeError, KeyError, OSError):
        return "is built again, as its part is damaged"
    complete = len(recipes) == sum(dataset.counts(split)[name] for split in SPLITS)
    return None if complete else "is built again, as its part is cut short"


def _read_part(out: Path, name: str) -> tuple[dict, list[Recipe]]:
    """What a family is made of with its warnings and notes, and its recipes."""
    recipes = [store.recipe_of(row) for row in read_jsonl(out / f"parts/{name}.jsonl", whole=True)]
    return json.loads((out / f"parts/{name}.json").read_text(encoding="utf-8")), recipes


def told(summary: dict) -> str:
    """The summary as lines for a terminal."""
    lines = [f"{'':20}{'examples':>9}{'median':>11}{'largest':>11}   Qwen tokens"]
    for group, found in summary["lengths"].items():
        lines.append(f"{group:20}{found['examples']:>9,}{found['median']:>11,}{found['max']:>11,}")
    lines += [f"{name}: {warning}" for name, warnings in summary["warnings"].items() for warning in warnings]
    notes = sum(map(len, summary["notes"].values()))
    lines += [f"notes on texts and files that were cleaned or left out: {notes}, in summary.json", f"sha256 {summary['sha256']}"]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m rlmlib.tasks.study.build", description=__doc__.split("\n")[0])
    parser.add_argument("--params", type=Path, default=ROOT / "params/dataset.yaml")
    parser.add_argument("--data", type=Path, help="folder of the sources; sources.folder of the params file if left out")
    parser.add_argument("--out", type=Path, default=ROOT / "outputs/dataset")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--fresh", action="store_true", help="start over")
    arguments = parser.parse_args()
    try:
        dataset = params.load(arguments.params, {"sources.folder": shown(arguments.data.absolute())} if arguments.data else {})
        summary = build(dataset, arguments.out, arguments.processes, lambda line: print(line, flush=True), arguments.fresh)
    except RlmError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(told(summary))
    print(f"{shown(arguments.out)}/{store.RECIPES} in {summary['seconds']:.0f} s")
    return 0


def _remove(path: Path):
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main())
