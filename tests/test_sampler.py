"""The batched sampler against transformers' own forward: same log-probs, whatever the batch, over kept caches."""

import asyncio
import threading
from types import SimpleNamespace

import pytest
import torch
from support import NumberChat, bare_policy, dense, tiny_model, with_adapter

from rlmlib.models.base import ContextFull, Message
from rlmlib.models.torch_sampler import TorchSampler
from rlmlib.training.policy import Policy
from rlmlib.training.step import token_logprobs

TEMPERATURE = 0.7
PROMPTS = ["5 6 7", "8 9 10 11 12 13 14 15", "20", "21 22 23 24 25", "30 31", "4 4 4 4 4 4 4 4 4 4 4 4", "17 18 19"]
OBSERVATIONS = ["12 13", "5", "33 34 35 36 37 38 39", "6 7 8", "9", "10 11 12 13", "14 15 16 17 18"]


def say(numbers: str) -> list[Message]:
    return [Message("user", numbers)]


def converse(sampler, keys=range(7), turns=3, tokens=40):
    """Sessions after some turns in one batch, their replies by turn, and their sequences' ids after each turn."""

    async def one(session, row):
        replies, ids = [], []
        for turn in range(turns):
            prompt = PROMPTS[row] if turn == 0 else OBSERVATIONS[(row + turn) % 7]
            replies.append(await session.reply(say(prompt), tokens))
            ids.append(list(session.sequence.ids))
        session.close()
        return session, replies, ids

    async def all_of_them():
        sessions = [(sampler.session(3, key), key) for key in keys]
        return await asyncio.gather(*(one(session, key) for session, key in sessions))

    return asyncio.run(asyncio.wait_for(all_of_them(), 60))


def sampler_of(model, **changes):
    return TorchSampler(dense(model), NumberChat(), **{"temperature": TEMPERATURE, "max_sequence": 200, **changes})


def true_logprobs(model, sequence, temperature=TEMPERATURE):
    """Of the sampled tokens, from one plain forward over the whole conversation."""
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([sequence.ids])).logits[0].float()
    chosen = (logits / temperature).log_softmax(-1)
    return [chosen[i - 1, t].item() for i, (t, m) in enumerate(zip(sequence.ids, sequence.mask, strict=True)) if m]


def sampled_logprobs(sequence):
    return [lp for lp, m in zip(sequence.logprobs, sequence.mask, strict=True) if m]


@pytest.fixture(scope="module")
def model():
    return tiny_model(seed=3)


@pytest.fixture(scope="module")
def batch(model):
    return converse(sampler_of(model))


def test_batch_is_ragged_and_its_rows_end_at_different_times(batch):
    """Else the tests below would say less than they seem to."""
    lengths = [[r.completion_tokens for r in replies] for _, replies, _ in batch]
    assert all(len({row[turn] for row in lengths}) > 2 for turn in range(3))
    assert any(r.truncated for _, replies, _ in batch for r in replies) and not all(r.truncated for _, replies, _ in batch for r in replies)


@pytest.mark.parametrize("row", range(7))
def test_logprobs_are_those_of_transformers_over_all_turns(model, batch, row):
    sequence = batch[row][0].sequence
    assert sampled_logprobs(sequence) == pytest.approx(true_logprobs(model, sequence), abs=1e-4)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.0])
def test_logprobs_are_at_the_sampling_temperature(model, temperature):
    for session, _, _ in converse(sampler_of(model, temperature=temperature), keys=range(3)):
        wanted = true_logprobs(model, session.sequence, temperature)
        assert sampled_logprobs(session.sequence) == pytest.approx(wanted, abs=1e-4)


def test_trainer_sees_the_same_logprobs_as_the_sampler():
    policy = bare_policy(adapter=True)
    sessions = converse(TorchSampler(policy.dense_weights(), policy.chat, TEMPERATURE, 200))
    with torch.no_grad():
        trainer, sampled, _, _ = token_logprobs(policy, [s.sequence for s, _, _ in sessions], TEMPERATURE)
    assert torch.allclose(trainer, sampled, atol=1e-4)


