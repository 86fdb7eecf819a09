"""What every model behind an API does: the real SDKs against local servers that speak like the real services."""

import asyncio
import gc
import json
import logging
import os
import threading
import time
import traceback

import pytest
from model_support import GEMINI, HI, OPENAI, QUICK, clean_environment, error_of, run  # noqa: F401
from servers import Answer

from rlmlib.errors import InfrastructureError
from rlmlib.models.base import Message
from rlmlib.models.retry import RetryPolicy

both = pytest.mark.parametrize("engine", [pytest.param(GEMINI, id="gemini"), pytest.param(OPENAI, id="openai")])


@both
def test_text_comes_back(engine):
    with engine.server() as server:
        assert run(engine.chat(server)).text == "<hi>"


@both
def test_tokens_are_the_servers(engine):
    with engine.server(engine.reply("a", 1234, 56)) as server:
        reply = run(engine.chat(server))
    assert (reply.prompt_tokens, reply.completion_tokens, reply.attempts) == (1234, 56, 1)


@both
def test_cut_reply_is_marked(engine):
    with engine.server(engine.truncated) as server:
        reply = run(engine.chat(server))
    assert reply.truncated and reply.text == "cut o"


@both
@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_passing_fault_is_retried(engine, status):
    with engine.server(engine.error(status)) as server:
        reply = run(engine.chat(server))
    assert (reply.text, reply.attempts) == ("<hi>", 2)


@both
@pytest.mark.parametrize("status, kind", [(429, "rate_limit"), (500, "unavailable"), (503, "unavailable"), (504, "timeout")])
def test_lasting_fault_ends_after_the_last_attempt(engine, status, kind):
    with engine.server(*[engine.error(status)] * 9) as server:
        error = error_of(engine.chat(server))
        assert (error.kind, error.attempts, len(server.requests)) == (kind, QUICK.attempts, QUICK.attempts)


@both
@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_refused_request_is_not_retried(engine, status):
    with engine.server(engine.error(status)) as server:
        error = error_of(engine.chat(server))
        assert (error.kind, len(server.requests)) == ("rejected", 1)


@both
def test_failure_is_an_infrastructure_error_of_one_line(engine):
    with engine.server(engine.error(400, message="first\nsecond")) as server:
        error = error_of(engine.chat(server))
    assert isinstance(error, InfrastructureError)
    assert "first second" in str(error) and "\n" not in str(error)


@both
def test_retry_after_header_is_waited_for(engine):
    with engine.server(engine.error(429, headers={"retry-after": "0.3"})) as server:
        run(engine.chat(server))
        first, second = server.requests
    assert second.at - first.at >= 0.3


@both
def test_wait_that_would_outlast_the_deadline_is_not_begun(engine):
    began = time.monotonic()
    with engine.server(engine.error(429, headers={"retry-after": "47"})) as server:
        error = error_of(engine.chat(server, timeout_s=20))
    assert (error.kind, error.attempts) == ("rate_limit", 1)
    assert time.monotonic() - began < 5


@both
def test_wait_that_a_server_may_ask_for_is_capped(engine):
    policy = RetryPolicy(first_delay_s=0.01, max_asked_s=0.05)
    began = time.monotonic()
    with engine.server(engine.error(503, headers={"retry-after": "47"})) as server:
        assert run(engine.chat(server, policy=policy)).attempts == 2
    assert time.monotonic() - began < 5


@both
def test_hanging_server_ends_at_the_deadline(engine):
    began = time.monotonic()
    with engine.server(*[Answer({}, delay_s=30)] * 9) as server:
        error = error_of(engine.chat(server, timeout_s=0.4))
    assert error.kind == "timeout"
    assert 0.4 <= time.monotonic() - began < 3


@both
def test_hanging_attempt_is_given_up_and_repeated(engine):
    policy = RetryPolicy(first_delay_s=0.01, attempt_timeout_s=0.5)
    began = time.monotonic()
    with engine.server(Answer({}, delay_s=30)) as server:
        reply = run(engine.chat(server, policy=policy))
    assert (reply.text, reply.attempts) == ("<hi>", 2)
    assert time.monotonic() - began < 10


@both
def test_server_that_stops_in_the_middle_of_a_body_ends_at_the_deadline(engine):
    with engine.server(Answer(b"{", headers={"content-length": "1000"})) as server:
        began = time.monotonic()
        assert error_of(engine.chat(server, timeout_s=0.4)).kind == "timeout"
    assert time.monotonic() - began < 3


@both
@pytest.mark.parametrize("body", [b"<html>hello</html>", b"", b"null", b"\xff\xfe", b"[]", b'"text"', b"{}", b"{"])
def test_garbage_with_status_200_is_retried(engine, body):
    with engine.server(Answer(body)) as server:
        assert run(engine.chat(server)).attempts == 2


@both
def test_web_page_with_status_200_is_retried(engine):
    with engine.server(Answer(b"<html>hello</html>", headers={"content-type": "text/html"})) as server:
        assert run(engine.chat(server)).attempts == 2


@both
def test_html_error_page_is_a_fault_of_the_server(engine):
    with engine.server(*[Answer(b"<html>Bad Gateway</html>", 502)] * 9) as server:
        assert error_of(engine.chat(server)).kind == "unavailable"


