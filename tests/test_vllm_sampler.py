"""The thread that runs vLLM's engine: order, cancellation, failures and pushes, with a double of the engine."""

import asyncio
import importlib.util
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from support import NumberChat, bare_policy

from rlmlib import config
from rlmlib.errors import ConfigError, InfrastructureError
from rlmlib.models import vllm_sampler
from rlmlib.models.base import Message
from rlmlib.models.pushed import PushedWeights
from rlmlib.models.vllm_engine import Finished
from rlmlib.models.vllm_sampler import VllmSampler

FIRST_TOKEN = 10  # a reply's tokens are this and the version that samples them
WAIT_S = 20


class EngineDouble:
    """Replies are as long as they may be. Steps sample freely, or, once `hold` was called, one for each `allow`.

    A step that is not allowed samples nothing, or, where it is to be stuck, does not return.
    """

    def __init__(self):
        self.running, self.adapters, self.weights, self.log = {}, set(), 0, []
        self.fault = self.load_fault = self.closed = None
        self.began, self._free, self._allowed = threading.Semaphore(0), threading.Event(), threading.Semaphore(0)
        self._free.set()
        self._stuck, self.is_stuck = False, threading.Event()
        self.threads = set()

    def hold(self, stuck: bool = False):
        self._stuck = stuck
        self._free.clear()

    def allow(self, steps: int | None = None):
        """So many steps, or all of them."""
        if steps is None:
            self._free.set()
        self._allowed.release(steps or 1)

    def add(self, name, ids, max_tokens, seed, adapter):
        if len(ids) > 100:
            raise ValueError("the prompt is too long")
        assert adapter is None or adapter in self.adapters and adapter.folder.exists()
        self.running[name] = SimpleNamespace(ids=[], limit=max_tokens, seed=seed, adapter=adapter)
        self.log.append(("add", seed))
        self.began.release()

    def step(self):
        self.threads.add(threading.current_thread().name)
        if not self._free.is_set():
            if self._stuck:
                self.is_stuck.set()
            if not self._allowed.acquire(timeout=WAIT_S if self._stuck else 0.005):
                return []
        if self.fault:
            raise self.fault
        finished = []
        for name, reply in list(self.running.items()):
            assert reply.adapter is None or reply.adapter in self.adapters
            reply.ids.append(FIRST_TOKEN + (reply.adapter.version if reply.adapter else self.weights))
            if len(reply.ids) == reply.limit:
                del self.running[name]
                finished.append(Finished(name, reply.ids, [-0.5] * reply.limit, "it broke" if reply.limit == 13 else None))
        return finished

    def abort(self, name):
        del self.running[name]
        self.log.append(("abort", name))

    def load_adapter(self, adapter):
        if self.load_fault:
            raise self.load_fault
        assert adapter not in self.adapters and (adapter.folder / "adapter").exists()
        self.adapters.add(adapter)

    def drop_adapter(self, adapter):
        assert all(reply.adapter is not adapter for reply in self.running.values())
        self.adapters.remove(adapter)

    def reload(self, folder: Path):
        if self.load_fault:
            raise self.load_fault
        assert not self.running and (folder / "adapter").exists()
        self.weights += 1

    def close(self):
        self.closed = True


class PolicyDouble:
    def __init__(self, adapted: bool = True):
        self.adapted = adapted

    def save_adapter(self, folder: Path):
        (folder / "adapter").write_text("weights")


@pytest.fixture
def engine():
    return EngineDouble()


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "weights"


@pytest.fixture
def sampler(engine, folder):
    made = VllmSampler(lambda: engine, NumberChat(), 90, PushedWeights(folder), WAIT_S)
    yield made
    engine.allow()
    made.close()


def run(work):
    return asyncio.run(asyncio.wait_for(work, 60))


def ask(sampler, key=0, tokens=5):
    return asyncio.create_task(sampler.session(key).reply([Message("user", "5 6")], tokens))


async def begun(engine, count=1):
    for _ in range(count):
        assert await asyncio.to_thread(engine.began.acquire, timeout=WAIT_S)


