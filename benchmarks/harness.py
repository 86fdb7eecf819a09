"""Our REPL beside those of rlms and dspy and a fresh interpreter per block, in turns within one run.

    make bench-harness            # prints the table
    make bench-harness SAVE=1     # and writes results/harness.json and the table in README.md

The exit code is 0 only if ours and rlms were measured. What each row means is in README.md.
"""

import argparse
import asyncio
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from peers import ANSWER, ASSIGN, KB_OF_MB, PRINT, SETTLE_S, SUBCALL, private_mb, text, timed  # noqa: E402
from report import as_json, save, table, targets  # noqa: E402
from venv_of_peers import PINS, Peer, Unavailable  # noqa: E402

from rlmlib.harness.repl import Repl, ReplServer  # noqa: E402

SMALL, BIG = 8 * 1024, 8 * 1024 * 1024
ROUNDS = 5
ONCE = ("dspy",)  # opening it takes seconds: it is measured in the first round only
STEP_LIMIT_S = 120

# row -> measure, characters of context, repeats in each round of (ours, rlms, fresh, dspy); 0: not measured
CONTENDERS = ("ours", "rlms", "fresh", "dspy")
ROWS = {
    "worker ready, ms": ("ready", SMALL, (3, 0, 0, 0)),
    "open, 8 KB, ms": ("open", SMALL, (12, 12, 0, 3)),
    "open, 8 MB, ms": ("open", BIG, (5, 5, 0, 1)),
    "open, the same 8 MB again, ms": ("again", BIG, (3, 0, 0, 0)),
    "turn `x = 1`, 8 KB, ms": ("assign", SMALL, (400, 400, 4, 5)),
    "turn `x = 1`, 8 MB, ms": ("assign", BIG, (400, 400, 0, 1)),
    "turn that prints, 8 KB, ms": ("print", SMALL, (400, 400, 4, 0)),
    "turn that prints, 8 MB, ms": ("print", BIG, (400, 400, 0, 0)),
    "subcall, ms": ("subcall", SMALL, (200, 200, 0, 5)),
    "turns per second": ("burst", SMALL, (5000, 5000, 0, 20)),
    "32 rollouts opened at once, ms": ("together", SMALL, (32, 32, 0, 0)),
    "private memory, 8 KB, MB": ("memory", SMALL, (1, 4, 0, 1)),
    "private memory, 8 MB, MB": ("memory", BIG, (1, 4, 0, 0)),
    "private and shared out (PSS), 8 KB, MB": ("pss", SMALL, (1, 0, 0, 0)),
}


async def at_once(kind: str, prompts: list[str], timeout_s: float) -> list[str]:
    """A leaf that answers without a wait."""
    return [ANSWER] * len(prompts)


async def turn(repl: Repl, code: str):
    result = await repl.run(code, at_once, STEP_LIMIT_S, STEP_LIMIT_S)
    if result.failed:
        raise RuntimeError(f"a block failed: {result.output[-200:]}")


async def opened(server: ReplServer, context: str) -> Repl:
    """A session that has answered an empty block."""
    repl = await server.open(context)
    await turn(repl, "")
    return repl


