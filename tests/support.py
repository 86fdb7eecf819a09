"""What several test files share: a tiny random Qwen3 and a chat format of plain numbers."""

from rlmlib.models.dense_weights import DenseWeights
from rlmlib.training.policy import Policy

VOCAB = 40


class NumberChat:
    """Messages are blank-separated token numbers; 3 opens a reply, 1 ends one."""

    pad_id, end_id, opening = 0, 1, 3

    def prompt_ids(self, messages, first=True):
        return [*(int(number) for m in messages for number in m.content.split()), self.opening]

    def reply_text(self, ids):
        return " ".join(str(i) for i in ids if i != self.end_id)


def tiny_model(seed: int = 0, vocab: int = VOCAB, positions: int = 256, spread: float = 0.3):
    """A random Qwen3ForCausalLM of a few thousand parameters; `spread` makes its distributions uneven."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=vocab,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        intermediate_size=48,
        max_position_embeddings=positions,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        initializer_range=spread,
    )
    return Qwen3ForCausalLM(config).float().eval()


def with_adapter(model, seed: int = 0, rank: int = 4, alpha: int = 8, moved: float = 0.2):
    """The model with a LoRA adapter on every projection that does change its output."""
    import torch
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(seed)
    names = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    wrapped = get_peft_model(model, LoraConfig(r=rank, lora_alpha=alpha, lora_dropout=0.0, target_modules=names, task_type="CAUSAL_LM"))
    with torch.no_grad():
        for name, parameter in wrapped.named_parameters():
            if "lora_B" in name:
                parameter.normal_(0, moved)
    return wrapped


def dense(model) -> DenseWeights:
    return Policy(model, NumberChat()).dense_weights()


def bare_policy(seed: int = 0, adapter: bool = False) -> Policy:
    model = tiny_model(seed)
    return Policy(with_adapter(model, seed) if adapter else model, NumberChat())
