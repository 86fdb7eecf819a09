"""The memory estimate: parameters as published, activations as autograd keeps them, peaks as the system measures them."""

import json
import subprocess
import sys

import pytest
import torch
from support import tiny_model, with_adapter

from rlmlib import config
from rlmlib.errors import ConfigError
from rlmlib.notebook import ROOT
from rlmlib.training import memory
from rlmlib.training.architecture import architecture, model_config

ALL_LINEARS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
QWEN = "Qwen/Qwen3-4B-Instruct-2507"


def params(**sections) -> config.Params:
    return config.validate({"name": "x", **sections})


def test_parameters_are_those_that_are_published():
    assert architecture(model_config(QWEN)).parameters == 4_022_468_096
    assert architecture(model_config("smollm2")).parameters == 134_515_008
    assert architecture(model_config(QWEN)).positions == 262_144


def test_adapter_is_as_large_as_peft_makes_it():
    model = tiny_model()
    made = sum(p.numel() for p in with_adapter(tiny_model(), rank=4).parameters() if p.requires_grad)
    assert architecture(model.config).adapter_parameters(ALL_LINEARS, 4) == made


def test_parameters_of_the_shipped_policy():
    from rlmlib.tiny.model import load

    assert architecture(model_config("tiny")).parameters == sum(p.numel() for p in load()[0].parameters())


def test_a_folder_without_config_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"policy\.model: .* folder without a readable config\.json"):
        model_config(str(tmp_path))


def kept_by_autograd(model, tokens: int) -> int:
    """Bytes that the body's forward pass keeps for its backward pass, its weights not counted."""
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = (storage.nbytes(), tensor)
        return tensor

    body = getattr(model, "get_base_model", lambda: model)().model
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        body(input_ids=torch.ones(1, tokens, dtype=torch.long), use_cache=False)
    return sum(size for size, _ in kept.values())


@pytest.mark.parametrize("kind", ["qwen3", "llama"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("tuning", ["lora", "full"])
def test_a_layer_keeps_what_the_formula_says(kind, dtype, tuning):
    def model_of(layers: int):
        from transformers import AutoConfig, AutoModelForCausalLM

        shape = {"hidden_size": 64, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 96}
        made = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, vocab_size=50, num_hidden_layers=layers, **shape))
        made = made.to(getattr(torch, dtype))
        return with_adapter(made, rank=4, moved=0.1) if tuning == "lora" else made

    short, long = model_of(2), model_of(3)
    policy = params(policy={"tuning": tuning, "dtype": dtype, "lora": {"rank": 4}}).policy
    counted = memory.layer_bytes(architecture(short.config), policy, memory.weight_bytes(policy, "cpu"))
    assert (kept_by_autograd(long, 50) - kept_by_autograd(short, 50)) / 50 == counted


def test_estimate_is_near_the_measured_peak():
    """Real optimiser steps and a real batch of the torch sampler in a process of their own; benchmarks/memory.py has more of them."""
    command = [sys.executable, ROOT / "benchmarks/memory.py", "--quick", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) == 5
    assert [row for row in rows if not 0.7 < row["ratio"] < 1.3] == []


def test_what_is_sampled_in_turns_is_not_added_to_what_is_trained():
    turns, both = (
        memory.estimate(params(training={"max_async_level": level}), architecture(model_config("tiny")), "cpu", 0) for level in (0, 1)
    )
    assert turns.peak == sum(turns.always.values()) + max(sum(turns.training.values()), sum(turns.sampling.values()))
    assert both.peak == sum(both.terms.values())


@pytest.mark.parametrize(
    ("training", "count"),
    [
        ({}, 40 * 4),  # a wave
        ({"prompts_per_step": 2}, 10 * 4),
        ({"prompts_per_step": 2, "evaluate_every": 5}, 64),  # a short evaluation, between waves
        ({"max_async_level": 3}, 16 * 4 * 4),
        ({"max_async_level": 3, "evaluate_every": 5}, 16 * 4 * 4 + 64),
    ],
)
def test_conversations_that_are_sampled_at_once(training, count):
    assert memory.conversations(params(training=training)) == count


def test_sampling_grows_with_its_conversations_and_no_prefill_is_larger_than_its_limit():
    model = architecture(model_config("tiny"))
    few, many = (memory.torch_sampler(model, 4, rows, 896) for rows in (10, 160))
    assert many["sampler's cache"] == 16 * few["sampler's cache"] == 2 * 160 * 896 * 768 * 2
    assert 10 * few["sampler's batch"] > many["sampler's batch"] > 4 * memory.SCORES_AT_ONCE


def test_ranks_on_cpus_share_the_memory_of_one_machine():
    model = architecture(model_config("smollm2"))

    def of(kind, ranks, **training):
        wanted = params(policy={"model": "smollm2", "sampler": "server", "vllm": {"urls": ["http://h/v1"]}}, training=training)
        return memory.estimate(wanted, model, kind, 80 * memory.GIB, ranks)

    assert of("cpu", 8).peak == 8 * of("cpu", 1).peak
    assert of("cuda", 8).peak == of("cuda", 1).peak
    assert of("cpu", 8, parallel="sharded").terms["base weights"] == of("cpu", 1).terms["base weights"]
    assert (
        memory.estimate(params(), model, "cpu", 0, 8).terms["sampler's cache"]
        == (memory.estimate(params(), model, "cpu", 0, 1).terms["sampler's cache"])
    )


def test_terms_shrink_by_their_knobs():
    model = architecture(model_config(QWEN))
    base = {"policy": {"model": QWEN}, "training": {"micro_batch_tokens": 49_152}, "sampling": {"max_sequence_tokens": 49_152}}

    def of(ranks: int = 1, training=(), **policy):
        changed = {**base, "policy": base["policy"] | policy, "training": base["training"] | dict(training)}
        return memory.estimate(params(**changed), model, "cuda", 80 * memory.GIB, ranks).terms

    plain = of()
    assert plain["base weights"] == 2 * model.parameters
    assert of(load_in_4bit=True)["base weights"] < 0.5 * plain["base weights"]
    assert of(gradient_checkpointing=True)["activations"] < 0.15 * plain["activations"]
    assert of(logits_at_once=256)["logits"] == plain["logits"] // 4
    assert of(tuning="full")["AdamW states"] == 8 * model.parameters
    server = {"sampler": "server", "vllm": {"urls": ["http://h/v1"]}}
    assert of(4, {"parallel": "sharded"}, tuning="full", **server)["AdamW states"] == 2 * model.parameters
    assert of(4, tuning="full")["AdamW states"] == 8 * model.parameters
    assert of(sampler="vllm")["vLLM"] == round(0.45 * 80 * memory.GIB)


def test_conversations_that_vllm_has_room_for():
    """36 layers of 8 KV heads of 128 in 16 bit are 144 KiB a token: 2.25 GiB for 16,384 tokens."""
    wanted = params(policy={"model": QWEN, "sampler": "vllm"}, sampling={"max_sequence_tokens": 16_384})
    model = architecture(model_config(QWEN))
    room = 0.45 * 80 * memory.GIB - 2 * model.parameters - memory.VLLM_WORKING_BYTES
    assert memory.vllm_sequences(wanted, model, 80 * memory.GIB) == pytest.approx(room / (2.25 * memory.GIB))
