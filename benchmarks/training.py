"""Our training beside TRL's trainer, transformers' generate, and ourselves with sampling and training in turns. In turns within one run.

    make bench-train              # prints the tables
    make bench-train SAVE=1       # and writes results/training.json and the tables in RESULTS.md

Each measurement is a process of its own (training_work.py). The exit code is 0 only if everything was measured. What each row
means is in README.md.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections import defaultdict
from importlib import metadata
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from processes import answer_of  # noqa: E402
from report import Page, as_json, ratio, save, table  # noqa: E402
from venv_of_peers import TRL, Unavailable, trl_folder  # noqa: E402

WORK_LIMIT_S = 600
ROUNDS = 2
STEP_SIZES, SAMPLE_SIZES = (2, 4, 8, 16), (16, 32, 64)  # rows at once that the others are tried with
STEPS, LEAF_S, ASYNC_LEVEL = 7, 1.0, 2
PROMPTS_OF_LOOP, LEAF_CALLS = 8, 64
MODELS = {"tiny": 64, "small": 16}  # model -> conversations of a step

PAGE = Page("training", "bench-train", "RESULTS.md", ("ours", "peer"), ("peer",))


class Bench:
    """Runs measurements and keeps their values: row -> contender -> values."""

    def __init__(self, threads: int, folder: str, trl: Path):
        self.batch = Path(folder, "batch.json")
        self._request = {"threads": threads, "batch": str(self.batch)}
        self._trl = trl
        self.values = defaultdict(lambda: defaultdict(list))
        self.left_out: dict[str, str] = {}

    def work(self, name: str, **request) -> dict:
        """The result of a measurement in a new process. Raises Unavailable."""
        paths = {"PYTHONPATH": str(self._trl)} if name == "step_trl" else {}
        threads = str(self._request["threads"])
        variables = paths | {"OMP_NUM_THREADS": threads, "TRL_EXPERIMENTAL_SILENCE": "1"}
        return answer_of(HERE / "training_work.py", name, {**self._request, **request}, WORK_LIMIT_S, **variables)

    def add(self, row: str, contender: str, values: list[float]):
        self.values[row][contender] += values

    def best_size(self, work: str, sizes: tuple[int, ...], **request) -> int:
        """The size at which the other needs the fewest CPU seconds."""
        found = self.work(work, sizes=sizes, repeats=1, **request)["by_size"]
        print(f"{work} {request['model']}: CPU seconds by rows at once " + ", ".join(f"{k}: {v:.3g}" for k, v in found.items()), flush=True)
        return int(min(found, key=found.get))

    def in_turns(self, number: int, ours, peer):
        """Both, the other one first in every second round."""
        for measure in (ours, peer) if number % 2 == 0 else (peer, ours):
            measure()


def step_rows(bench: Bench, model: str, tokens: int, rows: int, rounds: int):
    """Tokens a second and memory of the gradient step. tokens: of the batch's conversations, without padding."""
    size = bench.best_size("step_trl", STEP_SIZES, model=model, rows=rows)

    def one(contender: str, work: str, **request):
        found = bench.work(work, model=model, rows=rows, repeats=2, **request)
        bench.add(f"GRPO step, {model}, tokens/s", contender, [tokens / wall for wall, _ in found["times"]])
        bench.add(f"GRPO step, {model}, tokens a CPU second", contender, [tokens / cpu for _, cpu in found["times"]])
        bench.add(f"GRPO step, {model}, peak memory, MB", contender, [found["peak_mb"]])
        bench.add(f"GRPO step, {model}, memory over that before, MB", contender, [found["peak_mb"] - found["before_mb"]])

    for number in range(rounds):
        bench.in_turns(number, lambda: one("ours", "step_ours"), lambda: one("peer", "step_trl", size=size))


