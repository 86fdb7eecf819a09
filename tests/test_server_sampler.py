"""The sampler of OpenAI-compatible servers, against one that really samples from the adapters that it is told to load."""

import asyncio
import time

import pytest
import torch
from completions_server import MODEL, CompletionsServer
from servers import Answer, openai_error
from support import NumberChat, bare_policy, tiny_model

from rlmlib import config
from rlmlib.errors import ConfigError, InfrastructureError
from rlmlib.models import server_sampler
from rlmlib.models.base import Message
from rlmlib.models.completions import CompletionServer
from rlmlib.models.conversation import TokenSequence
from rlmlib.models.pushed import PushedWeights
from rlmlib.models.retry import RetryPolicy
from rlmlib.models.server_sampler import ServerSampler
from rlmlib.training.policy import Policy
from rlmlib.training.step import token_logprobs

TEMPERATURE, CLOSE = 0.7, 1e-4
QUICK = RetryPolicy(attempts=3, first_delay_s=0.01, max_delay_s=0.02, attempt_timeout_s=5.0)


@pytest.fixture(autouse=True)
def one_certificate(monkeypatch, tmp_path):
    """Loading a whole bundle of certificates takes most of a test."""
    import certifi

    with open(certifi.where()) as bundle:
        first = bundle.read().partition("-----END CERTIFICATE-----")
    (tmp_path / "one.pem").write_text("".join(first[:2]))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "one.pem"))
    for name in ("VLLM_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server():
    with CompletionsServer() as running:
        yield running


@pytest.fixture
def policy():
    return bare_policy(adapter=True)


def sampler_of(*servers, folder, policy=None, **changes):
    """Each is the real thing but for its shorter waits."""
    options = {"max_sequence": 200, "reply_timeout_s": 20.0, "retries": QUICK, **changes}
    endpoints = [CompletionServer(server.url, server.key, QUICK) for server in servers]
    made = ServerSampler(endpoints, NumberChat(), TEMPERATURE, weights=PushedWeights(folder), **options)
    if policy is not None:
        made.load_first(policy)
    return made


@pytest.fixture
def sampler(server, policy, tmp_path):
    made = sampler_of(server, folder=tmp_path / "weights", policy=policy)
    yield made
    made.close()


def run(work):
    return asyncio.run(asyncio.wait_for(work, 60))


async def ask(sampler, key=0, tokens=20, prompt="5 6 7"):
    session = sampler.session(key)
    try:
        await session.reply([Message("user", prompt)], tokens)
    finally:
        session.close()
    return session.sequence


def reply(sampler, *arguments, **options) -> TokenSequence:
    return run(ask(sampler, *arguments, **options))


def error_of(sampler, **options) -> str:
    with pytest.raises(InfrastructureError) as caught:
        reply(sampler, **options)
    return str(caught.value)


def perturb(policy, seed=1):
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in policy.trainable:
            parameter.add_(torch.randn_like(parameter) * 0.2)


def gap(policy, sequence) -> float:
    """Largest difference of the log-probs of sampler and trainer."""
    with torch.no_grad():
        logits = policy.model(input_ids=torch.tensor([sequence.ids])).logits[0]
    chosen = (logits / TEMPERATURE).log_softmax(-1)
    pairs = zip(sequence.ids, sequence.mask, sequence.logprobs, strict=True)
    return max(abs(float(chosen[i - 1, token]) - logprob) for i, (token, sampled, logprob) in enumerate(pairs) if sampled)


def test_logprobs_are_the_trainers_after_every_push(sampler, policy):
    for number in range(4):
        sequence = reply(sampler, number)
        assert gap(policy, sequence) < CLOSE
        trained, sampled = token_logprobs(policy, [sequence], TEMPERATURE)[:2]
        assert (trained - sampled).abs().max() < CLOSE
        perturb(policy, number)
        sampler.push(policy)
        assert sampler.version == number + 1
        assert gap(policy, sequence) > CLOSE


def test_perturbed_adapter_changes_the_very_next_reply_and_old_ones_are_gone(sampler, server, policy, tmp_path):
    names = list(server.adapters)
    for number in range(3):
        before = reply(sampler, 7)
        assert reply(sampler, 7).ids == before.ids
        perturb(policy, number)
        sampler.push(policy)
        after = reply(sampler, 7)
        assert after.ids != before.ids and gap(policy, after) < CLOSE
        [name] = server.adapters
        assert name not in names, "no name is used twice"
        names.append(name)
        assert [path.name for path in (tmp_path / "weights").iterdir()] == [name], "old weights are deleted"
    assert server.sampled[-1] == name and MODEL not in server.sampled[2:]


def test_replies_that_run_end_under_their_adapter_which_goes_after_them(sampler, server, policy, tmp_path):
    old = bare_policy(adapter=True)
    first = next(iter(server.adapters))

    async def main():
        server.gate.clear()
        running = [asyncio.create_task(ask(sampler, key)) for key in range(3)]
        for _ in running:
            assert await asyncio.to_thread(server.held.acquire, timeout=10)
        perturb(policy)
        await asyncio.to_thread(sampler.push, policy)
        assert first in server.adapters and len(list((tmp_path / "weights").iterdir())) == 2
        later = asyncio.create_task(ask(sampler, 9))
        assert await asyncio.to_thread(server.held.acquire, timeout=10)
        server.gate.set()
        return await asyncio.gather(*running), await later

    early, late = run(main())
    assert all(gap(old, sequence) < CLOSE < gap(policy, sequence) for sequence in early)
    assert gap(policy, late) < CLOSE < gap(old, late)
    sampler.push(policy)
    assert len(server.adapters) == 1 and first not in server.adapters


def test_base_model_is_sampled_where_there_is_no_adapter(server, tmp_path):
    sampler = sampler_of(server, folder=tmp_path)
    assert gap(bare_policy(), reply(sampler)) < CLOSE
    sampler.close()
    assert set(server.sampled) == {MODEL} and not server.paths("/v1/load_lora_adapter")


def test_turns_extend_one_another(sampler, server, policy):
    async def main():
        session = sampler.session(1)
        for prompt in ("5 6 7", "8 9", "10"):
            await session.reply([Message("user", prompt)], 15)
        session.close()
        return session.sequence

    sequence = run(main())
    assert gap(policy, sequence) < CLOSE
    prompts = [body["prompt"] for body in server.paths("/v1/completions")[2:]]
    assert prompts[1][: len(prompts[0])] == prompts[0] and prompts[2][: len(prompts[1])] == prompts[1]


def test_many_conversations_at_once_are_spread_and_stay_with_their_server(policy, tmp_path):
    async def main(sampler, servers):
        async def one(key):
            session = sampler.session(key)
            for prompt in (f"{5 + key} 6", "7 8", "9"):
                await session.reply([Message("user", prompt)], 8)
            return session

        for server in servers:
            server.gate.clear()
        tasks = [asyncio.create_task(one(key)) for key in range(12)]
        for server in servers:  # all are under way before any goes on
            for _ in range(6):
                assert await asyncio.to_thread(server.held.acquire, timeout=10)
            server.gate.set()
        return await asyncio.gather(*tasks)

    with CompletionsServer() as one, CompletionsServer() as two:
        sampler = sampler_of(one, two, folder=tmp_path, policy=policy)
        sessions = run(main(sampler, [one, two]))
        assert all(gap(policy, session.sequence) < CLOSE for session in sessions)
        for server in (one, two):
            first_tokens = [body["prompt"][0] for body in server.paths("/v1/completions")[2:]]
            assert all(first_tokens.count(token) == 3 for token in first_tokens) and len(first_tokens) == 18
        assert list(one.adapters) == list(two.adapters)
        sampler.close()
        assert not one.adapters and not two.adapters and not list(tmp_path.glob("policy-*")), "nothing is left behind"


def test_results_do_not_depend_on_what_else_runs(sampler):
    async def together():
        return await asyncio.gather(*(ask(sampler, key) for key in range(5)))

    alone = [reply(sampler, key).ids for key in range(5)]
    assert [sequence.ids for sequence in run(together())] == alone


@pytest.mark.parametrize(
    "answer",
    [
        openai_error(500, "boom"),
        openai_error(503, "loading"),
        openai_error(429, "slow down", headers={"retry-after": "0"}),
        Answer(b"no json"),
        Answer({"choices": []}),
        Answer(b'{"choices": [{"tok', headers={"content-length": "4000"}),
        Answer([1, 2]),
    ],
    ids=["500", "503", "429", "not JSON", "no choice", "cut connection", "a list"],
)
def test_passing_faults_are_tried_again_and_lasting_ones_end(sampler, server, policy, answer):
    server.script = [answer] * 2
    sequence = reply(sampler, 3)
    assert gap(policy, sequence) < CLOSE
    assert sequence.ids == reply(sampler, 3).ids, "the seed is the same at every attempt"
    server.script = [answer] * 3
    assert "after 3 attempts" in error_of(sampler)


def spoilt(**changes):
    def spoil(choice):
        choice.update({name: change(choice) for name, change in changes.items()})

    return spoil


@pytest.mark.parametrize(
    "spoil, wanted",
    [
        (spoilt(token_ids=lambda c: None), "no token ids"),
        (spoilt(token_ids=lambda c: []), "no token ids"),
        (spoilt(token_ids=lambda c: ["5"] * len(c["token_ids"])), "no token ids"),
        (spoilt(prompt_token_ids=lambda c: c["prompt_token_ids"][1:]), "changed the tokens of the prompt"),
        (spoilt(token_ids=lambda c: c["token_ids"] + [5]), "end token|no log-probs"),
        (spoilt(token_ids=lambda c: c["token_ids"][:1] * 60), "end token"),
        (spoilt(token_ids=lambda c: c["token_ids"][:-1] + [1, 5]), "end token"),
        (spoilt(finish_reason=lambda c: "stop", token_ids=lambda c: [5] * len(c["token_ids"])), "end token"),
        (spoilt(logprobs=lambda c: None), "no log-probs"),
        (spoilt(logprobs=lambda c: {"token_logprobs": c["logprobs"]["token_logprobs"][1:]}), "no log-probs"),
        (spoilt(logprobs=lambda c: {"token_logprobs": [None] * len(c["token_ids"])}), "no log-probs"),
        (spoilt(logprobs=lambda c: {"token_logprobs": [0.5] * len(c["token_ids"])}), "no log-probs"),
        (spoilt(finish_reason=lambda c: "abort"), "for the reason 'abort'"),
    ],
)
def test_wrong_tokens_are_never_trained_on(sampler, server, spoil, wanted):
    server.spoil = spoil
    with pytest.raises(InfrastructureError, match=wanted):
        reply(sampler)


def test_the_wait_for_a_reply_is_bounded(server, policy, tmp_path):
    retries = RetryPolicy(attempts=2, first_delay_s=0.01, attempt_timeout_s=0.3)
    sampler = sampler_of(server, folder=tmp_path, policy=policy, retries=retries)
    server.gate.clear()
    assert "no answer within 0.3 s after 2 attempts" in error_of(sampler)
    assert server.gone.acquire(timeout=5) and server.gone.acquire(timeout=5), "the server is told, so that it stops"
    sampler.close()


@pytest.mark.parametrize("how", ["cancelled", "closed"])
def test_abandoned_replies_are_ended_at_the_server(sampler, server, policy, how):
    async def main():
        server.gate.clear()
        session = sampler.session(1)
        task = asyncio.create_task(session.reply([Message("user", "5")], 10))
        other = asyncio.create_task(ask(sampler, 2))
        for _ in range(2):
            assert await asyncio.to_thread(server.held.acquire, timeout=10)
        task.cancel() if how == "cancelled" else session.close()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(server.gone.acquire, timeout=10)
        server.gate.set()
        assert not session.sequence.ids
        return await other

    assert gap(policy, run(main())) < CLOSE
    assert server.given_up == 1


def test_a_server_that_goes_is_replaced_by_another_one(policy, tmp_path):
    with CompletionsServer() as stays:
        with CompletionsServer() as goes:
            sampler = sampler_of(goes, stays, folder=tmp_path, policy=policy)
            session = sampler.session(1)
            run(session.reply([Message("user", "5 6")], 10))
            assert len(goes.sampled) == 3
        run(session.reply([Message("user", "7")], 10))
        assert gap(policy, session.sequence) < CLOSE
        with pytest.raises(
            InfrastructureError, match=f"{goes.url}: /v1/load_lora_adapter: no connection .* after 3 attempts; start the server or"
        ):
            sampler.push(policy)
        assert sampler.version == 0 and len(stays.adapters) == 1, "what was loaded in vain is unloaded"
        sampler.close()


def test_a_server_that_hangs_is_left_after_one_attempt_and_comes_back(policy, tmp_path, monkeypatch):
    monkeypatch.setattr(server_sampler, "DOWN_S", 0.05)
    monkeypatch.setattr(server_sampler, "PROBE_S", 0.3)
    retries = RetryPolicy(attempts=3, first_delay_s=0.01, attempt_timeout_s=1.5)
    with CompletionsServer() as hangs, CompletionsServer() as answers:
        sampler = sampler_of(hangs, answers, folder=tmp_path, policy=policy, retries=retries)
        hangs.gate.clear()

        async def together(*keys):
            return await asyncio.gather(*(ask(sampler, key, tokens=4) for key in keys))

        assert all(gap(policy, sequence) < CLOSE for sequence in run(together(0, 1, 2, 3)))
        asked = len(policy_requests(hangs))
        assert asked == 2, "each of its conversations lost one attempt"
        assert all(gap(policy, sequence) < CLOSE for sequence in run(together(4, 5, 6, 7)))
        assert len(policy_requests(hangs)) == asked, "it is asked for no reply as long as it hangs"
        hangs.gate.set()
        while sampler._servers[0].down:
            time.sleep(0.005)
        run(together(8, 9))
        assert len(policy_requests(hangs)) == asked + 1
        sampler.close()


def policy_requests(server) -> list[dict]:
    return [body for body in server.paths("/v1/completions") if body["model"] != MODEL]


def test_attempts_share_the_deadline(server, tmp_path):
    sampler = sampler_of(server, folder=tmp_path, reply_timeout_s=30.0, retries=None)
    assert sampler._retries.attempt_timeout_s == 10.0
    sampler.close()


BLIPS = {"500": openai_error(500, "boom"), "cut connection": Answer(b'{"x', headers={"content-length": "4000"})}


@pytest.mark.parametrize("blip", BLIPS.values(), ids=BLIPS)
@pytest.mark.parametrize("adapter", [True, False])
def test_a_push_goes_through_passing_faults(server, tmp_path, blip, adapter):
    policy = bare_policy(adapter=adapter)
    sampler = sampler_of(server, folder=tmp_path, policy=policy)
    perturb(policy)
    server.script = [blip] * 2
    sampler.push(policy)
    assert sampler.version == 1 and gap(policy, reply(sampler)) < CLOSE
    sampler.close()


def test_a_load_whose_answer_was_lost_is_no_failure(sampler, server, policy, monkeypatch):
    whole, lost = server._load, []

    def load(body):
        answer = whole(body)
        lost.append(answer)
        return answer if len(lost) > 1 else openai_error(503, "proxy timed out")

    monkeypatch.setattr(server, "_load", load)
    perturb(policy)
    sampler.push(policy)
    assert len(lost) == 2 and gap(policy, reply(sampler)) < CLOSE


def test_full_weights_are_never_sampled_from_a_restarted_server(server, tmp_path):
    policy = bare_policy()
    sampler = sampler_of(server, folder=tmp_path, policy=policy)
    perturb(policy)
    sampler.push(policy)

    async def main():
        server.gate.clear()
        running = [asyncio.create_task(ask(sampler, key)) for key in range(3)]
        for _ in running:
            assert await asyncio.to_thread(server.held.acquire, timeout=10)
        server.restart()
        server.gate.set()
        return await asyncio.gather(*running)

    assert all(gap(policy, sequence) < CLOSE for sequence in run(main()))
    assert len(server.paths("/collective_rpc")) == 3, "two pushes, and once for all replies"
    server.restart()
    assert gap(policy, reply(sampler, 5)) < CLOSE
    server.restart()
    server.dev_mode = False
    assert "was restarted, and has forgotten the weights after 3 attempts" in error_of(sampler)
    sampler.close()


def test_a_failed_push_of_full_weights_leaves_no_server_ahead(tmp_path):
    policy, old = bare_policy(), bare_policy()
    with CompletionsServer() as one, CompletionsServer() as two:
        sampler = sampler_of(one, two, folder=tmp_path, policy=policy)
        perturb(policy)
        two.dev_mode = False
        with pytest.raises(InfrastructureError, match=f"{two.url}: /collective_rpc: refused"):
            sampler.push(policy)
        two.dev_mode = True
        assert sampler.version == 0
        for key in range(2):
            assert gap(old, reply(sampler, key)) < CLOSE < gap(policy, reply(sampler, key))
        sampler.close()


def test_full_weights_need_a_server_that_tells_its_process(tmp_path):
    for options, wanted in (({"metrics": False}, "404"), ({}, "no process_start_time_seconds")):
        with CompletionsServer(**options) as server:
            if server.metrics:
                server._metrics = lambda _body: Answer(b"vllm:num_requests_running 0.0\n")
            sampler = sampler_of(server, folder=tmp_path)
            with pytest.raises(InfrastructureError, match=f"/metrics: refused .*{wanted}.*--api-server-count 1"):
                sampler.load_first(bare_policy())
            assert not server.paths("/collective_rpc")
            sampler.close()


@pytest.mark.parametrize("shared", [False, True], ids=["in the run", "in a folder of many runs"])
def test_what_a_killed_process_left_goes_when_its_run_starts_again(server, policy, tmp_path, shared):
    exchange = tmp_path / "exchange" if shared else ""
    made = exchange or tmp_path / "run"

    def weights(run):
        return PushedWeights(tmp_path / run, exchange)

    def of(folders):
        endpoints = [CompletionServer(server.url)]
        return ServerSampler(endpoints, NumberChat(), TEMPERATURE, 200, folders, 20.0, QUICK)

    killed, other = of(weights("run")), of(weights("other run"))
    for sampler in (killed, other):
        sampler.load_first(policy)
    left, kept = list(server.adapters)
    assert (made / left).exists() and (tmp_path / "other run" / kept).exists() != shared
    again = of(weights("run"))
    assert list(server.adapters) == [kept] and not (made / left).exists()
    again.load_first(policy)
    assert gap(policy, reply(again)) < CLOSE and gap(policy, reply(other)) < CLOSE, "another run goes on"
    for sampler in (again, other, killed):
        sampler.close()


def test_a_restarted_server_gets_its_adapter_again(sampler, server, policy):
    server.restart()
    assert gap(policy, reply(sampler)) < CLOSE


@pytest.mark.parametrize("fault", ["not allowed", "500", "no adapter"])
def test_failed_load_says_what_to_do_and_the_last_adapter_serves(sampler, server, policy, monkeypatch, fault):
    before = reply(sampler, 5)
    if fault == "not allowed":
        server.lora = False
    elif fault == "500":
        server.script = [openai_error(500, "Call to add_lora method failed: LoRA rank 64 is greater than max_lora_rank 16")] * 3
    else:
        monkeypatch.setattr(Policy, "save_adapter", lambda self, folder: None)
    with pytest.raises(InfrastructureError) as caught:
        sampler.push(policy)
    said = str(caught.value)
    assert (
        f"{server.url}: /v1/load_lora_adapter: refused" in said
        and "--enable-lora" in said
        and "VLLM_ALLOW_RUNTIME_LORA_UPDATING" in said
        and "\n" not in said
    )
    server.lora = True
    assert sampler.version == 0 and reply(sampler, 5).ids == before.ids


def test_full_weights_are_reloaded_between_replies(server, tmp_path):
    policy = bare_policy()
    sampler = sampler_of(server, folder=tmp_path, policy=policy)
    old = bare_policy()

    async def main():
        server.gate.clear()
        early = asyncio.create_task(ask(sampler, 1))
        assert await asyncio.to_thread(server.held.acquire, timeout=10)
        policy.model.load_state_dict(tiny_model(seed=9).state_dict())
        push = asyncio.create_task(asyncio.to_thread(sampler.push, policy))
        while sampler._may_begin.is_set():
            await asyncio.sleep(0.005)
        late = asyncio.create_task(ask(sampler, 2))
        await asyncio.sleep(0.05)  # time in which it would be asked for, were it not held back
        assert len(server.sampled) == 3 and not server.paths("/collective_rpc")[1:]
        server.gate.set()
        await push
        return await early, await late

    early, late = run(main())
    assert gap(old, early) < CLOSE < gap(policy, early)
    assert gap(policy, late) < CLOSE < gap(old, late)
    assert sampler.version == 1 and len(list(tmp_path.glob("policy-*"))) == 1
    server.dev_mode = False
    with pytest.raises(InfrastructureError, match="/collective_rpc: refused .404.*VLLM_SERVER_DEV_MODE=1"):
        sampler.push(policy)
    sampler.close()
    assert not list(tmp_path.glob("policy-*"))


@pytest.mark.parametrize(
    "options, spoil, wanted",
    [
        ({"raw_logprobs": True}, None, "start it with --logprobs-mode processed_logprobs"),
        ({}, spoilt(token_ids=lambda c: None), "no token ids"),
        ({}, spoilt(logprobs=lambda c: None), "--logprobs-mode processed_logprobs"),
        ({"max_model_len": 100}, None, "takes 100 tokens, sampling.max_sequence_tokens is 200"),
    ],
)
def test_servers_that_cannot_serve_training_are_refused_at_the_start(options, spoil, wanted, tmp_path):
    with CompletionsServer(**options) as server:
        server.spoil = spoil
        with pytest.raises(ConfigError, match=wanted) as caught:
            sampler_of(server, folder=tmp_path)
        assert server.url in str(caught.value) and "\n" not in str(caught.value)


def test_a_server_that_is_not_there_is_said_so(tmp_path):
    with CompletionsServer() as server:
        pass
    with pytest.raises(InfrastructureError, match=f"no connection to {server.url}.*start the server or correct policy.vllm.urls"):
        sampler_of(server, folder=tmp_path)


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://x/v1", "http://user:secret@host/v1", ""])
def test_addresses_are_checked_and_secrets_not_repeated(url):
    with pytest.raises(ConfigError, match="policy.vllm.urls") as caught:
        CompletionServer(url)
    assert "secret" not in str(caught.value)


def test_built_from_params_with_the_servers_key(policy, tmp_path, monkeypatch):
    with CompletionsServer(key="sesame") as server:
        values = {
            "name": "test",
            "policy": {"sampler": "server", "vllm": {"urls": [server.url], "exchange": str(tmp_path / "exchange")}},
            "sampling": {"temperature": TEMPERATURE, "max_turn_tokens": 20, "max_sequence_tokens": 200},
        }
        params = config.validate(values)
        with pytest.raises(InfrastructureError, match="401 Unauthorized"):
            server_sampler.build(params, policy)
        monkeypatch.setenv("VLLM_API_KEY", "sesame")
        sampler = server_sampler.build(params, policy)
        assert sampler.version == 0 and gap(policy, reply(sampler)) < CLOSE
        [body] = server.paths("/v1/load_lora_adapter")
        assert body["lora_path"].startswith(str(tmp_path / "exchange"))
        sampler.close()


def test_closed_while_a_reply_runs(server, policy, tmp_path):
    sampler = sampler_of(server, folder=tmp_path, policy=policy)

    async def main():
        server.gate.clear()
        task = asyncio.create_task(ask(sampler))
        assert await asyncio.to_thread(server.held.acquire, timeout=10)
        await asyncio.to_thread(sampler.close)
        with pytest.raises((asyncio.CancelledError, InfrastructureError)):
            await task

    run(main())
    server.gate.set()
    with pytest.raises(InfrastructureError, match="is closed"):
        reply(sampler)
    sampler.close()
    assert not sampler._loop._thread.is_alive()
