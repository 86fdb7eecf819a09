"""The sampler of servers against vLLM's own api_server on the CPU. Each server takes a minute or more to start."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast
from vllm_support import VOCAB, converse, params_of, perturb, policy_of, random_model, saved, worst_error

from rlmlib.errors import InfrastructureError
from rlmlib.models import server_sampler
from rlmlib.models.base import Message

CLOSE, START_S = 1e-3, 600
OPTIONS = ["--dtype", "float32", "--enforce-eager", "--block-size", "32", "--max-model-len", "512", "--max-num-seqs", "16"]
LORA = ["--enable-lora", "--max-lora-rank", "8", "--max-loras", "2"]


def model_folder(folder, **options):
    """A random model with a tokenizer of as many words."""
    words = Tokenizer(models.WordLevel({f"t{number}": number for number in range(VOCAB)}, unk_token="t0"))
    PreTrainedTokenizerFast(tokenizer_object=words, unk_token="t0").save_pretrained(folder)
    return saved(random_model(**options), folder)


@contextlib.contextmanager
def api_server(folder, *options):
    """The address of a running server."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder), "--host", "127.0.0.1"]
    settings = {
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True",
        "VLLM_SERVER_DEV_MODE": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "HF_HUB_OFFLINE": "1",
    }
    environment = {name: value for name, value in os.environ.items() if name != "VLLM_ENABLE_V1_MULTIPROCESSING"} | settings
    log = folder.parent / "server.log"
    with open(log, "w") as output:
        process = subprocess.Popen(
            [*command, "--port", str(port), "--logprobs-mode", "processed_logprobs", *OPTIONS, *options],
            env=environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        for _ in range(START_S):
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
                break
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=1)
                raise AssertionError(log.read_text()[-4000:])
        else:
            raise AssertionError(f"the server is not ready after {START_S} s: {log.read_text()[-4000:]}")
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=30)


def server_params(folder, url, **changes):
    return params_of(folder, policy__sampler="server", policy__vllm={"urls": [url]}, **changes)


def reply(sampler, key=1, tokens=20):
    async def main():
        session = sampler.session(key)
        await session.reply([Message("user", "5 6 7 8")], tokens)
        session.close()
        return session.sequence

    return asyncio.run(asyncio.wait_for(main(), 120))


def test_adapters_over_http(tmp_path):
    folder, policy = model_folder(tmp_path / "base"), policy_of(random_model())
    with api_server(folder, *LORA) as url:
        sampler = server_sampler.build(server_params(folder, url), policy, tmp_path / "weights")
        try:
            assert max(worst_error(policy.model, sequence) for sequence in converse(sampler)) < CLOSE
            assert reply(sampler).ids == reply(sampler).ids
            for version in (1, 2, 3):
                before = reply(sampler)
                perturb(policy)
                sampler.push(policy)
                after = reply(sampler)
                assert sampler.version == version and after.ids != before.ids
                assert worst_error(policy.model, after) < CLOSE < worst_error(policy.model, before)
            assert len(list((tmp_path / "weights").iterdir())) == 1
            cancel_one(sampler)
            assert max(worst_error(policy.model, sequence) for sequence in converse(sampler, turns=2)) < CLOSE
            broken = policy_of(random_model())
            broken.save_adapter = lambda folder: None
            with pytest.raises(InfrastructureError, match="/v1/load_lora_adapter: refused .*--enable-lora"):
                sampler.push(broken)
            assert worst_error(policy.model, reply(sampler, 4)) < CLOSE
        finally:
            sampler.close()
        base = server_sampler.build(server_params(folder, url), policy_of(random_model(), None), tmp_path / "weights")
        assert worst_error(random_model(), reply(base)) < CLOSE, "after all adapters"
        base.close()


def cancel_one(sampler):
    async def main():
        session = sampler.session(5)
        task = asyncio.create_task(session.reply([Message("user", "5 6")], 400))
        while session not in sampler._replies:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(asyncio.wait_for(main(), 60))


def test_full_weights_over_http(tmp_path):
    """With a head of its own: see server_sampler on tied ones."""
    folder, policy = model_folder(tmp_path / "base", tied=False), policy_of(random_model(seed=2, tied=False), None)
    with api_server(folder) as url:
        sampler = server_sampler.build(server_params(folder, url, policy__tuning="full"), policy, tmp_path / "weights")
        try:
            before = reply(sampler)
            assert worst_error(policy.model, before) < CLOSE, "version 0 is the policy's, not the server's own"
            policy.model.load_state_dict(random_model(seed=5, tied=False).state_dict())
            sampler.push(policy)
            after = reply(sampler)
            assert after.ids != before.ids and worst_error(policy.model, after) < CLOSE
            [server] = sampler._servers
            server.process = "that of a process before a restart"
            again = reply(sampler)
            assert again.ids == after.ids and server.process.startswith("1."), "it was given the weights again"
            with pytest.raises(InfrastructureError, match="/v1/load_lora_adapter: refused .*--enable-lora"):
                sampler.push(policy_of(random_model()))
        finally:
            sampler.close()