def sampler_rows(bench: Bench, rounds: int):
    size = bench.best_size("sample_hf", SAMPLE_SIZES, model="tiny", rows=64)

    def one(contender: str, work: str, **request):
        found = bench.work(work, model="tiny", rows=64, repeats=2, **request)
        bench.add("sampling, tokens/s", contender, [1 / wall for wall, _ in found["times"]])
        bench.add("sampling, tokens a CPU second", contender, [1 / cpu for _, cpu in found["times"]])
        bench.add("sampling, peak memory, MB", contender, [found["peak_mb"]])

    for number in range(rounds):
        bench.in_turns(number, lambda: one("ours", "sample_ours"), lambda: one("peer", "sample_hf", size=size))


def loop_rows(bench: Bench, rounds: int):
    """Steps an hour of the whole loop: ours is async, the peer is the same loop in turns."""

    def one(contender: str, level: int):
        params = {"training.steps": STEPS, "training.prompts_per_step": PROMPTS_OF_LOOP, "training.max_async_level": level}
        params["leaf.concurrency"] = LEAF_CALLS  # the leaf is slow to answer, and not short of places
        found = bench.work("loop", leaf_s=LEAF_S, params=params)
        bench.add("loop with leaves of 1 s, steps/h", contender, [3600 * len(found["seconds"]) / sum(found["seconds"])])

    for number in range(rounds):
        bench.in_turns(number, lambda: one("ours", ASYNC_LEVEL), lambda: one("peer", 0))


def summary(values: list[float]) -> dict:
    """Median, the smallest and the largest of them, and their number."""
    return {"median": statistics.median(values), "low": min(values), "high": max(values), "n": len(values)}


def targets(rows: dict) -> list[dict]:
    """What was aimed at, what was found and whether it is met; a target that could not be measured is not met."""
    wanted = [
        ("GRPO step, tokens/s, times TRL", "GRPO step, tiny, tokens/s", "least", 1.5),
        ("GRPO step, peak memory, times TRL", "GRPO step, tiny, peak memory, MB", "most", 0.7),
        ("sampling, tokens/s, times transformers", "sampling, tokens/s", "least", 5),
        ("steps/h of the loop, async, times in turns", "loop with leaves of 1 s, steps/h", "least", 1.4),
    ]
    found = []
    for what, row, kind, limit in wanted:
        value = ratio(rows, (row, "ours"), (row, "peer"))
        met = value is not None and (value >= limit if kind == "least" else value <= limit)
        found.append({"target": what, "kind": kind, "limit": limit, "value": value, "met": met})
    return found


def measure(bench: Bench, parts: list[str], rounds: int) -> dict:
    """All parts; one that cannot be measured is left out with its reason. Returns what is known of the batch."""
    batch = bench.work("rollouts")
    rows = json.loads(bench.batch.read_text())
    tokens = {model: sum(len(row["ids"]) for row in rows[:count]) for model, count in MODELS.items()}
    print(f"batch: {batch}", flush=True)
    todo = {
        "step": lambda: step_rows(bench, "tiny", tokens["tiny"], MODELS["tiny"], rounds),
        "sampler": lambda: sampler_rows(bench, rounds),
        "loop": lambda: loop_rows(bench, max(1, rounds - 1)),
        "small": lambda: step_rows(bench, "small", tokens["small"], MODELS["small"], 1),
    }
    for part in parts:
        print(f"measuring: {part}", flush=True)
        try:
            todo[part]()
        except Unavailable as error:
            bench.left_out[part] = str(error)
            print(f"{part} is left out: {error}", flush=True)
    return batch


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--parts", default="step,sampler,loop,small", help="what to measure: step,sampler,loop,small")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of torch, for all")
    parser.add_argument("--save", action="store_true", help="write results/training.json and the tables in RESULTS.md")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(arguments.threads, folder, trl_folder())
        batch = measure(bench, arguments.parts.split(","), arguments.rounds)
    rows = {row: {name: summary(found) for name, found in by_name.items()} for row, by_name in bench.values.items()}
    versions = {name: metadata.version(name) for name in ("torch", "transformers", "peft")} | {"trl": TRL.partition("==")[2]}
    result = as_json(rows, targets(rows), versions, bench.left_out) | {"threads": arguments.threads, "batch": batch}
    print(table(result, PAGE))
    if arguments.save:
        save(result, HERE, PAGE)
    return 1 if bench.left_out else 0


if __name__ == "__main__":
    sys.exit(main())
