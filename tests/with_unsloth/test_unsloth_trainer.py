"""Unsloth and PEFT train the same policy: log-probs, gradients, steps and files agree. Runs in .venv-unsloth (make test-unsloth)."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("unsloth")  # before transformers, which it patches

import torch  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent.parent))
from support import VOCAB, NumberChat, tiny_model  # noqa: E402
from test_loss import conversations, step  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402
from tokenizers.models import WordLevel  # noqa: E402

from rlmlib import config  # noqa: E402
from rlmlib.training import base_model  # noqa: E402
from rlmlib.training.step import make_optimizer, token_logprobs, update  # noqa: E402
from rlmlib.training.trainers import load_policy  # noqa: E402

TRAINERS = ("peft", "unsloth")
NEVER_DROPPED = {"drop_threshold": 2.0}


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """Folder of a small base model with a tokenizer, which Unsloth wants to see."""
    folder = tmp_path_factory.mktemp("base")
    tiny_model(seed=3).save_pretrained(folder)
    words = {str(number): number for number in range(VOCAB - 1)}
    Tokenizer(WordLevel(words, unk_token="0")).save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture
def load(base, monkeypatch):
    monkeypatch.setattr(base_model, "chat_format", lambda *_: NumberChat())

    def load(trainer, **policy):
        sampling = {"max_turn_tokens": 20, "max_sequence_tokens": 200}
        values = {"name": "test", "sampling": sampling, "policy": {"model": str(base), "threads": 1, "trainer": trainer, **policy}}
        return load_policy(config.validate(values))

    return load


def move(policy, seed=0):
    """Changes everything that is trained."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in policy.trainable:
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return policy


def logprobs(policy):
    with torch.no_grad():
        return token_logprobs(policy, [item.sequence for item in conversations()], 0.7)[0]


@pytest.mark.parametrize("tuning", ["lora", "full"])
def test_log_probs_agree(load, tuning):
    ours, theirs = (logprobs(move(load(trainer, tuning=tuning))) for trainer in TRAINERS)
    assert torch.allclose(ours, theirs, rtol=0, atol=2e-6)


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("tuning", ["lora", "full"])
def test_gradients_agree(load, tuning, checkpointing):
    policies = [move(load(trainer, tuning=tuning, gradient_checkpointing=checkpointing)) for trainer in TRAINERS]
    (stats, gradient), (other_stats, other) = (step(policy, conversations(), **NEVER_DROPPED) for policy in policies)
    assert torch.allclose(gradient, other, rtol=1e-4, atol=1e-6 * float(gradient.abs().max()))
    assert stats == pytest.approx(other_stats, rel=1e-5)


def test_both_start_from_the_same_adapter(load):
    peft, unsloth = (load(trainer).trainable for trainer in TRAINERS)
    assert all(torch.equal(a, b) for a, b in zip(peft, unsloth, strict=True))


def test_five_steps_agree(load):
    losses = []
    for trainer in TRAINERS:
        policy, settings = move(load(trainer, gradient_checkpointing=True)), config.Training(lr=1e-3, **NEVER_DROPPED)
        optimizer = make_optimizer(policy, settings)
        losses.append([update(policy, optimizer, conversations(), settings, 0.7)["loss"] for _ in range(5)])
    assert losses[0] == pytest.approx(losses[1], rel=1e-4) and losses[0][0] > losses[0][-1]


@pytest.mark.parametrize(("writer", "reader"), [TRAINERS, TRAINERS[::-1]])
@pytest.mark.parametrize("tuning", ["lora", "full"])
def test_what_one_saved_the_other_loads(load, tmp_path, writer, reader, tuning):
    moved, fresh = move(load(writer, tuning=tuning)), load(reader, tuning=tuning)
    moved.save_adapter(tmp_path)
    fresh.load_adapter(tmp_path)
    assert torch.allclose(logprobs(fresh), logprobs(moved), rtol=0, atol=2e-6)


def test_adapter_of_unsloth_is_read_by_plain_peft(load, tmp_path):
    from peft import AutoPeftModelForCausalLM

    policy = move(load("unsloth"))
    policy.save_adapter(tmp_path)
    ids = torch.tensor([[5, 9, 3, 17]])
    with torch.no_grad():
        found = AutoPeftModelForCausalLM.from_pretrained(tmp_path).eval()(input_ids=ids).logits
        assert torch.allclose(found, policy.hidden_states(ids) @ policy.head.T, atol=1e-5)


def test_adapter_of_peft_is_read_by_unsloth_itself(load, tmp_path):
    from unsloth import FastLanguageModel

    policy = move(load("peft"))
    policy.save_adapter(tmp_path)
    model, _ = FastLanguageModel.from_pretrained(str(tmp_path), max_seq_length=200, dtype=torch.float32, load_in_4bit=False)
    ids = torch.tensor([[5, 9, 3, 17]])
    with torch.no_grad():
        assert torch.allclose(model.eval()(input_ids=ids).logits, policy.hidden_states(ids) @ policy.head.T, atol=1e-5)


def test_sampler_gets_the_same_merged_weights(load):
    ours, theirs = (move(load(trainer)).merged_state() for trainer in TRAINERS)
    assert ours.keys() == theirs.keys()
    assert all(torch.allclose(ours[name], theirs[name], atol=1e-6) for name in ours)


def test_modes_are_set_for_each_pass(load):
    policy = load("unsloth")
    step(policy, conversations(2))
    assert policy.model.training
    logprobs(policy)
    assert not policy.model.training


@pytest.mark.parametrize("trainer", TRAINERS)
def test_tiny_policy_is_the_same_by_both(trainer):
    """The shipped one: its log-probs of its own tokenizer's ids."""
    policy = load_policy(config.load("params/tiny.yaml", {"policy.threads": 1, "policy.trainer": trainer}))
    plain = load_policy(config.load("params/tiny.yaml", {"policy.threads": 1}), adapter=False)
    ids = torch.tensor([policy.chat.encode("print(len(context))")])
    with torch.no_grad():
        assert torch.allclose(policy.hidden_states(ids), plain.hidden_states(ids), atol=1e-5)
