"""`make dataset-check`: a built data set against independent readings of its contexts.

    python tests/check_dataset.py [--out outputs/dataset] [--data FOLDER] [--sample 200]

Lengths and shares, nothing shared between the splits, hashes and exact token counts of sampled contexts, and the gold
answers of sampled examples read again from the text by code that shares nothing with the families. Exit code 1 if a check fails.
"""

import argparse
import random
import re
import sys
from collections import defaultdict
from pathlib import Path

import aggregation_check
import code_check
import research_check

from rlmlib.notebook import ROOT
from rlmlib.scoring.static import check
from rlmlib.tasks.sources.classification import read_records
from rlmlib.tasks.study import params, tokens
from rlmlib.tasks.study.families import NAMES, family
from rlmlib.tasks.study.lengths import summary
from rlmlib.tasks.study.recipe import Recipe, sha256
from rlmlib.tasks.study.store import ContextStore, read_recipes

MEDIAN, LONGEST, WITHIN = 437_000, 1_900_000, 0.1
SHARES = {"aggregation": 0.35, "research": 0.40, "coding": 0.25}
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


def sizes(recipes: list[Recipe], report: Report):
    found = summary([r.tokens for r in recipes])
    report.line(abs(found["median"] / MEDIAN - 1) <= WITHIN, f"median {found['median']:,} tokens")
    report.line(abs(found["max"] / LONGEST - 1) <= WITHIN, f"longest {found['max']:,} tokens")
    for split, wanted in (("train", 1564), ("eval", 452)):
        part = [r for r in recipes if r.split == split]
        shares = {name: sum(r.family == name for r in part) / len(part) for name in NAMES}
        good = len(part) == wanted and all(abs(shares[name] - SHARES[name]) < 0.005 for name in NAMES)
        report.line(good, f"{split}: {len(part)} examples, {', '.join(f'{name} {share:.1%}' for name, share in shares.items())}")


def units(recipe: Recipe, context: str) -> dict[str, set[str]]:
    """What an example may not share with one of the other split, read from its context."""
    if recipe.family == "aggregation":
        return {"records": set(INSTANCE.findall(context))}
    if recipe.family == "coding":
        return {"packages": set(CODE.findall(context))}
    return {"gold pages": set(recipe.metadata["gold_pages"]), "pages": set(PAGE.findall(context))}


def leaks(recipes: list[Recipe], store: ContextStore, report: Report):
    """Every context of both splits is read once."""
    seen = defaultdict(lambda: {"train": set(), "eval": set()})
    stated = True
    for recipe, context in store.texts(recipes):
        seen["questions"][recipe.split].add((recipe.question, recipe.sha256))
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
        found = read_records(records.spec(Path(dataset.sources.folder)))
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
        report.line(agreed == compared > 0, f"gold answers of {name} read again from the text: {agreed} of {compared} agree")


def contexts(recipes: list[Recipe], store: ContextStore, report: Report):
    for name in NAMES:
        chosen = random.Random(f"tokens/{name}").sample([r for r in recipes if r.family == name], COUNTED)
        good = [sha256(text := store.text(r)) == r.sha256 and tokens.count(text) == r.tokens for r in chosen]
        report.line(all(good), f"hash and exact tokens of whole contexts of {name}: {sum(good)} of {len(good)} agree")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--params", type=Path, default=ROOT / "params/dataset.yaml")
    parser.add_argument("--out", type=Path, default=ROOT / "outputs/dataset")
    parser.add_argument("--data")
    parser.add_argument("--sample", type=int, default=200)
    arguments = parser.parse_args()
    dataset = params.load(arguments.params, {"sources.folder": arguments.data} if arguments.data else {})
    recipes, report = read_recipes(arguments.out), Report()
    families = {name: family(name, dataset, arguments.out / "cache") for name in NAMES}
    store = ContextStore(arguments.out, families, keep=False)
    sizes(recipes, report)
    contexts(recipes, store, report)
    golds(recipes, store, dataset, arguments.sample, report)
    leaks(recipes, store, report)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
