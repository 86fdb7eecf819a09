"""The sandboxed side of a REPL. Runs alone: `python -I -S repl_child.py`, imports no rlmlib.

Started once as a warm server on the socket at file descriptor 0. For each file
descriptor it is handed it forks a worker, which holds one Python session and talks
frames (4-byte length, JSON) over that descriptor. The server ends when the host does,
and the kernel then kills the workers.
"""

import ast
import builtins
import io
import json
import linecache
import os
import resource
import signal
import socket
import struct
import sys
import threading
import traceback

KEEP = 100_000  # characters of output kept at each end; the middle is only counted
MAX_FRAME = 64 * 1024 * 1024


class Capture(io.TextIOBase):
    """stdout of a block: the first and last KEEP characters, and how many there were."""

    def __init__(self):
        self.head, self.tail, self.total = "", "", 0

    def writable(self):
        return True

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        self.total += len(text)
        room = KEEP - len(self.head)
        if room > 0:
            self.head += text[:room]
            self.tail += text[room:]
        else:
            self.tail += text
        if len(self.tail) > 2 * KEEP:
            self.tail = self.tail[-KEEP:]
        return len(text)

    def ends(self):
        return self.head + self.tail[-KEEP:]


class Final(BaseException):
    """Raised by FINAL and FINAL_VAR to end the block at once."""


class Worker:
    def __init__(self, channel):
        self.channel = channel
        self.pid, self.lock = os.getpid(), threading.Lock()
        self.running = False
        self.answer = None
        self.block = 0
        self.names = {"__name__": "__main__", "__builtins__": builtins}

    # --- channel

    def send(self, message):
        if os.getpid() != self.pid:
            os._exit(0)  # a copy that model code forked does not speak for the worker
        body = json.dumps(message).encode()
        self.channel.sendall(struct.pack(">I", len(body)) + body)

    def receive(self):
        (size,) = struct.unpack(">I", self._exactly(4))
        return json.loads(self._exactly(size))

    def _exactly(self, size):
        parts = []
        while size:
            part = self.channel.recv(min(size, 1 << 20))
            if not part:
                os._exit(0)
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    # --- what model code may call

    def ask(self, op, prompts):
        if not all(isinstance(p, str) for p in prompts):
            raise TypeError("every prompt must be a str")
        with self.lock:  # model code may ask from several threads
            self.send({"op": "ask", "kind": op, "prompts": prompts})
            return self.receive()["texts"]

    def llm_query(self, prompt):
        """One leaf call."""
        return self.ask("llm", [prompt])[0]

    def llm_query_batched(self, prompts):
        """Leaf calls in parallel; answers in order."""
        return self.ask("llm", list(prompts))

    def rlm_query(self, prompt):
        return self.ask("rlm", [prompt])[0]

    def rlm_query_batched(self, prompts):
        return self.ask("rlm", list(prompts))

    def finish(self, value):
        if self.answer is None:
            self.answer = str(value)
        raise Final

    def final_var(self, name):
        """A name ("x") or the variable itself (x) ends the rollout with its value."""
        if isinstance(name, str):
            if name in self.model_names():
                self.finish(self.names[name])
            if not any(value is name for value in self.model_names().values()):
                raise NameError(f"FINAL_VAR: no variable named {name!r}; SHOW_VARS() lists them")
        self.finish(name)

    def show_vars(self):
        return {name: type(value).__name__ for name, value in self.model_names().items()}

    def model_names(self):
        given = self.given()
        return {k: v for k, v in self.names.items() if not k.startswith("__") and k not in given}

    def given(self):
        """Names that each block finds as they were, whatever the last one did to them."""
        return {
            "context": self.context,
            "llm_query": self.llm_query,
            "llm_query_batched": self.llm_query_batched,
            "rlm_query": self.rlm_query,
            "rlm_query_batched": self.rlm_query_batched,
            "FINAL": self.finish,
            "FINAL_VAR": self.final_var,
            "SHOW_VARS": self.show_vars,
        }

    # --- running

    def run(self, code):
        self.names.update(self.given())
        self.answer = None
        self.block += 1
        out = Capture()
        sys.stdout = sys.stderr = out
        sys.stdin = io.StringIO("")
        failed = False
        try:
            self.running = True
            self.execute(code)
        except Final:
            pass
        except KeyboardInterrupt:
            failed = True
            out.write("TimeoutError: the block ran over its time limit and was stopped\n")
        except SystemExit as error:
            failed = True
            out.write(f"SystemExit: {error} (ignored; the session goes on)\n")
        except BaseException:  # noqa: BLE001 - model code may raise anything
            failed = True
            out.write(self.trace())
        finally:
            self.running = False
        self.send({"op": "done", "output": out.ends(), "total": out.total, "final": self.answer, "failed": failed})

    def execute(self, code):
        filename = f"<repl-{self.block}>"
        linecache.cache[filename] = (len(code), None, code.splitlines(True), filename)
        tree = ast.parse(code, filename)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, filename, "exec"), self.names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), filename, "eval"), self.names)
            if value is not None:
                print(repr(value))

    def trace(self):
        kind, error, where = sys.exc_info()
        while where is not None and not where.tb_frame.f_code.co_filename.startswith("<repl-"):
            where = where.tb_next
        try:
            return "".join(traceback.format_exception(kind, error, where, limit=-4, chain=False))
        except BaseException:  # noqa: BLE001 - __str__ of a model's exception may fail too
            return f"{kind.__name__}\n"

    def interrupt(self, *_):
        if self.running:
            raise KeyboardInterrupt

    def serve(self):
        signal.signal(signal.SIGINT, self.interrupt)
        start = self.receive()
        self.context = start["context"]
        limit = start["memory_mb"] << 20
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        self.send({"op": "ready", "pid": os.getpid()})
        while True:
            message = self.receive()
            if message["op"] == "run":
                self.run(message["code"])
            else:
                names = self.model_names()
                found = message["name"] in names
                text = str(names[message["name"]]) if found else None
                self.send({"op": "value", "text": text})


def die_with_parent():
    try:
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG, Linux only
    except (OSError, AttributeError):
        pass


def become_worker(control, descriptor, scratch):
    control.close()
    os.setsid()
    die_with_parent()
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    folder = os.path.join(scratch, str(os.getpid()))
    os.mkdir(folder)
    os.chdir(folder)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 24, 1 << 24))
    channel = socket.socket(fileno=descriptor)
    try:
        Worker(channel).serve()
    finally:
        os._exit(0)


def main():
    scratch = sys.argv[1]
    control = socket.socket(fileno=os.dup(0))
    die_with_parent()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the workers
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        data, descriptors, *_ = socket.recv_fds(control, 1, 1)
        if not data:
            return
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            become_worker(control, descriptors[0], scratch)
        os.close(descriptors[0])


if __name__ == "__main__":
    main()