class Ours:
    """The measures of peers.py, and a few that only a process has. Values are in seconds, turns per second or MB."""

    def __init__(self):
        self.server, self.without_spares = ReplServer(), ReplServer(spares=0)

    def measure(self, what: str, chars: int, repeats: int) -> list[float]:
        return asyncio.run(asyncio.wait_for(getattr(self, what)(chars, repeats), STEP_LIMIT_S))

    def close(self):
        self.server.close()
        self.without_spares.close()

    async def _openings(self, start, contexts: list[str]) -> list[float]:
        values = []
        for context in contexts:
            began = time.perf_counter()
            repl = await start(context)
            values.append(time.perf_counter() - began)
            repl.kill()
            await asyncio.sleep(SETTLE_S)
        return values

    async def ready(self, chars, repeats):
        """From asking for a process to one that is confined and holds its context."""
        return await self._openings(self.without_spares.open, [text(chars, number) for number in range(repeats)])

    async def open(self, chars, repeats):
        contexts = [text(chars, number) for number in range(repeats + 1)]
        return (await self._openings(lambda context: opened(self.server, context), contexts))[1:]  # the first finds no spare

    async def again(self, chars, repeats):
        return (await self._openings(lambda context: opened(self.server, context), [text(chars, 0)] * (repeats + 1)))[1:]

    async def _turns(self, chars, repeats, code) -> list[float]:
        repl, values = await opened(self.server, text(chars, 0)), []
        await asyncio.sleep(SETTLE_S)
        for _ in range(repeats):
            began = time.perf_counter()
            await turn(repl, code)
            values.append(time.perf_counter() - began)
        if code == SUBCALL and await repl.value("reply") != ANSWER:
            raise RuntimeError("the subcall brought no answer")
        repl.kill()
        return values

    async def assign(self, chars, repeats):
        return await self._turns(chars, repeats, ASSIGN)

    async def print(self, chars, repeats):
        return await self._turns(chars, repeats, PRINT)

    async def subcall(self, chars, repeats):
        return await self._turns(chars, repeats, SUBCALL)

    async def burst(self, chars, repeats):
        return [repeats / sum(await self._turns(chars, repeats, ASSIGN))]

    async def together(self, chars, repeats):
        began = time.perf_counter()
        repls = await asyncio.gather(*(opened(self.server, text(chars, number)) for number in range(repeats)))
        seconds = time.perf_counter() - began
        for repl in repls:
            repl.kill()
        return [seconds]

    async def _of_processes(self, chars, repeats, measure) -> list[float]:
        values = []
        for number in range(repeats):
            repl = await opened(self.server, text(chars, number))
            await turn(repl, "import os\npid = os.getpid()")
            values.append(measure(int(await repl.value("pid"))))
            repl.kill()
        return values

    async def memory(self, chars, repeats):
        return await self._of_processes(chars, repeats, private_mb)

    async def pss(self, chars, repeats):
        return await self._of_processes(chars, repeats, pss_mb)


def pss_mb(pid: int) -> float:
    """Private memory of a process and its share of what others use too, in MB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / KB_OF_MB


class Fresh:
    """A new interpreter for each block: isolated from the last one, and without its variables."""

    def measure(self, what: str, chars: int, repeats: int) -> list[float]:
        command = [sys.executable, "-I", "-S", "-c", {"assign": ASSIGN, "print": PRINT}[what]]
        return [timed(lambda: subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=STEP_LIMIT_S)) for _ in range(repeats)]

    def close(self):
        pass


def start(names: list[str]) -> tuple[dict, dict[str, str]]:
    """The contenders that can be had, and why the others cannot."""
    made, left_out = {"ours": Ours(), "fresh": Fresh()}, {}
    for name in names:
        try:
            made[name] = Peer(name, STEP_LIMIT_S)
        except Unavailable as error:
            left_out[name] = str(error)
            print(f"{name} is left out: {error}", flush=True)
    return made, left_out


def measure(contenders: dict, left_out: dict[str, str], rounds: int) -> dict[str, dict[str, list[float]]]:
    """row -> contender -> values. A contender that fails is left out of what follows."""
    values = defaultdict(lambda: defaultdict(list))
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", flush=True)
        for row, (what, chars, repeats) in ROWS.items():
            for name, times in zip(CONTENDERS, repeats, strict=True):
                if name not in contenders or not times or (number and name in ONCE):
                    continue
                try:
                    values[row][name] += contenders[name].measure(what, chars, times)
                except (Unavailable, subprocess.SubprocessError) as error:
                    left_out[name] = f"{row}: {error}"
                    print(f"{name} is left out from here on: {left_out[name]}", flush=True)
                    contenders.pop(name).close()
    return values


def summary(values: list[float], unit: str) -> dict:
    """Median, 95th percentile and number of values; seconds become milliseconds."""
    scaled = sorted(value * 1000 if unit == "ms" else value for value in values)
    return {"median": statistics.median(scaled), "p95": scaled[min(len(scaled) - 1, int(0.95 * len(scaled)))], "n": len(scaled)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--peers", default=",".join(PINS), help="peers to install and measure; rlms,dspy")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--save", action="store_true", help="write results/harness.json and the table in README.md")
    arguments = parser.parse_args()
    contenders, left_out = start([name for name in arguments.peers.split(",") if name])
    try:
        values = measure(contenders, left_out, arguments.rounds)
    finally:
        for contender in contenders.values():
            contender.close()
    rows = {
        row: {name: summary(found, row.rpartition(", ")[2]) for name, found in by_name.items() if found} for row, by_name in values.items()
    }
    versions = {name: contenders[name].version for name in PINS if name in contenders}
    result = as_json(rows, targets(rows), versions, left_out)
    print(table(result))
    if arguments.save:
        save(result, HERE)
    return 0 if {"ours", "rlms"} <= set(contenders) else 1


if __name__ == "__main__":
    sys.exit(main())
