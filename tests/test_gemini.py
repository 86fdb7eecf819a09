"""Gemini and Vertex AI through google-genai, against a local server."""

import json

import pytest
from model_support import HI, MODEL, clean_environment, error_of, gemini, run  # noqa: F401
from servers import Answer, GeminiServer, gemini_blocked, gemini_error, gemini_quota, gemini_reply

from rlmlib.errors import ConfigError
from rlmlib.models.base import Message
from rlmlib.models.gemini import GeminiChat

PER_DAY = "GenerateRequestsPerDayPerProjectPerModel-FreeTier"
PER_MINUTE = "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"


def test_body():
    messages = [Message("system", "s"), Message("user", "a"), Message("assistant", "b"), Message("user", "c"), Message("user", "d")]
    with GeminiServer() as server:
        run(gemini(server, thinking="medium", temperature=0.5), messages, 77)
        request = server.requests[0]
    turns = [(content["role"], content["parts"]) for content in request.body["contents"]]
    assert turns == [(role, [{"text": text}]) for role, text in [("user", "a"), ("model", "b"), ("user", "c"), ("user", "d")]]
    assert request.body["systemInstruction"]["parts"] == [{"text": "s"}]
    config = {"temperature": 0.5, "maxOutputTokens": 77, "thinkingConfig": {"thinking_level": "MEDIUM"}}
    assert request.body["generationConfig"] == config
    assert request.path.endswith(f"/models/{MODEL}:generateContent")


@pytest.mark.parametrize(
    "model, thinking, sent",
    [
        ("gemini-3-flash-preview", "none", {"thinking_level": "MINIMAL"}),
        ("gemini-3.1-flash-lite", "high", {"thinking_level": "HIGH"}),
        ("gemini-2.5-flash", "none", {"thinking_budget": 0}),
        ("gemini-2.5-flash", "low", {"thinking_budget": 1024}),
    ],
)
def test_thinking(model, thinking, sent):
    with GeminiServer() as server:
        run(gemini(server, model, thinking=thinking))
        assert server.requests[0].body["generationConfig"]["thinkingConfig"] == sent


def test_thinking_tokens_are_completion_tokens():
    with GeminiServer(gemini_reply("a", prompt=100, candidates=5, thoughts=40)) as server:
        reply = run(gemini(server))
    assert (reply.completion_tokens, reply.thinking_tokens) == (45, 40)


def test_thinking_of_all_attempts_is_counted():
    with GeminiServer(*[gemini_reply(text, candidates=5, thoughts=40) for text in (None, "a")]) as server:
        reply = run(gemini(server))
    assert (reply.completion_tokens, reply.thinking_tokens) == (90, 80)


def test_missing_counts_are_zero():
    with GeminiServer(gemini_reply("a", prompt=None, candidates=None)) as server:
        reply = run(gemini(server))
    assert (reply.prompt_tokens, reply.completion_tokens, reply.thinking_tokens) == (0, 0, 0)


def test_thoughts_are_not_text():
    with GeminiServer(gemini_reply("answer", thought_text="FINAL(no)")) as server:
        assert run(gemini(server)).text == "answer"


def test_dollars_are_of_all_attempts():
    with GeminiServer(gemini_reply(None, prompt=1_000_000, candidates=None), gemini_reply("a", prompt=1_000_000, candidates=0)) as server:
        assert run(gemini(server)).dollars == pytest.approx(0.50)


@pytest.mark.parametrize("body", [{"candidates": [1]}, {"candidates": [{"content": "x"}]}, {"usageMetadata": "x"}, {"candidates": {}}])
def test_reply_of_the_wrong_shape_is_retried(body):
    with GeminiServer(Answer(body)) as server:
        assert run(gemini(server)).attempts == 2


def test_blocked_prompt():
    with GeminiServer(gemini_blocked("SAFETY", prompt=12)) as server:
        error = error_of(gemini(server))
        assert (error.kind, error.prompt_tokens, len(server.requests)) == ("blocked", 12, 1)
    assert "SAFETY" in str(error)


@pytest.mark.parametrize("finish", ["SAFETY", "RECITATION", "PROHIBITED_CONTENT"])
def test_blocked_reply(finish):
    with GeminiServer(gemini_reply(None, finish=finish)) as server:
        error = error_of(gemini(server))
    assert error.kind == "blocked" and finish in str(error)


def test_max_tokens_without_parts_says_to_raise_them():
    with GeminiServer(*[gemini_reply(None, finish="MAX_TOKENS", candidates=None, thoughts=64)] * 2) as server:
        error = error_of(gemini(server))
    assert (error.kind, error.completion_tokens) == ("empty", 128)
    assert "raise max_tokens" in str(error)


