"""Peak memory of real training steps on the CPU beside the estimate of rlmlib/training/memory.py.

    python benchmarks/memory.py [--quick] [--json]

Each case loads a model and makes two optimiser steps in this process; its peak is VmHWM, less what there was before. Linux only.
With MALLOC_MMAP_THRESHOLD_=131072 in the environment glibc gives back what is freed: then only tensors are measured, and the
estimate is without its holes. That takes a third to two thirds more CPU time.
"""

import argparse
import gc
import json
import os
import sys
import time
from ctypes import CDLL
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import torch  # noqa: E402
from support import NumberChat, with_adapter  # noqa: E402
from transformers import Qwen3Config, Qwen3ForCausalLM  # noqa: E402

from rlmlib import config  # noqa: E402
from rlmlib.models.conversation import TokenSequence  # noqa: E402
from rlmlib.training import memory  # noqa: E402
from rlmlib.training.architecture import architecture, model_config  # noqa: E402
from rlmlib.training.policy import Policy  # noqa: E402
from rlmlib.training.step import TrainItem, update  # noqa: E402

RANK = 16


@dataclass(frozen=True)
class Case:
    """`rows` sequences of one length in one micro-batch, of which the last `trained` tokens are trained."""

    model: str
    tuning: str
    length: int
    rows: int = 1
    trained: int = 128
    checkpointing: bool = False


QUICK = [
    Case("tiny", "lora", 1000, 4),
    Case("tiny", "full", 1000, 2),
    Case("random", "lora", 512),
    Case("random", "full", 256),
]
ALL = [
    *QUICK,
    Case("tiny", "lora", 1000, 8),
    Case("random", "full", 512),
    Case("random", "lora", 1024),
    Case("random", "full", 1024),
    Case("random", "lora", 1024, trained=1000),
    Case("random", "full", 1024, trained=1000),
    Case("random", "lora", 1000, 4),
    Case("random", "full", 1000, 4),
    Case("random", "lora", 2000, 2, checkpointing=True),
    Case("random", "full", 2000, 2, checkpointing=True),
]


def configuration(name: str):
    """The tiny policy's, or a Qwen3 of 22 million parameters."""
    if name == "tiny":
        return model_config(name)
    return Qwen3Config(
        vocab_size=16_384,
        hidden_size=384,
        num_hidden_layers=8,
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=64,
        intermediate_size=1152,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
    )


def status(key: str) -> int:
    """Bytes of a line of /proc/self/status."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(key))
    return int(line.split()[1]) * 1024


def settle():
    """Free what nobody holds, and begin a new VmHWM."""
    gc.collect()
    CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")


def params_of(case: Case) -> config.Params:
    policy = {"tuning": case.tuning, "gradient_checkpointing": case.checkpointing, "lora": {"rank": RANK, "alpha": 2 * RANK}}
    tokens = case.length * case.rows
    return config.validate(
        {
            "name": "memory",
            "policy": policy,
            "training": {"micro_batch_tokens": tokens},
            "sampling": {"max_sequence_tokens": max(tokens, 256)},
        }
    )


def build(case: Case, params: config.Params) -> Policy:
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(configuration(case.model)).float()
    if case.checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    if case.tuning == "lora":
        model = with_adapter(model, rank=RANK, alpha=2 * RANK)
    return Policy(model, NumberChat(), params.policy.logits_at_once)


def estimated(case: Case, params: config.Params) -> int:
    """Of the terms that a step on its own has: no sampler, and libraries are there already."""
    model, policy = architecture(configuration(case.model)), params.policy
    policy = policy.model_copy(update={"logits_at_once": min(policy.logits_at_once, case.trained * case.rows)})
    width = memory.weight_bytes(policy, "cpu")
    trained, each = memory.trainable(model, policy, width)
    kept = memory.base_weights(model, policy, width) + 3 * trained * each + (trained * each if case.tuning == "lora" else 0)
    tokens = case.length * case.rows
    holes = 0 if "MALLOC_MMAP_THRESHOLD_" in os.environ else memory.heap(model, policy, width, tokens)
    return kept + sum(memory.step(model, policy, width, tokens).values()) + holes


def measure(case: Case) -> dict:
    settle()
    before = status("VmRSS")
    params = params_of(case)
    policy = build(case, params)
    optimizer = torch.optim.AdamW(policy.trainable, lr=1e-5)
    length = case.length
    mask = [0] * (length - case.trained) + [1] * case.trained
    items = [TrainItem(TokenSequence(torch.randint(2, 1000, (length,)).tolist(), mask, [-3.0] * length), 1.0) for _ in range(case.rows)]
    settle()
    began, cpu = time.monotonic(), time.process_time()
    for _ in range(2):
        update(policy, optimizer, items, params.training, 0.7)
    seconds, cpu = time.monotonic() - began, time.process_time() - cpu
    grown = status("VmHWM") - before
    want = estimated(case, params)
    return {**vars(case), "measured": grown, "estimated": want, "ratio": want / grown, "seconds": seconds, "cpu_seconds": cpu}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the few cases of the test suite")
    parser.add_argument("--json", action="store_true", help="one line of JSON a case")
    options = parser.parse_args()
    torch.set_num_threads(1)
    measure(Case("tiny", "lora", 64, trained=32))  # what the first step of a process loads is none of any case's
    for case in QUICK if options.quick else ALL:
        row = measure(case)
        if options.json:
            print(json.dumps(row), flush=True)
        else:
            name = f"{case.model:7}{case.tuning:5} {case.rows} x {case.length}, {case.trained} trained"
            name += ", checkpointing" if case.checkpointing else ""
            sizes = f"measured {row['measured'] / memory.MIB:6.0f} MiB  estimated {row['estimated'] / memory.MIB:6.0f} MiB"
            print(f"{name:54} {sizes}  ratio {row['ratio']:.2f}  {row['cpu_seconds']:.1f} cpu s", flush=True)


if __name__ == "__main__":
    main()