async def in_line(sampler, count=1):
    """Until so many wait for an engine that is stuck."""
    while sampler._work.qsize() < count:
        await asyncio.sleep(0.001)


def tokens_of(reply) -> set[int]:
    return {int(token) - FIRST_TOKEN for token in reply.text.split()}


def test_replies_come_from_one_thread_and_do_not_wait_for_one_another(sampler, engine):
    async def main():
        engine.hold()
        long, short = ask(sampler, 1, 40), ask(sampler, 2, 3)
        await begun(engine, 2)
        engine.allow(4)
        await short
        assert not long.done()
        later = ask(sampler, 3, 2)  # joins the batch that runs
        await begun(engine)
        engine.allow(4)
        await later
        assert not long.done()
        engine.allow()
        return await long

    assert run(main()).completion_tokens == 40
    assert engine.threads == {"vllm"}


def test_event_loop_goes_on_while_the_engine_computes(sampler, engine):
    async def main():
        engine.hold(stuck=True)
        reply = ask(sampler)
        assert await asyncio.to_thread(engine.is_stuck.wait, WAIT_S)
        for _ in range(100):
            await asyncio.sleep(0)
        assert not reply.done()
        engine.allow()
        await reply

    run(main())


def test_push_serves_what_begins_after_it_and_leaves_what_runs(sampler, engine, folder):
    async def main():
        sampler.load_first(PolicyDouble())
        assert sampler.version == 0
        engine.hold()
        early = ask(sampler, 1, 30)
        await begun(engine)
        await asyncio.to_thread(sampler.push, PolicyDouble())
        assert sampler.version == 1 and not early.done()
        late = ask(sampler, 2, 5)
        await begun(engine)
        engine.allow(10)
        assert tokens_of(await late) == {1}
        assert {adapter.version for adapter in engine.adapters} == {0, 1} and len(list(folder.iterdir())) == 2
        engine.allow()
        assert tokens_of(await early) == {0}

    run(main())
    assert tokens_of(run(reply_of(sampler))) == {1}
    assert {adapter.version for adapter in engine.adapters} == {1}
    assert [path.name for path in folder.iterdir()] == [adapter.folder.name for adapter in engine.adapters]


async def reply_of(sampler, key=0, tokens=5):
    return await ask(sampler, key, tokens)


def test_many_pushes_leave_one_adapter(sampler, engine, folder):
    names = set()
    for version in range(1, 8):
        sampler.push(PolicyDouble())
        assert sampler.version == version and tokens_of(run(reply_of(sampler))) == {version}
        names |= {path.name for path in folder.iterdir()}
    assert len(names) == 7 and len(engine.adapters) == len(list(folder.iterdir())) == 1


def test_without_a_push_no_adapter_is_asked_for(sampler, engine):
    assert tokens_of(run(reply_of(sampler))) == {0} and not engine.adapters


def test_all_weights_are_changed_between_replies(sampler, engine, folder):
    async def main():
        engine.hold()
        early, given_up = ask(sampler, 1, 30), ask(sampler, 2, 60)
        await begun(engine, 2)
        engine.hold(stuck=True)
        assert await asyncio.to_thread(engine.is_stuck.wait, WAIT_S)
        push = asyncio.create_task(asyncio.to_thread(sampler.push, PolicyDouble(adapted=False)))
        await in_line(sampler)
        late = ask(sampler, 3, 4)
        await in_line(sampler, 2)
        given_up.cancel()
        engine.allow(5)
        await asyncio.gather(given_up, return_exceptions=True)
        assert not push.done() and not late.done() and not early.done()
        engine.allow()
        await push
        return await early, await late

    early, late = run(main())
    assert tokens_of(early) == {0} and tokens_of(late) == {1}
    assert sampler.version == 1 and len(engine.log) == 4 and engine.log[2][0] == "abort", "a cancelled reply does not hold it up"
    assert not list(folder.iterdir())