@pytest.mark.filterwarnings("ignore:LATER is not a valid FinishReason")
def test_finish_reason_of_a_later_api_is_no_failure():
    with GeminiServer(gemini_reply("a", finish="LATER")) as server:
        assert run(gemini(server)).text == "a"


def test_retry_info_is_waited_for():
    with GeminiServer(gemini_quota(PER_MINUTE, "0.3s")) as server:
        assert run(gemini(server)).attempts == 2
        first, second = server.requests
    assert second.at - first.at >= 0.3


def test_daily_quota_is_not_retried():
    with GeminiServer(gemini_quota(PER_DAY, "0.1s")) as server:
        error = error_of(gemini(server))
        assert (error.kind, len(server.requests)) == ("rate_limit", 1)
    assert PER_DAY in str(error)


@pytest.mark.parametrize("details", [["text"], [{"violations": ["text"]}], [{"@type": "x/RetryInfo", "retryDelay": "soon"}], [{}]])
def test_rate_limit_with_odd_details_is_retried(details):
    with GeminiServer(gemini_error(429, "RESOURCE_EXHAUSTED", details=details)) as server:
        assert run(gemini(server)).attempts == 2


def test_prompt_over_the_window():
    message = "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."
    with GeminiServer(gemini_error(400, "INVALID_ARGUMENT", message)) as server:
        assert error_of(gemini(server)).kind == "too_long"


def test_bad_key_is_not_retried_nor_shown():
    with GeminiServer() as server:
        error = error_of(gemini(server, api_key="AIza-wrong-key"))
        assert (error.kind, len(server.requests)) == ("rejected", 1)
    assert "API key not valid" in str(error) and "AIza-wrong-key" not in str(error)


@pytest.mark.parametrize("variable", ["GEMINI_API_KEY", "GOOGLE_API_KEY"])
def test_key_comes_from_the_environment(monkeypatch, variable):
    monkeypatch.setenv(variable, GeminiServer.KEY)
    with GeminiServer() as server:
        assert run(gemini(server, api_key=None)).text == "<hi>"


def test_without_a_key_names_the_variable():
    with pytest.raises(ConfigError, match="^no Gemini API key: set GEMINI_API_KEY .*$"):
        GeminiChat(MODEL)


def test_unknown_thinking_level():
    with pytest.raises(ConfigError, match="thinking: 'deep' is not a level"):
        GeminiChat(MODEL, api_key="k", thinking="deep")


def test_key_is_used_where_the_environment_asks_for_vertex(monkeypatch):
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    with GeminiServer() as server:
        assert run(gemini(server)).text == "<hi>"
        assert server.requests[0].path == f"/v1/models/{MODEL}:generateContent"


@pytest.fixture
def service_account(tmp_path, monkeypatch):
    """Writes a service account whose tokens come from a server, and points the environment at it."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    kind, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    pem = key.private_bytes(kind, form, serialization.NoEncryption()).decode()

    def write(server):
        account = {"type": "service_account", "client_email": "a@b.iam.gserviceaccount.com", "project_id": "other", "private_key": pem}
        path = tmp_path / "account.json"
        path.write_text(json.dumps(account | {"private_key_id": "1", "token_uri": f"{server.origin}/token"}))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))

    return write


@pytest.mark.parametrize("location, sent", [(None, "global"), ("europe-west4", "europe-west4")])
def test_vertex_request(service_account, monkeypatch, location, sent):
    monkeypatch.setenv("GEMINI_API_KEY", "AIza-not-for-vertex")
    with GeminiServer() as server:
        service_account(server)
        assert run(gemini(server, api_key=None, vertex_project="p", vertex_location=location)).text == "<hi>"
        request = server.requests[-1]
    assert request.path.endswith(f"/projects/p/locations/{sent}/publishers/google/models/{MODEL}:generateContent")
    assert "x-goog-api-key" not in request.headers


def test_vertex_without_credentials_says_how_to_get_them(monkeypatch, tmp_path):
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "missing.json"))
    with GeminiServer() as server:
        error = error_of(gemini(server, api_key=None, vertex_project="p"))
    assert error.kind == "rejected" and "gcloud auth application-default login" in str(error)


@pytest.mark.parametrize("options", [{"vertex_project": "p", "api_key": "k"}, {"vertex_location": "global"}])
def test_vertex_options_that_do_not_fit(options):
    with pytest.raises(ConfigError, match="vertex_"):
        GeminiChat(MODEL, **options)
