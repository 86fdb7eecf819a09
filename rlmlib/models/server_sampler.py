"""Servers with vLLM's completions: token ids in, token ids and log-probs out, adapters loaded by name while they serve.

    VLLM_ALLOW_RUNTIME_LORA_UPDATING=True python -m vllm.entrypoints.openai.api_server --model M --enable-lora --max-lora-rank 64 \\
        --max-loras 2 --logprobs-mode processed_logprobs --enable-prefix-caching

For full fine-tuning without the LoRA options and with VLLM_SERVER_DEV_MODE=1, which lets the weights be reloaded (on a CPU vLLM
keeps the old copy of a head that is the embedding: use policy.sampler: vllm there). Trainer and servers must see the same folder
policy.vllm.exchange. A server started with --api-key is given VLLM_API_KEY of the environment.
"""

import asyncio
import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from ..background import BackgroundLoop
from ..config import Params
from ..errors import InfrastructureError
from . import retry
from .base import Message
from .chat import ChatFormat
from .completions import CompletionServer, Request, TokenReply, UnknownModel
from .conversation import TokenSession
from .pushed import PushedWeights
from .retry import AttemptFailed, RetryPolicy

PUSH_S = 600.0  # loading one version on every server, once the replies that must end first have ended
CHECK_S = 300.0
DOWN_S = 30.0  # a server that does not answer is not asked again for so long, where another one can be
NEEDS_LORA = "start the server with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True, and let it see policy.vllm.exchange"
NEEDS_DEV_MODE = "start the server with VLLM_SERVER_DEV_MODE=1, and let it see policy.vllm.exchange"


@dataclass(eq=False)
class _Weights:
    """A version of the weights: the model's name at the servers, None for their own, and its folder."""

    version: int
    name: str | None = None
    folder: Path | None = None
    users: int = 0  # replies that are being sampled from it