@pytest.mark.parametrize("how", ["cancelled", "closed", "loop ended"])
def test_abandoned_replies_are_aborted(sampler, engine, how):
    async def main():
        engine.hold()
        session = sampler.session(1)
        task = asyncio.create_task(session.reply([Message("user", "5")], 80))
        await begun(engine)
        if how == "loop ended":
            return
        task.cancel() if how == "cancelled" else session.close()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not session.sequence.ids

    run(main())
    engine.allow()
    assert tokens_of(run(reply_of(sampler))) == {0}
    assert sorted(kind for kind, _ in engine.log) == ["abort", "add", "add"] and not engine.running


def test_reply_cancelled_before_it_began_never_begins(sampler, engine):
    async def main():
        engine.hold(stuck=True)
        first = ask(sampler, 1, 5)
        assert await asyncio.to_thread(engine.is_stuck.wait, WAIT_S)
        second = ask(sampler, 2, 5)
        await in_line(sampler)
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        engine.allow()
        await first

    run(main())
    assert [kind for kind, _ in engine.log] == ["add"]


def test_wait_for_a_reply_is_bounded(engine, folder):
    sampler = VllmSampler(lambda: engine, NumberChat(), 90, PushedWeights(folder), 0.2)
    engine.hold()
    with pytest.raises(InfrastructureError, match="no reply within 0.2 s; raise harness.deadline_s"):
        run(reply_of(sampler))
    while engine.running:
        time.sleep(0.001)
    sampler.close()
    assert [kind for kind, _ in engine.log] == ["add", "abort"]


def test_wait_for_a_push_is_bounded(engine, folder, monkeypatch):
    monkeypatch.setattr(vllm_sampler, "PUSH_S", 0.1)
    monkeypatch.setattr(vllm_sampler, "CLOSE_S", 0.1)
    sampler = VllmSampler(lambda: engine, NumberChat(), 90, PushedWeights(folder), 0.2)

    async def main():
        engine.hold(stuck=True)
        ask(sampler)
        assert await asyncio.to_thread(engine.is_stuck.wait, WAIT_S)
        await asyncio.to_thread(sampler.push, PolicyDouble())

    with pytest.raises(InfrastructureError, match="pushing weights to vLLM hung"):
        run(main())
    sampler.close()  # although the engine hangs
    engine.allow()


def test_engine_that_fails_fails_what_runs_waits_and_comes(sampler, engine):
    async def main():
        engine.hold(stuck=True)
        running = ask(sampler, 1)
        assert await asyncio.to_thread(engine.is_stuck.wait, WAIT_S)
        waiting = ask(sampler, 2)
        await in_line(sampler)
        push = asyncio.create_task(asyncio.to_thread(sampler.push, PolicyDouble()))
        await in_line(sampler, 2)
        engine.fault = RuntimeError("CUDA error")
        engine.allow()
        return await asyncio.gather(running, waiting, push, return_exceptions=True)

    results = run(main())
    results += [error_of(lambda: run(reply_of(sampler))), error_of(lambda: sampler.push(PolicyDouble()))]
    assert all(
        isinstance(error, InfrastructureError) and "vLLM failed (RuntimeError: CUDA error); start" in str(error) for error in results
    )
    assert engine.closed


def error_of(call):
    with pytest.raises(InfrastructureError) as caught:
        call()
    return caught.value


def test_faults_of_one_request_are_its_own(sampler, engine):
    async def main():
        session = sampler.session(1)
        session.sequence.extend([5] * 120, 0)
        refused = asyncio.create_task(sampler.generate(session, 5))
        broken, fine = ask(sampler, 2, 13), ask(sampler, 3, 14)
        return await asyncio.gather(refused, broken, fine, return_exceptions=True)

    refused, broken, fine = run(main())
    assert isinstance(refused, InfrastructureError) and "the prompt is too long" in str(refused)
    assert isinstance(broken, InfrastructureError) and str(broken) == "it broke"
    assert fine.completion_tokens == 14


