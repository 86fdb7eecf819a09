"""vLLM's engine as a few calls: begin a request, step, abort, load and drop adapters, reload the weights."""

import math
from dataclasses import dataclass
from pathlib import Path

from ..config import Params
from ..errors import ConfigError, one_line
from . import vllm_cpu

LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)  # those that vLLM makes room for
ADAPTERS_AT_ONCE = 2  # in one batch: the newest, and the one under which older replies end
ARCHITECTURES = {"qwen3": "Qwen3ForCausalLM", "llama": "LlamaForCausalLM"}
FIRST_ADAPTER_ID = 1 << 20  # ids below are left to others who use the same engine


@dataclass(frozen=True)
class Adapter:
    """A version of the adapter. Its folder's name is its name in the engine."""

    version: int
    folder: Path


@dataclass(frozen=True)
class Finished:
    """A reply that has ended, with the log-probs of its tokens; `problem` says why there is none."""

    name: str
    ids: list[int]
    logprobs: list[float]
    problem: str | None = None


class VllmEngine:
    """A vllm.LLM, driven by whoever calls `step`. Not thread-safe.

    Log-probs are those of the distribution that was sampled from, at `temperature`, over the whole vocabulary.
    """

    def __init__(self, llm, temperature: float, end_id: int, max_sequence: int, ours: bool = True):
        """llm: with logprobs_mode processed_logprobs; ours: `close` ends it. Raises ConfigError where it is set up otherwise."""
        config = llm.llm_engine.model_config
        if config.logprobs_mode != "processed_logprobs":
            raise ConfigError(f"vLLM's logprobs_mode is {config.logprobs_mode}; make the engine with processed_logprobs")
        if config.max_model_len < max_sequence:
            raise ConfigError(
                f"sampling.max_sequence_tokens: {max_sequence} is over the {config.max_model_len} that the engine was made for"
            )
        self._engine, self._ours = llm.llm_engine, ours
        self._temperature, self._end_id, self._most_tokens = temperature, end_id, config.max_model_len
        self._requests = {}  # adapters that are loaded, as vLLM names them
        self._next_id = FIRST_ADAPTER_ID

    def add(self, name: str, ids: list[int], max_tokens: int, seed: int, adapter: Adapter | None):
        """Begin a reply to the prompt `ids`. Raises ValueError where it does not fit, for which vLLM would wait for ever."""
        if len(ids) >= self._most_tokens:
            raise ValueError(f"a prompt of {len(ids)} tokens leaves no room in {self._most_tokens}")
        from vllm import SamplingParams
        from vllm.exceptions import VLLMValidationError
        from vllm.sampling_params import RequestOutputKind

        sampling = SamplingParams(
            temperature=self._temperature,
            top_p=1.0,
            top_k=0,
            min_p=0.0,
            seed=seed,
            logprobs=0,  # of the sampled token only
            max_tokens=max_tokens,
            stop_token_ids=[self._end_id],
            ignore_eos=True,  # the model's other end tokens are tokens like any
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )
        request = self._requests[adapter] if adapter else None
        try:
            self._engine.add_request(name, {"prompt_token_ids": ids}, sampling, lora_request=request)
        except VLLMValidationError as error:  # a ValueError in some versions only
            raise ValueError(str(error)) from error

    def step(self) -> list[Finished]:
        """A token for every running reply; those that have ended."""
        return [_finished(output) for output in self._engine.step() if output.finished]

    def abort(self, name: str):
        self._engine.abort_request([name])

    def load_adapter(self, adapter: Adapter):
        """Load it under a name and an id that were never used: vLLM keeps weights and prefixes by them."""
        from vllm.lora.request import LoRARequest

        request = LoRARequest(adapter.folder.name, self._next_id, str(adapter.folder))
        self._next_id += 1
        self._engine.add_lora(request)
        self._requests[adapter] = request

    def drop_adapter(self, adapter: Adapter):
        self._engine.remove_lora(self._requests.pop(adapter).lora_int_id)

    def reload(self, folder: Path):
        """Replace all weights. No reply may be running: its keys and values are of the old ones."""
        self._engine.collective_rpc("reload_weights", kwargs={"weights_path": str(folder)})
        if self._engine.vllm_config.device_config.device_type == "cpu":
            self._engine.apply_model(vllm_cpu.refresh_tied_head)
        if not self._engine.reset_prefix_cache():
            raise RuntimeError("the prefix cache could not be emptied")

    def close(self):
        for adapter in list(self._requests):
            self.drop_adapter(adapter)
        if self._ours:
            self._engine.engine_core.shutdown()
        self._engine = None


def _finished(output) -> Finished:
    reply = output.outputs[0]
    if reply.finish_reason not in ("stop", "length"):
        return Finished(output.request_id, [], [], f"the engine ended a reply for the reason '{reply.finish_reason}'")
    ids = list(reply.token_ids)
    logprobs = [chosen[token].logprob for token, chosen in zip(ids, reply.logprobs, strict=True)]
    if not all(math.isfinite(value) for value in logprobs):
        return Finished(output.request_id, [], [], "the engine gave a log-prob that is no number")
    return Finished(output.request_id, ids, logprobs)


def make_llm(params: Params, weights: str | Path, config, lora: bool):
    """A vllm.LLM of the weights in a folder, or of a hub name. Raises ConfigError where vLLM is missing or cannot start.

    config: the model's, of transformers. lora: whether adapters will be loaded.
    """
    try:
        from vllm import LLM
        from vllm.platforms import current_platform
    except ImportError as error:
        step = "install it by tools/install.py --profile gpu, or --profile vllm for its CPU build"
        raise ConfigError(f"policy.sampler: vllm needs vLLM ({' '.join(str(error).split())}); {step}") from None
    policy, cpu = params.policy, current_platform.is_cpu()
    options = {}
    if cpu:
        vllm_cpu.prepare()
        options["block_size"] = vllm_cpu.BLOCK_TOKENS
    if lora:
        rank = next((size for size in LORA_RANKS if size >= policy.lora.rank), None)
        if rank is None:
            raise ConfigError(f"policy.lora.rank: {policy.lora.rank} is over vLLM's {LORA_RANKS[-1]}")
        options |= {"enable_lora": True, "max_lora_rank": rank, "max_loras": ADAPTERS_AT_ONCE}
    if not config.architectures and config.model_type in ARCHITECTURES:  # a model that was saved without its name
        options["hf_overrides"] = {"architectures": [ARCHITECTURES[config.model_type]]}
    if policy.load_in_4bit:
        options["quantization"] = "bitsandbytes"
    dtype = policy.dtype if policy.dtype != "auto" else ("float32" if cpu else "bfloat16")
    try:
        return LLM(
            model=str(weights),
            skip_tokenizer_init=True,  # tokens in, tokens out
            dtype=dtype,
            seed=params.seed,
            max_model_len=params.sampling.max_sequence_tokens,
            max_num_seqs=policy.vllm.max_running,
            gpu_memory_utilization=policy.vllm.gpu_memory,
            enforce_eager=policy.vllm.eager or cpu,  # on a CPU compiling takes a minute and gains nothing
            enable_prefix_caching=True,
            logprobs_mode="processed_logprobs",
            generation_config="vllm",
            **options,
        )
    except (OSError, RuntimeError, ValueError) as error:
        step = "check policy.model, policy.vllm.gpu_memory and sampling.max_sequence_tokens"
        raise ConfigError(f"vLLM cannot start ({one_line(error, 300)}); {step}") from error
