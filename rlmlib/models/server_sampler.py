"""Servers with vLLM's completions: token ids in, token ids and log-probs out, adapters loaded by name while they serve.

    VLLM_ALLOW_RUNTIME_LORA_UPDATING=True python -m vllm.entrypoints.openai.api_server --model M --enable-lora --max-lora-rank 64 \\
        --max-loras 2 --logprobs-mode processed_logprobs --enable-prefix-caching

For full fine-tuning without the LoRA options and with VLLM_SERVER_DEV_MODE=1, which lets the weights be reloaded (on a CPU vLLM
keeps the old copy of a head that is the embedding: use policy.sampler: vllm there). Trainer and servers must see the same folder,
policy.vllm.exchange or the run's. A server started with --api-key is given VLLM_API_KEY of the environment.

A restarted server has forgotten what was pushed. An adapter it then refuses by its name; of full weights, each reply is taken only
from the process that loaded them, by its start time in /metrics, and a new process is given them again. That sees neither weights
that somebody else loads into the same process, nor a restart behind an address that spreads requests over several servers.
"""

import asyncio
import contextlib
import os
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from pathlib import Path

from ..background import BackgroundLoop
from ..config import Params
from ..errors import InfrastructureError
from . import retry
from .base import Message
from .chat import ChatFormat
from .completions import CompletionServer, Request, TokenReply, UnknownModel
from .conversation import PushedSampler, TokenSession
from .pushed import PushedWeights
from .retry import AttemptFailed, RetryPolicy

PUSH_S = 900.0  # loading one version on every server, once the replies that must end first have ended
CHECK_S = 300.0
ATTEMPTS_IN_TIME = 3  # at a reply, each of which may take as long: two servers may hang before it is lost
DOWN_S, PROBE_S = 30.0, 30.0  # a server that does not answer is asked for one token so often, and gets conversations once it gives it
NEEDS_LORA = "start the server with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True, and let it see policy.vllm.exchange"
NEEDS_DEV_MODE = "start the server with VLLM_SERVER_DEV_MODE=1, and let it see policy.vllm.exchange"
NEEDS_METRICS = "start one server process (--api-server-count 1) without PROMETHEUS_MULTIPROC_DIR behind each address"


@dataclass(eq=False)
class _Weights:
    """A version of the weights: the model's name at the servers, None for their own, and its folder, where it was pushed."""

    version: int
    name: str | None = None
    folder: Path | None = None
    users: int = 0  # replies that are being sampled from it

    @property
    def whole(self) -> bool:
        return self.folder is not None and self.name is None


