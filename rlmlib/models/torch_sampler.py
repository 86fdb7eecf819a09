"""A batched sampler for small transformers: dense weights, one KV slot a conversation, kept over turns.

Where replies of a turn are sampled together, a batch starts when every open session waits for
one, so its composition, and with per-session random streams its result, depends on the seed
alone and not on timing.
"""

import asyncio
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

from ..errors import ConfigError
from .chat import ChatFormat
from .conversation import TokenSession
from .dense_weights import DenseWeights

COMPACT_SHARE = 0.7  # a batch is cut to its live rows when they are at most this share of it
SCORES_AT_ONCE = 1 << 27  # attention scores of a prefill step, half a GB in float32; longer prompts are run in parts


class TorchSession(TokenSession):
    """A conversation whose keys and values are kept between its replies."""

    cached = 0  # tokens whose keys and values are in `cache`
    cache = None
    cached_version = 0  # of the weights that they are of

    def forget(self, length: int):
        super().forget(length)
        if self.cached > length:
            self.cached, self.cache = length, self.cache[:, :, :length]

    def close(self):
        self.cached, self.cache = 0, None
        super().close()


@dataclass
class _Asked:
    """A reply that is waited for, with all that sampling reads of its conversation."""

    session: TorchSession
    reply: asyncio.Future
    ids: list[int]
    uniforms: np.ndarray  # as many as the reply may have tokens