def test_adapter_is_in_the_sampled_logprobs():
    model = with_adapter(tiny_model())
    for session, _, _ in converse(sampler_of(model), keys=range(3)):
        assert sampled_logprobs(session.sequence) == pytest.approx(true_logprobs(model, session.sequence), abs=1e-4)


def test_adapter_of_the_tests_does_change_the_model(model):
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad():
        assert (with_adapter(tiny_model(seed=3))(input_ids=ids).logits - model(input_ids=ids).logits).abs().max() > 0.1


def test_dense_weights_are_copies():
    policy = bare_policy(adapter=True)
    sampler = TorchSampler(policy.dense_weights(), policy.chat, TEMPERATURE, 200)
    before = converse(sampler, keys=range(2))
    with torch.no_grad():
        for parameter in policy.trainable:
            parameter.add_(1.0)
    after = converse(sampler, keys=range(2))
    assert [s.sequence for s, _, _ in before] == [s.sequence for s, _, _ in after]


@pytest.mark.parametrize("key", range(7))
def test_alone_a_session_samples_what_it_samples_in_a_batch(model, batch, key):
    alone = converse(sampler_of(model), keys=[key])[0][0]
    assert alone.sequence.ids == batch[key][0].sequence.ids


def test_order_of_the_sessions_changes_nothing(model, batch):
    turned = converse(sampler_of(model), keys=range(6, -1, -1))
    assert [s.sequence.ids for s, _, _ in turned[::-1]] == [s.sequence.ids for s, _, _ in batch]


def test_same_keys_sample_the_same_again(model, batch):
    assert [s.sequence for s, _, _ in converse(sampler_of(model))] == [s.sequence for s, _, _ in batch]


def test_other_keys_sample_otherwise(model):
    async def first_reply(key):
        session = sampler_of(model).session(key)
        await session.reply(say("5 6 7"), 12)
        return session.sequence.ids

    assert asyncio.run(first_reply(1)) != asyncio.run(first_reply(2))


def test_each_turn_extends_the_one_before_exactly(batch):
    for _, _, ids in batch:
        assert ids[1][: len(ids[0])] == ids[0] and ids[2][: len(ids[1])] == ids[1]


def test_conversation_is_what_was_said(batch):
    """Prompts are masked out, replies are not, and a truncated reply is closed by an end token of ours."""
    chat = NumberChat()
    for row, (session, replies, _) in enumerate(batch):
        expected, at = [], 0
        for turn, reply in enumerate(replies):
            prompt = chat.prompt_ids(say(PROMPTS[row] if turn == 0 else OBSERVATIONS[(row + turn) % 7]))
            if turn and replies[turn - 1].truncated:
                prompt = [chat.end_id, *prompt]
            own = session.sequence.ids[at + len(prompt) : at + len(prompt) + reply.completion_tokens]
            expected += [*((i, 0) for i in prompt), *((i, 1) for i in own)]
            at = len(expected)
        assert list(zip(session.sequence.ids, session.sequence.mask, strict=True)) == expected


def test_prompt_tokens_have_no_logprob(batch):
    for session, _, _ in batch:
        s = session.sequence
        assert all(lp == 0.0 for lp, m in zip(s.logprobs, s.mask, strict=True) if not m)


def test_prompt_tokens_count_the_whole_conversation(batch):
    for _, replies, ids in batch:
        assert [r.prompt_tokens + r.completion_tokens for r in replies] == [len(i) for i in ids]


def test_truncated_reply_fills_its_limit(batch):
    replies = [r for _, replies, _ in batch for r in replies]
    assert all(r.completion_tokens == 40 for r in replies if r.truncated)


def test_finished_reply_ends_with_the_end_token(batch):
    for _, replies, ids in batch:
        assert all((i[-1] == NumberChat.end_id) is not r.truncated for r, i in zip(replies, ids, strict=True))


def test_no_token_is_sampled_after_the_end_token(batch):
    for session, _, _ in batch:
        s = session.sequence
        ends = [i for i, (t, m) in enumerate(zip(s.ids, s.mask, strict=True)) if m and t == NumberChat.end_id]
        assert all(i + 1 == len(s.ids) or not s.mask[i + 1] for i in ends)


