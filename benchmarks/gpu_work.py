"""What gpu_check.py measures of correctness: `python gpu_work.py WORK REQUEST`, REQUEST in JSON. Each returns numbers, judged there."""

import contextlib
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import torch

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from gpu_policy import CHAT, SEED, TEMPERATURE, converse, gaps, load, make_model, move_adapter, params_of  # noqa: E402
from training_work import Stopwatch, serve  # noqa: E402

from rlmlib.models.conversation import TokenSequence  # noqa: E402
from rlmlib.models.torch_sampler import TorchSampler  # noqa: E402
from rlmlib.training.logprobs import target_logprobs  # noqa: E402
from rlmlib.training.loss import ipo_masked_loss  # noqa: E402
from rlmlib.training.policy import Policy  # noqa: E402
from rlmlib.training.step import TrainItem, accumulate, make_optimizer, token_logprobs, update  # noqa: E402

PACKAGES = ("torch", "transformers", "peft", "trl", "unsloth", "unsloth_zoo", "vllm", "bitsandbytes", "triton")
LENGTHS = (190, 7, 121, 64, 33)  # of the conversations whose gradients are compared
ROWS_AT_ONCE = 64


def card(request: dict) -> dict:
    """What this machine has."""
    index, driver = torch.cuda.current_device(), "unknown"
    with contextlib.suppress(OSError):
        asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        driver = subprocess.run(asked, capture_output=True, text=True, timeout=60).stdout.split()[0]
    known = {found.metadata["Name"]: found.version for found in metadata.distributions()}
    return {
        "card": torch.cuda.get_device_name(index),
        "memory_gb": round(torch.cuda.get_device_properties(index).total_memory / 1e9, 1),
        "driver": driver,
        "cuda": torch.version.cuda,
        "versions": {name: known[name] for name in PACKAGES if name in known},
    }


# --- log-probs and gradients


def trained_items() -> list:
    """Conversations of random tokens, whose log-probs as sampled are off by some tenths from any model's."""
    random, items = np.random.default_rng(SEED), []
    for row, length in enumerate(LENGTHS):
        mask = [0, 0, *(int(place % 5 > 1) for place in range(length - 2))]
        logprobs = [-float(random.uniform(3, 9)) * on for on in mask]
        items.append(TrainItem(TokenSequence(random.integers(4, 1024, length).tolist(), mask, logprobs), (-1) ** row * 0.75))
    return items


def numbers(request: dict) -> dict:
    """Write log-probs and gradients of one batch to PRECISION.safetensors in request["out"], for each of request["precisions"].

    float64 is the reference: transformers on the CPU, full logits, one conversation at a time. All have the adapter of
    request["adapter"], which is written first where it is not there.
    """
    from safetensors.torch import save_file

    items, adapter, out = trained_items(), Path(request["adapter"]), Path(request["out"])
    out.mkdir(exist_ok=True)
    for precision in request["precisions"]:
        exact = precision == "float64"
        options = {"trainer": request["trainer"], "logits_at_once": ROWS_AT_ONCE, "dtype": "float32" if exact else precision}
        params = params_of(request, 2048, **options)
        policy = load(params, on_cpu=exact)
        if not adapter.exists():
            move_adapter(policy)
            policy.save_adapter(adapter)
        policy.load_adapter(adapter)
        if exact:
            logprobs = reference(policy, items, params.training)
        else:
            with torch.no_grad():
                logprobs = torch.cat([token_logprobs(policy, [item.sequence], TEMPERATURE)[0] for item in items])
            accumulate(policy, items, params.training, TEMPERATURE)
        found = {name: p.grad for name, p in policy.model.named_parameters() if p.requires_grad} | {"logprobs": logprobs}
        save_file({name: value.detach().cpu().double().contiguous() for name, value in found.items()}, out / f"{precision}.safetensors")
    return {"device": str(policy.device), "tokens": len(logprobs)}


def reference(policy, items, training):
    """Log-probs by full logits in float64 (transformers' norms are float32), gradients of the loss left in the policy."""
    model = policy.model.double()
    total, kept = sum(sum(item.sequence.mask) for item in items), []
    for item in items:
        s = item.sequence
        on = torch.tensor(s.mask, dtype=torch.bool)[1:]
        chosen = (model(input_ids=torch.tensor([s.ids])).logits[0, :-1] / TEMPERATURE).log_softmax(-1)
        chosen = chosen.gather(1, torch.tensor(s.ids)[1:, None]).squeeze(1)[on]
        sampled, advantage = torch.tensor(s.logprobs)[1:][on].double(), torch.full_like(chosen, item.advantage)
        ipo_masked_loss(chosen, sampled, advantage, total, training.drop_threshold, training.kl_tau)[0].backward()
        kept.append(chosen.detach())
    return torch.cat(kept)


def difference(request: dict) -> dict:
    """How far two files of `numbers` are apart: log-probs in nats, gradients by the norm of the difference over the norm."""
    from safetensors.torch import load_file

    one, other = (load_file(request[name]) for name in ("one", "other"))
    if one.keys() != other.keys():
        raise ValueError(f"other parameters are trained: {sorted(one.keys() ^ other.keys())[0]}")
    moved = (one.pop("logprobs") - other.pop("logprobs")).abs()
    names = sorted(other)
    a, b = (torch.cat([found[name].flatten() for name in names]) for found in (one, other))
    return {"logprobs_mean": float(moved.mean()), "logprobs_most": float(moved.max()), "gradient": float((a - b).norm() / b.norm())}


