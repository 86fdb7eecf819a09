"""The policy that is trained: an adapter (LoRA) on base weights, or all weights."""

from pathlib import Path

import torch

from ..errors import CheckpointError, ConfigError
from ..models.chat import ChatFormat
from ..models.dense_weights import DenseWeights

ONE_FILE = "1TB"  # transformers cuts weights into files of this size


class Policy:
    """A causal LM whose `trainable` parameters are trained, and the chat format of its tokens.

    The model may be one of transformers, or one that PEFT or Unsloth has wrapped: the body is its base model's `.model`, and
    the head a matrix without bias. It is in evaluation mode but for gradient steps that need dropout or checkpointing.

    logits_at_once: positions whose logits may exist at the same time.
    autocast: compute float32 weights in bfloat16.
    """

    def __init__(self, model, chat: ChatFormat, logits_at_once: int = 1024, autocast: bool = False):
        self.model, self.chat, self.logits_at_once, self.autocast = model, chat, logits_at_once, autocast
        _check_head(self._inner())
        dropout = any(isinstance(module, torch.nn.Dropout) and module.p > 0 for module in model.modules())
        self._needs_training_mode = dropout or bool(getattr(self._inner(), "is_gradient_checkpointing", False))
        model.eval()

    @property
    def device(self) -> torch.device:
        return self.head.device

    @property
    def trainable(self) -> list[torch.nn.Parameter]:
        return [p for p in self.model.parameters() if p.requires_grad]

    @property
    def base(self) -> str:
        """Folder of the base weights, or their name on the Hub."""
        return self._inner().name_or_path

    @property
    def adapted(self) -> bool:
        """Whether what is trained is an adapter."""
        return hasattr(self.model, "peft_config")

    @property
    def head(self) -> torch.Tensor:
        """Weights [V, H] of the head: logits are hidden states times its transpose."""
        return self._inner().lm_head.weight

    def hidden_states(self, ids: torch.Tensor) -> torch.Tensor:
        """Last hidden states [B, T, H] of right-padded ids [B, T] on the policy's device."""
        training = self._needs_training_mode and torch.is_grad_enabled()
        if self.model.training != training:
            self._set_mode(training)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.autocast):
            return self._inner().model(input_ids=ids, use_cache=False).last_hidden_state

    def dense_weights(self) -> DenseWeights:
        """Weights for the torch sampler. Copies: training on does not change them."""
        return DenseWeights(self.merged_state(), self._inner().config)

    @torch.no_grad()
    def merged_state(self) -> dict[str, torch.Tensor]:
        """Copies of all weights under their names in the base model, the adapter added in and 4-bit weights unpacked.

        An adapter is added in its own precision, float32, and the sum rounded to the dtype of the base weights, as an engine
        sees it that loads merged weights. A head that is the embedding is left out.
        """
        from peft.utils.integrations import dequantize_module_weight

        inner, state = self._inner(), {}
        modules = {name: module for name, module in inner.named_modules() if "lora_" not in name}
        tied = inner.config.tie_word_embeddings
        for name, module in modules.items():
            layer = modules.get(name.removesuffix(".base_layer"))
            for kind, parameter in module.named_parameters(recurse=False):
                if tied and name == "lm_head":
                    continue
                weight = dequantize_module_weight(module).detach() if kind == "weight" else parameter.detach()
                if kind == "weight" and layer is not module and hasattr(layer, "get_delta_weight"):
                    delta = layer.get_delta_weight("default")
                    dense = (weight.to(delta.dtype) + delta).to(weight.dtype)
                else:
                    dense = weight.clone()
                state[f"{name.removesuffix('.base_layer')}.{kind}"] = dense
        return state

    def save_adapter(self, folder: Path):
        """Write what is trained: an adapter in PEFT's format, or a whole transformers folder with the tokenizer."""
        if self.adapted:
            self.model.save_pretrained(folder, save_embedding_layers=False)  # else it asks the Hub for the base's config
            return
        self.model.save_pretrained(folder, max_shard_size=ONE_FILE)
        tokenizer = getattr(self.chat, "tokenizer", None)
        if hasattr(tokenizer, "save_pretrained"):
            tokenizer.save_pretrained(folder)
        elif tokenizer is not None:
            tokenizer.save(str(folder / "tokenizer.json"))

    def load_adapter(self, folder: Path):
        """Overwrite what is trained with what save_adapter wrote. Raises CheckpointError where it is of another policy."""
        from safetensors.torch import load_file

        path = folder / ("adapter_model.safetensors" if self.adapted else "model.safetensors")
        if not path.exists():
            raise CheckpointError(f"{folder}: has no {path.name}; was policy.tuning another one when it was written?")
        try:
            unknown = self._load(load_file(path))
        except RuntimeError as error:
            raise CheckpointError(f"{path}: not of this policy ({' '.join(str(error).split())[:200]}); check policy.*") from None
        if unknown:
            raise CheckpointError(f"{path}: not of this policy, which has no {unknown[0]}; check policy.*")

    def _load(self, state: dict[str, torch.Tensor]) -> list[str]:
        """Returns the names that the policy does not have."""
        if not self.adapted:
            return self.model.load_state_dict(state, strict=False).unexpected_keys  # a head that is the embedding is not stored
        from peft import set_peft_model_state_dict

        return set_peft_model_state_dict(self.model, state).unexpected_keys

    def _set_mode(self, training: bool):
        self.model.train(training)

    def _inner(self):
        return self.model.get_base_model() if self.adapted else self.model


def _check_head(model):
    """Raises ConfigError where logits are more than hidden states times a matrix."""
    config = model.config
    scaled = [name for name in ("final_logit_softcapping", "logit_scale", "logits_scaling") if getattr(config, name, None) not in (None, 1)]
    if scaled or getattr(model.lm_head, "bias", None) is not None:
        raise ConfigError(f"policy.model: a {config.model_type} changes its logits ({(scaled or ['bias'])[0]}), which is not known here")
