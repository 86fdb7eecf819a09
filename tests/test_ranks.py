"""Two ranks do what one process does; what fails on one of them ends both, soon and in one line."""

import json
import multiprocessing
import socket
import time

import pytest
import ranks_worker
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlmlib.models.conversation import TokenSequence
from rlmlib.training.step import TrainItem, deal

LIMIT_S = 120
SOON_S = 20
PRELOADED = ["peft", "transformers.models.qwen3.modeling_qwen3", "torch._dynamo", "torch.distributed.fsdp"]
modes = pytest.mark.parametrize("mode", ranks_worker.MODES)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def context():
    """Processes forked from one that has imported what takes longer to import than any test here takes."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


@pytest.fixture(scope="module")
def run_ranks(context):
    def run(folder, function, *arguments):
        """Two ranks of a function to their end; returns how each ended, None where it was killed."""
        port = free_port()
        started = [context.Process(target=ranks_worker.process, args=(rank, port, folder, function, *arguments)) for rank in range(2)]
        try:
            for one in started:
                one.start()
            deadline = time.monotonic() + LIMIT_S
            for one in started:
                one.join(max(0, deadline - time.monotonic()))
            assert not any(one.is_alive() for one in started), "a rank hangs"
        finally:
            for one in started:
                one.kill()
        files = [folder / f"{rank}.json" for rank in range(2)]
        return [json.loads(f.read_text()) if f.exists() else None for f in files]

    return run


@pytest.fixture(scope="module")
def two(run_ranks, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    ended = run_ranks(folder, ranks_worker.numbers)
    assert [rank["error"] for rank in ended] == [None, None], ended
    return torch.load(folder / "results.pt", weights_only=False)


@pytest.fixture(scope="module")
def one():
    return {name: ranks_worker.trained(*mode) for name, mode in ranks_worker.MODES.items()}


def same(weights, others):
    return weights.keys() == others.keys() and all(torch.allclose(weights[k], others[k], rtol=1e-4, atol=1e-5) for k in weights)


@modes
@pytest.mark.parametrize("number", range(4))
def test_statistics_are_those_of_one_process(one, two, mode, number):
    assert two[mode]["stats"][number] == pytest.approx(one[mode]["stats"][number], rel=1e-3, abs=1e-6)


def test_the_steps_are_uneven(one):
    """Else the tests would say nothing of a rank with less to do, or nothing."""
    passes = [stats["micro_batches"] for stats in one["full"]["stats"]]
    assert any(count % 2 for count in passes) and 1 in passes


@pytest.mark.parametrize("mode", ["lora", "full"])
def test_gradients_are_those_of_one_process(one, two, mode):
    for ours, theirs in zip(two[mode]["gradients"], one[mode]["gradients"], strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-6)


@modes
def test_weights_after_three_steps_are_those_of_one_process(one, two, mode):
    assert same(two[mode]["weights"], one[mode]["weights"])


@modes
def test_weights_have_moved(two, mode):
    start = ranks_worker.bare_policy(1, ranks_worker.MODES[mode][0]).model.state_dict()
    assert not same(two[mode]["weights"], start)


@modes
def test_weights_and_optimizer_come_back_from_a_save(two, mode):
    assert same(two[mode]["again"], two[mode]["fourth"])


@modes
def test_what_two_ranks_saved_goes_on_in_one_process(two, mode):
    adapter, parallel = ranks_worker.MODES[mode]
    assert same(ranks_worker.again(adapter, parallel, two[mode]), two[mode]["fourth"])


@modes
def test_saved_optimizer_is_that_of_one_process(one, two, mode):
    ours, theirs = two[mode]["state"], one[mode]["state"]
    assert ours["param_groups"] == theirs["param_groups"] and ours["state"].keys() == theirs["state"].keys()
    for index, entry in theirs["state"].items():
        assert all(type(ours["state"][index][k]) is torch.Tensor for k in entry)
        assert all(torch.allclose(ours["state"][index][k], entry[k], rtol=1e-3, atol=1e-6) for k in entry)


def reason(rank, folder):
    """(error, whether another rank says it) of a rank, which must have ended soon after the failure."""
    assert rank["time"] - float((folder / "failed").read_text()) < SOON_S
    return rank["error"], rank["told"]


@pytest.mark.parametrize("parallel", ["replicated", "sharded"])
@pytest.mark.parametrize("culprit", [0, 1])
def test_an_error_on_one_rank_ends_both_with_its_reason(run_ranks, tmp_path, parallel, culprit):
    ended = run_ranks(tmp_path, ranks_worker.failing, parallel, culprit, "raise")
    assert ended[culprit]["error"] == "ValueError: this rank is\nbroken"
    error, told = reason(ended[1 - culprit], tmp_path)
    assert error.startswith("RankError: ") and told
    if culprit:  # rank 0 holds the store that reasons are kept in, but for torchrun
        assert error == "RankError: rank 1: ValueError: this rank is broken"


@pytest.mark.parametrize(("parallel", "culprit"), [("replicated", 0), ("replicated", 1), ("sharded", 1)])
def test_a_killed_rank_ends_the_other(run_ranks, tmp_path, parallel, culprit):
    ended = run_ranks(tmp_path, ranks_worker.failing, parallel, culprit, "kill")
    assert ended[culprit] is None
    error, told = reason(ended[1 - culprit], tmp_path)
    assert error.startswith("RankError: contact with another rank was lost") and told == (culprit == 0)  # rank 0 says it where it can


def test_an_error_of_rank_0_between_steps_ends_the_one_that_waits(run_ranks, tmp_path):
    ended = run_ranks(tmp_path, ranks_worker.failing, "replicated", 0, "between")
    assert ended[0]["error"] == "ValueError: nothing to learn from"
    error, told = reason(ended[1], tmp_path)
    assert error.startswith("RankError: ") and told


# --- dealing out


def batch(lengths):
    return [TrainItem(TokenSequence([0] * n, [1] * n, [0.0] * n), 1.0) for n in lengths]


@given(st.lists(st.lists(st.integers(1, 50), min_size=1, max_size=4), max_size=20), st.integers(1, 6))
@settings(max_examples=100)
def test_micro_batches_are_dealt_once_each_and_evenly(lengths, ranks):
    batches = [batch(each) for each in lengths]
    shares = deal(batches, ranks)
    assert sorted(map(id, batches)) == sorted(id(b) for share in shares for b in share)
    assert max(map(len, shares)) <= -(-len(batches) // ranks)


def test_ranks_have_like_token_counts():
    shares = deal([batch([n]) for n in (10, 20, 30, 40, 50, 60, 70, 80)], 2)
    assert [sum(len(i.sequence.ids) for b in share for i in b) for share in shares] == [180, 180]


def test_one_rank_has_all_in_their_order():
    batches = [batch([n]) for n in (5, 9, 1)]
    assert deal(batches, 1) == [batches]
