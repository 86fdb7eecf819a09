"""`make dataset-export`: a built data set with its contexts in the columns of the study, as a parquet file a split.

    python -m rlmlib.tasks.study.export [--dataset outputs/dataset] [--out FOLDER]

`to_dataset_dict` opens them as a `datasets` DatasetDict. Contexts are built one at a time.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ...errors import DataError, RlmError
from ...notebook import ROOT, shown
from ...runs import writing
from .examples import built_params
from .families import Families
from .recipe import Recipe
from .store import ContextStore, read_recipes

ROWS_AT_ONCE = 16  # about 32 MB of text
TELL_EVERY_S = 20.0

COLUMNS = (
    "id",
    "dataset",
    "task",
    "prompt",
    "context",
    "answer",
    "acceptable_answers",
    "answer_type",
    "context_token_count",
    "metadata",
)


def row(recipe: Recipe, context: str) -> dict:
    """One example. `dataset` is its family, `metadata` a JSON text."""
    return {
        "id": recipe.id,
        "dataset": recipe.family,
        "task": recipe.task,
        "prompt": recipe.question,
        "context": context,
        "answer": recipe.answer,
        "acceptable_answers": list(recipe.acceptable),
        "answer_type": recipe.answer_type,
        "context_token_count": recipe.tokens,
        "metadata": json.dumps(recipe.metadata, sort_keys=True),
    }


def rows(recipes: Iterable[Recipe], context: Callable[[Recipe], str]) -> Iterator[dict]:
    return (row(recipe, context(recipe)) for recipe in recipes)


def schema():
    """Of the parquet file: large strings, as a column of contexts outgrows 2 GB."""
    import pyarrow as pa

    kinds = {"context_token_count": pa.int64(), "acceptable_answers": pa.list_(pa.string()), "context": pa.large_string()}
    return pa.schema([(name, kinds.get(name, pa.string())) for name in COLUMNS])


def to_parquet(path: Path, found: Iterable[dict]) -> int:
    """Write rows as they come, a few at a time in memory; returns how many. The file appears when it is whole."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    written, batch = 0, []
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with writing(path), pq.ParquetWriter(unfinished, schema(), compression="zstd") as writer:

        def flush():
            nonlocal written
            writer.write_table(pa.Table.from_pylist(batch, schema=schema()))
            written += len(batch)
            batch.clear()

        for found_row in found:
            batch.append(found_row)
            if len(batch) == ROWS_AT_ONCE:
                flush()
        if batch:
            flush()
    unfinished.replace(path)
    return written


def to_dataset_dict(folder: Path):
    """A `datasets` DatasetDict of the parquet files SPLIT.parquet in a folder; they are mapped, not loaded. Raises DataError."""
    files = {path.stem: str(path) for path in sorted(folder.glob("*.parquet"))}
    if not files:
        raise DataError(f"{folder}: holds no parquet file; `make dataset-export` writes them")
    from datasets import load_dataset

    return load_dataset("parquet", data_files=files)


def export(dataset: Path, out: Path, show: Callable[[str], None] = print) -> dict[str, int]:
    """Write OUT/train.parquet and OUT/eval.parquet of a built data set; returns the rows of each. Raises DataError."""
    recipes = read_recipes(dataset)
    store = ContextStore(dataset, Families(built_params(dataset), dataset / "cache"), keep=False)
    written = {}
    for split in ("train", "eval"):
        chosen = [recipe for recipe in recipes if recipe.split == split]
        written[split] = to_parquet(out / f"{split}.parquet", _told(rows(chosen, store.text), f"{split}, {len(chosen):,}", show))
    return written


def _told(found: Iterable[dict], of: str, show: Callable[[str], None]) -> Iterator[dict]:
    told = time.monotonic()
    for number, found_row in enumerate(found, 1):
        yield found_row
        if time.monotonic() - told > TELL_EVERY_S:
            told = time.monotonic()
            show(f"{of}: {number:,} written")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m rlmlib.tasks.study.export", description=__doc__.split("\n")[0])
    parser.add_argument("--dataset", type=Path, default=ROOT / "outputs/dataset", help="folder that make dataset wrote")
    parser.add_argument("--out", type=Path, help="folder of the parquet files; `parquet` in that of the data set if left out")
    arguments = parser.parse_args()
    out, began = arguments.out or arguments.dataset / "parquet", time.monotonic()
    try:
        written = export(arguments.dataset, out, lambda line: print(line, flush=True))
    except RlmError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for split, count in written.items():
        path = out / f"{split}.parquet"
        print(f"{shown(path)}: {count:,} rows, {path.stat().st_size / 1e6:,.1f} MB")
    print(f"{time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
