"""Peak memory of real training steps, and of a batch that is sampled, on the CPU beside the estimate of rlmlib/training/memory.py.

    python benchmarks/memory.py [--quick] [--json]

Each case loads a model and makes two optimiser steps, or two replies of each conversation, in this process; its peak is VmHWM, less
what there was before. Linux only. With MALLOC_MMAP_THRESHOLD_=131072 in the environment glibc gives back what is freed: then only
tensors are measured, and the estimate is without its holes. That takes a third to two thirds more CPU time.
"""

import argparse
import asyncio
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
from rlmlib.models.base import Message  # noqa: E402
from rlmlib.models.conversation import TokenSequence  # noqa: E402
from rlmlib.models.torch_sampler import TorchSampler  # noqa: E402
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

    def __str__(self) -> str:
        name = f"{self.model:7}{self.tuning:5} {self.rows} x {self.length}, {self.trained} trained"
        return f"{name}, checkpointing" if self.checkpointing else name


CONVERSATIONS = (40, 896)  # of the tiny policy: how many, and tokens of each
REPLY_TOKENS = 8
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
    params = params_of(case)
    settle()
    before = status("VmRSS")
    policy = build(case, params)
    optimizer = torch.optim.AdamW(policy.trainable, lr=1e-5)
    length = case.length
    mask = [0] * (length - case.trained) + [1] * case.trained
    items = [TrainItem(TokenSequence(torch.randint(2, 1000, (length,)).tolist(), mask, [-3.0] * length), 1.0) for _ in range(case.rows)]
    settle()
    cpu = time.process_time()
    for _ in range(2):
        update(policy, optimizer, items, params.training, 0.7)
    return row(str(case), status("VmHWM") - before, estimated(case, params), time.process_time() - cpu)


def measure_sampling(rows: int, length: int) -> dict:
    """Two replies of each conversation, of which the second one's prompt fills the limit."""
    model = Qwen3ForCausalLM(configuration("tiny")).float()
    sampler = TorchSampler(Policy(model, NumberChat()).dense_weights(), NumberChat(), 0.7, length)
    short = length // 10
    prompts = [" ".join(["5"] * count) for count in (short, length - short - 3 * REPLY_TOKENS)]

    async def converse(session):
        for prompt in prompts:
            await session.reply([Message("user", prompt)], REPLY_TOKENS)

    async def all_converse():
        await asyncio.gather(*(converse(session) for session in [sampler.session(number) for number in range(rows)]))

    settle()
    before, cpu = status("VmRSS"), time.process_time()
    asyncio.run(all_converse())
    want = sum(memory.torch_sampler(architecture(model.config), memory.FLOAT32, rows, length).values())
    return row(f"tiny   {rows} conversations of {length} tokens", status("VmHWM") - before, want, time.process_time() - cpu)


def row(name: str, measured: int, estimated: int, cpu_seconds: float) -> dict:
    return {"name": name, "measured": measured, "estimated": estimated, "ratio": estimated / measured, "cpu_seconds": cpu_seconds}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the few cases of the test suite")
    parser.add_argument("--json", action="store_true", help="one line of JSON a case")
    options = parser.parse_args()
    torch.set_num_threads(1)
    measure(Case("tiny", "lora", 64, trained=32))  # what the first step of a process loads is none of any case's
    runs = [lambda case=case: measure(case) for case in (QUICK if options.quick else ALL)]
    for run in (*runs, lambda: measure_sampling(*CONVERSATIONS)):
        found = run()
        if options.json:
            print(json.dumps(found), flush=True)
        else:
            sizes = f"measured {found['measured'] / memory.MIB:6.0f} MiB  estimated {found['estimated'] / memory.MIB:6.0f} MiB"
            print(f"{found['name']:54} {sizes}  ratio {found['ratio']:.2f}  {found['cpu_seconds']:.1f} cpu s", flush=True)


if __name__ == "__main__":
    main()
