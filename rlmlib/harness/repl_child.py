"""The sandboxed side of a REPL. Runs alone: `python -I -S repl_child.py SCRATCH SETTINGS`, imports no rlmlib.

Started once as a warm server on the socket at file descriptor 0. For each file descriptor it is
handed it forks a worker, which holds one Python session and speaks frames (4-byte length, JSON)
over that descriptor. With the descriptor comes the name of the worker's folder, which the host has made.
A worker is confined before it says that it is ready, and the first frame it
is sent carries the context, or the descriptor of a memory file with it.

The server ends when the host does: when the socket ends, or the process does whose descriptor came first, as a child
that the host forked may hold the socket. The kernel then kills the workers. It would kill the server as well
when its parent ends, but takes the thread that started it for the parent.

A frame carries no authority: budgets, depth and limits are the host's, and what a worker says is data.
So a frame that model code forges can do no more than the function that it could have called.
"""

import ast
import builtins
import gc
import importlib
import importlib.util
import io
import json
import linecache
import mmap
import os
import pickle
import select
import signal
import socket
import struct
import sys
import threading
import traceback
import types
import weakref
from _signal import signal as set_handler  # signal.signal takes 20 times as long, for its enums
from pathlib import Path

KEEP = 100_000  # characters of output kept at each end; the middle is only counted
MAX_FRAME = 32 << 20  # bytes: a batch of long prompts, or one context of a child
MAX_PROMPT = 10_000_000  # characters; a longer one fits no leaf and is not sent
MAX_PROMPTS = 1000  # of a batch
TICKET = struct.Struct(">Q")  # what comes with a descriptor: the name of a worker's folder
SCRATCH_MB = 64
READ_BYTES = 64 * 1024
LOOKS = 40  # of 2 microseconds each
PRELOADED = "collections dataclasses datetime functools itertools math random re statistics string textwrap typing".split()


