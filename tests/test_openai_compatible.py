"""Servers like vLLM and llama.cpp through the openai SDK, against a local one."""

import json

import pytest
import servers
from model_support import OPENAI_KEY, QUICK, clean_environment, error_of, local, run  # noqa: F401
from servers import Answer, OpenAIServer, openai_error, openai_reply

from rlmlib.errors import ConfigError
from rlmlib.models.base import Message
from rlmlib.models.completions import CompletionServer
from rlmlib.models.openai_compatible import OpenAICompatibleChat
from rlmlib.models.prices import FREE


def test_body():
    messages = [Message("system", "s"), Message("user", "a"), Message("assistant", "b"), Message("user", "c")]
    with OpenAIServer() as server:
        run(local(server, temperature=0.5, extra_body={"top_k": 20}), messages, 77)
        body = server.requests[0].body
    turns = [{"role": m.role, "content": m.content} for m in messages]
    assert body == {"model": OpenAIServer.MODEL, "messages": turns, "temperature": 0.5, "max_tokens": 77, "top_k": 20}


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_is_counted_and_left_out(name):
    message = {name: "so that is " * 9}
    with OpenAIServer(openai_reply("that is it", completion=40, message=message)) as server:
        reply = run(local(server))
    assert (reply.text, reply.completion_tokens) == ("that is it", 40)
    assert 30 <= reply.thinking_tokens < 40


def test_reported_reasoning_tokens_are_taken():
    with OpenAIServer(openai_reply("a", completion=40, reasoning_tokens=33)) as server:
        assert run(local(server)).thinking_tokens == 33


def test_reasoning_alone_is_an_empty_reply():
    with OpenAIServer(openai_reply(None, completion=9, message={"reasoning_content": "hm"}), openai_reply("a", completion=1)) as server:
        reply = run(local(server))
    assert (reply.text, reply.attempts, reply.completion_tokens) == ("a", 2, 10)


@pytest.mark.parametrize("content, text", [([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "ab"), ("a", "a")])
def test_content_may_be_a_list_of_parts(content, text):
    with OpenAIServer(openai_reply(content)) as server:
        assert run(local(server)).text == text


@pytest.mark.parametrize("choices", [[], [None], "x", [{"message": "x"}], [{}]])
def test_choices_of_the_wrong_shape_are_retried(choices):
    with OpenAIServer(Answer({"choices": choices})) as server:
        assert run(local(server)).attempts == 2


@pytest.mark.parametrize("message, finish", [({"refusal": "I will not"}, "stop"), ({}, "content_filter")])
def test_refusal_is_blocked(message, finish):
    with OpenAIServer(openai_reply(None, finish=finish, message=message)) as server:
        assert error_of(local(server)).kind == "blocked"


def test_without_usage_tokens_are_estimated():
    with OpenAIServer(openai_reply("some text", prompt=None)) as server:
        reply = run(local(server))
    assert reply.prompt_tokens >= 1 and reply.completion_tokens >= 3


@pytest.mark.parametrize("answer", [servers.VLLM_TOO_LONG, servers.LLAMA_CPP_TOO_LONG, openai_error(400, code="context_length_exceeded")])
def test_prompt_over_the_window(answer):
    with OpenAIServer(answer) as server:
        assert error_of(local(server)).kind == "too_long"


def test_server_that_loads_its_model_is_waited_for():
    with OpenAIServer(servers.LLAMA_CPP_LOADING) as server:
        assert run(local(server)).attempts == 2


def test_unknown_model_is_named():
    with OpenAIServer() as server:
        error = error_of(OpenAICompatibleChat("other", server.url, window_tokens=4096, policy=QUICK))
    assert error.kind == "rejected" and "`other` does not exist" in str(error)


def test_key_that_is_asked_for():
    with OpenAIServer(key=OPENAI_KEY) as server:
        assert run(local(server, api_key=OPENAI_KEY)).text == "<hi>"


def test_missing_key_is_not_retried():
    with OpenAIServer(key=OPENAI_KEY) as server:
        error = error_of(local(server))
        assert (error.kind, len(server.requests)) == ("rejected", 1)
    assert "401 Unauthorized" in str(error) and "check the key" in str(error)


def test_keys_of_the_environment_are_not_sent_to_other_servers(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY"):
        monkeypatch.setenv(name, OPENAI_KEY)
    with OpenAIServer() as server:
        run(local(server))
        assert OPENAI_KEY not in json.dumps(server.requests[0].headers)


def test_itself_wants_a_key():
    with pytest.raises(ConfigError, match="^no OpenAI API key: set OPENAI_API_KEY$"):
        OpenAICompatibleChat("m", "https://api.openai.com/v1", window_tokens=4096)


def test_used_up_balance_is_not_retried():
    with OpenAIServer(openai_error(429, "You exceeded your current quota", code="insufficient_quota")) as server:
        error = error_of(local(server))
        assert (error.kind, len(server.requests)) == ("rate_limit", 1)


def test_server_of_another_kind_points_at_base_url():
    with OpenAIServer(*[Answer(b"<html>", headers={"content-type": "text/html"})] * 3) as server:
        error = error_of(local(server))
    assert server.url in str(error) and "base_url" in str(error)


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://host/v1", "http://", "", "http://[::1/v1", "http://host:port/v1"])
def test_base_url_must_be_an_http_address(url):
    with pytest.raises(ConfigError, match="base_url"):
        OpenAICompatibleChat("m", url, window_tokens=4096)


def test_base_url_with_a_password_is_refused_without_showing_it():
    with pytest.raises(ConfigError, match="base_url") as caught:
        OpenAICompatibleChat("m", "http://me:secret@host/v1", window_tokens=4096)
    assert "secret" not in str(caught.value)


def test_dollars_are_unknown_unless_told():
    with OpenAIServer() as server:
        assert run(local(server)).dollars is None
        assert run(local(server, prices={OpenAIServer.MODEL: FREE})).dollars == 0


@pytest.mark.parametrize(
    "make", [lambda url: OpenAICompatibleChat("m", url, window_tokens=4096), CompletionServer], ids=["model", "policy's server"]
)
@pytest.mark.parametrize("url", ["http://me:hunter2@127.0.0.1/v1", "me:hunter2@127.0.0.1", "ftp://me:hunter2@127.0.0.1"])
def test_a_secret_in_an_address_is_refused_and_not_shown(make, url):
    with pytest.raises(ConfigError, match="holds a user or password") as caught:
        make(url)
    assert "hunter2" not in str(caught.value)
