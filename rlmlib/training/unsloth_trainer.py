"""The policy by Unsloth: its kernels and its checkpointing on a GPU, and on a CPU its own backend, by the same calls.

Only loading, adapters and the switch to training are Unsloth's. Hidden states come from the body of the model and log-probs from
our own chunks, as for every trainer: what its forward returns as logits depends on the environment and the version.
"""

import importlib.util
import os
import sys
import warnings

import torch

from ..config import Params
from ..errors import ConfigError, one_line
from . import base_model
from .policy import Policy

INSTALL = "python tools/install.py --profile gpu (without a GPU: make test-unsloth makes .venv-unsloth)"


class UnslothPolicy(Policy):
    """A policy whose training mode Unsloth arms."""

    def __init__(self, *arguments, checkpointing: str | bool, **options):
        super().__init__(*arguments, **options)
        self._checkpointing = checkpointing
        self._needs_training_mode = True  # its kernels and its checkpointing are chosen by the mode

    def _set_mode(self, training: bool):
        if training:
            import_unsloth().for_training(self.model, use_gradient_checkpointing=self._checkpointing)
        else:
            self.model.eval()


def import_unsloth():
    """unsloth.FastLanguageModel. It has to be imported before transformers and peft, which it patches. Raises ConfigError."""
    if "unsloth" not in sys.modules and "transformers" in sys.modules and torch.cuda.is_available():
        warnings.warn("transformers was imported before unsloth, so parts of it stay unpatched and slow", stacklevel=2)
    spec = importlib.util.find_spec("unsloth")
    if spec is None or spec.origin is None:  # a mere folder of that name has no origin
        raise ConfigError(f"policy.trainer: unsloth is not installed; install it by {INSTALL}")
    os.environ.setdefault("UNSLOTH_DISABLE_STATISTICS", "1")
    try:
        from unsloth import FastLanguageModel
    except (ImportError, RuntimeError) as error:  # of a machine without a GPU it raises a kind of RuntimeError
        raise ConfigError(f"policy.trainer: unsloth cannot be imported ({one_line(error)}); set policy.trainer: peft") from None
    return FastLanguageModel


def load(params: Params, adapter: bool) -> Policy:
    """The policy of a params file; `adapter` says whether to make it trainable. Raises ConfigError."""
    unsloth = import_unsloth()
    config, device = params.policy, base_model.device()
    checkpointing = "unsloth" if config.gradient_checkpointing else False
    full = adapter and config.tuning == "full"
    if config.load_in_4bit and device.type == "cpu":
        raise ConfigError("policy.load_in_4bit: needs an NVIDIA GPU; set it to false")
    name = base_model.source(config.model)
    try:
        from transformers import AutoConfig

        base_model.check(params, AutoConfig.from_pretrained(name))  # before loading: Unsloth would stretch the positions
        model, tokenizer = unsloth.from_pretrained(
            model_name=name,
            max_seq_length=params.sampling.max_sequence_tokens,
            dtype=base_model.weight_dtype(config, device),
            load_in_4bit=config.load_in_4bit,
            full_finetuning=full,
            use_gradient_checkpointing=checkpointing,
            use_exact_model_name=True,  # else a name may become that of Unsloth's own copy, in 4 bit
            random_state=params.seed,
        )
        chat = base_model.chat_format(config.model, tokenizer)
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise base_model.cannot_load(config.model, error) from None
    model.requires_grad_(full)
    if adapter and not full:
        lora = config.lora
        base_model.check_targets(lora.targets, base_model.linears(model))
        model = unsloth.get_peft_model(
            model,
            r=lora.rank,
            lora_alpha=lora.alpha,
            lora_dropout=lora.dropout,
            target_modules=list(lora.targets),
            use_gradient_checkpointing=checkpointing,
            max_seq_length=params.sampling.max_sequence_tokens,
            random_state=params.seed,
        )
    return UnslothPolicy(model, chat, config.logits_at_once, base_model.autocast(config, device), checkpointing=checkpointing)
