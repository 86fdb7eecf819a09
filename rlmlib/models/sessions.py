"""A ChatModel as the harness needs it: as the Session of a root, and as a Leaf."""

from .base import ChatModel, ContextFull, Message, ModelError, Reply
from .prices import dollars

MESSAGE_TOKENS = 8  # role and separators of a message, from above


class ChatSession:
    """One conversation with a model behind an API. The history is sent anew with each reply."""

    def __init__(self, chat_model: ChatModel):
        self.chat_model, self.name = chat_model, chat_model.name
        self.history: list[Message] = []
        self._tokens = 0  # of the history: exact up to the last reply that took one attempt, estimated after it

    async def reply(self, messages: list[Message], max_tokens: int) -> Reply:
        """Append messages, ask for a reply. A model that says nothing has an empty turn, as any other bad reply."""
        added = sum(self._count(message) for message in messages)
        if self._tokens + added + max_tokens > self.chat_model.window_tokens:
            raise ContextFull
        prompt = self.history + messages
        try:
            reply = await self.chat_model.chat(prompt, max_tokens)
        except ModelError as error:
            if error.kind == "too_long":
                raise ContextFull from None
            if error.kind != "empty":
                raise
            reply = Reply("", error.prompt_tokens, error.completion_tokens, attempts=error.attempts, dollars=error.dollars)
        self._tokens = reply.prompt_tokens if reply.attempts == 1 else self._tokens + added
        self.history = prompt
        if reply.text:  # APIs refuse an empty message
            answer = Message("assistant", reply.text)
            self.history = [*prompt, answer]
            self._tokens += self._count(answer)
        return reply

    def child(self) -> "ChatSession":
        return ChatSession(self.chat_model)

    def close(self) -> None:
        """Nothing to free: the connections are the chat model's."""

    def _count(self, message: Message) -> int:
        return self.chat_model.count_tokens(message.content) + MESSAGE_TOKENS


class ChatLeaf:
    """One user message to the model, and nothing else."""

    def __init__(self, chat_model: ChatModel, max_tokens: int):
        self.chat_model, self.max_tokens = chat_model, max_tokens
        self.name, self.window_tokens = chat_model.name, chat_model.window_tokens

    def count_tokens(self, text: str) -> int:
        return self.chat_model.count_tokens(text)

    def most_dollars(self, prompt_tokens: int) -> float | None:
        """What a call costs at most by the list of prices; None for a model that is not listed."""
        return dollars(self.name, prompt_tokens, self.max_tokens)

    async def complete(self, prompt: str) -> Reply:
        return await self.chat_model.chat([Message("user", prompt)], self.max_tokens)
