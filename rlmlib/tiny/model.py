"""The tiny policy's architecture, and loading it from its folder."""

import json
from pathlib import Path

from ..errors import RlmError
from . import WEIGHTS


def config(vocab: int):
    """A Qwen3 architecture of about 0.7 million parameters."""
    from transformers import Qwen3Config

    return Qwen3Config(
        vocab_size=vocab,
        hidden_size=128,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        intermediate_size=352,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        initializer_range=0.06,
    )


def build(vocab: int, seed: int):
    """A freshly initialised model. Sharper q/k norms than usual make copying learnable at this size."""
    import torch
    from transformers import Qwen3ForCausalLM

    torch.manual_seed(seed)
    model = Qwen3ForCausalLM(config(vocab)).float()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "q_norm" in name or "k_norm" in name:
                parameter.mul_(1.5)
    return model


def load(folder: Path = WEIGHTS):
    """(Qwen3ForCausalLM, TinyChat) from a folder that `make cold-start` wrote."""
    from safetensors.torch import load_file
    from tokenizers import Tokenizer
    from transformers import Qwen3Config, Qwen3ForCausalLM

    from ..models.chat import TinyChat

    try:
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        model = Qwen3ForCausalLM(Qwen3Config(**json.loads((folder / "config.json").read_text())))
        state = load_file(folder / "model.safetensors")
    except Exception as error:
        raise RlmError(f"{folder}: the tiny policy cannot be loaded ({error}); `make cold-start` rebuilds it") from None
    model.load_state_dict(state, strict=False)
    model.tie_weights()
    return model.float().eval(), TinyChat(tokenizer)


def save(model, tokenizer, folder: Path):
    """Write config.json, model.safetensors (float32, the tied head left out) and tokenizer.json."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    state = {k: v.detach().contiguous().clone() for k, v in model.state_dict().items() if k != "lm_head.weight"}
    save_file(state, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(model.config.to_diff_dict(), indent=1, sort_keys=True) + "\n")
    tokenizer.save(str(folder / "tokenizer.json"))
