"""vLLM in this process against plain transformers with PEFT: same log-probs after every push, never a stale adapter or prefix."""

import asyncio
import contextlib
import threading
import time

import pytest
from vllm_support import (
    PROMPTS,
    EndlessChat,
    converse,
    params_of,
    perturb,
    policy_of,
    random_model,
    saved,
    worst_error,
)

from rlmlib.errors import ConfigError, InfrastructureError
from rlmlib.models.base import Message
from rlmlib.models.vllm_engine import Finished
from rlmlib.models.vllm_sampler import build
from rlmlib.training.policy import Policy

CLOSE = 1e-3


class Watched:
    """Notes the raw outputs of a sampler's engine; `began` is set by its first step while it watches.

    holds: by a number of steps, after which the engine waits until it is true.
    """

    def __init__(self, sampler, holds=None):
        self.outputs, self.began, self._engine = [], threading.Event(), sampler._engine._engine
        self._step, self._holds, self._steps = self._engine.step, holds or {}, 0

    def __enter__(self):
        def step():
            outputs = self._step()
            self.outputs += [output for output in outputs if output.finished]
            self._steps += 1
            self.began.set()
            until, hold = time.monotonic() + 60, self._holds.get(self._steps, lambda: True)
            while not hold() and time.monotonic() < until:
                time.sleep(0.002)
            return outputs

        self._engine.step = step
        return self

    def __exit__(self, *_):
        self._engine.step = self._step

    @property
    def cached(self) -> list[int]:
        return [output.num_cached_tokens for output in self.outputs]


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return saved(random_model(), tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def policy():
    return policy_of(random_model())


@pytest.fixture(scope="module")
def sampler(base, policy, tmp_path_factory):
    built = build(params_of(base), policy, tmp_path_factory.mktemp("weights"))
    yield built
    built.close()


@contextlib.contextmanager
def endless(sampler):
    """Replies end at their token limit only."""
    chat, engine = sampler.chat, sampler._engine._engine
    add = engine.add_request

    def without_end(name, prompt, sampling, **options):
        sampling.stop_token_ids = []
        return add(name, prompt, sampling, **options)

    sampler.chat, engine.add_request = EndlessChat(), without_end
    try:
        yield
    finally:
        sampler.chat, engine.add_request = chat, add


def reply(sampler, key: int, tokens: int = 24, prompt: str = PROMPTS[1]):
    """The sequence of a conversation of one turn."""

    async def main():
        session = sampler.session(9, key)
        await session.reply([Message("user", prompt)], tokens)
        session.close()
        return session.sequence

    return asyncio.run(asyncio.wait_for(main(), 120))


def test_logprobs_are_those_of_transformers_with_the_adapter(sampler, policy):
    sequences = converse(sampler)
    assert max(worst_error(policy.model, sequence) for sequence in sequences) < CLOSE
    assert sum(sum(sequence.mask) for sequence in sequences) > 100
    assert min(worst_error(policy.model, sequence, 1.0) for sequence in sequences) > 10 * CLOSE, "log-probs are those after temperature"


def test_a_reply_is_repeated_exactly_by_its_key(sampler):
    assert reply(sampler, 1).ids == reply(sampler, 1).ids != reply(sampler, 2).ids


def test_perturbed_adapter_changes_the_very_next_reply(sampler, policy):
    for _ in range(3):
        version, before = sampler.version, reply(sampler, 3)
        perturb(policy)
        sampler.push(policy)
        assert sampler.version == version + 1
        after = reply(sampler, 3)
        assert after.ids != before.ids
        assert worst_error(policy.model, after) < CLOSE < worst_error(policy.model, before)


def test_replies_that_run_end_under_the_adapter_they_began_with(sampler, policy, tmp_path):
    old, folder = policy_of(random_model()), tmp_path / "old"
    policy.save_adapter(folder)
    old.load_adapter(folder)

    async def main():
        version = sampler.version

        def asked(done) -> bool:
            return done() or not sampler._work.empty()

        late_is_there = threading.Event()
        holds = {
            5: lambda: asked(lambda: sampler.version > version),
            10: lambda: asked(lambda: len(sampler._running) > 1),
            50: late_is_there.is_set,
        }
        with Watched(sampler, holds) as watched:
            early, late = sampler.session(1), sampler.session(2)
            running = asyncio.create_task(early.reply([Message("user", "5 6 7")], 300))
            await asyncio.to_thread(watched.began.wait, 60)
            perturb(policy)
            await asyncio.to_thread(sampler.push, policy)
            assert not running.done(), "else this shows nothing"
            await late.reply([Message("user", "5 6 7")], 20)
            assert not running.done()
            late_is_there.set()
            await running
        return early.sequence, late.sequence

    with endless(sampler):
        early, late = asyncio.run(asyncio.wait_for(main(), 180))
    assert worst_error(old.model, early) < CLOSE and worst_error(policy.model, late) < CLOSE
    assert worst_error(policy.model, early) > CLOSE and worst_error(old.model, late) > CLOSE
    reply(sampler, 4)
    assert sampler._engine._engine.list_loras() == {request.lora_int_id for request in sampler._engine._requests.values()}
    assert [request.lora_path for request in sampler._engine._requests.values()] == [str(sampler._adapter.folder)]
    assert list(sampler._adapter.folder.parent.iterdir()) == [sampler._adapter.folder], "old weights are deleted"


def test_prefixes_are_kept_over_turns_and_forgotten_at_a_push(sampler, policy):
    with Watched(sampler) as watched:
        converse(sampler, keys=[7], turns=2, tokens=10)
        assert watched.cached[1] >= 64, "the second turn finds the first one's keys and values"
    reply(sampler, 5, prompt=PROMPTS[7])
    perturb(policy)
    sampler.push(policy)
    with Watched(sampler) as watched:
        sequence = reply(sampler, 5, prompt=PROMPTS[7])
        assert watched.cached == [0]
    assert worst_error(policy.model, sequence) < CLOSE


def test_cancelled_replies_are_aborted_and_others_go_on(sampler, policy):

    async def main():
        gone = threading.Event()
        with Watched(sampler, {5: gone.is_set}) as watched:
            sessions = [sampler.session(1, number) for number in range(3)]
            cancelled, left, kept = (
                asyncio.create_task(session.reply([Message("user", PROMPTS[row])], 250)) for row, session in enumerate(sessions)
            )
            await asyncio.to_thread(watched.began.wait, 60)
            cancelled.cancel()
            sessions[1].close()
            await asyncio.sleep(0)  # both tasks see it
            gone.set()
            results = await asyncio.gather(cancelled, left, kept, return_exceptions=True)
        assert [type(result).__name__ for result in results] == ["CancelledError", "CancelledError", "Reply"]
        assert len(watched.outputs) == 1, "two were never finished"
        return sessions[2].sequence

    with endless(sampler):
        sequence = asyncio.run(asyncio.wait_for(main(), 180))
    assert worst_error(policy.model, sequence) < CLOSE
    assert sampler._engine._engine.get_num_unfinished_requests() == 0


def test_rows_without_an_adapter_are_left_alone_beside_others(sampler, policy):
    """The engine on its own: vLLM's CPU kernels would give the base's rows the adapter."""
    base, engine = random_model(), sampler._engine
    adapter = sampler._adapter
    ids = [5, 6, 7, 3]
    done: list[Finished] = []
    for row, chosen in enumerate([None, adapter, None, adapter]):
        engine.add(f"row-{row}", ids + [row], 20, row, chosen)
    while engine._engine.has_unfinished_requests():
        done += engine.step()
    assert {finished.name for finished in done} == {f"row-{row}" for row in range(4)}
    for finished in done:
        row = int(finished.name[-1])
        prompt = ids + [row]
        sequence = sequence_of(prompt, finished)
        assert worst_error(policy.model if row % 2 else base, sequence) < CLOSE


def sequence_of(prompt, finished):
    from rlmlib.models.conversation import TokenSequence

    sequence = TokenSequence()
    sequence.extend(prompt, 0)
    sequence.extend(finished.ids, 1, finished.logprobs)
    return sequence


def test_adapter_that_cannot_be_loaded_leaves_the_last_one(sampler, policy, tmp_path, monkeypatch):
    version = sampler.version
    broken = Policy(policy.model, policy.chat)
    monkeypatch.setattr(broken, "save_adapter", lambda folder: None, raising=False)
    with pytest.raises(InfrastructureError, match="did not load the adapter"):
        sampler.push(broken)
    assert sampler.version == version
    assert worst_error(policy.model, reply(sampler, 6)) < CLOSE


def test_a_prompt_that_does_not_fit_fails_alone(sampler, policy):
    async def main():
        session = sampler.session(1)
        session.sequence.extend([5] * 600, 0)
        with pytest.raises(InfrastructureError, match="refused a request"):
            await sampler.generate(session, 10)

    asyncio.run(main())
    assert worst_error(policy.model, reply(sampler, 7)) < CLOSE


def test_engine_that_fails_fails_every_reply_and_every_later_one(base, policy):
    params = params_of(base)
    sampler = build(params, policy)
    folders = sampler._weights._parent

    async def main():
        def fail():
            raise RuntimeError("the device is gone")

        sampler._engine._engine.step = fail
        sessions = [sampler.session(number) for number in range(3)]
        tasks = [session.reply([Message("user", "5")], 10) for session in sessions]
        return await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 60)

    results = asyncio.run(main())
    assert all(isinstance(result, InfrastructureError) and "the device is gone" in str(result) for result in results)
    with pytest.raises(InfrastructureError, match="the device is gone"):
        reply(sampler, 1)
    with pytest.raises(InfrastructureError, match="the device is gone"):
        sampler.push(policy)
    sampler.close()
    assert not folders.exists()


