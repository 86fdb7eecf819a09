"""Whether everything that needs a GPU works on this machine, and how fast: ten minutes on a card like an H200.

    python3.11 tools/install.py --profile gpu   # once: the packages, into .venv
    make gpu-check                               # writes results/gpu-CARD-DATE.json
    make gpu-check REHEARSE=1                    # the same on the CPU with tiny shapes: shows that the code runs, and nothing else
    make gpu-check-table                         # the table in README.md, from all such files

No weights are downloaded: models are random, the large one of the shape of Qwen3-4B (8 GB in a temporary folder; TMPDIR moves it).
Each measurement is a process of its own with a time limit, and a part that fails leaves the others alone. Exit code 0: all is well;
1: a check failed, or on a GPU one could not be run; 3: there is no CUDA GPU.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE), str(ROOT)]

import torch  # noqa: E402
from gpu_policy import SHAPES  # noqa: E402
from gpu_table import fill_in, save, shown  # noqa: E402
from processes import answer_of  # noqa: E402
from venv_of_peers import Unavailable, trl_folder  # noqa: E402

WORK_LIMIT_S = 900  # of one process: an H200 needs a sixth of it
MODEL_BYTES = 9e9  # of the large random model in bfloat16
NO_GPU = "no CUDA GPU here: run it on a machine with one after `python3.11 tools/install.py --profile gpu`, or REHEARSE=1 for the CPU"
ADVICE = "install the gpu set: python3.11 tools/install.py --profile gpu"
VENVS = {"unsloth": ".venv-unsloth", "vllm": ".venv-vllm"}  # of a rehearsal: packages whose CPU builds have a venv of their own


class NotRun(Exception):
    """A part cannot be run here; the message says why."""


@dataclass
class Bench:
    """Runs measurements. All have the random models and what others wrote in `folder`."""

    folder: Path
    rehearse: bool

    def python(self, package: str = "") -> str:
        """The interpreter that has a package. Raises NotRun."""
        python = ROOT / VENVS.get(package, "") / "bin/python"
        if not (self.rehearse and package in VENVS and python.exists()):
            python = sys.executable
        code = "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)"
        if package and subprocess.run([python, "-c", code, package], timeout=60, cwd=ROOT / "tools").returncode:
            raise NotRun(f"{package} is not installed; {ADVICE}")
        return str(python)

    def work(self, script: str, name: str, package: str = "", **request) -> dict:
        """The numbers of a measurement in a new process. Raises Unavailable and NotRun."""
        variables = {"CUDA_VISIBLE_DEVICES": ""} if self.rehearse else {}
        if self.rehearse and name == "trl":
            variables["PYTHONPATH"] = self.trl_for_cpu()
        return answer_of(HERE / script, name, request, WORK_LIMIT_S, self.python(package), **variables)

    def trl_for_cpu(self) -> str:
        """Folder of the version that trains on a CPU."""
        try:
            return str(trl_folder())
        except Unavailable as error:
            raise NotRun(str(error)) from None

    def base(self, shape: str) -> str:
        """Folder of a random model, made by the first part that wants it."""
        into = self.folder / shape
        if not into.exists():
            if shape == "4B" and shutil.disk_usage(self.folder).free < MODEL_BYTES:
                raise NotRun(f"{self.folder.parent} has no {MODEL_BYTES / 1e9:.0f} GB left for a model; TMPDIR moves it")
            self.work("gpu_work.py", "make_model", shape=shape, into=str(into))
        return str(into)

    def correctness(self, name: str, package: str = "", **request) -> dict:
        return self.work("gpu_work.py", name, package, base=self.base("small"), rank=8, **request)

    def gradient_steps(self, name: str, package: str = "", **request) -> dict:
        shape, lengths, rank = ("small", [256, 160, 90, 40], 8) if self.rehearse else ("4B", [16_384, 8192, 5000, 2500], 64)
        common = {"base": self.base(shape), "rank": rank, "lengths": lengths, "vocab": SHAPES[shape]["vocab_size"]}
        return self.work("gpu_speed.py", name, package, **common, **request)


def check(what: str, value, most: float | None = None, least: float | None = None, equal=None) -> dict:
    """A judged number; one without limits is only told."""
    good = value is not None and not (isinstance(value, float) and value != value)
    good = good and (most is None or value <= most) and (least is None or value >= least) and (equal is None or value == equal)
    limits = {"most": most, "least": least, "equal": equal}
    return {"check": what, "value": value, "limits": {k: v for k, v in limits.items() if v is not None}, "status": "ok" if good else "FAIL"}


# bfloat16: a random model's log-probs are off by 0.03 nats, and its gradients by 5 %; weights of another version by 0.8 nats.
LIMITS = {"float32": (1e-4, 1e-3), "bfloat16": (0.08, 0.15)}  # mean error of log-probs, relative error of gradients
NEAR, NEAR_KL = 0.08, 0.005  # a sampler in bfloat16 at equal weights: mean difference, KL


def agreement(bench: Bench, one: Path, other: Path, precision: str) -> list[dict]:
    apart = bench.work("gpu_work.py", "difference", one=str(one), other=str(other))
    logprobs, gradient = LIMITS[precision]
    return [
        check(f"{precision} log-probs, mean error, nats", apart["logprobs_mean"], logprobs),
        check(f"{precision} log-probs, largest error, nats", apart["logprobs_most"], 10 * logprobs),
        check(f"{precision} gradient, relative error", apart["gradient"], gradient),
    ]


def numbers(bench: Bench, trainer: str, precisions: list[str], package: str = "") -> Path:
    out = bench.folder / f"numbers-{trainer}"
    adapter = str(bench.folder / "adapter")
    bench.correctness("numbers", package, trainer=trainer, precisions=precisions, adapter=adapter, out=str(out))
    return out


def policy(bench: Bench) -> list[dict]:
    """Log-probs and gradients against transformers in float64 on the CPU."""
    out = numbers(bench, "peft", ["float64", "float32", "bfloat16"])
    right = out / "float64.safetensors"
    return [row for name in LIMITS for row in agreement(bench, out / f"{name}.safetensors", right, name)]


def head(bench: Bench) -> list[dict]:
    """Chunks of the head in bfloat16 with float32 sums."""
    found = bench.work("gpu_work.py", "head", sizes=(96, 64, 1000) if bench.rehearse else (512, 2560, 151_936))
    return [
        check("log-probs, largest error, nats", found["logprobs_most"], 1e-3),
        check("entropies, largest error, nats", found["entropy_most"], 1e-3),
        check("gradient of hidden states, relative error", found["hidden_gradient"], 0.01),
        check("gradient of the head, relative error", found["head_gradient"], 0.01),
    ]


def unsloth(bench: Bench) -> list[dict]:
    """Unsloth against PEFT: the same adapter and batch."""
    bench.python("unsloth")
    precision = "float32" if bench.rehearse else "bfloat16"
    other = numbers(bench, "peft", [precision])
    return agreement(
        bench, numbers(bench, "unsloth", [precision], "unsloth") / f"{precision}.safetensors", other / f"{precision}.safetensors", precision
    )


def four_bit(bench: Bench) -> list[dict]:
    """Base weights in 4 bit."""
    if bench.rehearse:
        raise NotRun("4-bit weights need an NVIDIA GPU")
    bench.python("bitsandbytes")
    found = bench.correctness("four_bit")
    return [
        check("linear layers in 4 bit", found["packed"], least=28),
        check("log-probs beside those of the unpacked weights, mean difference, nats", found["mean"], NEAR),
        check("steps skipped", found["skipped"], equal=0),
        check("movement of the adapter in a step", found["moved"], least=1e-9),
    ]


def torch_sampler(bench: Bench) -> list[dict]:
    """The torch sampler against transformers."""
    found = bench.correctness("torch_sampler")
    return [check(f"{name}, mean difference, nats", gap["mean"], NEAR if "b" in name else 1e-4) for name, gap in found.items()]


def vllm(bench: Bench) -> list[dict]:
    """vLLM against the trainer, and pushes to it."""
    found = bench.correctness("vllm", "vllm")
    return [
        check("equal weights, mean difference, nats", found["equal"]["mean"], NEAR),
        check("equal weights, KL, nats a token", found["equal"]["kl"], NEAR_KL),
        check("a moved adapter changes the very next reply", found["changed"], equal=True),
        check("after three pushes, mean difference, nats", found["pushed"]["mean"], NEAR),
        check("replies from before a push, mean difference, nats", found["not_pushed_mean"], least=5 * NEAR),
        check("prefix tokens found at the second turn", min(found["cached_second_turn"]), least=16),
        check("prefix tokens found after a push", max(found["cached_after_push"]), equal=0),
        check("a push, s", found["push_s"]),
        check("start, s", found["start_s"]),
    ]


def told(found: dict) -> list[dict]:
    return [
        check("tokens a second", round(found["tokens_per_s"], 1)),
        check("peak memory, allocated, MB", round(found["peak_mb"])),
        check("peak memory, reserved, MB", round(found["reserved_mb"])),
    ]


def steps_of(bench: Bench, trainer: str, count: int, package: str = "") -> tuple[list[dict], dict]:
    found = bench.gradient_steps("steps", package, trainer=trainer, steps=count)
    whole = [norm for norm in found["gradient_norms"] if norm is not None]
    return [
        *told(found),
        check("loss of the first step, less that expected at equal weights", abs(found["losses"][0] - found["expected_loss"]), 0.01),
        check("KL of the first step, nats a token", found["first_gap"], NEAR_KL),
        check("steps with a finite gradient", len(whole), equal=count),
        check("smallest gradient norm", min(whole, default=0.0), least=1e-9),
        check("loss of the last step, less that of the first", found["losses"][-1] - found["losses"][0], 0.0),
    ], found


def steps(bench: Bench) -> list[dict]:
    """20 steps of a 4B model with PEFT at 16k tokens, and the memory estimate of the preflight beside them."""
    rows, found = steps_of(bench, "peft", 20)
    terms = {name: mb for name, mb in found["estimate_mb"].items() if name != "runtime" or bench.rehearse}  # no tensor is in it
    estimate = sum(terms.values())
    limits = {} if bench.rehearse else {"least": 0.9, "most": 1.5}  # libraries are most of what a tiny model takes
    return [
        *rows,
        check("preflight's estimate, MB", round(estimate)),
        check("estimate over measured peak", estimate / found["peak_mb"], **limits),
    ]


def unsloth_steps(bench: Bench) -> list[dict]:
    """The same batch with Unsloth."""
    return steps_of(bench, "unsloth", 5, "unsloth")[0]


def trl(bench: Bench) -> list[dict]:
    """The same batch with TRL's GRPOTrainer and PEFT."""
    return told(bench.gradient_steps("trl", "" if bench.rehearse else "trl", steps=3))


