"""Sessions of roots and leaves over a model behind an API."""

import asyncio

import pytest
import servers
from model_support import clean_environment, local  # noqa: F401
from servers import OpenAIServer, openai_error, openai_reply

from rlmlib.models.base import ContextFull, Message, ModelError
from rlmlib.models.sessions import ChatLeaf, ChatSession


async def complete(leaf, prompt):
    try:
        return await leaf.complete(prompt)
    finally:
        await leaf.chat_model.aclose()


def test_leaf_sends_one_user_message_and_nothing_else():
    with OpenAIServer() as server:
        leaf = ChatLeaf(local(server), max_tokens=50)
        assert asyncio.run(complete(leaf, "read this")).text == "<read this>"
        body = server.requests[0].body
    assert body["messages"] == [{"role": "user", "content": "read this"}] and body["max_tokens"] == 50
    assert (leaf.name, leaf.window_tokens) == (OpenAIServer.MODEL, 4096)


def converse(session, *turns, max_tokens=64):
    async def main():
        try:
            return [await session.reply([Message("user", turn)], max_tokens) for turn in turns]
        finally:
            await session.chat_model.aclose()

    return asyncio.run(main())


def test_session_sends_the_whole_history():
    with OpenAIServer() as server:
        converse(ChatSession(local(server)), "a", "b")
        sent = [message["content"] for message in server.requests[1].body["messages"]]
    assert sent == ["a", "<a>", "b"]


def test_prompt_that_leaves_no_room_for_the_reply_is_not_sent():
    with OpenAIServer() as server:
        session = ChatSession(local(server, window_tokens=100))
        with pytest.raises(ContextFull):
            converse(session, "hi", max_tokens=96)
        assert server.requests == []


def test_session_is_full_by_the_servers_count():
    with OpenAIServer(openai_reply("a", prompt=90, completion=1)) as server:
        session = ChatSession(local(server, window_tokens=120))
        with pytest.raises(ContextFull):
            converse(session, "hi", "hi", max_tokens=16)
        assert len(server.requests) == 1


def test_exact_counts_leave_room_that_estimates_would_not():
    prompt = "7" * 900  # estimated at 900 tokens
    with OpenAIServer(openai_reply("a", prompt=300, completion=1)) as server:
        session = ChatSession(local(server, window_tokens=1000))
        assert len(converse(session, prompt, "7" * 300)) == 2


def test_session_is_full_when_the_server_says_so():
    with OpenAIServer(servers.VLLM_TOO_LONG) as server, pytest.raises(ContextFull):
        converse(ChatSession(local(server)), "hi")


def test_model_that_says_nothing_has_an_empty_turn():
    with OpenAIServer(*[openai_reply(None, prompt=10, completion=5)] * 2) as server:
        empty, reply = converse(ChatSession(local(server)), "a", "b")
        sent = server.requests[-1].body["messages"]
    assert (empty.text, empty.prompt_tokens, empty.completion_tokens, empty.attempts) == ("", 20, 10, 2)
    assert (reply.text, [message["content"] for message in sent]) == ("<b>", ["a", "b"])


def test_failed_reply_leaves_the_conversation_as_it_was():
    with OpenAIServer(openai_error(400)) as server:
        session = ChatSession(local(server))
        with pytest.raises(ModelError):
            converse(session, "a")
        assert converse(session, "b")[0].text == "<b>"
        assert [message["content"] for message in server.requests[-1].body["messages"]] == ["b"]


def test_child_is_a_fresh_conversation_with_the_same_model():
    with OpenAIServer() as server:
        session = ChatSession(local(server))
        converse(session, "a")
        converse(session.child(), "b")
        sent = [message["content"] for message in server.requests[-1].body["messages"]]
    assert sent == ["b"] and session.child().name == session.name == OpenAIServer.MODEL
