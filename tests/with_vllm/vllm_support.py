"""What the tests with vLLM share: small random models that its CPU kernels take, and conversations beside plain transformers."""

import asyncio

import torch
from support import NumberChat, with_adapter
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

from rlmlib import config
from rlmlib.models.base import Message
from rlmlib.training.policy import Policy

VOCAB, TEMPERATURE = 64, 0.7
PROMPTS = ["5 6 7", "8 9 10 11 12 13 14 15", "20", "21 22 23 24 25", "30 31", "4 4 4 4 4 4 4 4 4 4 4 4", "17 18 19", "50 " * 70]
OBSERVATIONS = ["12 13", "5", "33 34 35 36 37 38 39", "6 7 8", "9", "10 11 12 13", "14 15 16 17 18", "60"]


class EndlessChat(NumberChat):
    """Replies end at the token limit only. For one turn."""

    end_id = VOCAB + 1000


def random_model(kind: str = "qwen3", seed: int = 0, tied: bool = True):
    torch.manual_seed(seed)
    shape = {
        "vocab_size": VOCAB,
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 32,
        "intermediate_size": 96,
        "max_position_embeddings": 512,
        "tie_word_embeddings": tied,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
        "initializer_range": 0.2,
        "bos_token_id": None,
        "eos_token_id": None,
    }
    model = Qwen3ForCausalLM(Qwen3Config(**shape)) if kind == "qwen3" else LlamaForCausalLM(LlamaConfig(**shape))
    return model.float().eval()


def saved(model, folder):
    model.save_pretrained(folder)
    return folder


def params_of(folder, **changes):
    values = {
        "name": "test",
        "policy": {"model": str(folder), "sampler": "vllm", "lora": {"rank": 4, "alpha": 8}, "vllm": {"max_running": 16}},
        "sampling": {"temperature": TEMPERATURE, "max_turn_tokens": 64, "max_sequence_tokens": 512},
        "harness": {"deadline_s": 120.0},
    }
    for path, value in changes.items():
        section, name = path.split("__")
        values[section][name] = value
    return config.validate(values)


def policy_of(model, seed: int | None = 0, chat=None) -> Policy:
    """seed: of its adapter, None for a policy without one."""
    return Policy(model if seed is None else with_adapter(model, seed), chat or NumberChat())


def perturb(policy, by: float = 0.3):
    torch.manual_seed(77)
    with torch.no_grad():
        for name, parameter in policy.model.named_parameters():
            if "lora_B" in name:
                parameter.add_(torch.randn_like(parameter) * by)


def converse(sampler, keys=range(8), turns: int = 3, tokens: int = 40):
    """Sequences of conversations that run at once."""

    async def one(key):
        session = sampler.session(3, key)
        for turn in range(turns):
            text = PROMPTS[key % 8] if turn == 0 else OBSERVATIONS[(key + turn) % 8]
            await session.reply([Message("user", text)], tokens)
        session.close()
        return session.sequence

    async def all_of_them():
        return await asyncio.gather(*(one(key) for key in keys))

    return asyncio.run(asyncio.wait_for(all_of_them(), 120))


def worst_error(model, sequence, temperature: float = TEMPERATURE) -> float:
    """Largest difference of a sampled token's log-prob from one plain forward over the whole conversation."""
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([sequence.ids])).logits[0].float()
    chosen = (logits / temperature).log_softmax(-1)
    pairs = zip(sequence.ids, sequence.mask, sequence.logprobs, strict=True)
    return max(abs(chosen[i - 1, token].item() - logprob) for i, (token, sampled, logprob) in enumerate(pairs) if sampled)
