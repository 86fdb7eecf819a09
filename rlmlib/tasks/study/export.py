"""A dataset in the columns of the study: to parquet, and to a `datasets` DatasetDict. Contexts are built one at a time."""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from .recipe import Recipe

ROWS_AT_ONCE = 16  # about 32 MB of text

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

    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.tmp")
    written, batch = 0, []
    with pq.ParquetWriter(unfinished, schema(), compression="zstd") as writer:

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
    """A `datasets` DatasetDict of the parquet files SPLIT.parquet in a folder; they are mapped, not loaded."""
    from datasets import load_dataset

    files = {path.stem: str(path) for path in sorted(folder.glob("*.parquet"))}
    return load_dataset("parquet", data_files=files)
