"""The policy by transformers and PEFT. Runs everywhere."""

import importlib.util

import torch

from ..config import Params
from ..errors import ConfigError, one_line
from . import base_model
from .policy import Policy


def load(params: Params, adapter: bool) -> Policy:
    """The policy of a params file; `adapter` says whether to make it trainable. Raises ConfigError."""
    config, device = params.policy, base_model.device()
    model, chat = _tiny(config, device) if config.model == "tiny" else _pretrained(config, device)
    base_model.check(params, model.config)
    model.requires_grad_(adapter and config.tuning == "full")
    if adapter and config.gradient_checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    if adapter and config.tuning == "lora":
        model = _with_adapter(model, params)
    return Policy(model, chat, config.logits_at_once, base_model.autocast(config, device))


def _tiny(config, device: torch.device):
    from ..tiny.model import load

    model, chat = load()
    model.name_or_path = base_model.source("tiny")
    if config.load_in_4bit:
        raise ConfigError("policy.load_in_4bit: the tiny policy has no 4-bit weights; set it to false")
    return model.to(device, base_model.weight_dtype(config, device)), chat


def _pretrained(config, device: torch.device):
    from transformers import AutoModelForCausalLM

    dtype = base_model.weight_dtype(config, device)
    options = {"quantization_config": _four_bit(dtype)} if config.load_in_4bit else {}
    if device.type != "cpu":
        options["device_map"] = {"": device}
    try:
        model = AutoModelForCausalLM.from_pretrained(base_model.source(config.model), dtype=dtype, **options)
        return model, base_model.chat_format(config.model)
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise base_model.cannot_load(config.model, error) from None


def _four_bit(dtype: torch.dtype):
    if not torch.cuda.is_available():
        raise ConfigError("policy.load_in_4bit: needs an NVIDIA GPU; set it to false")
    if importlib.util.find_spec("bitsandbytes") is None:
        raise ConfigError("policy.load_in_4bit: needs bitsandbytes; install the GPU set: python tools/install.py --profile gpu")
    from transformers import BitsAndBytesConfig

    return BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=dtype)


def _with_adapter(model, params: Params):
    from peft import LoraConfig, get_peft_model

    lora = params.policy.lora
    base_model.check_targets(lora.targets, base_model.linears(model))
    config = LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=list(lora.targets),
        task_type="CAUSAL_LM",
    )
    torch.manual_seed(params.seed)
    try:
        return get_peft_model(model, config)  # its weights are float32, whatever those of the base are
    except ValueError as error:
        raise ConfigError(f"policy.lora: {one_line(error, 200)}") from None
