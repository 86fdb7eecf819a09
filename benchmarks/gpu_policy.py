"""Random models, policies and conversations for gpu_work.py and gpu_speed.py; on a GPU, or small on the CPU."""

import asyncio
import sys
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import torch  # noqa: E402
from support import NumberChat  # noqa: E402

from rlmlib import config  # noqa: E402
from rlmlib.models.base import Message  # noqa: E402
from rlmlib.training import base_model  # noqa: E402
from rlmlib.training.architecture import PUBLISHED  # noqa: E402
from rlmlib.training.step import token_logprobs  # noqa: E402
from rlmlib.training.trainers import load_policy  # noqa: E402

STUDY_MODEL = "Qwen/Qwen3-4B-Instruct-2507"
SMALL = {
    "model_type": "qwen3",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": 1024,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": True,
    "initializer_range": 0.08,  # distributions that are uneven: an error shows
}
SHAPES = {"small": SMALL, "4B": PUBLISHED[STUDY_MODEL]}
CHAT = NumberChat()
TEMPERATURE = 0.7
SEED = 11
TURN_TOKENS = 40


def make_model(request: dict) -> dict:
    """Write a random model of the shape request["shape"], in bfloat16 and with a tokenizer, to the folder request["into"]."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

    shape, into = SHAPES[request["shape"]], Path(request["into"])
    torch.manual_seed(SEED)
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        ends = {"bos_token_id": None, "pad_token_id": CHAT.pad_id, "eos_token_id": CHAT.end_id}
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**shape, **ends), dtype=torch.bfloat16)
    words = Tokenizer(models.WordLevel({f"t{number}": number for number in range(shape["vocab_size"])}, unk_token="t2"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokens = {"pad_token": f"t{CHAT.pad_id}", "eos_token": f"t{CHAT.end_id}", "unk_token": "t2"}
    unfinished = into.with_suffix(".unfinished")
    PreTrainedTokenizerFast(tokenizer_object=words, **tokens).save_pretrained(unfinished)
    model.save_pretrained(unfinished)
    unfinished.rename(into)
    return {"parameters": model.num_parameters()}


def params_of(request: dict, most_tokens: int, **policy) -> config.Params:
    """Of a LoRA policy on request["base"], of request["rank"], whose steps hold conversations of up to `most_tokens` tokens."""
    rank = request["rank"]
    return config.validate(
        {
            "name": "gpu-check",
            "policy": {"model": request["base"], "threads": 1, "lora": {"rank": rank, "alpha": 2 * rank}, **policy},
            "sampling": {"temperature": TEMPERATURE, "max_turn_tokens": TURN_TOKENS, "max_sequence_tokens": most_tokens},
            "harness": {"deadline_s": 300.0},
            "training": {"prompts_per_step": 1, "micro_batch_tokens": most_tokens, "lr": 1e-5},
        }
    )


def load(params: config.Params, on_cpu: bool = False):
    """The policy, whose messages are numbers: a random model has no chat template. on_cpu: even where there is a GPU."""
    device = base_model.device
    with (
        mock.patch.object(base_model, "chat_format", lambda *_: CHAT),
        mock.patch.object(base_model, "device", lambda: torch.device("cpu") if on_cpu else device()),
    ):
        return load_policy(params)


def move_adapter(policy, seed: int = SEED, by: float = 0.05):
    """Change what the policy says: a fresh adapter changes nothing."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in sorted(policy.model.named_parameters()):
            if "lora_B" in name:
                parameter.add_(torch.randn(parameter.shape, generator=generator).to(parameter) * by)


def converse(sampler, keys=range(8), turns: int = 3) -> list:
    """Sequences of conversations that run at once; prompts and observations have up to 300 tokens."""

    async def one(key: int):
        session = sampler.session(SEED, key)
        for turn in range(turns):
            count = (3, 40, 300, 17)[(key + turn) % 4]
            numbers = [str(4 + (key * 37 + turn * 101 + place * 7) % 1000) for place in range(count)]
            await session.reply([Message("user", " ".join(numbers))], TURN_TOKENS)
        session.close()
        return session.sequence

    async def all_of_them():
        return await asyncio.gather(*(one(key) for key in keys))

    return asyncio.run(asyncio.wait_for(all_of_them(), 300))


def gaps(policy, sequences) -> dict:
    """Mean and largest difference of the trainer's and the sampler's log-probs, and their mean KL (k3), nats a token."""
    with torch.no_grad():
        found = [token_logprobs(policy, [sequence], TEMPERATURE)[:2] for sequence in sequences]
    moved = torch.cat([trainer - sampler for trainer, sampler in found]).double()
    return {"mean": float(moved.abs().mean()), "most": float(moved.abs().max()), "kl": float((moved.exp() - moved - 1).mean())}
