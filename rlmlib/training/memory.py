"""How much memory a run takes on one device, term by term, in bytes. Estimates: counted from shapes, never allocated.

The activation terms count what autograd keeps for the backward pass of a Llama or Qwen3 layer as transformers writes it, with an
attention whose scores never exist as a matrix (SDPA's kernels). benchmarks/memory.py measures them on the CPU.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ..config import Params, Policy
from ..models.torch_sampler import SCORES_AT_ONCE
from .architecture import Architecture

GIB = 1 << 30
MIB = 1 << 20
FLOAT32 = 4
ADAPTER_BYTES = FLOAT32  # PEFT keeps an adapter in float32, whatever the base weights are
NF4_BYTES = 0.5 + FLOAT32 / 64  # bitsandbytes: 4 bits a value, and one float32 for each block of 64
LOGITS_COPIES = 2  # of a chunk of logits, in float32: they and their exponentials, or in the backward pass their gradient
RUNTIME_BYTES = {"cuda": GIB, "cpu": 512 * MIB}  # libraries, CUDA context, fragments of the allocator: a rule of thumb
VLLM_WORKING_BYTES = 3 * GIB // 2  # activations of a batch and CUDA graphs, inside the engine's share: a rule of thumb
VLLM_CPU_BYTES = 3 * GIB  # its cache is 2 GiB there, and the rest its libraries
PICK_COPIES = 5  # of a batch's logits: as computed, over the temperature, their log-probs, exponentials and sums
HEAP_LAYERS = {"lora": 5, "full": 1}  # layers' activations that glibc's heap has as holes, as benchmarks/memory.py measured
MIN_ACCEPTANCE = 0.2  # as training: a wave has at most 1 / this times the groups of a step


@dataclass(frozen=True)
class Estimate:
    """Bytes by name. always: as long as the run; training, sampling: while it does that; together: it does both at once."""

    always: Mapping[str, int]
    training: Mapping[str, int]
    sampling: Mapping[str, int]
    together: bool

    @property
    def peak(self) -> int:
        phases = (sum(self.training.values()), sum(self.sampling.values()))
        return sum(self.always.values()) + (sum(phases) if self.together else max(phases))

    @property
    def terms(self) -> dict[str, int]:
        return {**self.always, **self.training, **self.sampling}


def estimate(params: Params, model: Architecture, device_kind: str, device_bytes: int, ranks: int = 1) -> Estimate:
    """Memory of one device ('cuda' or 'cpu', of so many bytes) of a run.

    ranks: trainers. They share a sharded model; on GPUs each has one of its own, on CPUs all are of one machine and share its
    memory. Only the first of them samples.
    """
    policy, config = params.policy, params.training
    width = weight_bytes(policy, device_kind)
    shared = ranks if config.parallel == "sharded" else 1
    here = ranks if device_kind == "cpu" else 1
    trained, trained_width = trainable(model, policy, width)
    always = {"base weights": base_weights(model, policy, trained_width if policy.tuning == "full" else width) // shared}
    if autocast(policy, width):
        always["weights as computed"] = model.parameters * width // shared
    if shared > 1:
        always["gathered layers"] = gathered(model, width)
    if policy.tuning == "lora":
        always["adapter"] = trained * trained_width // shared
    always["gradients"] = trained * trained_width // shared
    always["AdamW states"] = 2 * trained * trained_width // shared
    tokens = min(step_tokens(params), max(config.micro_batch_tokens, params.sampling.max_sequence_tokens))
    training = step(model, policy, width, tokens)
    if device_kind == "cpu":
        training["freed, not given back"] = heap(model, policy, width, tokens)
    always["runtime"] = RUNTIME_BYTES[device_kind]
    always, training = ({name: size * here for name, size in terms.items()} for terms in (always, training))
    sampling = {}
    if policy.sampler == "torch":
        always["sampler's weights"] = 2 * model.parameters * width  # those in use, and those of a push
        sampling = torch_sampler(model, width, conversations(params), params.sampling.max_sequence_tokens)
    elif policy.sampler == "vllm":
        on_cpu = model.parameters * width + VLLM_CPU_BYTES
        always["vLLM"] = round(policy.vllm.gpu_memory * device_bytes) if device_kind == "cuda" else on_cpu
    return Estimate(always, training, sampling, config.max_async_level > 0)


def weight_bytes(policy: Policy, device_kind: str) -> int:
    """Bytes of an activation, and of a frozen base weight that is not quantised."""
    half = policy.dtype == "bfloat16" or (policy.dtype == "auto" and device_kind == "cuda" and policy.model != "tiny")
    return 2 if half else FLOAT32


def autocast(policy: Policy, width: int) -> bool:
    """Whether float32 weights are computed in bfloat16: those that are trained, on a GPU, by dtype: auto."""
    return policy.tuning == "full" and policy.dtype == "auto" and width < FLOAT32


def base_weights(model: Architecture, policy: Policy, width: int) -> int:
    """All weights; in 4 bit those of the layers' linears, with one of them unpacked at a time."""
    if not policy.load_in_4bit:
        return model.parameters * width
    packed = sum(linear.parameters for linear in model.linears)
    unpacked = max(linear.inputs * linear.outputs for linear in model.linears) * width
    return round(packed * NF4_BYTES) + (model.parameters - packed) * width + unpacked


def gathered(model: Architecture, width: int) -> int:
    """Of a sharded model: two layers, the one that computes and the next, and the embedding are whole on each rank."""
    layer = sum(linear.parameters for linear in model.linears) // model.layers
    return (2 * layer + model.vocab * model.hidden) * width


