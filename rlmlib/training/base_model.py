"""The base model that policy.model names: where its weights are, its chat format, its device and dtype."""

import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch

from ..config import Params
from ..config import Policy as PolicyParams
from ..errors import ConfigError, RlmError, one_line

OWN_WEIGHTS = ("embed_tokens", "lm_head")  # the sampler and the chunked log-probs read these as they are


def source(name: str) -> str:
    """Folder of the weights of policy.model, or its name on the Hub."""
    if name == "tiny":
        from ..tiny import WEIGHTS

        return str(WEIGHTS)
    if name == "smollm2":
        from ..models import smollm2

        return str(smollm2.folder())
    return str(Path(name).expanduser().resolve()) if Path(name).expanduser().is_dir() else name


def chat_format(name: str, tokenizer=None):
    """The chat format of policy.model; its tokenizer is loaded where it is not given."""
    if name == "tiny":
        from ..tiny.model import load

        return load()[1]
    from ..models.template_chat import TemplateChat

    if tokenizer is None:
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(source(name))
    return TemplateChat(tokenizer)


def device() -> torch.device:
    """The GPU of this process, or the CPU."""
    return torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")


def weight_dtype(policy: PolicyParams, on: torch.device) -> torch.dtype:
    """Dtype that the weights are kept in.

    auto: bfloat16 for a frozen base on a GPU. Else float32: a CPU is faster in it, and a small step of a weight that is itself
    trained would be lost in bfloat16's 8 bits.
    """
    if policy.dtype != "auto":
        return getattr(torch, policy.dtype)
    frozen = policy.tuning == "lora" and policy.model != "tiny"
    return torch.bfloat16 if on.type == "cuda" and frozen else torch.float32


def autocast(policy: PolicyParams, on: torch.device) -> bool:
    """Whether float32 weights are computed in bfloat16: auto does, on a GPU."""
    return policy.dtype == "auto" and on.type == "cuda" and policy.tuning == "full" and policy.model != "tiny"


def check(params: Params, config):
    """Raises ConfigError where the base model, known by its transformers config, cannot do what the params ask for."""
    longest, asked = getattr(config, "max_position_embeddings", None), params.sampling.max_sequence_tokens
    if longest and asked > longest:
        raise ConfigError(f"sampling.max_sequence_tokens: {asked} is over the {longest} positions of '{params.policy.model}'")


def check_targets(targets: Sequence[str], linears: Iterable[str]):
    """Raises ConfigError for a target of LoRA that is none of the names of a model's linear layers, as PEFT would leave it out
    silently, or that the sampler reads as it is."""
    names = sorted({name.rpartition(".")[2] for name in linears} - set(OWN_WEIGHTS))
    for target in targets:
        if target in OWN_WEIGHTS:
            raise ConfigError(f"policy.lora.targets: '{target}' cannot have an adapter here; take it out, or set policy.tuning: full")
        if target not in names:
            near = difflib.get_close_matches(target, names, n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"choose from {', '.join(names)}"
            raise ConfigError(f"policy.lora.targets: no linear layer is named '{target}'; {hint}")


def linears(model: torch.nn.Module) -> list[str]:
    """Names of a model's linear layers."""
    return [name for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)]


def cannot_load(name: str, error: Exception) -> RlmError:
    """The one line that says so."""
    if isinstance(error, RlmError):
        return error
    hint = "name a transformers folder or a model of the Hub, and see that it can be reached"
    return ConfigError(f"policy.model: '{name}' cannot be loaded ({one_line(error, 200)}); {hint}")