class TorchSampler:
    """Samples replies in batches. Not thread-safe: one event loop; only `push` may come from another thread.

    together: a batch starts when every open conversation waits for a reply, so that a run can be repeated exactly. Otherwise it
    starts as soon as the last one has ended, in a thread of its own, so that leaves and code go on meanwhile.
    """

    def __init__(self, weights: DenseWeights, chat: ChatFormat, temperature: float, max_sequence: int, together: bool = True):
        if max_sequence > weights.positions:
            raise ConfigError(f"sampling.max_sequence_tokens: {max_sequence} is over the model's {weights.positions} positions")
        self.chat, self.temperature, self.max_sequence = chat, temperature, max_sequence
        self.together = together
        self._weights = (0, weights)  # one object, so that a push from another thread is never seen by half
        self._open: set[TorchSession] = set()
        self._waiting: dict[TorchSession, _Asked] = {}
        self._serving: asyncio.Task | None = None

    @property
    def version(self) -> int:
        return self._weights[0]

    def push(self, policy):
        self._weights = (self.version + 1, policy.dense_weights())

    def session(self, *key: int) -> TorchSession:
        session = TorchSession(self, key)
        self._open.add(session)
        return session

    def leave(self, session: TorchSession):
        self._open.discard(session)
        self._waiting.pop(session, None)
        if self.together:
            self._look_again()

    def close(self):
        """Nothing to free: what is open belongs to the event loop, which cancels it."""

    async def generate(self, session: TorchSession, max_tokens: int) -> tuple[list[int], list[float]]:
        future = asyncio.get_running_loop().create_future()
        uniforms = session.random.random(max_tokens, dtype=np.float32)
        self._waiting[session] = _Asked(session, future, list(session.sequence.ids), uniforms)
        if self.together:
            self._look_again()
        elif self._serving is None or self._serving.done():
            self._serving = asyncio.create_task(self._serve())
        return await future

    def _take_waiting(self) -> list[_Asked]:
        batch, self._waiting = sorted(self._waiting.values(), key=lambda asked: asked.session.key), {}
        return [asked for asked in batch if not asked.reply.done()]  # one that was cancelled does not wait

    def _look_again(self):
        """Whether all wait, once those who can ask in this turn of the event loop have asked: the subcalls of a block, for one."""
        for asked in self._waiting.values():
            asked.reply.get_loop().call_soon(self._start_when_all_wait)
            return

    def _start_when_all_wait(self):
        waiting = sum(not asked.reply.done() for asked in self._waiting.values())
        if waiting and waiting == sum(session.waits_for == 0 for session in self._open):
            batch = self._take_waiting()
            try:
                sampled = self._sample(batch)
            except Exception as error:  # noqa: BLE001 - handed to every waiting rollout
                self._fail(batch, error)
            else:
                self._deliver(batch, sampled)

    async def _serve(self):
        while batch := self._take_waiting():
            try:
                sampled = await asyncio.to_thread(self._sample, batch)
            except Exception as error:  # noqa: BLE001 - as above
                self._fail(batch, error)
            else:
                self._deliver(batch, sampled)
                await asyncio.sleep(0)  # those who have what they need for their next reply ask for it now

    @staticmethod
    def _fail(batch: list[_Asked], error: Exception):
        for asked in batch:
            if not asked.reply.done():
                asked.reply.set_exception(error)

    @staticmethod
    def _deliver(batch: list[_Asked], sampled: tuple):
        version, caches, replies = sampled
        for asked, cache, reply in zip(batch, caches, replies, strict=True):
            if not asked.reply.done():
                session = asked.session
                session.cached_version, session.cache, session.cached = version, cache, cache.shape[2]
                asked.reply.set_result(reply)

    @torch.inference_mode()
    def _sample(self, batch: list[_Asked]) -> tuple[int, list[torch.Tensor], list[tuple[list[int], list[float]]]]:
        """(version of the weights, keys and values to keep, replies), the last two by row."""
        version, weights = self._weights
        for asked in batch:
            if asked.session.cached_version != version:  # keys and values of older weights
                asked.session.cached, asked.session.cache = 0, None
        device = weights.device
        lengths = torch.tensor([len(asked.ids) for asked in batch], device=device)
        limits = torch.tensor([len(asked.uniforms) for asked in batch], device=device)
        cache = self._gather(weights, batch, int(lengths.max()) + int(limits.max()))
        hidden = self._prefill(weights, batch, cache)
        draws = torch.zeros(len(batch), int(limits.max()))
        for row, asked in enumerate(batch):
            draws[row, : len(asked.uniforms)] = torch.from_numpy(asked.uniforms)
        ids, logprobs = self._decode(weights, hidden, cache, lengths, limits, draws.to(device))
        kept = [len(asked.ids) + len(reply) - 1 for asked, reply in zip(batch, ids, strict=True)]  # the last token was not run yet
        return version, [cache[:, row, :, :n].clone() for row, n in enumerate(kept)], list(zip(ids, logprobs, strict=True))

    @staticmethod
    def _gather(weights: DenseWeights, batch: list[_Asked], width: int) -> torch.Tensor:
        cache = weights.new_cache(len(batch), width)
        for row, asked in enumerate(batch):
            if asked.session.cache is not None:
                cache[:, row, :, : asked.session.cached] = asked.session.cache
        return cache

    def _prefill(self, weights: DenseWeights, batch: list[_Asked], cache: torch.Tensor) -> torch.Tensor:
        """Run each row's tokens that are not cached; returns hidden states [B, H] of the last ones.

        Rows are right-padded; a pad is written beyond the row's length, where it is masked and
        later overwritten.
        """
        news = [asked.ids[asked.session.cached :] for asked in batch]
        longest = max(map(len, news))
        ids = torch.full((len(news), longest), self.chat.pad_id)
        for row, new in enumerate(news):
            ids[row, : len(new)] = torch.tensor(new)
        ids = ids.to(weights.device)
        starts = torch.tensor([asked.session.cached for asked in batch], device=weights.device)
        positions = (starts[:, None] + torch.arange(longest, device=weights.device)).clamp(max=cache.shape[3] - 1)
        last = torch.tensor([len(new) - 1 for new in news], device=weights.device)
        part = max(1, SCORES_AT_ONCE // weights.scores(len(news), int(positions.max()) + 1))
        hidden = weights.embed.new_empty(len(news), weights.embed.shape[1])
        for begin in range(0, longest, part):
            within = slice(begin, begin + part)
            states = weights.forward(ids[:, within], positions[:, within], cache, int(positions[:, within].max()) + 1)
            ends = (last >= begin) & (last < begin + part)
            hidden[ends] = states[ends, last[ends] - begin]
        return hidden

    def _decode(self, weights, hidden, cache, lengths, limits, draws):
        """Sample until every row has ended. Ended rows ride along until enough of them can be cut off."""
        count = len(lengths)
        ids, logprobs = [[] for _ in range(count)], [[] for _ in range(count)]
        rows, alive = torch.arange(count, device=weights.device), torch.ones(count, dtype=torch.bool, device=weights.device)
        live_cache, positions = cache, lengths.clone()
        for step in range(draws.shape[1]):
            tokens, chosen = self._pick(weights, hidden, draws[rows, step])
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
            hidden = weights.forward(tokens[:, None], positions[:, None], live_cache, int(positions.max()) + 1)[:, 0]
            positions = positions + 1
        self._write_back(cache, live_cache, rows, positions)
        return ids, logprobs

    @staticmethod
    def _write_back(cache, live_cache, rows, positions):
        if live_cache is not cache:
            span = int(positions.max())
            cache[:, rows, :, :span] = live_cache[:, :, :, :span]

    def _pick(self, weights, hidden, uniforms):
        """Sample by inverse CDF: tokens [B] and their log-probs [B] at the sampling temperature."""
        logprobs = (F.linear(hidden, weights.head).float() / self.temperature).log_softmax(-1)
        cumulative = logprobs.exp().cumsum(-1)
        tokens = torch.searchsorted(cumulative, (uniforms * cumulative[:, -1])[:, None]).squeeze(1)
        tokens = tokens.clamp(max=logprobs.shape[-1] - 1)
        return tokens, logprobs.gather(1, tokens[:, None]).squeeze(1)
