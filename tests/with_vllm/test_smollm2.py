"""SmolLM2-135M in vLLM on the CPU: log-probs of real weights with an adapter, and two GRPO steps. Its weights are fetched once."""

import asyncio
import math

import pytest
import torch

from rlmlib import config
from rlmlib.engine import Engine
from rlmlib.models.base import Message
from rlmlib.models.vllm_sampler import build
from rlmlib.notebook import ROOT
from rlmlib.runs import open_run
from rlmlib.training.loop import train
from rlmlib.training.step import token_logprobs
from rlmlib.training.trainers import load_policy

CLOSE = 1e-3
SHORT = {"policy.sampler": "vllm", "sampling.max_turn_tokens": 32, "harness.deadline_s": 900.0}


def params():
    return config.load(ROOT / "params/smollm2.yaml", SHORT)


def ask(sampler, question: str, key: int, turns: int = 2):
    async def main():
        session = sampler.session(key)
        for _ in range(turns):
            await session.reply([Message("user", question)], 24)
        session.close()
        return session.sequence

    return main()


def test_logprobs_are_the_trainers_before_and_after_a_push():
    values = params()
    policy = load_policy(values)
    sampler = build(values, policy)

    async def several():
        questions = ["What is the capital of France?", "Write a line of Python.", "Count to ten."]
        return await asyncio.gather(*(ask(sampler, question, key) for key, question in enumerate(questions)))

    try:
        replies = []
        for push in range(2):
            sequences = asyncio.run(asyncio.wait_for(several(), 900))
            with torch.no_grad():
                trained, sampled = token_logprobs(policy, sequences, values.sampling.temperature)[:2]
            assert (trained - sampled).abs().max() < CLOSE
            replies.append([sequence.ids for sequence in sequences])
            if not push:
                with torch.no_grad():
                    for name, parameter in policy.model.named_parameters():
                        if "lora_B" in name:
                            parameter.normal_(0, 0.02)
                sampler.push(policy)
        assert replies[0] != replies[1]
    finally:
        sampler.close()


@pytest.fixture
def half_right(monkeypatch):
    """Every second rollout counts as right: what is shown is that sampling, steps and pushes work together, not what is learned."""

    async def score(self, example, rollout):
        score.calls += 1
        return score.calls % 2 == 0

    score.calls = 0
    monkeypatch.setattr(Engine, "_score", score)


def test_two_grpo_steps(half_right, tmp_path):
    values = params()
    run = open_run(tmp_path / "run", values)
    train(values, run)
    rows = run.metrics
    assert [row["step"] for row in rows] == [0, 1]
    assert all(row["trained_tokens"] > 0 and math.isfinite(row["loss"]) for row in rows)
    assert all(row["max_logprob_gap"] < CLOSE for row in rows), "sampler and trainer have the same weights at each step"
