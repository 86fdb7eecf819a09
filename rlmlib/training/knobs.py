"""Which knob to turn when memory is short."""

from collections.abc import Mapping

from ..config import Params


def knob(params: Params, terms: Mapping[str, int], longest: int | None = None) -> str:
    """What to do about the largest of some terms of training/memory.py that has a knob.

    longest: tokens of the longest sequence that is trained on; None: as long as they may be.
    """
    policy, vllm = params.policy, params.policy.vllm
    can_shard = policy.sampler != "torch" and policy.trainer == "peft" and not policy.load_in_4bit and params.training.parallel != "sharded"
    sharded = ", or training.parallel: sharded on more GPUs" if can_shard else ""
    smaller = "name a smaller policy.model" if policy.load_in_4bit or policy.model == "tiny" else "set policy.load_in_4bit: true"
    if policy.tuning == "full":
        weights = states = f"set policy.tuning: lora{sharded}"
    else:
        weights, states = smaller + sharded, f"lower policy.lora.rank (now {policy.lora.rank})"
    if params.training.max_async_level:
        at_once = f"training.max_async_level (now {params.training.max_async_level})"
    else:
        at_once = f"training.max_wave_prompts (now {params.training.max_wave_prompts})"
    most = f"sampling.max_sequence_tokens (now {params.sampling.max_sequence_tokens})"
    knobs = {
        "base weights": weights,
        "weights as computed": weights,
        "sampler's weights": weights,
        "gathered layers": f"lower {most}",
        "adapter": states,
        "gradients": states,
        "AdamW states": states,
        "activations": _activations(params, longest),
        "backward of a layer": _activations(params, longest),
        "logits": f"lower policy.logits_at_once (now {policy.logits_at_once})",
        "vLLM": f"lower policy.vllm.gpu_memory (now {vllm.gpu_memory:g})",
        "sampler's cache": f"lower {at_once} or {most}",
        "sampler's batch": f"lower {at_once} or {most}",
    }
    known = [name for name in terms if name in knobs]
    return knobs[max(known, key=lambda name: terms[name])] if known else f"lower {at_once} or {most}"


def _activations(params: Params, longest: int | None) -> str:
    """A micro-batch holds at least one sequence, so below the longest one its limit does nothing."""
    limit, most = params.training.micro_batch_tokens, params.sampling.max_sequence_tokens
    longest = longest or most
    if not params.policy.gradient_checkpointing:
        return "set policy.gradient_checkpointing: true"
    if limit // longest > 1:
        return f"lower training.micro_batch_tokens (now {limit}; the longest sequence has {longest})"
    return f"lower sampling.max_sequence_tokens (now {most})"
