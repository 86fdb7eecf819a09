"""Chat templates in the layouts that are met, and small tokenizers that have their tokens. Written for the tests; no network."""

import functools

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import AddedToken, PreTrainedTokenizerFast

CORPUS = [
    "the keeper of the lighthouse lives in the north of the island",
    "```repl\nprint(len(context))\n```",
    "FINAL(42) user assistant system",
]

TURN = "<|im_start|>{{ m['role'] }}{{ '\\n' }}{{ m['content'] }}<|im_end|>{{ '\\n' }}"
OPENING = "{% if add_generation_prompt %}<|im_start|>assistant{{ '\\n' }}{% endif %}"
CHATML = "{% for m in messages %}" + TURN + "{% endfor %}" + OPENING
DEFAULT_SYSTEM = "{% if messages[0]['role'] != 'system' %}<|im_start|>system{{ '\\n' }}Be kind.<|im_end|>{{ '\\n' }}{% endif %}" + CHATML

LLAMA3 = (
    "{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m['role'] }}<|end_header_id|>{{ '\\n\\n' }}"
    "{% if loop.first and m['role'] == 'system' %}Today: {{ strftime_now('%d %b %Y') }}{{ '\\n\\n' }}{% endif %}"
    "{{ m['content'] | trim }}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>{{ '\\n\\n' }}{% endif %}"
)

_INST_TURNS = (
    "{% elif m['role'] == 'user' %}[INST] {% if SHOWN and system.text %}{{ system.text }}{{ '\\n\\n' }}{% endif %}"
    "{{ m['content'] | trim }} [/INST]{% elif m['role'] == 'assistant' %} {{ m['content'] | trim }}{{ eos_token }}{% endif %}{% endfor %}"
)
_INST_SYSTEM = (
    "{{ bos_token }}{% set system = namespace(text='') %}{% for m in messages %}"
    "{% if m['role'] == 'system' %}{% set system.text = m['content'] %}"
)
INST = _INST_SYSTEM + _INST_TURNS.replace("SHOWN", "loop.index0 <= 1")
INST_SYSTEM_IN_LAST = _INST_SYSTEM + _INST_TURNS.replace("SHOWN", "loop.last")

# thoughts are written only behind the last question, and an empty one where there was none
HYBRID = (
    "{% set at = namespace(last=0) %}"
    "{% for m in messages %}{% if m['role'] == 'user' %}{% set at.last = loop.index0 %}{% endif %}{% endfor %}"
    "{% for m in messages %}{% if m['role'] == 'assistant' %}{% set parts = m['content'].split('</think>') %}"
    "<|im_start|>assistant{{ '\\n' }}{% if loop.index0 > at.last %}<think>{{ '\\n' }}"
    "{{ parts[0].split('<think>')[-1].strip() if parts | length > 1 else '' }}{{ '\\n' }}</think>{{ '\\n\\n' }}{% endif %}"
    "{{ parts[-1].lstrip('\\n') }}<|im_end|>{{ '\\n' }}{% else %}" + TURN + "{% endif %}{% endfor %}"
)
OPENED_THOUGHT = HYBRID + OPENING.replace("{% endif %}", "<think>{{ '\\n' }}{% endif %}")
NO_THOUGHT = HYBRID + OPENING.replace("{% endif %}", "<think>{{ '\\n\\n' }}</think>{{ '\\n\\n' }}{% endif %}")
HYBRID += OPENING

GEMMA = (
    "{{ bos_token }}{% for m in messages %}{% if m['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "<start_of_turn>{{ 'model' if m['role'] == 'assistant' else m['role'] }}{{ '\\n' }}{{ m['content'] | trim }}<end_of_turn>{{ '\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}<start_of_turn>model{{ '\\n' }}{% endif %}"
)

TAKEN = {
    "chatml": CHATML,
    "default system": DEFAULT_SYSTEM,
    "llama 3": LLAMA3,
    "inst": INST,
    "hybrid": HYBRID,
    "opened thought": OPENED_THOUGHT,
    "no thought": NO_THOUGHT,
}
STABLE = ("chatml", "default system", "llama 3", "inst")
ENDS = {"llama 3": "<|eot_id|>", "inst": "</s>"}  # of the others: <|im_end|>
GAPS = {"inst": " "}  # what the template writes between its opening and a reply
REFUSED = {
    "no system role": (GEMMA, "System role not supported"),
    "system in the last question": (INST_SYSTEM_IN_LAST, "rewrites earlier turns"),
    "counts its messages": ("{{ messages | length }}" + CHATML, "rewrites earlier turns"),
    "numbers from the end": (CHATML.replace(TURN, "{{ loop.revindex }}" + TURN), "rewrites earlier turns"),
    "cuts long replies of the past": (
        CHATML.replace("m['content']", "(m['content'][:9] if m['role'] == 'assistant' and not loop.last else m['content'])"),
        "leaves messages out",
    ),
    "forgets after two turns": (
        CHATML.replace("in messages %}", "in (messages if messages | length < 6 else messages[-4:]) %}"),
        "rewrites earlier turns",
    ),
    "leaves the system message out": (CHATML.replace(TURN, "{% if m['role'] != 'system' %}" + TURN + "{% endif %}"), "leaves messages out"),
    "ends replies by no token": (
        "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}{{ '\\n' }}{% endfor %}assistant: ",
        "no token of its own",
    ),
    "a filter that is not there": (CHATML.replace("m['content']", "m['content'] | shout"), "refuses a conversation"),
    "is no template": ("{% for m in messages %}", "refuses a conversation"),
}

SPECIAL = ["<|pad|>", "<s>", "</s>", "[INST]", "[/INST]", "<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|start_header_id|>"]
SPECIAL += ["<|end_header_id|>", "<|eot_id|>", "<start_of_turn>", "<end_of_turn>"]
ADDED = ["<think>", "</think>", "<tool_call>", "\n\n\n"]


@functools.cache
def _bytes_backend() -> str:
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    backend.train_from_iterator(
        CORPUS, trainers.BpeTrainer(vocab_size=330, initial_alphabet=alphabet, special_tokens=SPECIAL, show_progress=False)
    )
    return backend.to_str()


def tokenizer(template: str | None, normalised: bool = False, **tokens) -> PreTrainedTokenizerFast:
    """Byte-level BPE of a few hundred tokens. normalised: it folds text first, and looks for its added tokens in what comes of that."""
    backend = Tokenizer.from_str(_bytes_backend())
    if normalised:
        backend.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokens = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<|pad|>", **tokens}
    made = PreTrainedTokenizerFast(tokenizer_object=backend, clean_up_tokenization_spaces=True, **tokens)
    made.add_tokens([AddedToken(token, normalized=normalised) for token in ADDED])
    made.chat_template = template
    return made


def words_tokenizer(template: str) -> PreTrainedTokenizerFast:
    """As SentencePiece tokenizers: blanks are part of the pieces, and one is put before the first."""
    backend = Tokenizer(models.BPE(unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    backend.decoder = decoders.Metaspace(prepend_scheme="first")
    backend.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=200, special_tokens=["<unk>", *SPECIAL], show_progress=False))
    made = PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>", unk_token="<unk>")
    made.chat_template = template
    return made
