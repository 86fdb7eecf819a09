"""What of a model's architecture decides about memory and work: read from its config, without its weights."""

import functools
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from ..errors import ConfigError

# Configs of models that presets name, so that a preset can be checked anywhere. As published in each model's config.json.
PUBLISHED = {
    "Qwen/Qwen3-4B-Instruct-2507": {
        "model_type": "qwen3",
        "hidden_size": 2560,
        "intermediate_size": 9728,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 151_936,
        "max_position_embeddings": 262_144,
        "tie_word_embeddings": True,
    },
    "smollm2": {
        "model_type": "llama",
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "vocab_size": 49_152,
        "max_position_embeddings": 8192,
        "tie_word_embeddings": True,
    },
}


@dataclass(frozen=True)
class Linear:
    """A kind of linear layer: its last name, its width in and out, and how many layers have one."""

    name: str
    inputs: int
    outputs: int
    count: int

    @property
    def parameters(self) -> int:
        return self.inputs * self.outputs * self.count


@dataclass(frozen=True)
class Architecture:
    """A decoder of the Llama and Qwen3 kind: grouped-query attention and a gated MLP in every layer."""

    parameters: int  # all of them, a tied head counted once
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    positions: int
    qk_norm: bool  # queries and keys are normed, as in Qwen3
    linears: tuple[Linear, ...]  # of the layers; the head is not among them

    @property
    def kv_values(self) -> int:
        """Values that the cache of one token holds: a key and a value per layer and KV head."""
        return 2 * self.layers * self.kv_heads * self.head_dim

    def adapter_parameters(self, targets: tuple[str, ...] | list[str], rank: int) -> int:
        """Of a LoRA adapter: rank x (inputs + outputs) for each target."""
        return sum(rank * (linear.inputs + linear.outputs) * linear.count for linear in self.linears if linear.name in targets)


def model_config(name: str):
    """The transformers config of policy.model. Raises ConfigError where it can be read neither here nor from the Hub."""
    from transformers import AutoConfig

    if name == "tiny":
        from ..tiny import WEIGHTS

        return AutoConfig.for_model(**json.loads((WEIGHTS / "config.json").read_text()))
    if name in PUBLISHED:
        return AutoConfig.for_model(**PUBLISHED[name])
    try:
        return AutoConfig.from_pretrained(name)
    except Exception as error:  # noqa: BLE001 - the Hub's client has many
        kind = "folder without a readable config.json" if Path(name).is_dir() else "model whose config cannot be read"
        raise ConfigError(f"policy.model: '{name}' is a {kind} ({' '.join(str(error).split())[:160]}); name a folder") from None


def architecture(config) -> Architecture:
    """Counted on a model that is built on the meta device: it has shapes and no memory."""
    return _counted(json.dumps(config.to_dict(), sort_keys=True, default=str))


@functools.lru_cache(maxsize=8)
def _counted(text: str) -> Architecture:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(**json.loads(text))
    try:
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
        head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        kinds = Counter(
            (name.rpartition(".")[2], module.in_features, module.out_features)
            for name, module in model.named_modules()
            if isinstance(module, torch.nn.Linear) and ".layers." in name
        )
        return Architecture(
            parameters=sum(p.numel() for p in model.parameters()),
            layers=config.num_hidden_layers,
            hidden=config.hidden_size,
            heads=config.num_attention_heads,
            kv_heads=getattr(config, "num_key_value_heads", None) or config.num_attention_heads,
            head_dim=head_dim,
            ffn=config.intermediate_size,
            vocab=config.vocab_size,
            positions=config.max_position_embeddings,
            qk_norm=any(name.endswith("q_norm") for name, _ in model.named_modules()),
            linears=tuple(Linear(*kind, count) for kind, count in kinds.items()),
        )
    except (AttributeError, ValueError) as error:
        raise ConfigError(f"policy.model: '{config.model_type}' is no decoder whose memory can be estimated ({error})") from None
