"""Inference weights of Llama, Qwen2 and Qwen3, fused for few and large operations: what the torch sampler runs."""

import torch
import torch.nn.functional as F

from ..errors import ConfigError

LAYOUTS = ("llama", "qwen2", "qwen3")
FIRST_POSITIONS = 1024  # of the rotary tables; they double as they are outgrown, so that a long window costs nothing unused


class DenseWeights:
    """Dense weights of a causal LM, adapters merged, on the device and in the dtype of the state that they are made from.

    q/k/v and gate/up are one matrix each; the gains of the norms before them are folded in, as is, where q is normed, the
    scale of the attention scores into its gain. At the size of the tiny policy the count of operations is the time.

    positions: tokens that a conversation may have. Raises ConfigError on a model that is computed otherwise.
    """

    def __init__(self, state: dict[str, torch.Tensor], config):
        _refuse_what_is_not_known(config)
        self.heads, self.kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self.eps, self.positions = config.rms_norm_eps, config.max_position_embeddings
        self.embed = state["model.embed_tokens.weight"]
        self.head = state.get("lm_head.weight", self.embed) * state["model.norm.weight"]
        self.normed = "model.layers.0.self_attn.q_norm.weight" in state
        self.scale = 1.0 if self.normed else self.head_dim**-0.5
        self.layers = [self._layer(state, f"model.layers.{index}.") for index in range(config.num_hidden_layers)]
        self._theta = config.rope_parameters["rope_theta"]
        self._grow_tables(FIRST_POSITIONS)

    def _layer(self, state: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor | None]:
        def part(name):
            return state[f"{prefix}{name}.weight"]

        def bias(*names):
            found = [state[f"{prefix}{name}.bias"] for name in names if f"{prefix}{name}.bias" in state]
            return torch.cat(found) if found else None

        qkv, gate_up = [f"self_attn.{n}_proj" for n in "qkv"], ["mlp.gate_proj", "mlp.up_proj"]
        layer = {
            "qkv": torch.cat([part(name) for name in qkv]) * part("input_layernorm"),
            "qkv_bias": bias(*qkv),
            "o": part("self_attn.o_proj"),
            "o_bias": bias("self_attn.o_proj"),
            "gate_up": torch.cat([part(name) for name in gate_up]) * part("post_attention_layernorm"),
            "gate_up_bias": bias(*gate_up),
            "down": part("mlp.down_proj"),
            "down_bias": bias("mlp.down_proj"),
        }
        if self.normed:
            q_gain, k_gain = part("self_attn.q_norm") * self.head_dim**-0.5, part("self_attn.k_norm")
            layer["qk_gain"] = torch.stack([q_gain] * self.heads + [k_gain] * self.kv_heads)[:, None]
        return layer

    @property
    def device(self) -> torch.device:
        return self.embed.device

    def _grow_tables(self, positions: int):
        inverse = 1.0 / self._theta ** (torch.arange(0, self.head_dim, 2, dtype=torch.float32, device=self.device) / self.head_dim)
        angles = torch.outer(torch.arange(min(positions, self.positions), dtype=torch.float32, device=self.device), inverse)
        self.cos = torch.cat([angles.cos(), angles.cos()], -1).to(self.embed.dtype)
        self.sin = torch.cat([-angles.sin(), angles.sin()], -1).to(self.embed.dtype)

    def new_cache(self, rows: int, width: int) -> torch.Tensor:
        """Zeros [layers, rows, 2 * kv_heads, width, head_dim]: keys of all heads, then values."""
        return self.embed.new_zeros(len(self.layers), rows, 2 * self.kv_heads, width, self.head_dim)

    def scores(self, rows: int, span: int) -> int:
        """Attention scores of one head of each of the key heads' groups, for one new token in each of the rows."""
        return rows * span * (self.heads // self.kv_heads)

    def forward(self, ids, positions, cache, span: int):
        """Normed hidden states [B, N, H] of new tokens ids [B, N] at positions [B, N]; see new_cache.

        Keys and values are written to the cache at positions. Only its first `span` columns are read.
        """
        b, n = ids.shape
        if span > len(self.cos) < self.positions:
            self._grow_tables(max(span, 2 * len(self.cos)))
        x = self.embed[ids]
        at = positions.clamp(max=len(self.cos) - 1)  # rows that have ended ride along past their last position
        cos, sin = self.cos[at][:, None], self.sin[at][:, None]
        groups, roped = self.heads // self.kv_heads, self.heads + self.kv_heads
        mask = (torch.arange(span, device=self.device) <= positions[:, :, None])[:, None]
        mask = torch.where(mask, 0.0, float("-inf")).to(x.dtype).repeat(1, 1, groups, 1)
        rows = torch.arange(b, device=self.device)[:, None]
        half = self.head_dim // 2
        for layer, past in zip(self.layers, cache, strict=True):
            h = F.rms_norm(x, x.shape[-1:], None, self.eps)
            qkv = F.linear(h, layer["qkv"], layer["qkv_bias"]).view(b, n, -1, self.head_dim).transpose(1, 2)
            qk = qkv[:, :roped]
            if self.normed:
                qk = F.rms_norm(qk, (self.head_dim,), None, self.eps) * layer["qk_gain"]
            qk = qk * cos + qk.roll(half, -1) * sin
            past[rows, :, positions] = torch.cat([qk[:, self.heads :], qkv[:, roped:]], 1).transpose(1, 2)
            keys, values = past[:, :, :span].chunk(2, 1)
            q = qk[:, : self.heads].reshape(b, self.kv_heads, groups * n, self.head_dim)
            mixed = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask, scale=self.scale)
            mixed = mixed.view(b, self.heads, n, self.head_dim).transpose(1, 2).reshape(b, n, -1)
            x = x + F.linear(mixed, layer["o"], layer["o_bias"])
            gate, up = F.linear(F.rms_norm(x, x.shape[-1:], None, self.eps), layer["gate_up"], layer["gate_up_bias"]).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, layer["down"], layer["down_bias"])
        return F.rms_norm(x, x.shape[-1:], None, self.eps)


def _refuse_what_is_not_known(config):
    why = None
    rope = config.rope_parameters.get("rope_type", "default") if config.model_type in LAYOUTS else None
    if config.model_type not in LAYOUTS:
        why = f"runs {', '.join(LAYOUTS)} models, not '{config.model_type}'"
    elif rope != "default":
        why = f"has no rope scaling, and this model asks for '{rope}'"
    elif config.hidden_act != "silu":
        why = f"knows the activation silu, not '{config.hidden_act}'"
    elif "sliding_attention" in (getattr(config, "layer_types", None) or ()):
        why = "has no sliding window, and this model has one"
    if why:
        raise ConfigError(f"policy.sampler: torch {why}; set policy.sampler: vllm")
