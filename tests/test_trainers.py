"""LoRA and full tuning: gradients against finite differences, and files that plain transformers and PEFT read back."""

import json

import pytest
import torch
from support import VOCAB, NumberChat, bare_policy, tiny_model, with_adapter
from test_loss import conversations, step

from rlmlib import config
from rlmlib.errors import CheckpointError, ConfigError
from rlmlib.training import base_model
from rlmlib.training.policy import Policy
from rlmlib.training.step import token_logprobs
from rlmlib.training.trainers import load_policy

IDS = torch.tensor([[5, 9, 3, 17, 22, 8, 1, 30]])
NEVER_DROPPED = {"drop_threshold": 2.0}


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """Folder of a small base model."""
    folder = tmp_path_factory.mktemp("base")
    tiny_model(seed=3).save_pretrained(folder)
    return folder


@pytest.fixture
def load(base, monkeypatch):
    """load_policy of the small base model, with changes to policy.* and others."""
    monkeypatch.setattr(base_model, "chat_format", lambda *_: NumberChat())

    def load(adapter=True, sampling=None, **policy):
        values = {"name": "test", "sampling": {"max_turn_tokens": 20, "max_sequence_tokens": 200, **(sampling or {})}}
        return load_policy(config.validate({**values, "policy": {"model": str(base), "threads": 1, **policy}}), adapter)

    return load


