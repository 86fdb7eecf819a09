"""What a step trains on of a rollout's tree, and the policy as its own leaf."""

import asyncio

import pytest
from support import NumberChat, dense, tiny_model

from rlmlib.config import Training, validate
from rlmlib.engine import Attempt, Engine
from rlmlib.errors import ConfigError
from rlmlib.harness.trajectory import Call, Rollout, Turn
from rlmlib.models.base import Message
from rlmlib.models.conversation import TokenSequence
from rlmlib.models.policy_leaf import PolicyLeaf
from rlmlib.models.torch_sampler import TorchSampler
from rlmlib.scoring.reward import advantages
from rlmlib.training.groups import Batch, Group, jobs_of, train_items, trained_sequences
from rlmlib.training.step import token_logprobs
from rlmlib.training.trainers import load_policy


def sequence(number: int) -> TokenSequence:
    return TokenSequence([number, number], [0, 1], [0.0, -0.5])


def tree() -> Rollout:
    """A root (1) with a leaf call of a model behind an API, two subcalls of the policy (10, 11) and two children (2, 3); the first
    child has a subcall of its own (12)."""
    first = Rollout(sequence=sequence(2), depth=1, turns=[Turn("child", "", calls=[Call("leaf", "policy", "p", sequence=sequence(12))])])
    second = Rollout(sequence=sequence(3), depth=1, turns=[Turn("child", "")])
    calls = [
        Call("leaf", "gemini", "p"),
        Call("leaf", "policy", "p", sequence=sequence(10)),
        Call("leaf", "policy", "p", sequence=sequence(11)),
        Call("child", "policy", "p", child=first),
        Call("child", "policy", "p", child=second),
    ]
    return Rollout(sequence=sequence(1), turns=[Turn("root", "", calls=calls)])


def weights(rollout: Rollout, **config) -> dict[int, float]:
    return {found.ids[0]: weight for found, weight in trained_sequences(rollout, Training(**config))}


def test_children_are_trained_as_the_root_and_subcalls_are_not():
    assert weights(tree()) == {1: 1.0, 2: 1.0, 3: 1.0}


def test_children_can_share_one_weight():
    assert weights(tree(), child_weight="share") == {1: 1.0, 2: 0.5, 3: 0.5}


def test_a_rollout_without_children_has_no_share_to_give():
    assert weights(Rollout(sequence=sequence(1), turns=[Turn("root", "")]), child_weight="share") == {1: 1.0}


@pytest.mark.parametrize(("count", "subcalls"), [(1, {10}), (2, {10, 11}), (9, {10, 11, 12})])
def test_the_first_subcalls_of_the_policy_can_be_trained(count, subcalls):
    assert set(weights(tree(), trained_subcalls=count)) == {1, 2, 3} | subcalls


def test_every_part_of_a_tree_carries_the_advantage_of_its_rollout():
    rollouts = [tree(), Rollout(sequence=sequence(7), turns=[Turn("root", "")])]
    attempts = [Attempt(None, index, rollout, not index) for index, rollout in enumerate(rollouts)]
    batch = Batch([Group(0, attempts, [1.0, 0.0], "kept")])
    items = train_items(batch, Training(child_weight="share"))
    up, down = advantages([1.0, 0.0])
    assert {item.sequence.ids[0]: item.advantage for item in items} == {1: up, 2: up / 2, 3: up / 2, 7: down}


def test_trained_subcalls_without_the_policy_as_leaf_are_refused():
    with pytest.raises(ConfigError, match="leaf.engine: policy"):
        validate({"name": "x", "training": {"trained_subcalls": 2}})


# --- the policy as its own leaf


def test_the_policy_answers_each_subcall_in_a_conversation_of_its_own():
    async def ask():
        sampler = TorchSampler(dense(tiny_model(seed=3)), NumberChat(), 0.7, 200)
        root = sampler.session(1)
        await root.reply([Message("user", "5 6 7")], 5)
        said = list(root.sequence.ids)
        leaf = PolicyLeaf(root, 8)
        replies = await asyncio.gather(*(leaf.complete(prompt) for prompt in ("8 9", "8 9", "10")))
        assert root.sequence.ids == said and root.waits_for == 0
        assert leaf.count_tokens("8 9") == 3
        return replies

    replies = asyncio.run(asyncio.wait_for(ask(), 30))
    assert [reply.sequence.ids[:3] for reply in replies] == [[8, 9, 3], [8, 9, 3], [10, 3, *replies[2].sequence.ids[2:3]]]
    assert replies[0].text != replies[1].text  # streams of their own
    assert all(sum(reply.sequence.mask) == reply.completion_tokens <= 8 for reply in replies)


@pytest.fixture(scope="module")
def own_leaf():
    """(params, policy, attempts) of rollouts of the tiny policy that answers its own subcalls, at depth 2."""
    params = validate(
        {
            "name": "own leaf",
            "harness": {"max_turns": 3, "depth": 2, "leaf_timeout_s": 20.0},
            "leaf": {"engine": "policy", "max_tokens": 12, "concurrency": 1},  # 1: were subcalls to wait in line, all would wait for all
            "tasks": {"min_chars": 1000, "max_chars": 1500, "coding": 0.0, "research": 0.65, "pool": 8},
            "training": {"trained_subcalls": 2},
        }
    )
    policy = load_policy(params)
    with Engine(params, policy) as engine:
        return params, policy, engine.run([job for prompt in range(6) for job in jobs_of(params, prompt, (prompt,))])


def test_rollouts_whose_subcalls_the_policy_answers(own_leaf):
    _, _, attempts = own_leaf
    calls = [call for a in attempts for part in a.rollout.tree() for call in part.calls if call.kind == "leaf" and call.error is None]
    assert all(a.rollout.error is None for a in attempts)
    assert len(calls) > 5
    assert all(call.model == "policy" and call.tokens.completion == sum(call.sequence.mask) > 0 for call in calls)
    assert sum(a.rollout.usage.leaf_tokens.completion for a in attempts) == sum(call.tokens.completion for call in calls)


def test_what_the_policy_sampled_as_a_leaf_has_the_trainers_log_probs(own_leaf):
    params, policy, attempts = own_leaf
    found = [s for a in attempts for s, _ in trained_sequences(a.rollout, params.training)]
    assert len(found) > len(attempts)
    trainer, sampler, _, _ = token_logprobs(policy, found, params.sampling.temperature)
    assert (trainer - sampler).abs().max() < 1e-3
