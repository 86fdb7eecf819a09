"""A batch of rollouts: one that goes wrong, and answers that are too long to score, cost the others nothing."""

import time

import pytest
from test_harness import Script

from rlmlib import engine
from rlmlib.config import validate
from rlmlib.engine import Engine, Job
from rlmlib.errors import ConfigError, InfrastructureError, RunError
from rlmlib.harness.protocol import parse_reply
from rlmlib.scoring.judge import ANSWER_CHARS
from rlmlib.tasks.base import Example


class Sampler:
    """Gives the sessions their lines by the first number of their keys."""

    def __init__(self, lines):
        self.lines, self.sessions = lines, []

    def session(self, *key):
        self.sessions.append(Script(*self.lines[key[0]]))
        return self.sessions[-1]

    def close(self):
        pass


POLICY = object()  # stands for one: what samples from it is put in its place
EXAMPLE = Example("e", "research", "task", "train", "q?", "the context", "1")


def run(monkeypatch, *lines, score=None, example=EXAMPLE):
    """Attempts of one batch, and the sampler, with a rollout for each list of lines; the right answer is 1."""
    sampler = Sampler(lines)
    monkeypatch.setattr(engine, "build_sampler", lambda params, policy, together, folder: sampler)
    if score:
        monkeypatch.setattr(engine, "is_correct", score)
    with Engine(validate({"name": "test"}), POLICY) as running:
        return running.run([Job(example, index, (index,)) for index in range(len(lines))]), sampler


def test_a_rollout_that_raises_is_an_error_of_its_own(monkeypatch):
    (bad, good), sampler = run(monkeypatch, [ZeroDivisionError("by zero")], ["FINAL(1)"])
    assert (bad.rollout.error, bad.correct) == ("ZeroDivisionError: by zero", False)
    assert (good.rollout.error, good.correct) == (None, True)
    assert all(session.closed for session in sampler.sessions)


def test_scoring_that_raises_is_an_error_of_its_rollout(monkeypatch):
    def score(answer, golds):
        return 1 / (answer != "2")

    (bad, good), _ = run(monkeypatch, ["FINAL(2)"], ["FINAL(1)"], score=score)
    assert bad.rollout.error == "ZeroDivisionError: division by zero" and bad.rollout.answer == "2" and good.correct


def test_what_stops_every_rollout_stops_the_batch(monkeypatch):
    def score(answer, golds):
        raise RunError("the disk is full")

    with pytest.raises(RunError, match="the disk is full"):
        run(monkeypatch, ["FINAL(1)"], score=score)


@pytest.mark.parametrize("filler", ["x", "\u0315\u0300"])
def test_an_answer_too_long_to_score_is_cut_in_the_record(monkeypatch, filler):
    answer = filler * (900_000 // len(filler))
    assert parse_reply(f"FINAL({answer})").final == answer
    began = time.process_time()
    (long, good), _ = run(monkeypatch, [f"FINAL({answer})"], ["FINAL(1)"])
    assert time.process_time() - began < 3
    assert len(long.rollout.answer) <= ANSWER_CHARS and "characters left out" in long.rollout.answer
    assert (long.correct, long.rollout.error, good.correct) == (False, None, True)


def test_an_answer_is_checked_by_the_type_of_its_example(monkeypatch):
    typed = Example("e", "coding", "T20", "train", "Which files?", "the context", '["a.py", "b.py"]', answer_type="set")
    attempts, _ = run(monkeypatch, ["FINAL(b.py, a.py)"], ["FINAL(a.py)"], ["FINAL(a.py, b.py and maybe c.py)"], example=typed)
    assert [attempt.correct for attempt in attempts] == [True, False, False]
    plain = Example("e", "coding", "T20", "train", "Which files?", "the context", '["a.py", "b.py"]')
    attempts, _ = run(monkeypatch, ["FINAL(b.py, a.py)"], example=plain)
    assert [attempt.correct for attempt in attempts] == [False]


def test_nothing_slow_is_started_where_a_leaf_cannot_be_made(monkeypatch):
    started = []
    monkeypatch.setattr(engine, "build_sampler", lambda *_: started.append("sampler"))
    with pytest.raises(ConfigError, match="base_url"):
        Engine(validate({"name": "test", "leaf": {"engine": "openai", "model": "m"}}), POLICY)
    with pytest.raises(ConfigError, match="base_url"):
        Engine(validate({"name": "test", "judge": {"engine": "openai", "model": "m"}}), POLICY)
    assert started == []


def test_what_is_open_is_closed_where_the_sampler_does_not_start(monkeypatch):
    def fails(*_):
        raise InfrastructureError("no server")

    closed = []
    for kind in (engine.BackgroundLoop, engine.server_of(validate({"name": "test"}).harness).__class__):
        monkeypatch.setattr(kind, "close", lambda self, close=kind.close: (closed.append(type(self).__name__), close(self)))
    monkeypatch.setattr(engine, "build_sampler", fails)
    with pytest.raises(InfrastructureError, match="no server"):
        Engine(validate({"name": "test"}), POLICY)
    assert sorted(closed) == ["BackgroundLoop", "ReplServer"]