def load_sandbox():
    """sandbox.py beside this file, without putting its folder on sys.path."""
    spec = importlib.util.spec_from_file_location("sandbox", Path(__file__).with_name("sandbox.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Capture(io.TextIOBase):
    """stdout of a block: the first and last KEEP characters, and how many there were."""

    def __init__(self):
        self.head, self.tail, self.total = "", "", 0
        self.strangers = ()  # threads of earlier blocks: what they print belongs to no block

    def writable(self):
        return True

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if self.strangers and threading.current_thread() in self.strangers:
            return len(text)
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
        self.channel, self.unread = channel, bytearray()
        self.pid, self.lock = os.getpid(), threading.Lock()
        self.running = False
        self.answer = None
        self.block = 0
        sys.modules["__main__"] = types.ModuleType("__main__")  # this file is not the model's main module
        self.names = vars(sys.modules["__main__"])
        self.names["__builtins__"] = builtins
        self.builtins = dict(vars(builtins))
        self.out = Capture()

    # --- channel

    def send(self, message):
        self.send_body(json.dumps(message).encode())

    def send_body(self, body):
        if os.getpid() != self.pid:
            os._exit(0)  # a copy that model code forked does not speak for the worker
        self.channel.sendall(struct.pack(">I", len(body)) + body)

    def receive(self):
        """The next frame. More may have been read than that: the rest is kept."""
        data = self.unread
        while len(data) < 4 or len(data) < 4 + struct.unpack_from(">I", data)[0]:
            part = self.read_soon() or self.channel.recv(READ_BYTES)
            if not part:
                os._exit(0)
            data += part
        end = 4 + struct.unpack_from(">I", data)[0]
        self.unread = data[end:]
        return json.loads(data[4:end])

    def read_soon(self):
        """What comes at once, as an answer from a cache does: to sleep and be woken takes longer than it. Empty where nothing does."""
        for _ in range(LOOKS):
            try:
                return self.channel.recv(READ_BYTES, socket.MSG_DONTWAIT)
            except BlockingIOError:
                os.sched_yield()
        return b""

    def receive_start(self):
        """The first frame. The context is in it, or in a memory file that comes with it."""
        begun, descriptors, *_ = socket.recv_fds(self.channel, READ_BYTES, 1)
        self.unread += begun
        start = self.receive()
        if not descriptors:
            self.context = start["context"]
            return start
        flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)  # all pages at once, not one fault each
        with mmap.mmap(descriptors[0], 0, flags=flags, prot=mmap.PROT_READ) as memory:
            self.context = str(memory, "utf-8", "surrogatepass") if start["text"] else pickle.loads(memory)
        os.close(descriptors[0])
        self.send({"op": "loaded"})
        return start

    # --- what model code may call

    def ask(self, kind, prompts):
        if not all(isinstance(p, str) for p in prompts):
            raise TypeError("every prompt must be a str")
        if len(prompts) > MAX_PROMPTS:
            raise ValueError(f"a batch of {len(prompts):,} prompts is over the limit of {MAX_PROMPTS:,}; send several smaller ones")
        sent = prompts if kind == "rlm" else [p for p in prompts if len(p) <= MAX_PROMPT]
        body = json.dumps({"op": "ask", "kind": kind, "prompts": sent}).encode()
        if len(body) > MAX_FRAME:
            raise ValueError(f"prompts of {len(body):,} bytes together are over the limit of {MAX_FRAME:,}; send fewer or shorter ones")
        with self.lock:  # model code may ask from several threads
            self.refuse_strangers()
            self.send_body(body)
            texts = self.receive()["texts"]
        if len(sent) == len(prompts):
            return texts
        texts = iter(texts)
        return [next(texts) if len(p) <= MAX_PROMPT else too_long(p) for p in prompts]

    def refuse_strangers(self):
        if threading.current_thread() in self.out.strangers:
            raise RuntimeError("the block that started this thread has ended")

    def llm_query(self, prompt):
        """One leaf call."""
        return self.ask("llm", [prompt])[0]

    def llm_query_batched(self, prompts):
        """Leaf calls in parallel; answers in order."""
        return self.ask("llm", listed(prompts))

    def rlm_query(self, prompt):
        """One child RLM over the prompt; a leaf call where children are not allowed."""
        return self.ask("rlm", [prompt])[0]

    def rlm_query_batched(self, prompts):
        """Child RLMs in parallel; answers in order."""
        return self.ask("rlm", listed(prompts))

    def budget(self):
        """What is left to this question: a dict."""
        return json.loads(self.ask("budget", [])[0])

    def finish(self, value):
        """Give the answer and stop."""
        self.refuse_strangers()
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
        """Names that the model has bound, with their types."""
        return {name: type(value).__name__ for name, value in self.model_names().items()}

    def model_names(self):
        return {k: v for k, v in self.names.items() if not k.startswith("__") and k not in self.given}

    # --- running

    def run(self, code, number):
        self.names.update(self.given)
        self.answer = None
        self.withdraw_draft()
        self.block += 1
        self.out = out = Capture()
        if threading.active_count() > 1:
            out.strangers = weakref.WeakSet(t for t in threading.enumerate() if t is not threading.main_thread())
        sys.stdout = sys.stderr = out
        failed = False
        try:
            self.running = True
            self.execute(code)
            if self.drafts and self.answer is None:
                self.answer = self.drafted()
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
            self.restore()
            out.write(self.trace())
        finally:
            self.running = False
        self.restore()
        self.send({"op": "done", "output": out.ends(), "total": out.total, "final": self.answer, "failed": failed, "block": number})

    def execute(self, code):
        filename = f"<repl-{self.block}>"
        linecache.cache[filename] = (len(code), None, code.splitlines(True), filename)
        tree = ast.parse(code, filename)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        if tree.body:
            exec(compile(tree, filename, "exec"), self.names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), filename, "eval"), self.names)
            if value is not None:
                print(repr(value))

    def drafted(self):
        """The other protocol: the content of the dict `answer` where this block, which did not fail, set its `ready` to True."""
        draft = self.names.get("answer")
        if not isinstance(draft, dict):
            self.names["answer"] = {"content": "", "ready": False}
            return None
        return str(draft.get("content", "")) if draft.get("ready") is True else None

    def withdraw_draft(self):
        """An answer that was not taken has to be made ready again."""
        draft = self.names.get("answer")
        if self.drafts and isinstance(draft, dict):
            draft["ready"] = False

    def restore(self):
        """Undo what a block may have done to the interpreter, so that the next one, and this class, work."""
        vars(builtins).update(self.builtins)
        sys.settrace(None)
        sys.setprofile(None)
        sys.setrecursionlimit(1000)
        signal.setitimer(signal.ITIMER_REAL, 0)
        set_handler(signal.SIGINT, self.interrupt)
        if sys.stdin is not self.stdin:
            sys.stdin = self.stdin

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

    def rehearse(self):
        """Take a context and run a block as will happen: memory shared with the server is copied at first use, better now than then."""
        ours, theirs = socket.socketpair()
        channel, self.channel = self.channel, theirs
        with ours, theirs:
            for message in ({"drafts": False, "context": ""}, {"op": "run", "code": "", "block": 0}):
                body = json.dumps(message).encode()
                ours.sendall(struct.pack(">I", len(body)) + body)
            self.begin(self.receive_start())
            self.answer_frame(self.receive())
        self.channel, self.block = channel, 0

    def begin(self, start):
        """Set up the names that each block finds as they were, whatever the last one did to them."""
        self.drafts = start["drafts"]
        self.given = {
            "context": self.context,
            "llm_query": self.llm_query,
            "llm_query_batched": self.llm_query_batched,
            "rlm_query": self.rlm_query,
            "rlm_query_batched": self.rlm_query_batched,
            "budget": self.budget,
            "FINAL": self.finish,
            "FINAL_VAR": self.final_var,
            "SHOW_VARS": self.show_vars,
        }
        if self.drafts:
            self.names["answer"] = {"content": "", "ready": False}

    def answer_frame(self, message):
        if message["op"] == "run":
            self.run(message["code"], message["block"])
        else:
            names = self.model_names()
            found = message["name"] in names
            self.send({"op": "value", "text": str(names[message["name"]]) if found else None})

    def serve(self, holds):
        signal.signal(signal.SIGINT, self.interrupt)
        self.stdin = sys.stdin = io.StringIO("")
        self.rehearse()
        self.send({"op": "ready", "pid": self.pid, "holds": holds})
        self.begin(self.receive_start())
        while True:
            self.answer_frame(self.receive())


