"""The tiny policy's tokenizer: byte-level BPE whose pieces look the same wherever they stand.

Copying a name from the question into code must not change its tokens, so capitalised
words, digits and identifiers never swallow the blank or quote before them.
"""

from collections.abc import Iterable

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from ..models.chat import TinyChat
from ..tasks import names

VOCAB = 1200
NAME_REPEATS = 300
_PIECES = Regex(r"[A-Z][a-z]*| ?[a-z]+|\d|\n *| |[^\sA-Za-z\d]+|\s")


def train(texts: Iterable[str], vocab: int = VOCAB) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(_PIECES, "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab,
        special_tokens=list(TinyChat.SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    whole = " ".join((*names.GIVEN, *names.FAMILY))  # each name becomes one token
    tokenizer.train_from_iterator([*texts, *[whole] * NAME_REPEATS], trainer)
    return tokenizer
