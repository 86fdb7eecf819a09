"""A batched sampler for small transformers: Qwen3 weights, one KV slot a conversation, kept over turns.

Replies of a turn are sampled together: a batch starts when every open session waits for a
reply, so its composition, and with per-session random streams its result, depends on the
seed alone and not on timing. Log-probs are those of the distribution sampled from (after
temperature), as the trainer must reproduce them.
"""

import asyncio
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F

from ..errors import ConfigError
from .base import ContextFull, Message, Reply
from .chat import ChatFormat

COMPACT_SHARE = 0.7  # a batch is cut to its live rows when they are at most this share of it


@dataclass
class TokenSequence:
    """A conversation as sampled. mask is 1 on sampled tokens; logprobs is 0.0 elsewhere. All have length T."""

    ids: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)

    def extend(self, ids: list[int], mask: int, logprobs: list[float] | None = None):
        self.ids += ids
        self.mask += [mask] * len(ids)
        self.logprobs += logprobs or [0.0] * len(ids)


class QwenWeights:
    """Dense inference weights of a Qwen3ForCausalLM, adapters merged, q/k/v and gate/up fused."""

    def __init__(self, state: dict[str, torch.Tensor], config):
        self.layers = []
        self.heads, self.kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.head_dim, self.eps = config.head_dim, config.rms_norm_eps
        self.embed = state["model.embed_tokens.weight"]
        self.head = state.get("lm_head.weight", self.embed)
        self.norm = state["model.norm.weight"]
        for index in range(config.num_hidden_layers):
            part = lambda name, i=index: state[f"model.layers.{i}.{name}.weight"]  # noqa: E731
            self.layers.append(
                {
                    "qkv": torch.cat([part(f"self_attn.{n}_proj") for n in "qkv"]),
                    "o": part("self_attn.o_proj"),
                    "q_norm": part("self_attn.q_norm"),
                    "k_norm": part("self_attn.k_norm"),
                    "gate_up": torch.cat([part("mlp.gate_proj"), part("mlp.up_proj")]),
                    "down": part("mlp.down_proj"),
                    "norm_1": part("input_layernorm"),
                    "norm_2": part("post_attention_layernorm"),
                }
            )
        theta = config.rope_parameters["rope_theta"]
        inverse = 1.0 / theta ** (torch.arange(0, self.head_dim, 2, dtype=torch.float32) / self.head_dim)
        angles = torch.outer(torch.arange(config.max_position_embeddings, dtype=torch.float32), inverse)
        self.cos = torch.cat([angles.cos(), angles.cos()], -1)
        self.sin = torch.cat([angles.sin(), angles.sin()], -1)

    def forward(self, ids, positions, cache, lengths):
        """Hidden states [B, N, H] of new tokens ids [B, N] at positions [B, N].

        cache: (keys, values), each [layers, B, kv_heads, T, head_dim], written in place at positions.
        lengths [B]: tokens of each row after this call; columns beyond are masked.
        """
        b, n = ids.shape
        span = int(lengths.max())
        x = self.embed[ids]
        at = positions.clamp(max=len(self.cos) - 1)  # rows that have ended ride along past their last position
        cos, sin = self.cos[at][:, None], self.sin[at][:, None]
        columns = torch.arange(span)
        mask = (columns[None, None] <= positions[:, :, None])[:, None]
        rows = torch.arange(b)[:, None]
        groups = self.heads // self.kv_heads
        for layer, keys, values in zip(self.layers, *cache, strict=True):
            h = F.rms_norm(x, x.shape[-1:], layer["norm_1"], self.eps)
            qkv = F.linear(h, layer["qkv"]).view(b, n, self.heads + 2 * self.kv_heads, self.head_dim).transpose(1, 2)
            q, k, v = qkv.split([self.heads, self.kv_heads, self.kv_heads], 1)
            q = _rope(F.rms_norm(q, (self.head_dim,), layer["q_norm"], self.eps), cos, sin)
            k = _rope(F.rms_norm(k, (self.head_dim,), layer["k_norm"], self.eps), cos, sin)
            keys[rows, :, positions] = k.transpose(1, 2)
            values[rows, :, positions] = v.transpose(1, 2)
            q = q.reshape(b, self.kv_heads, groups * n, self.head_dim)
            scores = q @ keys[:, :, :span].transpose(-1, -2) * self.head_dim**-0.5
            scores = scores.view(b, self.kv_heads, groups, n, span).masked_fill(~mask[:, :, None], float("-inf"))
            mixed = scores.softmax(-1).view(b, self.kv_heads, groups * n, span) @ values[:, :, :span]
            mixed = mixed.view(b, self.heads, n, self.head_dim).transpose(1, 2).reshape(b, n, -1)
            x = x + F.linear(mixed, layer["o"])
            h = F.rms_norm(x, x.shape[-1:], layer["norm_2"], self.eps)
            gate, up = F.linear(h, layer["gate_up"]).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, layer["down"])
        return F.rms_norm(x, x.shape[-1:], self.norm, self.eps)