@both
def test_refused_connection_names_the_address(engine):
    with engine.server() as server:
        pass
    error = error_of(engine.chat(server))
    assert error.kind == "unavailable" and server.origin in str(error)


@both
def test_empty_reply_is_retried_and_its_tokens_count(engine):
    with engine.server(engine.empty) as server:
        server.script.append(engine.reply("a", 10, 3))
        reply = run(engine.chat(server))
    assert (reply.text, reply.attempts, reply.prompt_tokens, reply.completion_tokens) == ("a", 2, 20, 3)


@both
def test_white_space_is_an_empty_reply(engine):
    with engine.server(engine.reply(" \n")) as server:
        assert run(engine.chat(server)).attempts == 2


@both
def test_empty_replies_end_after_two_with_their_tokens(engine):
    with engine.server(*[engine.empty] * 9) as server:
        error = error_of(engine.chat(server))
    assert (error.kind, error.attempts, error.prompt_tokens) == ("empty", 2, 20)


@both
def test_calls_run_at_once(engine):
    async def main(chat):
        replies = await asyncio.gather(*(chat.chat([Message("user", str(i))], 64) for i in range(8)))
        await chat.aclose()
        return [reply.text for reply in replies]

    with engine.server(*[engine.error(503, together=8)] * 8) as server:
        assert asyncio.run(main(engine.chat(server))) == [f"<{i}>" for i in range(8)]
        assert server.most_at_once == 8


async def cancelled_after(chat, delay_s) -> float:
    """Seconds that a call takes to end once it is cancelled."""
    task = asyncio.create_task(chat.chat(HI, 64))
    await asyncio.sleep(delay_s)
    assert not task.done()
    began = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await chat.aclose()
    return time.monotonic() - began


@both
def test_call_is_cancelled_while_it_waits_for_the_server(engine):
    with engine.server(Answer({}, delay_s=30)) as server:
        assert asyncio.run(cancelled_after(engine.chat(server), 0.4)) < 1
        assert len(server.requests) == 1


@both
def test_call_is_cancelled_while_it_backs_off(engine):
    with engine.server(engine.error(503)) as server:
        assert asyncio.run(cancelled_after(engine.chat(server, policy=RetryPolicy(first_delay_s=60, max_delay_s=60)), 0.4)) < 1
        assert len(server.requests) == 1


@both
def test_object_serves_one_event_loop_after_another(engine):
    with engine.server() as server:
        chat = engine.chat(server)
        assert [asyncio.run(chat.chat(HI, 64)).text for _ in range(3)] == ["<hi>"] * 3  # none of them closed


@both
def test_object_serves_two_event_loops_at_once(engine):
    with engine.server(*[engine.error(503, together=2)] * 2) as server:
        chat, texts = engine.chat(server), []
        threads = [threading.Thread(target=lambda: texts.append(run(chat).text)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=20)
    assert texts == ["<hi>"] * 2


@both
def test_object_is_of_use_after_aclose(engine):
    async def main(chat):
        first = await chat.chat(HI, 64)
        await chat.aclose()
        await chat.aclose()
        second = await chat.chat(HI, 64)
        await chat.aclose()
        return first.text, second.text

    with engine.server() as server:
        assert asyncio.run(main(engine.chat(server))) == ("<hi>", "<hi>")


@both
def test_aclose_leaves_no_connection_open(engine):
    with engine.server() as server:
        run(engine.chat(server))  # what is opened once and kept is open now
        before = len(os.listdir("/proc/self/fd"))
        gc.disable()  # or a client that was dropped would close by being collected
        try:
            for _ in range(5):
                run(engine.chat(server))
            deadline = time.monotonic() + 2
            while len(os.listdir("/proc/self/fd")) > before and time.monotonic() < deadline:  # the server closes its ends later
                time.sleep(0.02)
            assert len(os.listdir("/proc/self/fd")) <= before
        finally:
            gc.enable()


@both
def test_lone_surrogate_is_sent_as_a_question_mark(engine):
    with engine.server() as server:
        assert run(engine.chat(server), [Message("user", "a\ud800b")]).text == "<a?b>"


@both
def test_key_is_in_no_error_text_that_echoes_it(engine):
    with engine.server(engine.error(400, message=f"bad key {engine.key}")) as server:
        error = error_of(engine.chat(server, api_key=engine.key))
    assert "bad key ***" in str(error)
    assert engine.key not in "".join(traceback.format_exception(error))


@both
def test_key_is_in_no_repr(engine):
    with engine.server() as server:
        chat = engine.chat(server, api_key=engine.key)
        run(chat)
    assert engine.key not in repr(chat) + repr(vars(chat))


@both
def test_key_is_in_no_log(engine, caplog):
    caplog.set_level(logging.DEBUG)
    for name in ("openai", "google_genai", "httpx2", "httpcore2"):
        caplog.set_level(logging.DEBUG, name)
    with engine.server(engine.error(503)) as server:
        run(engine.chat(server, api_key=engine.key))
        sent = json.dumps(server.requests[0].headers)
    assert engine.key in sent and caplog.records
    assert engine.key not in caplog.text