def test_full_conversation_raises(model):
    async def fill():
        session = sampler_of(model, max_sequence=10).session(0)
        await session.reply(say("5 6 7 8 9 10 11 12 13"), 5)

    with pytest.raises(ContextFull):
        asyncio.run(fill())


def test_prompt_that_leaves_one_token_is_answered_by_one(model):
    async def fill():
        session = sampler_of(model, max_sequence=10).session(0)
        return await session.reply(say("5 6 7 8 9 10 11 12"), 5)

    assert asyncio.run(fill()).completion_tokens == 1


def test_refused_prompt_is_not_in_the_conversation(model):
    async def fill():
        session = sampler_of(model, max_sequence=20).session(0)
        await session.reply(say("5 6 7"), 3)
        before = list(session.sequence.ids)
        with pytest.raises(ContextFull):
            await session.reply(say("5 " * 30), 3)
        return before, session.sequence.ids

    before, after = asyncio.run(fill())
    assert before == after


def test_conversation_never_grows_beyond_its_limit(model):
    async def fill(session):
        with pytest.raises(ContextFull):
            while True:
                await session.reply(say("5 6 7"), 12)
        session.close()
        return len(session.sequence.ids)

    async def all_of_them(sampler):
        return await asyncio.gather(*(fill(s) for s in [sampler.session(i) for i in range(4)]))

    assert max(asyncio.run(all_of_them(sampler_of(model, max_sequence=50)))) <= 50


def lengths_in_one_batch(sampler, prompts, tokens):
    async def one(session, prompt):
        reply = await session.reply(say(prompt), tokens)
        session.close()
        return reply.completion_tokens

    async def all_of_them():
        sessions = [sampler.session(i) for i in range(len(prompts))]
        return await asyncio.gather(*(one(s, p) for s, p in zip(sessions, prompts, strict=True)))

    return asyncio.run(all_of_them())


def test_row_at_the_models_last_position_can_share_a_batch_with_short_ones():
    """The nearly full row ends first and rides along; it must not run off the position table."""
    sampler = sampler_of(tiny_model(positions=64, seed=1), max_sequence=64)
    lengths = lengths_in_one_batch(sampler, ["5 " * 60, "6", "7", "8", "9"], 40)
    assert lengths[0] <= 3 and max(lengths) > 10


def test_row_near_the_models_last_position_can_share_a_batch_with_a_long_prompt():
    """The other row's prompt is longer than what is left of the table behind the nearly full row."""
    sampler = sampler_of(tiny_model(positions=64, seed=1), max_sequence=64)

    async def near_full(session):
        await session.reply(say("5 " * 50), 4)
        reply = await session.reply(say("6"), 4)
        session.close()
        return reply

    async def fresh(session):
        await session.reply(say("7"), 4)
        reply = await session.reply(say("8 " * 40), 10)
        session.close()
        return reply

    async def both():
        first, second = sampler.session(0), sampler.session(1)
        return await asyncio.gather(near_full(first), fresh(second))

    assert all(r.completion_tokens for r in asyncio.run(both()))


def test_conversation_longer_than_the_models_positions_is_refused_at_the_start():
    with pytest.raises(Exception, match=r"max_sequence|position"):
        sampler_of(tiny_model(positions=64), max_sequence=65)


def test_batch_waits_for_every_open_session(model):
    async def both():
        sampler = sampler_of(model)
        first, second = sampler.session(0), sampler.session(1)
        task = asyncio.create_task(first.reply(say("5"), 3))
        await asyncio.sleep(0.02)
        waited = not task.done()
        await second.reply(say("6"), 3)
        await task
        return waited

    assert asyncio.run(both())


def test_session_that_leaves_no_longer_holds_up_the_others(model):
    async def both():
        sampler = sampler_of(model)
        first, second = sampler.session(0), sampler.session(1)
        task = asyncio.create_task(first.reply(say("5"), 3))
        await asyncio.sleep(0)
        second.close()
        return await asyncio.wait_for(task, 10)

    assert asyncio.run(both()).completion_tokens > 0