def trainable(model: Architecture, policy: Policy, width: int) -> tuple[int, int]:
    """(trained parameters, bytes of each). AdamW keeps two values of the same kind for each."""
    if policy.tuning == "full":
        return model.parameters, FLOAT32 if policy.dtype == "auto" else width
    return model.adapter_parameters(policy.lora.targets, policy.lora.rank), ADAPTER_BYTES


def step(model: Architecture, policy: Policy, width: int, tokens: int) -> dict[str, int]:
    """Of the forward and backward pass of a micro-batch of so many padded tokens."""
    layer = layer_bytes(model, policy, width) * tokens
    if policy.gradient_checkpointing:  # the input of each layer is kept, and one layer at a time is computed again
        kept = model.layers * model.hidden * width * tokens + layer
    else:
        kept = model.layers * layer
    # last hidden states, before and after the final norm and as chosen for the head; cosines and sines
    ends = (model.hidden * (FLOAT32 + 2 * width) + 2 * model.head_dim * width) * tokens
    logits = min(policy.logits_at_once, tokens) * model.vocab * FLOAT32 * LOGITS_COPIES
    backward = 3 * model.ffn * width * tokens  # gradients inside one MLP; by then the logits are gone
    if policy.tuning == "full":
        logits += 2 * model.vocab * model.hidden * FLOAT32  # the head's gradient, and a chunk's share of it
        backward += model.vocab * model.hidden * width  # the embedding's, before it is added to what is there
    return {"activations": kept + ends, "logits": logits, "backward of a layer": max(0, backward - logits)}


def heap(model: Architecture, policy: Policy, width: int, tokens: int) -> int:
    """What glibc keeps of freed activations on a CPU. Not where MALLOC_MMAP_THRESHOLD_ is set, which is slower."""
    return min(model.layers, HEAP_LAYERS[policy.tuning]) * layer_bytes(model, policy, width) * tokens


def layer_bytes(model: Architecture, policy: Policy, width: int) -> int:
    """What one layer keeps for its backward pass, bytes a token.

    The norms keep their inputs in float32. Attention keeps queries, keys, values, its output and a log-sum a head; the MLP keeps
    the gate, its activation and the other half. A linear layer keeps its input where its weights are trained, or its adapter's.
    Where the adapter is wider than the activations, PEFT makes it a copy of that input. Under autocast the residual stream and
    what the norms give stay float32, and each linear has a copy of its own.
    """
    hidden, ffn = model.hidden, model.ffn
    queries, keys = model.heads * model.head_dim, model.kv_heads * model.head_dim
    kept = 2 * hidden * FLOAT32 + 2 * FLOAT32
    kept += (2 * queries + 2 * keys) * width + model.heads * FLOAT32
    if model.qk_norm:
        kept += (queries + keys) * FLOAT32 + (model.heads + model.kv_heads) * FLOAT32
    kept += 3 * ffn * width
    if policy.tuning == "full":
        normed = 2 * hidden + (queries + keys if model.qk_norm else 0)  # for the gains of the norms
        return kept + (normed + 2 * hidden + ffn) * width + (10 * hidden if autocast(policy, width) else 0)
    targets = set(policy.lora.targets)
    kept += sum(policy.lora.rank * ADAPTER_BYTES for linear in model.linears if linear.name in targets)
    if width == ADAPTER_BYTES:
        shared = (({"q_proj", "k_proj", "v_proj"}, hidden), ({"gate_proj", "up_proj"}, hidden), ({"down_proj"}, ffn))
        return kept + sum(size * width for names, size in shared if names & targets)
    return kept + sum(linear.inputs * ADAPTER_BYTES for linear in model.linears if linear.name in targets)


def step_tokens(params: Params) -> int:
    """Most tokens that one step can hold: every rollout as long as it may be."""
    config = params.training
    return config.prompts_per_step * config.rollouts_per_prompt * params.sampling.max_sequence_tokens


def conversations(params: Params) -> int:
    """Rollouts that are sampled at once at most: those of a wave or of a short evaluation; where sampling is ahead, of both."""
    config = params.training
    evaluated = config.evaluate_examples if config.evaluate_every else 0
    if config.max_async_level:
        return config.prompts_per_step * (config.max_async_level + 1) * config.rollouts_per_prompt + evaluated
    wave = min(round(config.prompts_per_step / MIN_ACCEPTANCE), config.max_wave_prompts)
    return max(wave * config.rollouts_per_prompt, evaluated)


def torch_sampler(model: Architecture, width: int, rows: int, length: int) -> dict[str, int]:
    """Of one batch of the torch sampler (models/torch_sampler.py): so many conversations of so many tokens, all of that length.

    Each has keys and values of its own from its last reply, and the batch has a copy. Then come either the prefill's attention
    mask, once a group of heads, and activations; or logits and new copies: of the rows that are still alive, or for each
    conversation. Tokens that are new in a prefill are in no cache of their own yet.
    """
    groups = model.heads // model.kv_heads
    tokens = min(rows * length, max(rows, SCORES_AT_ONCE // (length * groups)))
    queries, keys = model.heads * model.head_dim, model.kv_heads * model.head_dim
    activations = 4 * model.ffn + 4 * model.hidden + 4 * queries + 3 * keys + 2 * model.head_dim
    prefill = tokens * (length * groups + activations - model.kv_values) * width
    cache = rows * length * model.kv_values * width
    return {"sampler's cache": 2 * cache, "sampler's batch": max(prefill, cache + rows * model.vocab * FLOAT32 * PICK_COPIES)}


def vllm_sequences(params: Params, model: Architecture, device_bytes: int) -> float:
    """Conversations of full length whose keys and values fit beside the weights into vLLM's share of the GPU; its cache is 16 bit."""
    room = params.policy.vllm.gpu_memory * device_bytes - base_weights(model, params.policy, 2) - VLLM_WORKING_BYTES
    return room / (params.sampling.max_sequence_tokens * model.kv_values * 2)
