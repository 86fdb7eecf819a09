"""What vLLM needs on a CPU: settings of its environment, LoRA sums that leave rows without an adapter alone, a head that is reloaded."""

import os

BLOCK_TOKENS = 32  # of the prefix cache; the default, 128, never finds the short prompts of small runs again
SETTINGS = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # else the engine's process takes one core and reserves the others
    "VLLM_CPU_KVCACHE_SPACE": "2",  # GiB; else a share of all memory
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # else the trainer's threads are tied to the engine's cores
}


def prepare():
    """Set up this process before the engine is made. What the user has set stays."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    from vllm.lora.punica_wrapper import punica_cpu

    for function in (bgmv_shrink, bgmv_expand, bgmv_expand_slice, sgmv_shrink, sgmv_expand, sgmv_expand_slice):
        setattr(punica_cpu, function.__name__, function)


def refresh_tied_head(model):
    """After a reload: a head that is the embedding computes with a packed copy of it, which vLLM leaves as it was."""
    from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm

    if model.lm_head.weight is model.model.embed_tokens.weight:
        dispatch_cpu_unquantized_gemm(model.lm_head, remove_weight=False)


# vLLM's own versions gather a copy of the adapter for every token, and take index -1, a row without an adapter, for the last
# adapter. These have the same arguments. indices [N]: each row's adapter; A [adapters, 1, rank, in], B [adapters, 1, out, rank].


def _rows_by_adapter(indices):
    for adapter in indices.unique().tolist():
        if adapter >= 0:
            yield adapter, (indices == adapter).nonzero().squeeze(1)


def _matrix(weights, adapter: int, dtype):
    return weights[adapter].reshape(weights.shape[-2:]).to(dtype)


def bgmv_shrink(inputs, lora_a, output, indices, scaling=1.0):
    """output[rows] = scaling * inputs[rows] @ A.T"""
    output.zero_()
    for adapter, rows in _rows_by_adapter(indices):
        down = _matrix(lora_a, adapter, output.dtype)
        output[rows, : down.shape[0]] = scaling * (inputs[rows].to(output.dtype) @ down.T)


def bgmv_expand_slice(inputs, lora_b, output, indices, offset, size, add_inputs=True):
    """output[rows, offset : offset + size] += inputs[rows] @ B.T"""
    part = output[:, offset : offset + size]
    if not add_inputs:
        part.zero_()
    for adapter, rows in _rows_by_adapter(indices):
        up = _matrix(lora_b, adapter, output.dtype)[: part.shape[1]]
        part[rows, : up.shape[0]] += inputs[rows].to(output.dtype) @ up.T


def bgmv_expand(inputs, lora_b, output, indices, add_inputs=True):
    bgmv_expand_slice(inputs, lora_b, output, indices, 0, output.shape[1], add_inputs)


def sgmv_shrink(inputs, lora_a, output, starts, lengths, indices, batches, longest, tokens, scaling):
    bgmv_shrink(inputs, lora_a, output, indices.repeat_interleave(lengths), scaling)


def sgmv_expand_slice(inputs, lora_b, output, starts, lengths, indices, batches, longest, tokens, offset, size, add_inputs=False):
    bgmv_expand_slice(inputs, lora_b, output, indices.repeat_interleave(lengths), offset, size, add_inputs)


def sgmv_expand(inputs, lora_b, output, starts, lengths, indices, batches, longest, tokens, add_inputs=False):
    bgmv_expand(inputs, lora_b, output, indices.repeat_interleave(lengths), add_inputs)