class ServerSampler(PushedSampler):
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
        self._retries = retries or RetryPolicy(attempt_timeout_s=reply_timeout_s / ATTEMPTS_IN_TIME)
        self._homes: dict[TokenSession, CompletionServer] = {}
        self._replies: dict[TokenSession, asyncio.Future] = {}
        self._loop = BackgroundLoop("the sampler's requests")
        self._weights, self._retired, self._chores = _Weights(0), [], set()
        self._may_begin, self._all_ended = asyncio.Event(), asyncio.Event()
        self._may_begin.set()
        self._all_ended.set()
        try:
            self._probe = Request(chat.prompt_ids([Message("user", "1")], True), 1, temperature, 0, -1)
            self._loop.run(self._on_all(self._check), CHECK_S, "checking the servers")
        except BaseException:
            self.close()
            raise

    @property
    def version(self) -> int:
        return self._weights.version

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

    def _push(self, policy, version: int):
        folder, loaded = self._folders.save(policy), False
        step = self._switch if policy.adapted else self._reload
        try:
            self._loop.run(step(version, folder), self._timeout_s + PUSH_S, "pushing weights to the servers")
            loaded = True
        finally:
            if not loaded:
                self._folders.remove(folder)

    def close(self):
        """Cancel what runs and unload what was pushed. May be called again."""
        with contextlib.suppress(InfrastructureError):
            self._loop.run(self._forget_all(), CHECK_S, "closing the servers' connections")
        self._loop.close()
        self._folders.close()

    # --- The rest runs in the sampler's own event loop.

    async def _check(self, server: CompletionServer):
        await server.check(self._probe.ids, self.max_sequence)
        for name in server.adapters:
            if name.startswith(self._folders.prefix):  # of a process of this run that was killed
                await server.unload_adapter(name)

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
            patient = replace(self._retries, attempt_timeout_s=self._timeout_s)  # `_attempt` keeps its own time
            reply = await retry.call(lambda: self._attempt(session, weights, request), patient, self._timeout_s, "policy")
        finally:
            weights.users -= 1
            if not any(known.users for known in (self._weights, *self._retired)):
                self._all_ended.set()
            if weights in self._retired and not weights.users:
                self._retired.remove(weights)
                self._start_chore(self._unload(weights))
        return list(reply.ids), list(reply.logprobs)

    def _start_chore(self, work: Coroutine):
        chore = asyncio.create_task(work)
        self._chores.add(chore)
        chore.add_done_callback(self._chores.discard)

    async def _attempt(self, session: TokenSession, weights: _Weights, request: Request) -> TokenReply:
        server, limit_s = self._home(session), self._retries.attempt_timeout_s
        async with server.loading:
            process = server.process
        try:
            async with asyncio.timeout(limit_s):
                reply = await server.complete(request, weights.name)
                if weights.whole and await server.running_process() != process:
                    raise UnknownModel("the server was restarted, and has forgotten the weights")
                return reply
        except UnknownModel:
            if weights.folder:
                await self._load_again(server, weights, process)
            raise
        except TimeoutError:
            failure = AttemptFailed("timeout", f"no answer within {limit_s:.3g} s")
        except AttemptFailed as error:
            failure = error
        if failure.kind in ("unavailable", "timeout") and not server.down:
            server.down = True
            self._start_chore(self._wait_until_up(server))
        raise failure

    async def _load_again(self, server: CompletionServer, weights: _Weights, process: str | None):
        """process: the one that was believed to have them. Where that was corrected meanwhile, they are loaded."""
        async with server.loading:
            if server.process == process:
                with contextlib.suppress(InfrastructureError):
                    await self._load(server, weights)

    async def _wait_until_up(self, server: CompletionServer):
        while server.down:
            await asyncio.sleep(DOWN_S)
            with contextlib.suppress(AttemptFailed, TimeoutError):
                async with asyncio.timeout(PROBE_S):
                    await server.complete(self._probe, None)
                server.down = False

    def _home(self, session: TokenSession) -> CompletionServer:
        """The conversation's server; another one where it has none yet or its own is down."""
        home = self._homes.get(session)
        if home is None or home.down:
            homes = list(self._homes.values())
            home = min(self._servers, key=lambda server: (server.down, homes.count(server)))
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
        if weights.name:
            await server.load_adapter(weights.name, str(weights.folder), NEEDS_LORA)
            return
        server.process = None  # no reply is taken from weights that are half old and half new
        process = await server.process_start(NEEDS_METRICS)
        kwargs = {"weights_path": str(weights.folder)}
        await server.admin("/collective_rpc", NEEDS_DEV_MODE, method="reload_weights", kwargs=kwargs)
        await server.admin("/reset_prefix_cache", NEEDS_DEV_MODE)
        server.process = process

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
        await self._on_all(lambda server: server.unload_adapter(weights.name))
        self._folders.remove(weights.folder)

    async def _reload(self, version: int, folder: Path):
        self._may_begin.clear()
        try:
            await self._all_ended.wait()
            new = _Weights(version, folder=folder)
            try:
                await self._on_all(lambda server: self._load(server, new))
            except BaseException:
                for server in self._servers:  # some may have them: all are given the old ones again
                    server.process = None
                raise
            old, self._weights = self._weights, new
            if old.folder:
                self._folders.remove(old.folder)
        finally:
            self._may_begin.set()

    async def _forget_all(self):
        for weights in [*self._retired, self._weights]:
            if weights.name:
                await self._unload(weights)
        await self._on_all(lambda server: server.aclose())


def build(params: Params, policy, folder: Path | None = None) -> ServerSampler:
    """The servers of policy.vllm.urls, serving the policy's present weights. folder: the run's, for weights; see PushedWeights."""
    limits, vllm = params.sampling, params.policy.vllm
    key = os.environ.get("VLLM_API_KEY")
    sampler = ServerSampler(
        [CompletionServer(url, key) for url in vllm.urls],
        policy.chat,
        limits.temperature,
        limits.max_sequence_tokens,
        PushedWeights(folder, vllm.exchange),
        params.harness.deadline_s,
    )
    if params.policy.tuning == "full" or policy.adapted:
        try:
            sampler.load_first(policy)
        except BaseException:
            sampler.close()
            raise
    return sampler
