"""What gpu_check.py measures of gradient steps: `python gpu_speed.py WORK REQUEST`, REQUEST in JSON. The batch is the same for all.

Its tokens a second are those of the conversations, without padding.
"""

import os
import sys
from pathlib import Path

import numpy as np
import torch

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from gpu_policy import SEED, TEMPERATURE, load, params_of  # noqa: E402
from training_work import Stopwatch, memory_mb, serve, trl_times  # noqa: E402

from rlmlib.models.conversation import TokenSequence  # noqa: E402
from rlmlib.training import memory  # noqa: E402
from rlmlib.training.architecture import architecture  # noqa: E402
from rlmlib.training.step import TrainItem, make_optimizer, token_logprobs, update  # noqa: E402

MB = 1 << 20  # as training_work.memory_mb counts
TURN, SAMPLED = 512, 128  # tokens of a turn, and those of them that are its reply


def rows_of(request: dict) -> list[dict]:
    """Conversations of random tokens in turns, of request["lengths"]; see training_work.py. Log-probs are those of no model."""
    random, rows, turn = np.random.default_rng(SEED), [], min(TURN, min(request["lengths"]))
    for place, length in enumerate(request["lengths"]):
        mask = [int(at % turn >= turn - turn * SAMPLED // TURN) for at in range(length)]
        ids = random.integers(4, request["vocab"], length).tolist()
        rows.append({"ids": ids, "mask": mask, "logprobs": [0.0] * length, "advantage": 0.75 if place == 0 else -0.25})
    return rows


def peak_mb() -> dict:
    """Most memory that torch has used and reserved on the GPU; on a CPU that of the process, imports included."""
    if not torch.cuda.is_available():
        return {"peak_mb": memory_mb("VmHWM"), "reserved_mb": memory_mb("VmHWM")}
    return {"peak_mb": torch.cuda.max_memory_allocated() / MB, "reserved_mb": torch.cuda.max_memory_reserved() / MB}


def speed(request: dict, times: list) -> dict:
    """times: wall and CPU seconds of steps, of which the first one is already left out."""
    walls = sorted(wall for wall, _ in times)
    return {"steps_s": walls, "tokens_per_s": sum(request["lengths"]) / walls[len(walls) // 2]}


def params_for(request: dict, **policy):
    """Weights are sampled from elsewhere, so that only training takes memory."""
    elsewhere = {"sampler": "server", "vllm": {"urls": ["http://127.0.0.1:1/v1"]}}
    return params_of(request, max(request["lengths"]), gradient_checkpointing=True, **elsewhere, **policy)


def steps(request: dict) -> dict:
    """request["steps"] updates by request["trainer"] on a batch whose log-probs are the policy's own before the first one."""
    params = params_for(request, trainer=request["trainer"])
    policy = load(params)
    items = [TrainItem(TokenSequence(r["ids"], r["mask"], r["logprobs"]), r["advantage"]) for r in rows_of(request)]
    with torch.no_grad():
        for item in items:
            own = iter(token_logprobs(policy, [item.sequence], TEMPERATURE)[0].tolist())
            item.sequence.logprobs[:] = [next(own) if on else 0.0 for on in item.sequence.mask]
    trained = [sum(item.sequence.mask) for item in items]
    expected = -sum(item.advantage * count for item, count in zip(items, trained, strict=True)) / sum(trained)
    optimizer, rows, times = make_optimizer(policy, params.training), [], []
    for _ in range(request["steps"]):
        watch = Stopwatch()
        rows.append(update(policy, optimizer, items, params.training, TEMPERATURE))
        times.append(watch.read())
    device = policy.device
    total = torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else 0
    estimate = memory.estimate(params, architecture(policy.model.config), device.type, total)
    return {
        **speed(request, times[1:]),
        **peak_mb(),
        "expected_loss": expected,
        "losses": [row["loss"] for row in rows],
        "first_gap": rows[0]["mismatch_kl_kept"],
        "gradient_norms": [row["grad_norm"] for row in rows],
        "skipped": sum(row["skipped"] for row in rows),
        "estimate_mb": {name: size / MB for name, size in estimate.terms.items()},
    }


def trl(request: dict) -> dict:
    """As `steps`, by TRL's GRPOTrainer with PEFT, a conversation a forward pass: bfloat16 and checkpointing as it sets them up."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    on_gpu = torch.cuda.is_available()
    model = AutoModelForCausalLM.from_pretrained(request["base"], dtype=torch.bfloat16 if on_gpu else torch.float32)
    options = {"use_cpu": not on_gpu, "bf16": on_gpu, "gradient_checkpointing": True}
    tokenizer, params = AutoTokenizer.from_pretrained(request["base"]), params_for(request)
    times, _ = trl_times(model, tokenizer, params, rows_of(request), 1, request["steps"] - 1, **options)
    return {**speed(request, times), **peak_mb()}


WORK = {work.__name__: work for work in (steps, trl)}


if __name__ == "__main__":
    os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
    serve(WORK)
