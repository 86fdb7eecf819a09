"""Messages to token ids and back, so that each prompt is an exact extension of the last one."""

from typing import Protocol

from .base import Message


class ChatFormat(Protocol):
    """Renders only what is new; what was sampled is never decoded and encoded again."""

    end_id: int
    pad_id: int

    def prompt_ids(self, messages: list[Message], first: bool) -> list[int]:
        """Ids of the messages and of the opening of the model's reply. first: they begin a conversation; else they follow an end token."""

    def reply_text(self, ids: list[int]) -> str:
        """Text of a reply, without its end token."""


class TinyChat:
    """`<|role|>content<|end|>` around the tiny policy's own byte-level tokenizer (a tokenizers.Tokenizer)."""

    SPECIAL = ("<|pad|>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>")

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.pad_id, self._system, self._user, self._assistant, self.end_id = (tokenizer.token_to_id(token) for token in self.SPECIAL)
        self._role = {"system": self._system, "user": self._user}

    def prompt_ids(self, messages: list[Message], first: bool = True) -> list[int]:
        ids = []
        for message in messages:
            ids += [self._role[message.role], *self.encode(message.content), self.end_id]
        return [*ids, self._assistant]

    def encode(self, text: str) -> list[int]:
        """Ids of plain text; text that spells a special token stays text."""
        for token in self.SPECIAL:
            text = text.replace(token, token.replace("|", "¦"))
        text = text.encode("utf-8", "replace").decode()
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def reply_text(self, ids: list[int]) -> str:
        return self.tokenizer.decode([i for i in ids if i != self.end_id], skip_special_tokens=True)
