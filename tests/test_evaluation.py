"""Evaluation: which questions are asked, what resumes, the greedy and the plain answers. The tiny policy, the smallest params."""

import asyncio

import pytest

from rlmlib import config, evaluation
from rlmlib.config import validate
from rlmlib.engine import Engine, Job
from rlmlib.errors import InfrastructureError
from rlmlib.evaluation import GREEDY_STREAM, evaluate, evaluate_plain, plan, policy_at
from rlmlib.harness.subcalls import WINDOW_SHARE
from rlmlib.measures import SPLITS, seed_of
from rlmlib.models.base import ModelError
from rlmlib.models.lexical_leaf import LexicalLeaf
from rlmlib.notebook import ROOT
from rlmlib.plain import answer_plainly, fitting
from rlmlib.runs import open_run, read_json, read_jsonl, rewrite_jsonl
from rlmlib.tasks.mixture import example, examples
from rlmlib.training.short_evaluation import SHORT_EVALUATION_STREAM

FEW = {
    "evaluation.heldout_examples": 3,
    "evaluation.seen_examples": 1,
    "evaluation.batch": 4,
    "evaluation.greedy": True,
    "evaluation.bootstrap": 50,
    "tasks.max_chars": 8000,
    "tasks.research": 0.65,
    "tasks.coding": 0.0,  # which reads the whole standard library first
    "policy.threads": 1,
}
OWN = ("wall_seconds", "seconds")  # differ from one time to the next


def params(**changes) -> config.Params:
    return config.load(ROOT / "params/smoke.yaml", FEW | {key.replace("__", "."): value for key, value in changes.items()})


def without_times(value):
    """Rows without what the clock says."""
    if isinstance(value, dict):
        return {key: without_times(part) for key, part in value.items() if key not in OWN}
    return [without_times(part) for part in value] if isinstance(value, list) else value


def asked(jobs: list[Job]) -> list[tuple]:
    return [(job.example.id, job.example.question, job.example.context, job.example.answer, job.index) for job in jobs]


def questions(jobs: list[Job]) -> set[tuple]:
    return {(job.example.context, job.example.question) for job in jobs}


# --- which questions --------------------------------------------------------------------------


def tasks(**changes) -> config.Params:
    values = {"name": "t", "seed": 1, "tasks": {"max_chars": 6000, "min_chars": 5000, "research": 0.5, "aggregation": 0.5, "coding": 0.0}}
    values["evaluation"] = {"heldout_examples": 12, "seen_examples": 4, "rollouts_per_example": 2}
    for key, value in changes.items():
        section, _, name = key.partition("__")
        values[section] = {**values[section], name: value} if name else value
    return validate(values)


def test_seed_of_an_evaluation_is_its_own_where_it_has_one():
    assert seed_of(tasks(evaluation__seed=5)) == 5 and seed_of(tasks(evaluation__seed=0)) == 0


def test_seed_of_an_evaluation_is_that_of_the_run_where_it_has_none():
    assert seed_of(tasks(seed=3)) == 3


def test_runs_of_two_training_seeds_are_asked_the_same_with_one_evaluation_seed():
    first, second = (plan(tasks(seed=seed, evaluation__seed=5)) for seed in (1, 2))
    assert asked(first) == asked(second) and [job.key for job in first] == [job.key for job in second]


def test_without_an_evaluation_seed_the_questions_follow_the_run():
    first, second = (plan(tasks(seed=seed)) for seed in (1, 2))
    assert [job.example.id for job in first] == [job.example.id for job in second]  # names say nothing of what is asked
    assert not questions(first) & questions(second)


def test_runs_on_hidden_and_shown_labels_are_asked_the_same_with_one_share_of_hidden_labels():
    first, second = (plan(tasks(tasks__hidden_labels=share, evaluation__hidden_labels=0.5)) for share in (0.0, 1.0))
    assert asked(first) == asked(second)


def test_without_a_share_of_its_own_an_evaluation_has_that_of_training():
    first, second = (plan(tasks(tasks__hidden_labels=share)) for share in (0.0, 1.0))
    assert asked(first) != asked(second)
    assert asked(second) == asked(plan(tasks(tasks__hidden_labels=0.0, evaluation__hidden_labels=1.0)))


def test_every_example_has_its_rollouts_in_both_splits():
    jobs = plan(tasks())
    assert len(jobs) == (12 + 4) * 2 and len({job.example.id for job in jobs}) == 16
    assert [job.example.split for job in jobs] == ["heldout"] * 24 + ["seen"] * 8
    assert {job.index for job in jobs} == {0, 1}


def test_no_two_rollouts_share_their_random_numbers():
    chosen = tasks()
    jobs = plan(chosen) + plan(chosen, 1, GREEDY_STREAM)
    assert len({job.key for job in jobs}) == len(jobs)
    assert SHORT_EVALUATION_STREAM not in {job.key[0] for job in jobs}