class ServerSampler:
    """Spreads conversations over servers; each stays with its own, which keeps its prefix, as long as that answers.

    All requests are sent from one event loop of its own, so that it can be used from any loop and thread.
    """

    def __init__(
        self,
        servers: list[CompletionServer],
        chat: ChatFormat,
        temperature: float,
        max_sequence: int,
        weights: PushedWeights,
        reply_timeout_s: float,
        retries: RetryPolicy | None = None,
    ):
        """Raises ConfigError where a server gives no token ids or no log-probs of the sampled distribution."""
        self.chat, self.temperature, self.max_sequence = chat, temperature, max_sequence
        self._servers, self._folders, self._timeout_s = servers, weights, reply_timeout_s
        self._retries = retries or RetryPolicy(attempt_timeout_s=max(1.0, reply_timeout_s / 2))
        self._homes: dict[TokenSession, CompletionServer] = {}
        self._replies: dict[TokenSession, asyncio.Future] = {}
        self._loop = BackgroundLoop("the sampler's requests")
        self._weights, self._retired, self._chores = _Weights(0), [], set()
        self._may_begin, self._all_ended = asyncio.Event(), asyncio.Event()
        self._may_begin.set()
        self._all_ended.set()
        try:
            prompt = chat.prompt_ids([Message("user", "1")], True)
            self._loop.run(self._on_all(lambda server: server.check(prompt, max_sequence)), CHECK_S, "checking the servers")
        except BaseException:
            self.close()
            raise

    @property
    def version(self) -> int:
        return self._weights.version

    def session(self, *key: int) -> TokenSession:
        return TokenSession(self, key)

    def leave(self, session: TokenSession):
        self._homes.pop(session, None)
        if reply := self._replies.pop(session, None):
            reply.cancel()

    async def generate(self, session: TokenSession, max_tokens: int) -> tuple[list[int], list[float]]:
        request = Request(list(session.sequence.ids), max_tokens, self.temperature, int(session.random.integers(1 << 31)), self.chat.end_id)
        reply = asyncio.wrap_future(self._loop.start(self._reply(session, request)))
        self._replies[session] = reply
        try:
            return await reply
        finally:
            self._replies.pop(session, None)

    def push(self, policy):
        """Sample from the policy's present weights: an adapter, under a name that was never used, or, where it has none, all weights.

        A new adapter serves the replies that begin from now on, beside those that run. All weights are changed between replies:
        those that run end first, and those that are asked for meanwhile wait.
        """
        self._push(policy, self.version + 1)

    def load_first(self, policy):
        """As `push`, for the weights that training begins with: they are version 0."""
        self._push(policy, 0)

    def _push(self, policy, version: int):
        folder, loaded = self._folders.save(policy), False
        step = self._switch if policy.adapted else self._reload
        try:
            self._loop.run(step(version, folder), self._timeout_s + PUSH_S, "pushing weights to the servers")
            loaded = True
        finally:
            if not (loaded and policy.adapted):  # an adapter may be read again as long as it is used
                self._folders.remove(folder)

    def close(self):
        """Cancel what runs and unload what was pushed. May be called again."""
        with contextlib.suppress(InfrastructureError):
            self._loop.run(self._forget_all(), CHECK_S, "closing the servers' connections")
        self._loop.close()
        self._folders.close()

    # --- The rest runs in the sampler's own event loop.

    async def _reply(self, session: TokenSession, request: Request) -> tuple[list[int], list[float]]:
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._may_begin.wait()
        except TimeoutError:
            raise InfrastructureError(f"waited for new weights for {self._timeout_s:g} s; raise harness.deadline_s") from None
        weights = self._weights
        weights.users += 1
        self._all_ended.clear()
        try:
            reply = await retry.call(lambda: self._attempt(session, weights, request), self._retries, self._timeout_s, "policy")
        finally:
            weights.users -= 1
            if not any(known.users for known in (self._weights, *self._retired)):
                self._all_ended.set()
            if weights in self._retired and not weights.users:
                self._retired.remove(weights)
                chore = asyncio.create_task(self._unload(weights))
                self._chores.add(chore)
                chore.add_done_callback(self._chores.discard)
        return list(reply.ids), list(reply.logprobs)

    async def _attempt(self, session: TokenSession, weights: _Weights, request: Request) -> TokenReply:
        server = self._home(session)
        try:
            return await server.complete(request, weights.name)
        except UnknownModel:
            if weights.name:  # it was restarted, and has forgotten the adapter
                with contextlib.suppress(InfrastructureError):
                    await self._load(server, weights)
            raise
        except AttemptFailed as failure:
            if failure.kind == "unavailable":
                server.down_until = asyncio.get_running_loop().time() + DOWN_S
            raise

    def _home(self, session: TokenSession) -> CompletionServer:
        """The conversation's server; another one where it has none yet or its own is down."""
        now = asyncio.get_running_loop().time()
        home = self._homes.get(session)
        if home is None or home.down_until > now:
            homes = list(self._homes.values())
            home = min(self._servers, key=lambda server: (server.down_until > now, homes.count(server)))
            self._homes[session] = home
        return home

    async def _on_all(self, step):
        """Run it for every server at once. Raises the first failure, once all have ended."""
        results = await asyncio.gather(*(step(server) for server in self._servers), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    @staticmethod
    async def _load(server: CompletionServer, weights: _Weights):
        await server.admin("/v1/load_lora_adapter", NEEDS_LORA, lora_name=weights.name, lora_path=str(weights.folder))

    async def _switch(self, version: int, folder: Path):
        new = _Weights(version, folder.name, folder)
        try:
            await self._on_all(lambda server: self._load(server, new))
        except InfrastructureError:
            await self._unload(new)
            raise
        old, self._weights = self._weights, new
        if old.name and old.users:
            self._retired.append(old)
        elif old.name:
            await self._unload(old)

    async def _unload(self, weights: _Weights):
        async def one(server: CompletionServer):
            with contextlib.suppress(InfrastructureError):  # it may be gone, or never have loaded it
                await server.admin("/v1/unload_lora_adapter", NEEDS_LORA, lora_name=weights.name)

        await self._on_all(one)
        self._folders.remove(weights.folder)

    async def _reload(self, version: int, folder: Path):
        self._may_begin.clear()
        try:
            await self._all_ended.wait()

            async def one(server: CompletionServer):
                kwargs = {"weights_path": str(folder)}
                await server.admin("/collective_rpc", NEEDS_DEV_MODE, method="reload_weights", kwargs=kwargs)
                await server.admin("/reset_prefix_cache", NEEDS_DEV_MODE)

            await self._on_all(one)
            self._weights = _Weights(version)
        finally:
            self._may_begin.set()

    async def _forget_all(self):
        for weights in [*self._retired, self._weights]:
            if weights.name:
                await self._unload(weights)
        await self._on_all(lambda server: server.aclose())


def build(params: Params, policy, folder: Path | None = None) -> ServerSampler:
    """The servers of policy.vllm.urls, serving the policy's present weights. folder: for weights, where policy.vllm.exchange is empty."""
    limits, vllm = params.sampling, params.policy.vllm
    key = os.environ.get("VLLM_API_KEY")
    sampler = ServerSampler(
        [CompletionServer(url, key) for url in vllm.urls],
        policy.chat,
        limits.temperature,
        limits.max_sequence_tokens,
        PushedWeights(vllm.exchange or folder),
        params.harness.deadline_s,
    )
    if params.policy.tuning == "full" or policy.adapted:
        try:
            sampler.load_first(policy)
        except BaseException:
            sampler.close()
            raise
    return sampler
