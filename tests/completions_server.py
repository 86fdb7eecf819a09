"""A local server with vLLM's completions and its commands for adapters and weights, that samples from a tiny random model.

It refuses what vLLM refuses, loads adapters with PEFT from the path that it is given, and takes a reloaded model's weights into
use only once the prefix cache was emptied: until then vLLM would answer in part from the old ones.
"""

import copy
import json
import select
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import torch
from servers import HELD_S, Answer, openai_error
from support import tiny_model

MODEL = "base-model"
_LOADING = threading.Lock()  # transformers changes global defaults while it loads a model


class CompletionsServer:
    """Use as a context manager. `script` answers the next requests in place of the server, whatever they ask for.

    gate: replies are computed when they are asked for and sent once it is open. spoil: changes a completion before it is sent.
    """

    def __init__(self, seed: int = 0, *, lora=True, dev_mode=True, metrics=True, raw_logprobs=False, max_model_len=256, key=None):
        self.seed, self.metrics, self.process = seed, metrics, 1.5
        self.lora, self.dev_mode, self.raw_logprobs, self.max_model_len, self.key = lora, dev_mode, raw_logprobs, max_model_len, key
        self.base, self.adapters, self.reloaded = tiny_model(seed), {}, None
        self.script: list[Answer] = []
        self.spoil: Callable[[dict], None] | None = None
        self.requests: list[tuple[str, dict]] = []  # path and body
        self.sampled, self.given_up = [], 0  # models of the replies; clients that went before their answer
        self.gate, self.closing, self._lock = threading.Event(), threading.Event(), threading.Lock()
        self.gate.set()
        self.held = threading.Semaphore(0)  # released for each reply that waits at the gate
        self.gone = threading.Semaphore(0)  # released for each client that went
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.closing.set()
        self.gate.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(timeout=5)

    def restart(self):
        """Forget the adapters and the weights, as a new process has none."""
        self.adapters.clear()
        self.base, self.process = tiny_model(self.seed), self.process + 1

    def paths(self, path: str) -> list[dict]:
        """Bodies of the requests to a path."""
        return [body for known, body in self.requests if known == path]

    def answer(self, path: str, headers, body: dict) -> Answer:
        with self._lock:
            self.requests.append((path, body))
            if self.key and path.startswith("/v1") and headers.get("authorization") != f"Bearer {self.key}":
                return Answer({"error": "Unauthorized"}, 401)
            if self.script:
                return self.script.pop(0)
            known = {"/v1/models": self._models, "/v1/completions": self._complete}
            if self.metrics:
                known["/metrics"] = self._metrics
            if self.lora:
                known |= {"/v1/load_lora_adapter": self._load, "/v1/unload_lora_adapter": self._unload}
            if self.dev_mode:
                known |= {"/collective_rpc": self._rpc, "/reset_prefix_cache": self._reset}
            return known[path](body) if path in known else Answer({"detail": "Not Found"}, 404)

    def _models(self, _body) -> Answer:
        cards = [{"id": MODEL, "object": "model", "parent": None, "max_model_len": self.max_model_len}]
        return Answer({"object": "list", "data": cards + [{"id": name, "parent": MODEL} for name in self.adapters]})

    def _metrics(self, _body) -> Answer:
        text = f"# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds {self.process}\n"
        return Answer(text.encode(), headers={"content-type": "text/plain"})

    def _load(self, body) -> Answer:
        from peft import PeftModel

        if body["lora_name"] in self.adapters:
            return openai_error(400, f"The lora adapter '{body['lora_name']}' has already been loaded.", "InvalidUserInput", 400)
        try:
            self.adapters[body["lora_name"]] = PeftModel.from_pretrained(copy.deepcopy(self.base), body["lora_path"]).eval()
        except Exception:  # noqa: BLE001 - vLLM says so whatever is wrong with it
            return openai_error(404, f"No adapter found for {body['lora_path']}", "NotFoundError", 404)
        return Answer(b"Success", headers={"content-type": "text/plain"})

    def _unload(self, body) -> Answer:
        if self.adapters.pop(body["lora_name"], None) is None:
            return openai_error(404, f"The lora adapter '{body['lora_name']}' cannot be found.", "NotFoundError", 404)
        return Answer(b"Success", headers={"content-type": "text/plain"})

    def _rpc(self, body) -> Answer:
        from transformers import AutoModelForCausalLM

        assert body["method"] == "reload_weights"
        with _LOADING:
            self.reloaded = AutoModelForCausalLM.from_pretrained(body["kwargs"]["weights_path"]).float().eval()
        return Answer({"results": [None]})

    def _reset(self, _body) -> Answer:
        self.base, self.reloaded = self.reloaded or self.base, None
        return Answer({"success": True})

    def _complete(self, body) -> Answer:
        if body["model"] != MODEL and body["model"] not in self.adapters:
            return openai_error(404, f"The model `{body['model']}` does not exist.", "NotFoundError", 404)
        if len(body["prompt"]) + body["max_tokens"] > self.max_model_len:
            return openai_error(400, f"This model's maximum context length is {self.max_model_len} tokens.", "BadRequestError", 400)
        neutral = {"top_p": 1, "top_k": 0, "min_p": 0, "repetition_penalty": 1, "presence_penalty": 0, "frequency_penalty": 0}
        assert {name: body[name] for name in neutral} == neutral, "a model's generation_config would say otherwise"
        assert body["ignore_eos"] and body["return_token_ids"]
        self.sampled.append(body["model"])
        ids, logprobs, top = self._sample(self.adapters.get(body["model"], self.base), body)
        choice = {
            "index": 0,
            "text": "",
            "finish_reason": "stop" if ids[-1] in body["stop_token_ids"] else "length",
            "logprobs": {"token_logprobs": logprobs, "tokens": [f"token_id:{token}" for token in ids], "top_logprobs": top},
            "prompt_token_ids": body["prompt"],
            "token_ids": ids,
        }
        if self.spoil:
            self.spoil(choice)
        return Answer({"id": "cmpl-1", "object": "text_completion", "model": body["model"], "choices": [choice]})

    @torch.no_grad()
    def _sample(self, model, body):
        generator, ids, logprobs, top = torch.Generator().manual_seed(body["seed"]), [], [], []
        while len(ids) < body["max_tokens"] and not (ids and ids[-1] in body["stop_token_ids"]):
            logits = model(input_ids=torch.tensor([body["prompt"] + ids])).logits[0, -1]
            sampled_from = (logits / body["temperature"]).log_softmax(-1)
            shown = logits.log_softmax(-1) if self.raw_logprobs else sampled_from
            ids.append(int(torch.multinomial(sampled_from.exp(), 1, generator=generator)))
            logprobs.append(float(shown[ids[-1]]))
            top.append({f"token_id:{int(shown.argmax())}": float(shown.max()), f"token_id:{ids[-1]}": logprobs[-1]})
        return ids, logprobs, top

    def _handler(self):
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 30

            def do_GET(self):
                self._respond({})

            def do_POST(self):
                self._respond(json.loads(self.rfile.read(int(self.headers["content-length"]))))

            def _respond(self, body):
                answer = server.answer(self.path, self.headers, body)
                server.closing.wait(answer.delay_s)
                if self.path == "/v1/completions" and not server.gate.is_set():
                    server.held.release()
                    if not self._wait_for_gate():
                        return
                if server.closing.is_set():  # a connection that was kept ends with its server
                    self.close_connection = True
                    return
                data = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
                self.send_response(answer.status)
                for name, value in {"content-type": "application/json", "content-length": str(len(data)), **answer.headers}.items():
                    self.send_header(name, value)
                try:
                    self.end_headers()
                    self.wfile.write(data)
                except OSError:  # the client gave up
                    self.close_connection = True
                if int(answer.headers.get("content-length", len(data))) != len(data):  # it promised more than it sends
                    self.close_connection = True

            def _wait_for_gate(self) -> bool:
                """False where the client has gone, at which vLLM aborts."""
                for _ in range(int(HELD_S / 0.02)):
                    if server.gate.wait(0.02):
                        return True
                    readable, _, _ = select.select([self.connection], [], [], 0)
                    if readable and not self.connection.recv(1, socket.MSG_PEEK):
                        server.given_up += 1
                        server.gone.release()
                        self.close_connection = True
                        return False
                raise AssertionError("the gate was never opened")

            def log_message(self, *_):
                pass

        return Handler