def move(policy, seed=0):
    """Changes everything that is trained."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in policy.trainable:
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return policy


def logits(model, ids=IDS):
    with torch.no_grad():
        return model.eval()(input_ids=ids).logits


# --- gradients


def double(tuning: str) -> Policy:
    model = tiny_model(seed=4)
    for module in model.modules():
        if "RMSNorm" in type(module).__name__:  # those of transformers compute in float32
            module.forward = lambda x, m=module: torch.nn.functional.rms_norm(x, x.shape[-1:], m.weight, m.variance_epsilon)
    return Policy((with_adapter(model) if tuning == "lora" else model).double(), NumberChat(), logits_at_once=13)


@pytest.mark.parametrize("tuning", ["lora", "full"])
def test_step_gradient_is_that_of_finite_differences(tuning):
    policy, items, width = double(tuning), conversations(3), 1e-6
    gradient = step(policy, items, **NEVER_DROPPED)[1]
    start = torch.nn.utils.parameters_to_vector(policy.trainable).detach().clone()
    for seed in range(3):
        direction = torch.randn(len(start), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        losses = []
        for sign in (1, -1):
            torch.nn.utils.vector_to_parameters(start + sign * width * direction, policy.trainable)
            losses.append(step(policy, items, **NEVER_DROPPED)[0]["loss"])
        assert float(gradient @ direction) == pytest.approx((losses[0] - losses[1]) / (2 * width), rel=1e-5)


def test_full_tuning_trains_every_weight_once():
    policy = double("full")
    names = [name for name, _ in policy.model.named_parameters()]
    assert len(policy.trainable) == len(names) and "lm_head.weight" not in names  # it is the embedding


@pytest.mark.parametrize("tuning", ["lora", "full"])
@pytest.mark.parametrize("size", [1, 100])
def test_gradient_is_the_same_however_the_step_is_split(tuning, size):
    policy = double(tuning)
    whole, split = (step(policy, conversations(), micro_batch_tokens=tokens)[1] for tokens in (10**6, size))
    assert torch.allclose(split, whole, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("tuning", ["lora", "full"])
def test_gradient_checkpointing_changes_no_gradient(load, tuning):
    plain, checkpointed = (move(load(tuning=tuning, gradient_checkpointing=on)) for on in (False, True))
    found = [step(policy, conversations(), **NEVER_DROPPED) for policy in (plain, checkpointed)]
    assert torch.allclose(found[0][1], found[1][1], rtol=1e-5, atol=1e-8)
    assert found[0][0] == pytest.approx(found[1][0])


def saved_numbers(policy) -> int:
    """Numbers that autograd keeps for the backward pass of the body."""
    kept = {}
    ids = IDS.repeat(4, 8)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.setdefault(t.data_ptr(), t.numel()) and t, lambda t: t):
        policy.hidden_states(ids)
    return sum(kept.values())


def test_gradient_checkpointing_keeps_fewer_activations(load):
    assert saved_numbers(load(gradient_checkpointing=True)) < 0.5 * saved_numbers(load())


# --- modes


def logprobs(policy):
    return token_logprobs(policy, [item.sequence for item in conversations(3)], 0.7)[0].detach()


def test_dropout_is_on_in_a_gradient_step_and_off_elsewhere(load):
    policy = move(load(lora={"dropout": 0.5}))
    with torch.no_grad():
        before = logprobs(policy)
    assert not torch.equal(logprobs(policy), before)
    with torch.no_grad():
        assert torch.equal(logprobs(policy), before)


def test_without_dropout_the_model_stays_in_evaluation_mode(load):
    policy = load()
    step(policy, conversations(2))
    assert not any(module.training for module in policy.model.modules())


# --- files


def test_adapter_is_read_by_plain_peft_with_the_same_logits(load, tmp_path):
    from peft import AutoPeftModelForCausalLM

    policy = move(load())
    policy.save_adapter(tmp_path)
    assert torch.equal(logits(AutoPeftModelForCausalLM.from_pretrained(tmp_path)), logits(policy.model))


def test_adapter_config_names_its_base_rank_and_alpha(load, base, tmp_path):
    load(lora={"rank": 3, "alpha": 5}).save_adapter(tmp_path)
    saved = json.loads((tmp_path / "adapter_config.json").read_text())
    assert (saved["base_model_name_or_path"], saved["r"], saved["lora_alpha"]) == (str(base), 3, 5)


def test_tiny_adapter_is_read_by_plain_peft_with_the_same_logits(tmp_path):
    from peft import AutoPeftModelForCausalLM

    policy = move(load_policy(config.load("params/tiny.yaml", {"policy.threads": 1})))
    policy.save_adapter(tmp_path)
    assert torch.equal(logits(AutoPeftModelForCausalLM.from_pretrained(tmp_path)), logits(policy.model))


def test_fully_tuned_folder_is_read_by_transformers_with_the_same_logits(load, tmp_path):
    from transformers import AutoModelForCausalLM

    policy = move(load(tuning="full"))
    policy.save_adapter(tmp_path)
    assert {"config.json", "model.safetensors"} <= {path.name for path in tmp_path.iterdir()}
    assert torch.equal(logits(AutoModelForCausalLM.from_pretrained(tmp_path)), logits(policy.model))


def test_fully_tuned_tiny_policy_has_its_tokenizer(tmp_path):
    from tokenizers import Tokenizer

    policy = load_policy(config.load("params/tiny.yaml", {"policy.threads": 1, "policy.tuning": "full"}))
    policy.save_adapter(tmp_path)
    text = "print(context[:100])"
    assert Tokenizer.from_file(str(tmp_path / "tokenizer.json")).encode(text).ids == policy.chat.tokenizer.encode(text).ids


@pytest.mark.parametrize("tuning", ["lora", "full"])
def test_what_was_saved_comes_back(load, tuning, tmp_path):
    moved, fresh = move(load(tuning=tuning)), load(tuning=tuning)
    moved.save_adapter(tmp_path)
    assert not torch.equal(logits(fresh.model), logits(moved.model))
    fresh.load_adapter(tmp_path)
    assert torch.equal(logits(fresh.model), logits(moved.model))


@pytest.mark.parametrize(("saved", "loaded"), [("lora", "full"), ("full", "lora")])
def test_files_of_the_other_tuning_are_refused(load, saved, loaded, tmp_path):
    load(tuning=saved).save_adapter(tmp_path)
    with pytest.raises(CheckpointError, match=r"policy\.tuning"):
        load(tuning=loaded).load_adapter(tmp_path)


def test_adapter_of_another_rank_is_refused(load, tmp_path):
    load(lora={"rank": 4}).save_adapter(tmp_path)
    with pytest.raises(CheckpointError, match="not of this policy"):
        load(lora={"rank": 8}).load_adapter(tmp_path)


def test_weights_of_other_layers_are_refused(load, tmp_path):
    load(lora={"targets": ["q_proj", "down_proj"]}).save_adapter(tmp_path)
    with pytest.raises(CheckpointError, match="down_proj"):
        load(lora={"targets": ["q_proj"]}).load_adapter(tmp_path)


# --- merged weights


@pytest.mark.parametrize("tuning", ["lora", "full"])
def test_merged_weights_give_the_policys_logits(load, tuning):
    policy, plain = move(load(tuning=tuning)), tiny_model(seed=9)
    assert plain.load_state_dict(policy.merged_state(), strict=False).missing_keys == ["lm_head.weight"]
    plain.tie_weights()
    assert torch.allclose(logits(plain), logits(policy.model), atol=1e-5)


def test_head_of_its_own_is_merged_too():
    model = tiny_model()
    model.config.tie_word_embeddings = False
    model.lm_head.weight = torch.nn.Parameter(torch.randn(VOCAB, 32))
    assert torch.equal(Policy(model, NumberChat()).merged_state()["lm_head.weight"], model.lm_head.weight)


def test_training_on_does_not_change_merged_weights():
    policy = bare_policy(adapter=True)
    state = policy.merged_state()
    before = {name: tensor.clone() for name, tensor in state.items()}
    with torch.no_grad():
        for parameter in policy.model.parameters():
            parameter.add_(1.0)
    assert all(torch.equal(before[name], tensor) for name, tensor in state.items())


def test_bfloat16_base_is_merged_in_float32_and_rounded_once(load):
    policy = move(load(dtype="bfloat16"))
    layer = policy.model.get_base_model().model.layers[0].mlp.up_proj
    assert {p.dtype for p in policy.trainable} == {torch.float32}
    exact = layer.base_layer.weight.float() + layer.lora_B["default"].weight @ layer.lora_A["default"].weight * 2
    assert torch.equal(policy.merged_state()["model.layers.0.mlp.up_proj.weight"], exact.bfloat16())


# --- what is loaded


def test_base_alone_trains_nothing(load):
    assert load(adapter=False).trainable == []


def test_same_seed_gives_the_same_adapter(load):
    assert all(torch.equal(a, b) for a, b in zip(load().trainable, load().trainable, strict=True))


def test_dtype_of_what_is_trained_itself_is_float32_where_none_is_named():
    lora, full = (config.Policy(model="some", tuning=tuning) for tuning in ("lora", "full"))
    gpu, cpu = torch.device("cuda"), torch.device("cpu")
    assert [base_model.weight_dtype(p, d) for p in (lora, full) for d in (gpu, cpu)] == [torch.bfloat16] + [torch.float32] * 3
    assert [base_model.autocast(p, d) for p in (lora, full) for d in (gpu, cpu)] == [False, False, True, False]


def test_autocast_computes_in_bfloat16_and_keeps_gradients_in_float32():
    policies = [Policy(tiny_model(seed=4), NumberChat(), autocast=on) for on in (False, True)]
    exact, rounded = (step(policy, conversations(), **NEVER_DROPPED)[1] for policy in policies)
    assert rounded.dtype == torch.float32 and 0 < (rounded - exact).norm() < 0.1 * exact.norm()


@pytest.mark.parametrize(
    ("policy", "sampling", "said"),
    [
        ({"load_in_4bit": True}, None, "GPU"),
        ({"lora": {"targets": ["q_proj", "lm_head"]}}, None, "lm_head"),
        ({"lora": {"targets": ["no_such_layer"]}}, None, "no_such_layer"),
        ({"lora": {"targets": ["q_proj", "k_porj"]}}, None, "'k_porj'; did you mean 'k_proj'"),
        ({"model": "/no/such/folder"}, None, "/no/such/folder"),
        ({}, {"max_sequence_tokens": 257}, "256 positions"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line(load, policy, sampling, said):
    with pytest.raises(ConfigError, match=said) as caught:
        load(sampling=sampling, **policy)
    assert "\n" not in str(caught.value)


def test_head_that_does_more_than_multiply_is_refused():
    model = tiny_model()
    model.config.final_logit_softcapping = 30.0
    with pytest.raises(ConfigError, match="final_logit_softcapping"):
        Policy(model, NumberChat())


def test_missing_unsloth_is_told_in_one_line_with_the_command(load):
    with pytest.raises(ConfigError, match=r"tools/install\.py") as caught:
        load(trainer="unsloth")
    assert "\n" not in str(caught.value)