def test_splits_share_no_context_with_one_another_or_with_training():
    contexts = [{e.context for e in examples(tasks().tasks, split, 6, 1)} for split in ("train", *SPLITS)]
    assert sum(map(len, contexts)) == len(set.union(*contexts)) == 18


def test_short_evaluations_ask_nothing_that_the_evaluation_asks():
    chosen = tasks()
    later = {example(chosen.tasks, "heldout", chosen.evaluation.heldout_examples + n, chosen.seed).context for n in range(4)}
    assert len(later) == 4 and not later & {job.example.context for job in plan(chosen)}


# --- an evaluation ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def chosen():
    return params()


@pytest.fixture(scope="module")
def done(tmp_path_factory, chosen):
    run = open_run(tmp_path_factory.mktemp("done"), chosen)
    evaluate(chosen, run, "base", None)
    return run


@pytest.fixture(scope="module")
def summary(done):
    return read_json(done / "eval/base/summary.json")


def test_all_rollouts_are_kept_in_the_order_of_the_plan(done, chosen):
    rows = read_jsonl(done / "eval/base/rollouts.jsonl")
    assert [(row["example"], row["index"]) for row in rows] == [(job.example.id, job.index) for job in plan(chosen)]


def test_greedy_rollouts_are_kept_apart_one_a_question(done):
    rows = read_jsonl(done / "eval/base/greedy.jsonl")
    assert [row["index"] for row in rows] == [0] * 4 and len({row["example"] for row in rows}) == 4


def test_greedy_rollouts_are_reported_apart(done, summary):
    greedy, sampled = (read_jsonl(done / f"eval/base/{name}.jsonl") for name in ("greedy", "rollouts"))
    held = [row["correct"] for row in greedy if row["split"] == "heldout"]
    assert summary["greedy"]["heldout"]["pass_at_1"][0] == pytest.approx(sum(held) / len(held))
    assert summary["heldout"]["n_rollouts"] == len([row for row in sampled if row["split"] == "heldout"]) == 6
    assert summary["greedy"]["heldout"]["n_rollouts"] == 3


def test_greedy_has_no_pass_at_more_than_one(summary):
    assert "pass_at_2" in summary["heldout"] and "pass_at_2" not in summary["greedy"]["heldout"]


def test_time_is_that_of_all_rollouts(done, summary):
    rows = [row for name in ("greedy", "rollouts") for row in read_jsonl(done / f"eval/base/{name}.jsonl")]
    assert summary["seconds"] == round(sum(row["wall_seconds"] for row in rows), 1) > 0


def test_greedy_rollouts_are_the_same_whatever_the_sampling_seed(done, chosen):
    cold = chosen.model_copy(update={"sampling": chosen.sampling.model_copy(update={"temperature": evaluation.GREEDY_TEMPERATURE})})
    other = [Job(job.example, job.index, (GREEDY_STREAM, 999, number)) for number, job in enumerate(plan(chosen, 1))]
    with Engine(cold, policy_at(cold, done, None)) as engine:
        attempts = engine.run(other)
    replies = [[turn.reply for turn in attempt.rollout.turns] for attempt in attempts]
    rows = read_jsonl(done / "eval/base/greedy.jsonl")
    assert replies == [[turn["reply"] for turn in row["turns"]] for row in rows]


def test_a_finished_evaluation_needs_no_policy_and_says_the_same(done, chosen, summary, monkeypatch):
    monkeypatch.setattr(evaluation, "policy_at", lambda *_: pytest.fail("the policy was loaded"))
    evaluate(chosen, done, "base", None)
    assert read_json(done / "eval/base/summary.json") == summary


def test_an_evaluation_goes_on_after_its_last_whole_batch(done, chosen, tmp_path, monkeypatch):
    """Five of eight rollouts and half a line are there: the batch of four stays, the others are run again and come out the same."""
    rows = read_jsonl(done / "eval/base/rollouts.jsonl")
    run = open_run(tmp_path, chosen)
    path = run / "eval/base/rollouts.jsonl"
    rewrite_jsonl(path, [row | {"wall_seconds": -1.0} for row in rows[:5]])
    with open(path, "a") as file:
        file.write('{"example": "heldo')
    rewrite_jsonl(run / "eval/base/greedy.jsonl", read_jsonl(done / "eval/base/greedy.jsonl"))
    batches = []
    monkeypatch.setattr(Engine, "run", lambda engine, jobs, run=Engine.run: batches.append(len(jobs)) or run(engine, jobs))
    evaluate(chosen, run, "base", None)
    again = read_jsonl(path)
    assert batches == [4]
    assert [row["wall_seconds"] == -1.0 for row in again] == [True] * 4 + [False] * 4
    assert without_times(again) == without_times(rows)


