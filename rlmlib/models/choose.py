"""Which model answers: the one place where leaves, judges and API roots are chosen by name."""

from collections.abc import Callable

from ..config import ApiModel
from ..config import Leaf as LeafConfig
from ..errors import ConfigError
from .base import ChatModel, Leaf, Session
from .prices import FREE

MARGIN_S = 5.0  # a model gives up this much before the harness stops waiting for it, so that its reason and tokens are known


def chat_model(config: ApiModel, timeout_s: float) -> ChatModel:
    """The model of an API section. Raises ConfigError where a key, a URL or a name is missing."""
    if config.engine == "gemini":
        from .gemini import GeminiChat

        return GeminiChat(
            config.model,
            vertex_project=config.vertex_project,
            vertex_location=config.vertex_location,
            thinking=config.thinking,
            temperature=config.temperature,
            window_tokens=config.window_tokens,
            timeout_s=timeout_s,
        )
    if config.engine == "openai":
        from .openai_compatible import OpenAICompatibleChat

        if not config.base_url:
            raise ConfigError("base_url: an engine 'openai' needs one, such as http://127.0.0.1:8000/v1")
        free = {config.model: FREE} if config.free else None
        return OpenAICompatibleChat(
            config.model,
            config.base_url,
            temperature=config.temperature,
            window_tokens=config.window_tokens,
            timeout_s=timeout_s,
            prices=free,
        )
    raise ConfigError(f"engine: '{config.engine}' is no chat model; use gemini or openai")


def leaf(config: LeafConfig, timeout_s: float = 300.0) -> Leaf | Callable[[Session], Leaf]:
    """The model behind llm_query, or what gives it for a session of the policy. timeout_s: what the harness waits for a block's
    leaf calls."""
    if config.engine == "lexical":
        from .lexical_leaf import LexicalLeaf

        return LexicalLeaf(config.window_tokens)
    if config.engine == "policy":
        from .policy_leaf import PolicyLeaf

        return lambda session: PolicyLeaf(session, config.max_tokens)
    from .sessions import ChatLeaf

    return ChatLeaf(chat_model(config, max(1.0, timeout_s - MARGIN_S)), config.max_tokens)


def parse(name: str) -> ApiModel:
    """A model written on one line: gemini/NAME, or NAME@URL for an OpenAI-compatible server."""
    model, at, url = name.partition("@")
    if at:
        return ApiModel(
            engine="openai", model=model, base_url=url, window_tokens=32_768, free="://127.0.0.1" in url or "://localhost" in url
        )
    if name.startswith("gemini/"):
        return ApiModel(engine="gemini", model=name.removeprefix("gemini/"), window_tokens=1_000_000)
    raise ConfigError(
        f"'{name}' names no model; write gemini/NAME, NAME@http://host:port/v1, or for offline use tiny (root), lexical (leaf)"
    )