def with_child(sampler, slow: float = 0.0):
    """Two conversations, the first of which waits for a child of its own; the tokens of all three."""

    async def parent():
        session = sampler.session(1)
        await session.reply(say("5"), 4)
        await asyncio.sleep(slow)  # as code would run: the others wait for it
        child = session.child()
        await child.reply(say("7"), 4)
        child.close()
        await session.reply(say("8"), 4)
        session.close()
        return [session.sequence.ids, child.sequence.ids]

    async def other():
        session = sampler.session(2)
        for text in ("6", "9", "10"):
            await session.reply(say(text), 4)
        session.close()
        return [session.sequence.ids]

    async def both():
        first, second = await asyncio.wait_for(asyncio.gather(parent(), other()), 10)
        return first + second

    return asyncio.run(both())


def test_conversation_that_waits_for_its_child_holds_nobody_up(model):
    assert all(len(ids) > 2 for ids in with_child(sampler_of(model)))


def test_with_children_the_result_does_not_depend_on_timing(model):
    assert with_child(sampler_of(model)) == with_child(sampler_of(model), slow=0.05)


def test_children_have_random_streams_of_their_own(model):
    session = sampler_of(model).session(1)
    keys = [session.key, session.child().key, session.child().key]
    assert len(set(keys)) == 3


def test_failure_of_a_batch_reaches_every_rollout_of_it(model):
    class Broken:
        layers = ()

    async def both():
        sampler = sampler_of(model)
        sampler.push(SimpleNamespace(dense_weights=Broken))
        sessions = [sampler.session(i) for i in range(2)]
        return await asyncio.gather(*(s.reply(say("5"), 3) for s in sessions), return_exceptions=True)

    assert all(isinstance(e, Exception) for e in asyncio.run(both()))


def test_tokens_are_drawn_with_their_probability(model):
    """3,000 first tokens against their exact distribution: chi-square of 40 outcomes below 100 (p < 1e-6)."""
    sampler = sampler_of(model)
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([[5, 6, 7, 3]])).logits[0, -1].float()
    expected = (logits / TEMPERATURE).softmax(-1) * 3000
    weights = dense(model)
    hidden = weights.forward(*_one_row(weights, [5, 6, 7, 3]))[:, -1].expand(3000, -1)
    drawn = sampler._pick(weights, hidden, torch.rand(3000, generator=torch.Generator().manual_seed(0)))[0]
    counts = torch.bincount(drawn, minlength=len(expected)).float()
    assert ((counts - expected) ** 2 / expected.clamp(min=0.5)).sum() < 100


def _one_row(weights, ids):
    return torch.tensor([ids]), torch.arange(len(ids))[None], weights.new_cache(1, len(ids)), len(ids)


def cut_off(sampler, seconds=0.02):
    """A session whose reply was cancelled while it waited for another; that other one."""

    async def run():
        first, second = sampler.session(0), sampler.session(1)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(first.reply(say("5 6"), 4), seconds)
        return first, second

    return run()


def test_reply_that_was_cut_off_leaves_the_conversation_as_it_was(model):
    async def run():
        first, second = await cut_off(sampler_of(model))
        assert first.sequence.ids == [] == first.sequence.logprobs
        replies = await asyncio.wait_for(asyncio.gather(first.reply(say("7"), 4), second.reply(say("8"), 4)), 10)
        assert first.sequence.ids[:2] == [7, NumberChat.opening]
        return replies, first

    replies, first = asyncio.run(run())
    assert all(reply.completion_tokens for reply in replies)
    assert sampled_logprobs(first.sequence) == pytest.approx(true_logprobs(model, first.sequence), abs=1e-4)


def test_reply_that_was_sampled_but_not_taken_is_forgotten(model):
    async def run():
        sampler = sampler_of(model)
        first, second = sampler.session(0), sampler.session(1)
        await asyncio.gather(first.reply(say("5"), 4), second.reply(say("6"), 4))
        said = list(first.sequence.ids)
        task = asyncio.ensure_future(first.reply(say("7"), 4))
        await asyncio.sleep(0)
        deliver, caches = sampler._deliver, []

        def deliver_and_cancel(*batch):
            deliver(*batch)
            caches.append(first.cached)
            task.cancel()

        sampler._deliver = deliver_and_cancel
        await second.reply(say("8"), 4)  # samples for both
        sampler._deliver, sampled = deliver, caches[0]
        with pytest.raises(asyncio.CancelledError):
            await task
        assert sampled > len(said) == first.cached and first.sequence.ids == said
        await asyncio.gather(first.reply(say("9"), 4), second.reply(say("10"), 4))
        return first

    session = asyncio.run(run())
    assert sampled_logprobs(session.sequence) == pytest.approx(true_logprobs(model, session.sequence), abs=1e-4)