# --- the leaf alone ---------------------------------------------------------------------------


class Leaf(LexicalLeaf):
    """Counts its calls; `failing`: a word of a question that it cannot answer."""

    def __init__(self, window_tokens: int = 2400, failing: str | None = None):
        super().__init__(window_tokens)
        self.prompts, self.failing = [], failing

    async def complete(self, prompt):
        self.prompts.append(prompt)
        if self.failing is not None and self.failing in prompt:
            raise ModelError("unavailable", "the leaf is down")
        return await super().complete(prompt)


def plainly(chosen: config.Params, leaf: Leaf) -> list:
    with Engine(chosen, None) as engine:
        engine.leaf = leaf
        return answer_plainly(engine, plan(chosen, 1))


@pytest.mark.parametrize("window", [100, 600, 2400, 100_000])
def test_prompt_of_the_leaf_alone_fits_its_window_and_fills_it(window):
    leaf, context = Leaf(window), "word " * 4000
    prompt = fitting(leaf, "What is it?", context)
    assert leaf.count_tokens(prompt) <= window * WINDOW_SHARE
    assert prompt == f"What is it?\n{context}" or leaf.count_tokens(prompt + "x" * 65) > window * WINDOW_SHARE


def test_prompt_of_the_leaf_alone_is_the_question_and_the_beginning_of_the_context():
    prompt = fitting(Leaf(200), "What is it?", "".join(f"{n} " for n in range(4000)))
    assert prompt.startswith("What is it?\n0 1 2 3 ")


def test_a_context_that_fits_is_given_whole():
    assert fitting(Leaf(), "q", "all of it") == "q\nall of it"


def test_the_leaf_alone_is_asked_once_a_question(chosen):
    leaf = Leaf()
    attempts = plainly(chosen, leaf)
    assert len(leaf.prompts) == len(attempts) == 4
    assert all(attempt.rollout.usage.leaf_calls == 1 for attempt in attempts)


def test_tokens_of_the_leaf_alone_are_counted_and_no_others(chosen):
    leaf = Leaf()
    attempts = plainly(chosen, leaf)
    for prompt, attempt in zip(leaf.prompts, attempts, strict=True):
        usage, reply = attempt.rollout.usage, asyncio.run(LexicalLeaf().complete(prompt))
        assert usage.leaf == usage.total == reply.prompt_tokens + reply.completion_tokens > 0


def test_a_failing_leaf_is_an_error_and_no_wrong_answer(chosen):
    first = plan(chosen, 1)[0].example
    attempts = plainly(chosen, Leaf(failing=first.question))
    assert [attempt.rollout.error is None for attempt in attempts] == [False, True, True, True]
    assert "the leaf is down" in attempts[0].rollout.error and not attempts[0].correct


def test_an_answer_of_the_leaf_alone_is_scored_as_any_other(chosen):
    class Knowing(Leaf):
        async def complete(self, prompt):
            reply = await super().complete(prompt)
            answer = next(job.example.answer for job in plan(chosen, 1) if prompt.startswith(job.example.question))
            return type(reply)(answer, reply.prompt_tokens, reply.completion_tokens)

    assert all(attempt.correct for attempt in plainly(chosen, Knowing()))


def test_an_empty_reply_of_the_leaf_alone_is_a_missing_answer(chosen):
    class Silent(Leaf):
        async def complete(self, prompt):
            return type(await super().complete(prompt))("  ", 5, 1)

    attempts = plainly(chosen, Silent())
    assert all(a.rollout.missing and a.rollout.stop == "missing" and not a.correct for a in attempts)


def test_the_leaf_alone_is_summarised_beside_the_policies(tmp_path, chosen):
    run = open_run(tmp_path, chosen)
    evaluate_plain(chosen, run)
    found = read_json(run / "eval/plain/summary.json")
    assert found["label"] == "plain" and found["heldout"]["n_rollouts"] == found["heldout"]["n_examples"] == 3
    assert found["heldout"]["leaf_calls"] == [1.0, 1.0, 1.0] and found["heldout"]["turns"] == [1.0, 1.0, 1.0]


def test_an_evaluation_without_a_policy_samples_nothing(chosen):
    with Engine(chosen, None) as engine:
        assert engine.sampler is None


def test_an_error_is_raised_where_a_batch_of_plain_answers_hangs(chosen, monkeypatch):
    class Hanging(Leaf):
        async def complete(self, prompt):
            await asyncio.Event().wait()

    for name in ("JUDGING_S", "MARGIN_S"):
        monkeypatch.setattr(f"rlmlib.plain.{name}", 0.05)
    short = chosen.model_copy(update={"harness": chosen.harness.model_copy(update={"leaf_timeout_s": 0.05})})
    with pytest.raises(InfrastructureError, match="plain answers"):
        plainly(short, Hanging())
