"""The policy that is trained: base weights with a LoRA adapter (PEFT), chosen by params in one place."""

from pathlib import Path

import torch

from ..config import Params
from ..errors import ConfigError
from ..models.chat import ChatFormat
from ..models.torch_sampler import QwenWeights


class Policy:
    """A causal LM, optionally with a trainable adapter, and the chat format of its tokens."""

    def __init__(self, model, chat: ChatFormat):
        self.model, self.chat = model, chat

    @property
    def trainable(self) -> list[torch.nn.Parameter]:
        return [p for p in self.model.parameters() if p.requires_grad]

    def hidden_states(self, ids: torch.Tensor) -> torch.Tensor:
        """Last hidden states [B, T, H] of right-padded ids [B, T]."""
        return self._inner().model(input_ids=ids).last_hidden_state

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Logits [..., V] of hidden states [..., H]."""
        return self._inner().lm_head(hidden)

    @torch.no_grad()
    def dense_weights(self) -> QwenWeights:
        """Weights for the sampler, the adapter added in. Copies: training on does not change them."""
        inner = self._inner()
        state = {}
        for name, module in inner.named_modules():
            if hasattr(module, "get_delta_weight"):
                dense = module.get_base_layer().weight + module.get_delta_weight("default")
                state[f"{name}.weight"] = dense
        for name, tensor in inner.state_dict().items():
            plain = name.replace(".base_layer.", ".")
            if "lora_" not in name:
                state.setdefault(plain, tensor.detach().clone())
        return QwenWeights(state, inner.config)

    def save_adapter(self, folder: Path):
        self.model.save_pretrained(folder)

    def load_adapter(self, folder: Path):
        """Overwrite the adapter with one that save_adapter wrote."""
        from peft import set_peft_model_state_dict
        from safetensors.torch import load_file

        set_peft_model_state_dict(self.model, load_file(folder / "adapter_model.safetensors"))

    def _inner(self):
        return self.model.get_base_model() if hasattr(self.model, "get_base_model") else self.model


def load_policy(params: Params, adapter: bool = True) -> Policy:
    """The policy of a params file; with a fresh adapter (its start changes nothing) or the bare base."""
    torch.set_num_threads(params.policy.threads)
    if params.policy.trainer != "peft":
        raise ConfigError(f"policy.trainer: '{params.policy.trainer}' is not built in yet; 'peft' is")
    if params.policy.model != "tiny":
        raise ConfigError(f"policy.model: '{params.policy.model}' is not built in yet; 'tiny' is")
    from ..tiny.model import load

    model, chat = load()
    if adapter:
        from peft import LoraConfig, get_peft_model

        torch.manual_seed(params.seed)
        lora = params.policy.lora
        config = LoraConfig(
            r=lora.rank,
            lora_alpha=lora.alpha,
            lora_dropout=lora.dropout,
            target_modules=list(lora.targets),
            task_type="CAUSAL_LM",
        )
        model = get_peft_model(model, config)
    return Policy(model, chat)
