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

CHILD_STREAM = 1 << 16  # sets the keys of children apart from those of rollouts
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

    def cut(self, length: int):
        for values in (self.ids, self.mask, self.logprobs):
            del values[length:]


class QwenWeights:
    """Dense inference weights of a Qwen3ForCausalLM, adapters merged, fused for few and large operations.

    q/k/v and gate/up are one matrix each; the gains of the norms before them are folded in, as is the
    scale of the attention scores into the gain of the q norm. At this size the count of operations is the time.
    """

    def __init__(self, state: dict[str, torch.Tensor], config):
        self.layers = []
        self.heads, self.kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.head_dim, self.eps = config.head_dim, config.rms_norm_eps
        self.embed = state["model.embed_tokens.weight"]
        self.head = state.get("lm_head.weight", self.embed) * state["model.norm.weight"]
        for index in range(config.num_hidden_layers):
            part = lambda name, i=index: state[f"model.layers.{i}.{name}.weight"]  # noqa: E731
            q_gain, k_gain = part("self_attn.q_norm") * self.head_dim**-0.5, part("self_attn.k_norm")
            self.layers.append(
                {
                    "qkv": torch.cat([part(f"self_attn.{n}_proj") for n in "qkv"]) * part("input_layernorm"),
                    "qk_gain": torch.stack([q_gain] * self.heads + [k_gain] * self.kv_heads)[:, None],
                    "o": part("self_attn.o_proj"),
                    "gate_up": torch.cat([part("mlp.gate_proj"), part("mlp.up_proj")]) * part("post_attention_layernorm"),
                    "down": part("mlp.down_proj"),
                }
            )
        theta = config.rope_parameters["rope_theta"]
        inverse = 1.0 / theta ** (torch.arange(0, self.head_dim, 2, dtype=torch.float32) / self.head_dim)
        angles = torch.outer(torch.arange(config.max_position_embeddings, dtype=torch.float32), inverse)
        self.cos = torch.cat([angles.cos(), angles.cos()], -1)
        self.sin = torch.cat([-angles.sin(), angles.sin()], -1)

    def new_cache(self, rows: int, width: int) -> torch.Tensor:
        """Zeros [layers, rows, 2 * kv_heads, width, head_dim]: keys of all heads, then values."""
        return torch.zeros(len(self.layers), rows, 2 * self.kv_heads, width, self.head_dim)

    def forward(self, ids, positions, cache, span: int):
        """Normed hidden states [B, N, H] of new tokens ids [B, N] at positions [B, N]; see new_cache.

        Keys and values are written to the cache at positions. Only its first `span` columns are read.
        """
        b, n = ids.shape
        x = self.embed[ids]
        at = positions.clamp(max=len(self.cos) - 1)  # rows that have ended ride along past their last position
        cos, sin = self.cos[at][:, None], self.sin[at][:, None]
        groups, normed = self.heads // self.kv_heads, self.heads + self.kv_heads
        mask = (torch.arange(span) <= positions[:, :, None])[:, None]
        mask = torch.where(mask, 0.0, float("-inf")).repeat(1, 1, groups, 1)
        rows = torch.arange(b)[:, None]
        half = self.head_dim // 2
        for layer, past in zip(self.layers, cache, strict=True):
            h = F.rms_norm(x, x.shape[-1:], None, self.eps)
            qkv = F.linear(h, layer["qkv"]).view(b, n, -1, self.head_dim).transpose(1, 2)
            qk = F.rms_norm(qkv[:, :normed], (self.head_dim,), None, self.eps) * layer["qk_gain"]
            qk = qk * cos + qk.roll(half, -1) * sin
            past[rows, :, positions] = torch.cat([qk[:, self.heads :], qkv[:, normed:]], 1).transpose(1, 2)
            keys, values = past[:, :, :span].chunk(2, 1)
            q = qk[:, : self.heads].reshape(b, self.kv_heads, groups * n, self.head_dim)
            mixed = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask, scale=1.0)
            mixed = mixed.view(b, self.heads, n, self.head_dim).transpose(1, 2).reshape(b, n, -1)
            x = x + F.linear(mixed, layer["o"])
            gate, up = F.linear(F.rms_norm(x, x.shape[-1:], None, self.eps), layer["gate_up"]).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, layer["down"])
        return F.rms_norm(x, x.shape[-1:], None, self.eps)


class TorchSession:
    """One conversation with the policy; see models.base.Session."""

    name = "policy"

    def __init__(self, sampler: "TorchSampler", key: tuple[int, ...]):
        self.sampler, self.key = sampler, key
        self.children = 0  # started so far: part of their keys
        self.waits_for = 0  # children that are open: until they have ended it asks for nothing
        self.parent: TorchSession | None = None
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
        said = len(sequence.ids)
        sequence.extend(prompt, 0)
        budget = min(max_tokens, self.sampler.max_sequence - len(sequence.ids))
        before = len(sequence.ids)
        try:
            ids, logprobs = await self.sampler.submit(self, self._random.random(budget, dtype=np.float32))
        except BaseException:  # cut off: the conversation is as it was
            self._forget(said)
            raise
        sequence.extend(ids, 1, logprobs)
        return Reply(chat.reply_text(ids), before, len(ids), ids[-1] != chat.end_id)

    def _forget(self, length: int):
        """Cut the conversation to its first `length` tokens."""
        self.sequence.cut(length)
        if self.cached > length:
            self.cached, self.cache = length, self.cache[:, :, :length]

    def child(self) -> "TorchSession":
        session = self.sampler.session(*self.key, CHILD_STREAM, self.children)
        session.parent = self
        self.children += 1
        self.waits_for += 1
        return session

    def close(self):
        self.cached, self.cache = 0, None
        if self.parent is not None:
            self.parent.waits_for -= 1
            self.parent = None
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
        self._waiting = {s: asked for s, asked in self._waiting.items() if not asked[0].done()}  # a cancelled one does not wait
        if self._waiting and len(self._waiting) == sum(session.waits_for == 0 for session in self._open):
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
            session.cache = cache[:, row, :, : session.cached].clone()
            replies.append((ids[row], logprobs[row]))
        return replies

    def _gather(self, sessions, width: int):
        cache = self.weights.new_cache(len(sessions), width)
        for row, session in enumerate(sessions):
            if session.cache is not None:
                cache[:, row, :, : session.cached] = session.cache
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
        positions = (starts[:, None] + torch.arange(longest)).clamp(max=cache.shape[3] - 1)
        hidden = self.weights.forward(ids, positions, cache, int(positions.max()) + 1)
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
                live_cache = cache[:, rows]
            hidden = self.weights.forward(tokens[:, None], positions[:, None], live_cache, int(positions.max()) + 1)[:, 0]
            positions = positions + 1
        self._write_back(cache, live_cache, rows, positions)
        return ids, logprobs

    @staticmethod
    def _write_back(cache, live_cache, rows, positions):
        if live_cache is not cache:
            span = int(positions.max())
            cache[:, rows, :, :span] = live_cache[:, :, :, :span]

    def _pick(self, hidden, uniforms):
        """Sample by inverse CDF: tokens [B] and their log-probs [B] at the sampling temperature."""
        logprobs = (F.linear(hidden, self.weights.head) / self.temperature).log_softmax(-1)
        cumulative = logprobs.exp().cumsum(-1)
        tokens = torch.searchsorted(cumulative, (uniforms * cumulative[:, -1])[:, None]).squeeze(1)
        tokens = tokens.clamp(max=logprobs.shape[-1] - 1)
        return tokens, logprobs.gather(1, tokens[:, None]).squeeze(1)