def head(request: dict) -> dict:
    """Chunked log-probs of a bfloat16 head beside float64 from the same numbers: errors of them and of their gradients."""
    rows, width, vocab = request["sizes"]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(SEED)
    hidden = torch.randn(rows, width, device=device, dtype=torch.bfloat16).requires_grad_()
    matrix = (torch.randn(vocab, width, device=device) / width**0.5 * 3).bfloat16().requires_grad_()
    targets, weights = torch.randint(vocab, (rows,), device=device), torch.randn(rows, device=device)
    found, entropies = target_logprobs(hidden, matrix, targets, TEMPERATURE, rows // 3)
    found.backward(weights)
    exact = [tensor.detach().double().requires_grad_() for tensor in (hidden, matrix)]
    full = (exact[0] @ exact[1].T / TEMPERATURE).log_softmax(-1)
    right = full.gather(1, targets[:, None]).squeeze(1)
    right.backward(weights.double())
    far = [float((a.grad - b.grad).norm() / b.grad.norm()) for a, b in zip((hidden, matrix), exact, strict=True)]
    entropy = float((entropies + (full.detach().exp() * full.detach()).sum(1)).abs().max())
    return {
        "logprobs_most": float((found - right).detach().abs().max()),
        "entropy_most": entropy,
        "hidden_gradient": far[0],
        "head_gradient": far[1],
    }


# --- 4 bit


def four_bit(request: dict) -> dict:
    """A policy on 4-bit weights beside the dense weights it says it has, and a step of it."""
    from transformers import AutoModelForCausalLM

    params = params_of(request, 2048, load_in_4bit=True)
    policy = load(params)
    packed = sum(type(module).__name__ == "Linear4bit" for module in policy.model.modules())
    move_adapter(policy)
    state = policy.merged_state()
    dense = AutoModelForCausalLM.from_pretrained(request["base"]).to(policy.device)
    dense.load_state_dict(state, strict=False)
    items = trained_items()
    apart = distance(policy, Policy(dense, CHAT), items)
    before = [parameter.detach().clone() for parameter in policy.trainable]
    stats = update(policy, make_optimizer(policy, params.training), items, params.training, TEMPERATURE)
    moved = sum(float((a - b.detach()).abs().sum()) for a, b in zip(before, policy.trainable, strict=True))
    return {"packed": packed, "mean": apart, "skipped": stats["skipped"], "moved": moved}


def distance(one, other, items) -> float:
    """Mean difference of two policies' log-probs."""
    with torch.no_grad():
        a, b = (torch.cat([token_logprobs(policy, [item.sequence], TEMPERATURE)[0] for item in items]) for policy in (one, other))
    return float((a - b).abs().mean())


# --- samplers


def torch_sampler(request: dict) -> dict:
    """The torch sampler beside transformers, in float32 and in bfloat16, before and after a push."""
    found = {}
    for precision in ("float32", "bfloat16"):
        policy = load(params_of(request, 2048, dtype=precision))
        move_adapter(policy)
        sampler = TorchSampler(policy.dense_weights(), CHAT, TEMPERATURE, 2048)
        found[precision] = gaps(policy, converse(sampler, range(4), 2))
        move_adapter(policy, SEED + 1)
        sampler.push(policy)
        found[f"{precision}, pushed"] = gaps(policy, converse(sampler, range(4), 2))
    return found


def vllm(request: dict) -> dict:
    """vLLM in this process beside the trainer, before and after pushes, and what its prefix cache gave."""
    from rlmlib.models.vllm_sampler import build

    params = params_of(request, 2048, sampler="vllm", vllm={"eager": True, "gpu_memory": 0.3, "max_running": 16})
    policy = load(params)
    move_adapter(policy)
    watch = Stopwatch()
    sampler = build(params, policy)
    try:
        found = {"start_s": watch.read()[0], "equal": gaps(policy, converse(sampler))}
        cached = watch_prefixes(sampler)
        changed, new, old = [], [], []
        for number in range(3):
            before = converse(sampler, keys=[2], turns=2)
            move_adapter(policy, SEED + 1 + number)
            watch = Stopwatch()
            sampler.push(policy)
            found["push_s"], place = watch.read()[0], len(cached)
            after = converse(sampler, keys=[2], turns=2)
            changed.append(before[0].ids != after[0].ids)
            new += after
            old.append(gaps(policy, before)["mean"])
            found.setdefault("cached_after_push", []).append(cached[place])
            found.setdefault("cached_second_turn", []).append(cached[place + 1])
        return found | {"changed": all(changed), "pushed": gaps(policy, new[-1:]), "not_pushed_mean": min(old)}
    finally:
        sampler.close()


def watch_prefixes(sampler) -> list[int]:
    """A list that grows by the tokens which each reply found in the prefix cache."""
    cached, engine = [], sampler._engine._engine
    step = engine.step

    def watched():
        outputs = step()
        cached.extend(output.num_cached_tokens for output in outputs if output.finished)
        return outputs

    engine.step = watched
    return cached


WORK = {work.__name__: work for work in (make_model, card, numbers, difference, head, four_bit, torch_sampler, vllm)}


if __name__ == "__main__":
    serve(WORK)
