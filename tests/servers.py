"""Local servers that speak like the APIs of Gemini and of OpenAI-compatible engines. Standard library only.

A server plays a script, one Answer a request, and answers by echo once it is through. Requests that the real service would
refuse are refused whatever the script says, so that a wrong body cannot pass unseen.
"""

import json
import threading
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HELD_S = 10.0


@dataclass
class Answer:
    """body: a dict is sent as JSON, bytes as they are. delay_s: before anything is sent.

    together: the answer is held until so many requests wait at once, for HELD_S at most.
    """

    body: dict | list | bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    together: int = 0


@dataclass
class Request:
    path: str
    headers: dict[str, str]  # names in lower case
    body: dict
    at: float = field(default_factory=time.monotonic)


class FakeServer(ABC):
    """Use as a context manager. `requests` are those received, in order; `most_at_once` of them waited together."""

    def __init__(self, *script: Answer):
        self.script, self.requests, self.most_at_once = list(script), [], 0
        self._in_flight, self._changed, self._closing = 0, threading.Condition(), threading.Event()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        self.origin = f"http://127.0.0.1:{self._http.server_port}"
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(timeout=5)

    @abstractmethod
    def refusal(self, request: Request) -> Answer | None:
        """What the real service says to a request that is not in order."""

    @abstractmethod
    def echo(self, request: Request) -> Answer:
        """The answer once the script is through."""

    def _answer(self, request: Request) -> Answer:
        with self._changed:
            self.requests.append(request)
            self._in_flight += 1
            self.most_at_once = max(self.most_at_once, self._in_flight)
            self._changed.notify_all()
            answer = self.refusal(request) or (self.script.pop(0) if self.script else self.echo(request))
            self._changed.wait_for(lambda: self.most_at_once >= answer.together, HELD_S)
        self._closing.wait(answer.delay_s)
        with self._changed:
            self._in_flight -= 1
        return answer

    def _handler(self):
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 30

            def do_POST(self):
                raw = self.rfile.read(int(self.headers.get("content-length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                body = json.loads(raw) if headers.get("content-type") == "application/json" else {}
                answer = server._answer(Request(self.path, headers, body))
                data = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
                self.send_response(answer.status)
                for name, value in {"content-type": "application/json", "content-length": str(len(data)), **answer.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                try:
                    self.wfile.write(data)
                except OSError:  # the client gave up
                    self.close_connection = True

            def log_message(self, *_):
                pass

        return Handler


# --- Gemini


def gemini_reply(text: str | None = "ok", *, finish="STOP", prompt=10, candidates=3, thoughts=None, thought_text=None, **answer) -> Answer:
    """A generateContent response. Counts that are None are left out, as the service leaves out zeros."""
    parts = [{"text": thought_text, "thought": True}] if thought_text else []
    parts += [{"text": text}] if text is not None else []
    candidate = {"content": {"parts": parts, "role": "model"} if parts else {"role": "model"}, "finishReason": finish, "index": 0}
    counts = {"promptTokenCount": prompt, "candidatesTokenCount": candidates, "thoughtsTokenCount": thoughts}
    usage = {name: count for name, count in counts.items() if count is not None}
    usage["totalTokenCount"] = sum(usage.values())
    return Answer({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-test", "responseId": "r"}, **answer)


def gemini_blocked(reason="SAFETY", prompt=10) -> Answer:
    usage = {"promptTokenCount": prompt, "totalTokenCount": prompt}
    return Answer({"promptFeedback": {"blockReason": reason}, "usageMetadata": usage, "modelVersion": "gemini-test"})


def gemini_error(status: int, name: str, message: str = "it failed", details: list | None = None, **answer) -> Answer:
    error = {"code": status, "message": message, "status": name, **({"details": details} if details else {})}
    return Answer({"error": error}, status, **answer)


def gemini_quota(quota_id: str, retry_delay: str | None = None) -> Answer:
    """429 with the details that the service sends: which quota, and when to come back."""
    violation = {"quotaMetric": "generativelanguage.googleapis.com/generate_content_free_tier_requests", "quotaId": quota_id}
    details = [{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [violation]}]
    if retry_delay:
        details.append({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": retry_delay})
    return gemini_error(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota", details)


class GeminiServer(FakeServer):
    """The Developer API's and Vertex AI's generateContent, and the token endpoint of Google Cloud credentials."""

    KEY = "AIza-test-key-0123456789"
    TOKEN = "ya29.test-token-0123456789"
    FIELDS = {"contents", "systemInstruction", "generationConfig"}
    CONFIG_FIELDS = {"temperature", "maxOutputTokens", "thinkingConfig"}
    THINKING_FIELDS = {"thinking_budget", "thinking_level", "thinkingBudget", "thinkingLevel"}

    def refusal(self, request: Request) -> Answer | None:
        if request.path == "/token":
            return Answer({"access_token": self.TOKEN, "expires_in": 3600, "token_type": "Bearer"})
        if not request.path.endswith(":generateContent"):
            return gemini_error(404, "NOT_FOUND", f"{request.path} is not found")
        if "/projects/" in request.path:
            if request.headers.get("authorization") != f"Bearer {self.TOKEN}":
                return gemini_error(401, "UNAUTHENTICATED", "Request had invalid authentication credentials.")
        elif request.headers.get("x-goog-api-key") != self.KEY:
            given = request.headers.get("x-goog-api-key")
            return gemini_error(400, "INVALID_ARGUMENT", f"API key not valid. Please pass a valid API key. Got {given}")
        wrong = self._wrong_body(request.body)
        return gemini_error(400, "INVALID_ARGUMENT", wrong) if wrong else None

    def _wrong_body(self, body: dict) -> str | None:
        config = body.get("generationConfig", {})
        thinking = config.get("thinkingConfig", {})
        known = ((body, self.FIELDS), (config, self.CONFIG_FIELDS), (thinking, self.THINKING_FIELDS))
        unknown = [name for given, names in known for name in given.keys() - names]
        if unknown:
            return f"Invalid JSON payload received. Unknown name {unknown}"
        if len(thinking) > 1:
            return "You can only set only one of thinking budget and thinking level."
        contents = body.get("contents", [])
        if not contents or any(c.get("role") not in ("user", "model") for c in contents):
            return "Please use a valid role: user, model."
        if not all(part.get("text") for content in contents for part in content.get("parts") or [{}]):
            return "Unable to submit request because it must have a text parameter."
        return None

    def echo(self, request: Request) -> Answer:
        text = request.body["contents"][-1]["parts"][0]["text"]
        return gemini_reply(f"<{text}>", prompt=len(json.dumps(request.body["contents"])) // 4, candidates=len(text) // 4 + 1)


# --- OpenAI


def openai_reply(content="ok", *, finish="stop", prompt=10, completion=3, reasoning_tokens=None, message=None, **answer) -> Answer:
    """A chat completion. prompt=None leaves out the usage; `message` adds fields to the message."""
    whole = {"role": "assistant", "content": content, **(message or {})}
    choice = {"index": 0, "message": whole, "finish_reason": finish, "logprobs": None}
    body = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    if prompt is not None:
        body["usage"] = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
        if reasoning_tokens is not None:
            body["usage"]["completion_tokens_details"] = {"reasoning_tokens": reasoning_tokens}
    return Answer(body, **answer)


def openai_error(status: int, message: str = "it failed", kind: str = "error", code=None, **answer) -> Answer:
    return Answer({"error": {"message": message, "type": kind, "param": None, "code": code}}, status, **answer)


VLLM_TOO_LONG = openai_error(
    400,
    "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4900 in the messages, 100 in the "
    "completion). Please reduce the length of the messages or completion.",
    "BadRequestError",
    400,
)
LLAMA_CPP_TOO_LONG = Answer(
    {
        "error": {
            "code": 400,
            "message": "the request exceeds the available context size, try increasing it",
            "type": "exceed_context_size_error",
            "n_prompt_tokens": 1407,
            "n_ctx": 256,
        }
    },
    400,
)
LLAMA_CPP_LOADING = openai_error(503, "Loading model", "unavailable_error", 503)
VLLM_UNAUTHORISED = Answer({"error": "Unauthorized"}, 401)


class OpenAIServer(FakeServer):
    """POST /v1/chat/completions as vLLM serves it; with a key it asks for it as `vllm serve --api-key` does."""

    MODEL = "test-model"

    def __init__(self, *script: Answer, key: str | None = None):
        self.key = key
        super().__init__(*script)
        self.url = f"{self.origin}/v1"

    def refusal(self, request: Request) -> Answer | None:
        if self.key and request.headers.get("authorization") != f"Bearer {self.key}":
            return VLLM_UNAUTHORISED
        if request.path != "/v1/chat/completions":
            return Answer({"detail": "Not Found"}, 404)
        if request.body.get("model") != self.MODEL:
            missing = f"The model `{request.body.get('model')}` does not exist."
            return openai_error(404, missing, "NotFoundError", 404)
        roles = [message.get("role") for message in request.body.get("messages") or [{}]]
        if not set(roles) <= {"system", "user", "assistant"}:
            return openai_error(400, f"Unexpected message roles {roles}", "BadRequestError", 400)
        return None

    def echo(self, request: Request) -> Answer:
        text = request.body["messages"][-1]["content"]
        return openai_reply(f"<{text}>", prompt=len(json.dumps(request.body["messages"])) // 4, completion=len(text) // 4 + 1)
