"""Peers' REPLs behind one small interface. Runs in the peers' venv, alone: `python peers.py rlms|dspy`.

Reads one JSON line a request, {"measure": name, "chars": n, "repeats": n}, and answers with one,
{"values": [...]} in seconds, turns per second or MB, or {"error": "one line"}. Each REPL is used as its own package's RLM uses it.
"""

import json
import os
import sys
import time
from importlib.metadata import version
from pathlib import Path

ASSIGN, PRINT, SUBCALL = "x = 1", "print('a line')", "reply = llm_query('a question')"
ANSWER = "the answer"
KB_OF_MB = 1024
SETTLE_S = 0.05  # between two openings, and before the first turn; a model's first reply takes longer


def private_mb(pid: int | str = "self") -> float:
    """Memory of a process that no other one shares (USS), in MB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / KB_OF_MB


def text(chars: int, number: int) -> str:
    """A context of so many characters, a new object each time, so that nobody can keep an earlier one."""
    return ("a line of 16 ch\n" * (chars // 16))[:-8] + f"{number:08d}"


def timed(work) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


class Rlms:
    """LocalREPL of rlms: exec in this very process, which isolates nothing. Subcalls go over a local TCP server, as in its RLM."""

    package, shares_process = "rlms", True

    def __init__(self):
        from rlm.clients.base_lm import BaseLM
        from rlm.core.lm_handler import LMHandler
        from rlm.core.types import ModelUsageSummary, UsageSummary
        from rlm.environments.local_repl import LocalREPL

        class AtOnce(BaseLM):
            def completion(self, prompt):
                return ANSWER

            async def acompletion(self, prompt):
                return ANSWER

            def get_usage_summary(self):
                return UsageSummary(model_usage_summaries={})

            def get_last_usage(self):
                return ModelUsageSummary(total_calls=1, total_input_tokens=1, total_output_tokens=1)

        self.repl = LocalREPL
        self.handler = LMHandler(AtOnce("at-once"))
        self.handler.start()

    def open(self, context):
        return self.repl(lm_handler_address=self.handler.address, context_payload=context)

    def run(self, session, code: str):
        result = session.execute_code(code)
        if result.stderr:
            raise RuntimeError(result.stderr.strip())

    def value(self, session, name: str):
        return session.locals[name]

    def close(self, session):
        session.cleanup()


class Dspy:
    """PythonInterpreter of dspy: Pyodide in Deno. Its RLM sends all inputs along with each block, so this does too.

    Where deno.land cannot be reached, the line reader that its runner takes from there is replaced by lines.js.
    """

    package, shares_process = "dspy", False

    def __init__(self):
        from dspy.primitives.python_interpreter import PythonInterpreter

        self.interpreter = PythonInterpreter
        self.options = []
        try:
            self.close(self.open(""))
        except Exception:
            stand_ins = {"https://deno.land/std@0.186.0/io/mod.ts": Path(__file__).with_name("lines.js").as_uri()}
            self.options = ["--import-map=data:application/json," + json.dumps({"imports": stand_ins})]
            self.close(self.open(""))

    def open(self, context):
        interpreter = self.interpreter(tools={"llm_query": lambda prompt: ANSWER})
        interpreter.deno_command[2:2] = self.options
        interpreter.start()
        return interpreter, context

    def run(self, session, code: str):
        session[0].execute(code, variables={"context": session[1]})

    def value(self, session, name: str):
        return session[0].execute(f"print({name})").strip()

    def close(self, session):
        session[0].shutdown()

    def pid(self, session) -> int:
        return session[0].deno_process.pid


def opening(peer, chars: int, repeats: int) -> list[float]:
    """Seconds to a REPL that holds the context and has answered an empty block."""

    def one(context):
        session = peer.open(context)
        peer.run(session, "")
        return session

    values = []
    for number in range(repeats):
        context, sessions = text(chars, number), []
        values.append(timed(lambda: sessions.append(one(context))))  # noqa: B023 - called at once
        peer.close(sessions[0])
        time.sleep(SETTLE_S)
    return values


def turns(peer, chars: int, repeats: int, code: str) -> list[float]:
    """Seconds of each turn of one session."""
    session = peer.open(text(chars, 0))
    peer.run(session, "")
    time.sleep(SETTLE_S)
    values = [timed(lambda: peer.run(session, code)) for _ in range(repeats)]
    if code == SUBCALL and peer.value(session, "reply") != ANSWER:
        raise RuntimeError("the subcall brought no answer")
    peer.close(session)
    return values


def burst(peer, chars: int, repeats: int) -> list[float]:
    """Turns per second over so many turns of one session."""
    session = peer.open(text(chars, 0))
    peer.run(session, "")
    time.sleep(SETTLE_S)
    seconds = timed(lambda: [peer.run(session, ASSIGN) for _ in range(repeats)])
    peer.close(session)
    return [repeats / seconds]


def together(peer, chars: int, repeats: int) -> list[float]:
    """Seconds until so many sessions are open at once."""
    contexts, sessions = [text(chars, number) for number in range(repeats)], []

    def one(context):
        sessions.append(peer.open(context))
        peer.run(sessions[-1], "")

    seconds = timed(lambda: [one(context) for context in contexts])
    for session in sessions:
        peer.close(session)
    return [seconds]


def memory(peer, chars: int, repeats: int) -> list[float]:
    """Private MB of a session's process; where sessions share one, what each adds to it."""
    contexts, sessions, values = [text(chars, number) for number in range(repeats)], [], []
    before = private_mb()
    for context in contexts:
        sessions.append(peer.open(context))
        peer.run(sessions[-1], ASSIGN)
        if not peer.shares_process:
            values.append(private_mb(peer.pid(sessions[-1])))
            peer.close(sessions.pop())
    if peer.shares_process:
        values = [(private_mb() - before) / repeats]
    for session in sessions:
        peer.close(session)
    return values


MEASURES = {
    "open": opening,
    "assign": lambda peer, chars, repeats: turns(peer, chars, repeats, ASSIGN),
    "print": lambda peer, chars, repeats: turns(peer, chars, repeats, PRINT),
    "subcall": lambda peer, chars, repeats: turns(peer, chars, repeats, SUBCALL),
    "burst": burst,
    "together": together,
    "memory": memory,
}


def main():
    answers = os.fdopen(os.dup(1), "w")  # what the packages print does not go between the answers
    os.dup2(2, 1)

    def answer(message: dict):
        print(json.dumps(message), file=answers, flush=True)

    try:
        peer = {"rlms": Rlms, "dspy": Dspy}[sys.argv[1]]()
        answer({"version": version(peer.package)})
    except Exception as error:
        return answer({"error": " ".join(f"{type(error).__name__}: {error}".split())[:200]})
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer({"values": MEASURES[request["measure"]](peer, request["chars"], request["repeats"])})
        except Exception as error:
            answer({"error": " ".join(f"{type(error).__name__}: {error}".split())[:200]})


if __name__ == "__main__":
    main()