def test_reply_cancelled_in_the_same_step_as_another_asks_costs_the_others_nothing(model):
    async def run():
        sampler = sampler_of(model)
        sessions = [sampler.session(i) for i in range(3)]

        async def ask(session):
            try:
                return await session.reply(say("5 6"), 4)
            finally:
                session.close()

        first, third = asyncio.ensure_future(ask(sessions[0])), asyncio.ensure_future(ask(sessions[2]))
        await asyncio.sleep(0.01)
        first.cancel()
        return await asyncio.wait_for(asyncio.gather(ask(sessions[1]), third), 10)

    assert all(reply.completion_tokens for reply in asyncio.run(run()))


# --- in a thread of its own, and new weights on the way


def test_without_waiting_for_all_the_log_probs_are_the_same(model):
    for session, _, _ in converse(sampler_of(model, together=False)):
        assert sampled_logprobs(session.sequence) == pytest.approx(true_logprobs(model, session.sequence), abs=1e-4)


def test_a_conversation_goes_on_while_another_one_waits_for_a_leaf(model):
    async def two():
        sampler = sampler_of(model, together=False)
        busy, idle = sampler.session(1), sampler.session(2)
        await idle.reply(say("5"), 3)  # and then asks for nothing
        return [await busy.reply(say("5"), 3) for _ in range(3)]

    assert len(asyncio.run(asyncio.wait_for(two(), 30))) == 3


def test_the_event_loop_runs_while_a_batch_is_sampled(model, monkeypatch):
    started, go_on = threading.Event(), threading.Event()

    async def both():
        sampler = sampler_of(model, together=False)
        sample = sampler._sample

        def slow(batch):
            started.set()
            assert go_on.wait(30)
            return sample(batch)

        monkeypatch.setattr(sampler, "_sample", slow)
        reply = asyncio.create_task(sampler.session(1).reply(say("5"), 3))
        while not started.is_set():
            await asyncio.sleep(0.001)
        go_on.set()  # only a loop that runs gets here
        return await reply

    assert asyncio.run(asyncio.wait_for(both(), 30)).completion_tokens


@pytest.mark.parametrize("together", [True, False])
def test_the_next_reply_after_a_push_is_of_the_new_weights_alone(model, together):
    """Its log-probs are those of the new weights over the whole conversation: nothing cached of the old ones is left."""
    moved = with_adapter(tiny_model(seed=3), seed=5)

    async def talk():
        sampler = sampler_of(model, together=together)
        session = sampler.session(1)
        await session.reply(say(PROMPTS[1]), 20)
        before = len(session.sequence.ids)
        sampler.push(Policy(moved, NumberChat()))
        await session.reply(say(PROMPTS[0]), 20)
        return session.sequence, before

    sequence, before = asyncio.run(asyncio.wait_for(talk(), 30))
    old, new = true_logprobs(model, sequence), true_logprobs(moved, sequence)
    first = sum(sequence.mask[:before])
    sampled = sampled_logprobs(sequence)
    assert sampled[:first] == pytest.approx(old[:first], abs=1e-4)
    assert sampled[first:] == pytest.approx(new[first:], abs=1e-4)
    assert sampled[first:] != pytest.approx(old[first:], abs=1e-2)


def test_a_reply_that_is_cut_off_while_it_is_sampled_leaves_the_conversation_as_it_was(model):
    async def cut():
        sampler = sampler_of(model, together=False)
        session = sampler.session(1)
        await session.reply(say("5 6"), 5)
        before = (list(session.sequence.ids), session.cached)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(session.reply(say("7"), 150), 1e-4)
        after = (list(session.sequence.ids), session.cached)
        await session.reply(say("8"), 5)
        return before, after, session.sequence

    before, after, sequence = asyncio.run(asyncio.wait_for(cut(), 30))
    assert before == after
    assert sampled_logprobs(sequence) == pytest.approx(true_logprobs(model, sequence), abs=1e-4)