def _rope(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


class TorchSession:
    """One conversation with the policy; see models.base.Session."""

    def __init__(self, sampler: "TorchSampler", key: tuple[int, ...]):
        self.sampler, self.key = sampler, key
        self.sequence = TokenSequence()
        self.cached = 0  # tokens whose keys and values are in `cache`
        self.cache = None
        self._random = np.random.Generator(np.random.Philox(np.random.SeedSequence(key)))

    async def reply(self, messages: list[Message], max_tokens: int) -> Reply:
        chat, sequence = self.sampler.chat, self.sequence
        opening = [chat.end_id] if sequence.ids and sequence.mask[-1] and sequence.ids[-1] != chat.end_id else []
        prompt = opening + chat.prompt_ids(messages)
        if len(sequence.ids) + len(prompt) + 1 > self.sampler.max_sequence:
            raise ContextFull
        sequence.extend(prompt, 0)
        budget = min(max_tokens, self.sampler.max_sequence - len(sequence.ids))
        before = len(sequence.ids)
        ids, logprobs = await self.sampler.submit(self, self._random.random(budget, dtype=np.float32))
        sequence.extend(ids, 1, logprobs)
        return Reply(chat.reply_text(ids), before, len(ids), ids[-1] != chat.end_id)

    def close(self):
        self.cache = None
        self.sampler.leave(self)


class TorchSampler:
    """Samples replies for all open sessions in one batch. Not thread-safe: one event loop."""

    def __init__(self, weights: QwenWeights, chat: ChatFormat, temperature: float, max_sequence: int):
        if max_sequence > len(weights.cos):
            raise ConfigError(f"sampling.max_sequence_tokens: {max_sequence} is over the model's {len(weights.cos)} positions")
        self.weights, self.chat = weights, chat
        self.temperature, self.max_sequence = temperature, max_sequence
        self._open: set[TorchSession] = set()
        self._waiting: dict[TorchSession, tuple[asyncio.Future, np.ndarray]] = {}

    def session(self, *key: int) -> TorchSession:
        """A new conversation; `key` seeds its own random stream."""
        session = TorchSession(self, key)
        self._open.add(session)
        return session

    def leave(self, session: TorchSession):
        self._open.discard(session)
        self._waiting.pop(session, None)
        self._start_when_all_wait()

    async def submit(self, session: TorchSession, uniforms: np.ndarray) -> tuple[list[int], list[float]]:
        future = asyncio.get_running_loop().create_future()
        self._waiting[session] = (future, uniforms)
        self._start_when_all_wait()
        return await future

    def _start_when_all_wait(self):
        if self._waiting and len(self._waiting) == len(self._open):
            batch = sorted(self._waiting.items(), key=lambda item: item[0].key)
            self._waiting = {}
            try:
                replies = self._sample([s for s, _ in batch], [u for _, (_, u) in batch])
            except Exception as error:  # noqa: BLE001 - handed to every waiting rollout
                for _, (future, _) in batch:
                    future.set_exception(error)
                return
            for (_, (future, _)), reply in zip(batch, replies, strict=True):
                future.set_result(reply)

    @torch.inference_mode()
    def _sample(self, sessions, uniforms) -> list[tuple[list[int], list[float]]]:
        lengths = torch.tensor([len(s.sequence.ids) for s in sessions])
        width = int(lengths.max()) + max(len(u) for u in uniforms)
        cache = self._gather(sessions, width)
        hidden = self._prefill(sessions, cache, lengths)
        limits = torch.tensor([len(u) for u in uniforms])
        draws = torch.zeros(len(sessions), int(limits.max()))
        for row, u in enumerate(uniforms):
            draws[row, : len(u)] = torch.from_numpy(u)
        ids, logprobs = self._decode(hidden, cache, lengths, limits, draws)
        replies = []
        for row, session in enumerate(sessions):
            session.cached = len(session.sequence.ids) + len(ids[row]) - 1  # the last token was not run yet
            session.cache = (cache[0][:, row, :, : session.cached].clone(), cache[1][:, row, :, : session.cached].clone())
            replies.append((ids[row], logprobs[row]))
        return replies

    def _gather(self, sessions, width: int):
        w = self.weights
        shape = (len(w.layers), len(sessions), w.kv_heads, width, w.head_dim)
        cache = (torch.zeros(shape), torch.zeros(shape))
        for row, session in enumerate(sessions):
            if session.cache is not None:
                for whole, part in zip(cache, session.cache, strict=True):
                    whole[:, row, :, : session.cached] = part
        return cache

    def _prefill(self, sessions, cache, lengths):
        """Run each row's tokens that are not cached; returns hidden states [B, H] of the last ones.

        Rows are right-padded; a pad is written beyond the row's length, where it is masked and
        later overwritten.
        """
        news = [s.sequence.ids[s.cached :] for s in sessions]
        longest = max(map(len, news))
        ids = torch.full((len(news), longest), self.chat.pad_id)
        for row, new in enumerate(news):
            ids[row, : len(new)] = torch.tensor(new)
        starts = torch.tensor([s.cached for s in sessions])
        positions = (starts[:, None] + torch.arange(longest)).clamp(max=cache[0].shape[3] - 1)
        hidden = self.weights.forward(ids, positions, cache, positions[:, -1] + 1)
        return hidden[torch.arange(len(news)), torch.tensor([len(n) - 1 for n in news])]

    def _decode(self, hidden, cache, lengths, limits, draws):
        """Sample until every row has ended. Ended rows ride along until enough of them can be cut off."""
        count = len(lengths)
        ids, logprobs = [[] for _ in range(count)], [[] for _ in range(count)]
        rows, alive = torch.arange(count), torch.ones(count, dtype=torch.bool)
        live_cache, positions = cache, lengths.clone()
        for step in range(draws.shape[1]):
            tokens, chosen = self._pick(hidden, draws[rows, step])
            for row, token, logprob, on in zip(*(t.tolist() for t in (rows, tokens, chosen, alive)), strict=True):
                if on:
                    ids[row].append(token)
                    logprobs[row].append(logprob)
            alive &= (tokens != self.chat.end_id) & (limits[rows] > step + 1)
            if not alive.any():
                break
            if int(alive.sum()) <= COMPACT_SHARE * len(rows):
                self._write_back(cache, live_cache, rows, positions)
                rows, tokens, positions = rows[alive], tokens[alive], positions[alive]
                alive = alive[alive]
                live_cache = tuple(c[:, rows] for c in cache)
            hidden = self.weights.forward(tokens[:, None], positions[:, None], live_cache, positions + 1)[:, 0]
            positions = positions + 1
        self._write_back(cache, live_cache, rows, positions)
        return ids, logprobs

    @staticmethod
    def _write_back(cache, live_cache, rows, positions):
        if live_cache is not cache:
            span = int(positions.max())
            for whole, part in zip(cache, live_cache, strict=True):
                whole[:, rows, :, :span] = part[:, :, :, :span]

    def _pick(self, hidden, uniforms):
        """Sample by inverse CDF: tokens [B] and their log-probs [B] at the sampling temperature."""
        logprobs = (F.linear(hidden, self.weights.head) / self.temperature).log_softmax(-1)
        cumulative = logprobs.exp().cumsum(-1)
        tokens = torch.searchsorted(cumulative, (uniforms * cumulative[:, -1])[:, None]).squeeze(1)
        tokens = tokens.clamp(max=logprobs.shape[-1] - 1)
        return tokens, logprobs.gather(1, tokens[:, None]).squeeze(1)
