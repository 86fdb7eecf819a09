"""The torch sampler's weights against transformers' own forward: Llama, Qwen2 with its biases, Qwen3, long windows, the real SmolLM2."""

import asyncio

import pytest
import torch
from support import NumberChat, dense, tiny_model

from rlmlib.errors import ConfigError
from rlmlib.models import dense_weights, smollm2, torch_sampler
from rlmlib.models.base import Message
from rlmlib.models.torch_sampler import TorchSampler
from rlmlib.training.policy import Policy

SIZES = {
    "vocab_size": 40,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    "initializer_range": 0.3,
    "max_position_embeddings": 4096,
}
ROPE = {"rope_type": "default", "rope_theta": 500.0}


def model_of(layout: str, seed: int = 0, **changes):
    """A random model; gains and biases are not what they start as, or leaving them out would go unseen."""
    import transformers

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    config = getattr(transformers, f"{layout}Config")(**{**SIZES, "rope_parameters": ROPE, **changes})
    model = getattr(transformers, f"{layout}ForCausalLM")(config).float().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name or "bias" in name:
                parameter.add_(0.5 * torch.randn_like(parameter))
    return model


LAYOUTS = {
    "llama": lambda: model_of("Llama", tie_word_embeddings=True),
    "llama, head of its own": lambda: model_of("Llama", tie_word_embeddings=False),
    "llama, head_dim of its own": lambda: model_of("Llama", head_dim=16),
    "llama with biases": lambda: model_of("Llama", attention_bias=True, mlp_bias=True),
    "qwen2": lambda: model_of("Qwen2"),
    "qwen3": lambda: model_of("Qwen3", head_dim=8),
}


def sampled(model, chat=None, prompts=("5 6 7", "8 9 10 11 12 13", "20"), more="12 13", tokens=24, **changes):
    """Sequences of two turns, all sampled in one batch."""
    policy = Policy(model, chat or NumberChat())
    sampler = TorchSampler(policy.dense_weights(), policy.chat, **{"temperature": 0.7, "max_sequence": 2000, **changes})

    async def one(session, prompt):
        await session.reply([Message("user", prompt)], tokens)
        await session.reply([Message("user", more)], tokens)
        session.close()
        return session.sequence

    async def all_of_them():
        sessions = [sampler.session(1, row) for row in range(len(prompts))]
        return await asyncio.gather(*(one(*pair) for pair in zip(sessions, prompts, strict=True)))

    return asyncio.run(asyncio.wait_for(all_of_them(), 120))


def largest_difference(model, sequence, temperature=0.7) -> float:
    """Of the sampled tokens' log-probs from those of one plain forward."""
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([sequence.ids])).logits[0].float() / temperature
    ids, mask, said = (torch.tensor(values) for values in (sequence.ids, sequence.mask, sequence.logprobs))
    true = logits.log_softmax(-1)[:-1].gather(1, ids[1:, None])[:, 0]
    return ((true - said[1:]) * mask[1:]).abs().max().item()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_logprobs_are_those_of_transformers(layout):
    model = LAYOUTS[layout]()
    assert max(largest_difference(model, sequence) for sequence in sampled(model)) < 1e-4


def test_biases_of_the_tests_do_change_the_model():
    model, ids = LAYOUTS["qwen2"](), torch.tensor([[5, 6, 7]])
    with torch.no_grad():
        before = model(input_ids=ids).logits
        for name, parameter in model.named_parameters():
            if "bias" in name:
                parameter.zero_()
        assert (model(input_ids=ids).logits - before).abs().max() > 0.1


def test_prompt_that_is_run_in_parts_gives_the_same(monkeypatch):
    model = LAYOUTS["llama"]()
    prompts = ["5 " * 70, "6 7", "9 " * 41]
    at_once = sampled(model, prompts=prompts)
    monkeypatch.setattr(torch_sampler, "SCORES_AT_ONCE", 3 * 100 * 2 * 9)  # parts of some ten tokens
    in_parts = sampled(model, prompts=prompts)
    assert [s.ids for s in in_parts] == [s.ids for s in at_once]
    assert max(largest_difference(model, sequence) for sequence in in_parts) < 1e-4


def test_rotary_tables_grow_with_the_conversation_and_not_with_the_window():
    model = model_of("Llama", max_position_embeddings=1 << 20)
    weights = dense(model)
    assert len(weights.cos) == dense_weights.FIRST_POSITIONS and weights.positions == 1 << 20
    ids = torch.randint(2, 40, (1, 1500), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        hidden = weights.forward(ids, torch.arange(1500)[None], weights.new_cache(1, 1500), 1500)
        true = model(input_ids=ids).logits
    assert torch.allclose(hidden @ weights.head.T, true, atol=1e-3)
    assert len(weights.cos) == 2 * dense_weights.FIRST_POSITIONS


def test_tables_never_outgrow_the_models_positions():
    assert len(dense(tiny_model(positions=64)).cos) == 64


def test_conversation_beyond_the_first_tables_is_sampled():
    model = LAYOUTS["llama"]()
    sequences = sampled(model, prompts=["5 6 " * 700, "7"], tokens=3)
    assert max(largest_difference(model, sequence) for sequence in sequences) < 1e-4


def test_weights_and_caches_have_the_dtype_of_the_model():
    model = LAYOUTS["qwen2"]().to(torch.bfloat16)
    weights = dense(model)
    assert {weights.cos.dtype, weights.head.dtype, weights.new_cache(1, 2).dtype} == {torch.bfloat16}
    sequences = sampled(model)
    assert all(lp <= 0 for s in sequences for lp in s.logprobs)
    differences = [largest_difference(model, s) for s in sequences]
    assert max(differences) < 1.0  # eight bits in two layers


@pytest.mark.parametrize(
    "layout, changes, why",
    [
        ("Llama", {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 500.0}}, "rope scaling.*'linear'"),
        ("Llama", {"hidden_act": "gelu"}, "silu"),
        ("Qwen2", {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 1}, "sliding window"),
        ("Gemma", {"head_dim": 8}, "not 'gemma'"),
    ],
)
def test_model_that_is_computed_otherwise_is_refused(layout, changes, why):
    with pytest.raises(ConfigError, match=f"policy.sampler: torch .*{why}.*policy.sampler: vllm"):
        dense(model_of(layout, **changes))


@pytest.mark.skipif(not (smollm2.cache() / smollm2.NAME).is_dir(), reason="python -m rlmlib.models.smollm2 makes the folder")
def test_logprobs_of_the_real_smollm2_are_those_of_transformers():
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from rlmlib.models.template_chat import TemplateChat

    folder = smollm2.folder()
    torch.set_num_threads(1)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    chat = TemplateChat(AutoTokenizer.from_pretrained(folder))
    prompts = ["What is the capital of France?", "Count to three."]
    sequences = sampled(model, chat, prompts, "Go on <|im_end|>", tokens=12)
    assert max(largest_difference(model, sequence) for sequence in sequences) < 2e-3