@pytest.mark.parametrize("kind, tied", [("qwen3", True), ("llama", False)])
def test_full_weights_are_reloaded(kind, tied, tmp_path):
    """Also in a process that has had an engine before."""
    policy = policy_of(random_model(kind, tied=tied), None)
    params = params_of(tmp_path / "no-such-folder", policy__tuning="full")
    sampler = build(params, policy, tmp_path / "weights")
    try:
        before = reply(sampler, 1)
        assert worst_error(policy.model, before) < CLOSE
        moved = random_model(kind, seed=5, tied=tied)
        policy.model.load_state_dict(moved.state_dict())
        sampler.push(policy)
        assert sampler.version == 1
        with Watched(sampler) as watched:
            after = reply(sampler, 1)
            assert watched.cached == [0]
        assert after.ids != before.ids and worst_error(moved, after) < CLOSE
    finally:
        sampler.close()


def test_base_model_is_sampled_without_an_adapter(base):
    policy = policy_of(random_model(), None)
    sampler = build(params_of(base), policy)
    try:
        assert sampler._adapter is None
        assert max(worst_error(policy.model, sequence) for sequence in converse(sampler, turns=1)) < CLOSE
    finally:
        sampler.close()


def test_engine_that_cannot_start_is_one_line(tmp_path):
    with pytest.raises(ConfigError, match="vLLM cannot start .*check policy.model") as caught:
        build(params_of(tmp_path / "nothing-here"), policy_of(random_model()))
    assert "\n" not in str(caught.value)


def test_llama_with_an_adapter(tmp_path):
    policy = policy_of(random_model("llama"))
    sampler = build(params_of(saved(policy_of(random_model("llama"), None).model, tmp_path / "base")), policy)
    try:
        assert max(worst_error(policy.model, sequence) for sequence in converse(sampler, turns=2)) < CLOSE
    finally:
        sampler.close()
