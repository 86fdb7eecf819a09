"""The policy as its own leaf: it answers each subcall in a fresh conversation, with the weights it has then."""

from .base import Message, Reply
from .conversation import TokenSession

MANY_CHARS = 16  # a token; no text but blanks has so many


class PolicyLeaf:
    """A Leaf of one conversation of the policy. Its replies carry their tokens, so that they can be trained."""

    name = "policy"

    def __init__(self, session: TokenSession, max_tokens: int):
        self.session, self.max_tokens = session, max_tokens
        self.window_tokens = session.sampler.max_sequence

    def count_tokens(self, text: str) -> int:
        """An estimate for a text that is far too long, as tokenising it would keep all rollouts waiting."""
        if len(text) > MANY_CHARS * self.window_tokens:
            return len(text) // MANY_CHARS
        return len(self.session.sampler.chat.prompt_ids([Message("user", text)], True))

    async def complete(self, prompt: str) -> Reply:
        conversation = self.session.child()
        try:
            return await conversation.reply([Message("user", prompt)], self.max_tokens)
        finally:
            conversation.close()