@pytest.mark.parametrize("adapted", [True, False])
def test_fault_at_the_beginning_of_a_reply_or_the_end_of_a_push_is_told_at_once(sampler, engine, monkeypatch, adapted):
    def broken(*_):
        raise RuntimeError("CUDA error")

    sampler.push(PolicyDouble())
    monkeypatch.setattr(engine, "drop_adapter" if adapted else "add", broken)
    began = time.monotonic()
    with pytest.raises(InfrastructureError, match=r"vLLM failed \(RuntimeError: CUDA error\)"):
        sampler.push(PolicyDouble()) if adapted else run(reply_of(sampler))
    assert time.monotonic() - began < WAIT_S / 2


def test_folders_of_a_killed_process_are_deleted(folder):
    left = PushedWeights(folder).save(PolicyDouble())
    assert left.exists()
    PushedWeights(folder)
    assert not left.exists()


def test_adapter_that_is_not_loaded_leaves_the_last_one(sampler, engine, folder):
    sampler.push(PolicyDouble())
    engine.load_fault = ValueError("rank 64 is over max_lora_rank 16")
    with pytest.raises(InfrastructureError, match=r"did not load the adapter of version 2 \(ValueError: rank 64"):
        sampler.push(PolicyDouble())
    assert sampler.version == 1 and len(list(folder.iterdir())) == 1
    assert tokens_of(run(reply_of(sampler))) == {1}


def test_weights_that_are_half_loaded_are_never_sampled_from(sampler, engine):
    engine.load_fault = RuntimeError("shape")
    with pytest.raises(InfrastructureError, match="did not load the weights of version 1"):
        sampler.push(PolicyDouble(adapted=False))
    with pytest.raises(InfrastructureError, match="vLLM failed"):
        run(reply_of(sampler))
    assert sampler.version == 0


def test_engine_that_cannot_be_made_is_said_so(folder):
    def make():
        raise ConfigError("policy.lora.rank: 600 is over vLLM's 512")

    with pytest.raises(ConfigError, match="policy.lora.rank"):
        VllmSampler(make, NumberChat(), 90, PushedWeights(folder), WAIT_S)


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vLLM is installed")
def test_missing_vllm_is_one_line_that_says_what_to_do(folder):
    params = config.validate({"name": "test", "policy": {"sampler": "vllm"}})
    with pytest.raises(ConfigError, match="policy.sampler: vllm needs vLLM .*tools/install.py --profile") as caught:
        vllm_sampler.build(params, bare_policy(), folder)
    assert "\n" not in str(caught.value)


def test_close_ends_replies_thread_engine_and_folders(sampler, engine, folder):
    sampler.push(PolicyDouble())

    async def main():
        engine.hold()
        running = ask(sampler)
        await begun(engine)
        closing = asyncio.create_task(asyncio.to_thread(sampler.close))
        while not sampler._closing.is_set():
            await asyncio.sleep(0.001)
        engine.allow(1)
        with pytest.raises(InfrastructureError, match="is closed"):
            await running
        await closing

    run(main())
    assert engine.closed and not sampler._thread.is_alive() and not list(folder.iterdir())
    with pytest.raises(InfrastructureError, match="is closed"):
        run(reply_of(sampler))
    sampler.close()


def test_seeds_follow_the_conversations_key(sampler, engine):
    async def main():
        for key in (1, 1, 2):
            session = sampler.session(key)
            for prompt in ("5", "6"):
                await session.reply([Message("user", prompt)], 3)

    run(main())
    seeds = [seed for _, seed in engine.log]
    assert seeds[:2] == seeds[2:4] and len(set(seeds)) == 4


def test_several_event_loops_at_once(sampler, engine):
    counts = []

    def work(number):
        async def main():
            replies = await asyncio.gather(*(ask(sampler, number * 10 + key, 3 + key) for key in range(5)))
            counts.append([reply.completion_tokens for reply in replies])

        run(main())

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert counts == [[3, 4, 5, 6, 7]] * 4


def test_disk_that_does_not_take_the_weights_is_named(sampler, monkeypatch):
    import errno

    from rlmlib.errors import RunError

    def full(self, folder):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(PolicyDouble, "save_adapter", full)
    with pytest.raises(RunError, match="the disk is full"):
        sampler.push(PolicyDouble())
    assert sampler.version == 0
