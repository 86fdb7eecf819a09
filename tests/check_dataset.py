"""`make dataset-check`: a built data set against independent readings of its contexts.

    python tests/check_dataset.py [--out outputs/dataset] [--data FOLDER] [--sample 200]

The parameters are those that the folder was built from. Lengths and shares; nothing shared between the splits, for which every
context is read; exact token counts of a few whole contexts a family; and the gold answers of sampled examples read again from the
text by code that shares nothing with the families. Exit code 1 if a check fails, 2 if there is nothing to check.
"""

import argparse
import random
import re
import sys
import time
from collections import defaultdict
from pathlib import Path

import aggregation_check
import code_check
import research_check

from rlmlib.errors import RlmError
from rlmlib.notebook import ROOT, resolve, shown
from rlmlib.params_file import override, validate
from rlmlib.scoring.static import check
from rlmlib.tasks.sources.classification import read_records
from rlmlib.tasks.study import params, tokens
from rlmlib.tasks.study.examples import built_params
from rlmlib.tasks.study.families import NAMES, Families
from rlmlib.tasks.study.lengths import summary
from rlmlib.tasks.study.recipe import Recipe, sha256
from rlmlib.tasks.study.store import ContextStore, read_recipes

WITHIN = 0.1  # of the median and the longest asked for
FEW = 100  # examples, below which their median says little
TELL_EVERY_S = 20.0
COUNTED = 12  # contexts a family whose tokens are counted as a whole
INSTANCE = re.compile(r"^Date: .*? \|\| User: \d+ \|\| Instance: (.*?)(?: \|\| Label: .*)?$", re.MULTILINE)
PAGE = re.compile(r"^===== page: (.*) =====$", re.MULTILINE)
CODE = re.compile(r"^===== file: ([^/\n]+)", re.MULTILINE)


class Report:
    def __init__(self):
        self.failed = 0

    def line(self, good: bool, text: str):
        self.failed += not good
        print(f"{'ok  ' if good else 'FAIL'} {text}", flush=True)


def sizes(recipes: list[Recipe], dataset: params.DatasetParams, report: Report):
    found, wanted = summary([r.tokens for r in recipes]), dataset.lengths
    for name, size, asked in (("median", found["median"], wanted.median), ("longest", found["max"], wanted.high)):
        near = abs(size / asked - 1) <= WITHIN
        few = len(recipes) < FEW
        report.line(near or few, f"{name} {size:,} tokens, {asked:,} asked for{' (too few examples to tell)' if few and not near else ''}")
    for split in ("train", "eval"):
        counts = {name: sum(r.split == split and r.family == name for r in recipes) for name in NAMES}
        told = ", ".join(f"{name} {count:,} ({count / max(1, sum(counts.values())):.1%})" for name, count in counts.items())
        report.line(counts == dataset.counts(split), f"{split}: {sum(counts.values()):,} examples, {told}")


def units(recipe: Recipe, context: str) -> dict[str, set[str]]:
    """What an example may not share with one of the other split, read from its context."""
    if recipe.family == "aggregation":
        return {"records": set(INSTANCE.findall(context))}
    if recipe.family == "coding":
        return {"packages": set(CODE.findall(context))}
    return {"gold pages": set(recipe.metadata["gold_pages"]), "pages": set(PAGE.findall(context))}


def leaks(recipes: list[Recipe], store: ContextStore, report: Report):
    """Every context of both splits is read once: minutes for a large set."""
    seen = defaultdict(lambda: {"train": set(), "eval": set()})
    stated, told = True, time.monotonic()
    for number, (recipe, context) in enumerate(store.texts(recipes)):
        if time.monotonic() - told > TELL_EVERY_S:
            told = time.monotonic()
            print(f"     {number:,} of {len(recipes):,} contexts read", flush=True)
        seen["questions"][recipe.split].add(recipe.question)
        for kind, found in units(recipe, context).items():
            seen[kind][recipe.split] |= found
        if recipe.family == "research":
            stated = stated and bool(recipe.metadata.get("shared_distractors"))
    for kind, sides in seen.items():
        shared = sides["train"] & sides["eval"]
        note = " (stated in each recipe: the sources are too small to be split)" if kind == "pages" and stated else ""
        text = f"{kind}: {len(sides['train']):,} in train, {len(sides['eval']):,} in eval, {len(shared):,} in both{note}"
        report.line(not shared or bool(note), text)


def golds(recipes: list[Recipe], store: ContextStore, dataset: params.DatasetParams, sample: int, report: Report):
    labels = {}
    for records in dataset.sources.records:
        if (records.name or records.format) not in {r.metadata["set"] for r in recipes if r.family == "aggregation"}:
            continue  # left out, or never drawn
        found = read_records(records.spec(resolve(dataset.sources.folder)))
        labels[found.name] = {record.text: record.label for record in found.records}

    def again(recipe: Recipe, context: str) -> str | None:
        if recipe.family == "coding":
            return code_check.recompute(recipe.metadata, context)
        if recipe.family == "aggregation":
            return aggregation_check.recompute(recipe.metadata, context, labels[recipe.metadata["set"]])
        return str(research_check.answer_of(context, recipe.metadata["query"]))

    for name in NAMES:
        known = [r for r in recipes if r.family == name and (name != "research" or r.metadata["generated"])]
        agreed = compared = 0
        for recipe in random.Random(f"check/{name}").sample(known, min(sample, len(known))):
            answer = again(recipe, store.text(recipe))
            if answer is not None:
                compared += 1
                good = check(answer, [recipe.answer], recipe.answer_type, recipe.question, judge=False) == "correct"
                agreed += good
                if not good:
                    print(f"     {recipe.id}: gold {recipe.answer!r}, read again {answer!r}")
        report.line(
            agreed == compared and (compared > 0 or not known),
            f"gold answers of {name} read again from the text: {agreed} of {compared} agree",
        )


def contexts(recipes: list[Recipe], store: ContextStore, report: Report):
    for name in NAMES:
        known = [r for r in recipes if r.family == name]
        chosen = random.Random(f"tokens/{name}").sample(known, min(COUNTED, len(known)))
        good = [sha256(text := store.text(r)) == r.sha256 and tokens.count(text) == r.tokens for r in chosen]
        report.line(all(good), f"hash and exact tokens of whole contexts of {name}: {sum(good)} of {len(good)} agree")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "outputs/dataset")
    parser.add_argument("--data", type=Path, help="folder of the sources, where it is not that of the build any more")
    parser.add_argument("--sample", type=int, default=200)
    arguments = parser.parse_args()
    try:
        return check_all(arguments.out, arguments.data, arguments.sample)
    except RlmError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def check_all(out: Path, data: Path | None, sample: int) -> int:
    recipes, report, dataset = read_recipes(out), Report(), built_params(out)
    if data:
        values = override(dataset.model_dump(mode="json"), {"sources.folder": shown(data.absolute())})
        dataset = validate(values, params.DatasetParams)
    dataset.sources.check()
    store = ContextStore(out, Families(dataset, out / "cache"), keep=False)
    sizes(recipes, dataset, report)
    contexts(recipes, store, report)
    golds(recipes, store, dataset, sample, report)
    leaks(recipes, store, report)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
