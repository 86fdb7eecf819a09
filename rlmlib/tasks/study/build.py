"""`make dataset`: recipes of all examples from their sources, families side by side.

    python -m rlmlib.tasks.study.build [--params params/dataset.yaml] [--data FOLDER] [--out outputs/dataset] [--fresh]

A family that was built from the same parameters is not built again, so the command can be killed and given again.
"""

import argparse
import dataclasses
import hashlib
import json
import multiprocessing
import platform
import shutil
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from ...errors import RlmError, RunError
from ...notebook import ROOT, shown
from ...runs import read_jsonl, rewrite_jsonl, write_json
from . import lengths, params, store, tokens
from .families import NAMES, family
from .params import DatasetParams
from .recipe import Recipe

SPLITS = ("train", "eval")
LIMIT_S = 4 * 3600


def build(dataset: DatasetParams, out: Path, processes: int = 2, show: Callable[[str], None] = print) -> dict:
    """Write OUT/recipes.jsonl and OUT/summary.json; returns the summary. Raises DataError where a source is not as it should be."""
    began = time.monotonic()
    dataset.sources.check()
    _claim(out, dataset)
    waiting = [name for name in NAMES if not _part(out, name).exists()]
    with ProcessPoolExecutor(min(processes, len(waiting) or 1), mp_context=multiprocessing.get_context("spawn")) as pool:
        jobs = {pool.submit(build_family, name, dataset, out): name for name in waiting}
        try:
            for done in as_completed(jobs, timeout=LIMIT_S):
                show(f"[{time.monotonic() - began:4.0f} s] {jobs[done]}: {done.result()} recipes")
        except BaseException:  # the others would go on for minutes before the error is seen
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise
    recipes = [recipe for name in NAMES for recipe in _read_part(out, name)]
    store.write_recipes(out, recipes)
    notes = {name: _notes(out, name) for name in NAMES}
    summary = {**summarise(recipes, dataset), "left_out": notes, "seconds": round(time.monotonic() - began, 1)}
    write_json(out / "summary.json", summary)
    return summary


def build_family(name: str, dataset: DatasetParams, out: Path) -> int:
    """Build one family in this process; returns how many recipes it has."""
    made = family(name, dataset, out / "cache")
    recipes = []
    for split in SPLITS:
        targets = targets_of(name, split, dataset, made)
        for number, recipe in enumerate(made.recipes(split, targets, dataset.seed)):
            recipes.append(dataclasses.replace(recipe, id=f"{split}-{name}-{number:05d}"))
    write_json(out / f"parts/{name}.notes.json", made.notes)
    rewrite_jsonl(_part(out, name), (dataclasses.asdict(recipe) for recipe in recipes))
    return len(recipes)


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


def _claim(out: Path, dataset: DatasetParams):
    """Take a folder for these parameters. Raises RunError where it holds a dataset of others."""
    path, wanted = out / "params.json", dataset.model_dump(mode="json")
    if path.exists() and json.loads(path.read_text()) != wanted:
        raise RunError(f"{shown(out)}: holds a dataset of other parameters; name another folder, or add FRESH=1")
    write_json(path, wanted)


def _part(out: Path, name: str) -> Path:
    return out / f"parts/{name}.jsonl"


def _read_part(out: Path, name: str) -> list[Recipe]:
    return [store.recipe_of(row) for row in read_jsonl(_part(out, name))]


def _notes(out: Path, name: str) -> list[str]:
    return json.loads((out / f"parts/{name}.notes.json").read_text())


def told(summary: dict) -> str:
    """The summary as lines for a terminal."""
    lines = [f"{'':20}{'examples':>9}{'median':>11}{'largest':>11}   Qwen tokens"]
    for group, found in summary["lengths"].items():
        lines.append(f"{group:20}{found['examples']:>9,}{found['median']:>11,}{found['max']:>11,}")
    left_out = [note for notes in summary["left_out"].values() for note in notes]
    lines += [f"sha256 {summary['sha256']}", f"{len(left_out)} notes on what was left out are in summary.json"]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m rlmlib.tasks.study.build", description=__doc__.split("\n")[0])
    parser.add_argument("--params", type=Path, default=ROOT / "params/dataset.yaml")
    parser.add_argument("--data", help="folder of the sources; sources.folder of the params file if left out")
    parser.add_argument("--out", type=Path, default=ROOT / "outputs/dataset")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--fresh", action="store_true", help="start over")
    arguments = parser.parse_args()
    try:
        dataset = params.load(arguments.params, {"sources.folder": arguments.data} if arguments.data else {})
        if arguments.fresh:
            for name in ("params.json", "parts"):
                _remove(arguments.out / name)
        summary = build(dataset, arguments.out, arguments.processes)
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