# Seconds that each should take on an H200, start of its processes included
PARTS = {
    policy: 35,
    head: 15,
    torch_sampler: 25,
    four_bit: 25,
    unsloth: 50,
    vllm: 75,
    steps: 150,
    unsloth_steps: 90,
    trl: 80,
}


def side_by_side(parts: dict) -> list[dict]:
    """Ours over TRL, where both were measured."""

    def value(part: str, what: str) -> float | None:
        return next((row["value"] for row in parts.get(part, {}).get("checks", []) if row["check"] == what), None)

    rows = []
    for part in ("steps", "unsloth_steps"):
        for what in ("tokens a second", "peak memory, allocated, MB"):
            ours, peer = value(part, what), value("trl", what)
            if ours and peer:
                rows.append(check(f"{part}: {what}, times TRL", ours / peer))
    return rows


def run_part(part, bench: Bench) -> dict:
    began = time.monotonic()
    result = {"status": "ok", "why": "", "checks": []}
    try:
        result["checks"] = part(bench)
        if any(row["status"] != "ok" for row in result["checks"]):
            result |= {"status": "FAIL", "why": "see its checks"}
    except NotRun as error:
        result |= {"status": "not run", "why": str(error)}
    except Unavailable as error:
        result |= {"status": "FAIL", "why": str(error)}
    except Exception as error:  # noqa: BLE001 - the other parts go on
        result |= {"status": "FAIL", "why": f"{type(error).__name__}: {error}"}
    return result | {"seconds": round(time.monotonic() - began, 1)}


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [part.__name__ for part in PARTS]
    parser.add_argument("--rehearse", action="store_true", help="on the CPU with tiny shapes")
    parser.add_argument("--parts", default=",".join(names), help=f"some of {','.join(names)}")
    parser.add_argument("--out", type=Path, help="folder of the result; default: results, of a rehearsal or of some parts outputs")
    parser.add_argument("--table", action="store_true", help="only write the table in README.md")
    arguments = parser.parse_args(given)
    if arguments.table:
        fill_in()
        return 0
    if unknown := set(arguments.parts.split(",")) - set(names):
        parser.error(f"no part is named {', '.join(sorted(unknown))}; parts are {', '.join(names)}")
    if not arguments.rehearse and not torch.cuda.is_available():
        print(NO_GPU, file=sys.stderr)
        return 3
    chosen = [part for part in PARTS if part.__name__ in arguments.parts.split(",")]
    whole = not arguments.rehearse and len(chosen) == len(PARTS)
    out = arguments.out or (HERE / "results" if whole else ROOT / "outputs")
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as folder:
        bench = Bench(Path(folder), arguments.rehearse)
        try:
            where = {"card": "rehearsal"} if arguments.rehearse else bench.work("gpu_work.py", "card")
        except Unavailable as error:
            print(f"error: the GPU cannot be used ({error})", file=sys.stderr)
            return 1
        parts = {}
        for part in chosen:
            print(f"{part.__name__}: {part.__doc__} About {PARTS[part]} s on an H200.", flush=True)
            parts[part.__name__] = run_part(part, bench)
            path = save(where, parts, side_by_side(parts), out)
            print(shown(parts[part.__name__]), flush=True)
    print(*(f"  {row['check']}: {row['value']:.3g}" for row in side_by_side(parts)), f"written: {path}", sep="\n")
    bad = ("FAIL",) if arguments.rehearse else ("FAIL", "not run")
    return int(any(result["status"] in bad for result in parts.values()))


if __name__ == "__main__":
    sys.exit(main())