def listed(prompts):
    if isinstance(prompts, str):
        raise TypeError("a list of prompts is expected, not one str; llm_query takes one")
    return list(prompts)


def too_long(prompt):
    return f"error: prompt of {len(prompt):,} characters is over the limit of {MAX_PROMPT:,}; send a shorter excerpt"


def become_worker(server, descriptor, folder, settings, sandbox):
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    channel = socket.socket(fileno=os.dup2(descriptor, 3, inheritable=False))
    os.closerange(4, 256)
    sandbox.die_with_parent(server)
    holds = ["namespaces"] if settings["namespaces"] and sandbox.mount_scratch(folder, SCRATCH_MB) else []
    os.chdir(folder)  # which the host has removed where it no longer wants this worker
    os.environ["HOME"] = os.environ["TMPDIR"] = folder
    sandbox.limit_resources(settings["memory_mb"], settings["cpu_s"])
    if settings["confine"]:
        holds += sandbox.confine(folder)
    Worker(channel).serve(holds)


def requests(control):
    """The descriptor and the folder's name of each worker that the host asks for, until the host ends."""
    _, host, *_ = socket.recv_fds(control, TICKET.size, 1)
    watched = select.poll()
    for descriptor in (control.fileno(), *host):
        watched.register(descriptor, select.POLLIN)
    while not any(descriptor in host for descriptor, _ in watched.poll()):
        ticket, descriptors, *_ = socket.recv_fds(control, TICKET.size, 1)
        if not ticket:
            return
        for descriptor in descriptors:  # none where there are too many open files here
            yield descriptor, str(*TICKET.unpack(ticket))


def main():
    scratch, settings = sys.argv[1], json.loads(sys.argv[2])
    control, server = socket.socket(fileno=os.dup(0)), os.getpid()
    sandbox = load_sandbox()
    settings["namespaces"] = settings["confine"] and sandbox.enter_namespaces()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the workers
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in PRELOADED:  # what model code often imports: 12 ms and 2 MB that each worker would else pay
        importlib.import_module(name)
    gc.freeze()  # collections in a worker then leave the server's objects alone, and their pages shared
    for descriptor, name in requests(control):
        try:
            pid = os.fork()
        except OSError:  # no memory, or too many processes: the host sees that this worker's channel ends
            pid = None
        if pid == 0:
            try:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                become_worker(server, descriptor, os.path.join(scratch, name), settings, sandbox)
            finally:
                os._exit(0)
        os.close(descriptor)


if __name__ == "__main__":
    main()
