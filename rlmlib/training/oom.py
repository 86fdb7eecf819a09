"""Out of memory, in one line that names the knob to turn, instead of an allocator's report."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Literal

from ..config import Params
from ..errors import TrainingError, is_out_of_memory
from . import memory
from .knobs import knob

Doing = Literal["loading the policy", "starting the sampler", "sampling", "a training step", "pushing weights"]

VLLM_WANTS_MORE = ("kv cache", "cache blocks")  # the share is too small for what it has to hold
TERMS = {
    "loading the policy": ("base weights", "weights as computed", "adapter"),
    "starting the sampler": ("base weights", "sampler's weights", "vLLM"),
    "sampling": ("sampler's cache", "vLLM"),
    "a training step": ("activations", "logits", "backward of a layer", "gradients", "AdamW states"),
    "pushing weights": ("sampler's weights", "base weights"),
}


@contextlib.contextmanager
def out_of_memory_named(params: Params, doing: Doing, lengths: Sequence[int] = ()) -> Iterator[None]:
    """Raises TrainingError where what is done inside runs out of memory. lengths: tokens of the sequences of a training step."""
    try:
        yield
    except Exception as error:  # an engine may have wrapped what its allocator raised
        if not is_out_of_memory(error):
            raise
        text = str(error).lower()
        longest = max(lengths, default=None)
        if doing == "starting the sampler" and any(sign in text for sign in VLLM_WANTS_MORE):
            turn = f"raise policy.vllm.gpu_memory (now {params.policy.vllm.gpu_memory:g})"
        else:
            turn = knob(params, _terms(params, doing, lengths), longest)
        if doing == "a training step" and params.policy.sampler == "vllm":
            turn += f", or lower policy.vllm.gpu_memory (now {params.policy.vllm.gpu_memory:g})"
    else:
        return
    tokens = f" (the longest sequence has {longest} tokens, a micro-batch {micro_batch(params, lengths)})" if lengths else ""
    # outside of the handler, so that the tensors which the failed call held are free
    raise TrainingError(f"out of memory in {doing}{tokens}; {turn}")


def micro_batch(params: Params, lengths: Sequence[int]) -> int:
    """Padded tokens of the micro-batch of the longest sequences; see step.micro_batches."""
    longest = max(lengths)
    return longest * max(1, min(len(lengths), params.training.micro_batch_tokens // longest))


def _terms(params: Params, doing: Doing, lengths: Sequence[int]) -> dict[str, int]:
    """Sizes of the terms that matter, by the estimate; in the order of TERMS where there is no memory even for that."""
    names = tuple(name for name in TERMS[doing] if name != "vLLM" or params.policy.sampler == "vllm")
    try:
        import torch

        from .architecture import architecture, model_config

        kind = "cuda" if torch.cuda.is_available() else "cpu"
        model = architecture(model_config(params.policy.model))
        device_bytes = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory if kind == "cuda" else 0
        found = memory.estimate(params, model, kind, device_bytes).terms
        if lengths:
            width = memory.weight_bytes(params.policy, kind)
            found |= memory.step(model, params.policy, width, micro_batch(params, lengths))
        return {name: found[name] for name in names if name in found}
    except Exception:  # noqa: BLE001 - an out-of-memory report must not fail for lack of memory
        return dict.fromkeys(names[:1], 1)
