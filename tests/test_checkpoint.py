"""Checkpoints come back as they were written; damaged ones are refused in one line that says what to do."""

import errno
import json
import os
import random

import pytest
import torch
from support import bare_policy

from rlmlib.config import Training
from rlmlib.errors import CheckpointError, RunError
from rlmlib.runs import RunDir
from rlmlib.training import checkpoint
from rlmlib.training.curriculum import Curriculum

FILES = ["adapter_config.json", "adapter_model.safetensors", "optimizer.pt", "rng.pt", "state.json", "manifest.json"]


def trained(seed: int):
    """(policy, optimiser, curriculum) after one step of some gradient."""
    policy = bare_policy(seed, adapter=True)
    optimizer = torch.optim.AdamW(policy.trainable, lr=0.01)
    torch.manual_seed(seed)
    for parameter in policy.trainable:
        parameter.grad = torch.randn_like(parameter)
    optimizer.step()
    curriculum = Curriculum(10, 5, random.Random(seed))
    curriculum.draw(5, 0)
    curriculum.sideline(3, 0)
    return policy, optimizer, curriculum


@pytest.fixture(scope="module")
def made():
    return trained(1)


@pytest.fixture
def run(tmp_path, made):
    """A run with a checkpoint of step 2."""
    run = RunDir(tmp_path)
    save(run, 2, made)
    return run


def save(run, step, made, best=None, **keep):
    policy, optimizer, curriculum = made
    checkpoint.save(run, step, policy, optimizer, {"curriculum": curriculum.state()})
    checkpoint.prune(run, Training(**keep), best)


@pytest.fixture
def restored(run):
    policy, optimizer, curriculum = trained(2)
    state = checkpoint.load(run, 2, policy)
    checkpoint.load_optimizer(run, 2, optimizer)
    curriculum.restore(state["curriculum"])
    return policy, optimizer, curriculum, state


def test_adapter_comes_back(made, restored):
    assert all(torch.equal(a, b) for a, b in zip(made[0].trainable, restored[0].trainable, strict=True))


def test_another_start_differs(made):
    """Else the test above would say nothing."""
    assert not all(torch.equal(a, b) for a, b in zip(made[0].trainable, trained(2)[0].trainable, strict=True))


def test_optimizer_comes_back(made, restored):
    before, after = made[1].state_dict(), restored[1].state_dict()
    assert before["param_groups"] == after["param_groups"]
    assert all(torch.equal(before["state"][i][k], after["state"][i][k]) for i in before["state"] for k in before["state"][i])


def test_next_step_after_loading_is_that_of_the_run_that_went_on(run):
    policies = []
    for policy, optimizer, _ in (trained(1), trained(2)):
        checkpoint.load(run, 2, policy)
        checkpoint.load_optimizer(run, 2, optimizer)
        torch.manual_seed(9)
        for parameter in policy.trainable:
            parameter.grad = torch.randn_like(parameter)
        optimizer.step()
        policies.append(policy)
    assert all(torch.equal(a, b) for a, b in zip(policies[0].trainable, policies[1].trainable, strict=True))


def test_curriculum_comes_back(run, restored):
    state = checkpoint.verify(run / "checkpoints/step_2")["curriculum"]
    expected = Curriculum(10, 5, random.Random(0))
    expected.restore(state)
    assert restored[2].until == {3: 5} and restored[2].draw(20, 1) == expected.draw(20, 1)


def test_step_comes_back(restored):
    assert restored[3]["step"] == 2


def test_adapter_alone_can_be_loaded(run, made):
    policy = trained(2)[0]
    checkpoint.load(run, 2, policy)
    assert all(torch.equal(a, b) for a, b in zip(made[0].trainable, policy.trainable, strict=True))


def test_checkpoint_has_its_files(run):
    assert set(FILES) <= {p.name for p in (run / "checkpoints/step_2").iterdir()}


def test_adapter_config_keeps_rank_and_alpha(run):
    config = json.loads((run / "checkpoints/step_2/adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"]) == (4, 8)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("where", [0.0, 0.5, 0.99])
def test_flipped_byte_is_refused(run, name, where):
    path = run / f"checkpoints/step_2/{name}"
    body = bytearray(path.read_bytes())
    body[int(where * len(body))] ^= 0x04
    path.write_bytes(body)
    with pytest.raises(CheckpointError):
        checkpoint.verify(path.parent)


@pytest.mark.parametrize("name", FILES)
def test_missing_file_is_refused(run, name):
    (run / f"checkpoints/step_2/{name}").unlink()
    with pytest.raises(CheckpointError, match=name):
        checkpoint.verify(run / "checkpoints/step_2")


@pytest.mark.parametrize("name", FILES)
def test_file_cut_short_is_refused(run, name):
    path = run / f"checkpoints/step_2/{name}"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(CheckpointError):
        checkpoint.verify(path.parent)


@pytest.mark.parametrize("damage", ["flip", "remove"])
def test_refusal_is_one_line_that_names_the_file_and_what_to_do(run, damage):
    path = run / "checkpoints/step_2/optimizer.pt"
    path.unlink() if damage == "remove" else path.write_bytes(b"x" + path.read_bytes()[1:])
    with pytest.raises(CheckpointError) as caught:
        checkpoint.verify(path.parent)
    message = str(caught.value)
    assert "\n" not in message and "optimizer.pt" in message and "delete step_2" in message and "FRESH=1" in message


def test_files_larger_than_memory_are_verified(run, monkeypatch):
    def whole(path):
        raise MemoryError(path)

    monkeypatch.setattr(type(run.path), "read_bytes", whole)
    assert checkpoint.verify(run / "checkpoints/step_2")["step"] == 2


@pytest.mark.skipif(torch.cuda.is_available(), reason="has the device")
def test_a_checkpoint_of_a_gpu_goes_on_without_one(tmp_path, made, monkeypatch):
    monkeypatch.setattr(torch.serialization, "location_tag", lambda storage: "cuda:0")  # as torch.save writes it there
    save(RunDir(tmp_path), 2, made)
    monkeypatch.undo()
    with pytest.raises(RuntimeError, match="CUDA"):
        torch.load(tmp_path / "checkpoints/step_2/optimizer.pt", weights_only=True)
    policy, optimizer, _ = trained(2)
    checkpoint.load(RunDir(tmp_path), 2, policy)
    checkpoint.load_optimizer(RunDir(tmp_path), 2, optimizer)
    states = zip(optimizer.state.values(), made[1].state.values(), strict=True)
    assert all(torch.equal(here["exp_avg"], there["exp_avg"]) for here, there in states)


def test_damaged_checkpoint_changes_nothing_in_the_policy(run):
    (run / "checkpoints/step_2/optimizer.pt").write_bytes(b"x")
    policy, optimizer, _ = trained(2)
    before = [p.detach().clone() for p in policy.trainable]
    with pytest.raises(CheckpointError):
        checkpoint.load(run, 2, policy)
    assert all(torch.equal(p, b) for p, b in zip(policy.trainable, before, strict=True))


def test_missing_checkpoint_is_refused(run):
    with pytest.raises(CheckpointError, match="step_7"):
        checkpoint.load(run, 7, trained(2)[0])


def test_half_written_folder_is_no_checkpoint(run):
    (run / "checkpoints/.step_9.123.tmp").mkdir()
    (run / "checkpoints/.step_9.123.tmp/state.json").write_text("{}")
    assert checkpoint.steps(run) == [2]


def test_run_without_checkpoints_has_no_steps(tmp_path):
    assert checkpoint.steps(RunDir(tmp_path)) == []


def test_steps_are_sorted_by_number(run, made):
    save(run, 10, made, keep_last=9)
    save(run, 9, made, keep_last=9)
    assert checkpoint.steps(run) == [2, 9, 10]


def test_only_the_newest_are_kept(run, made):
    for step in (3, 4, 10):
        save(run, step, made)
    assert checkpoint.steps(run) == [4, 10]


def test_one_can_be_kept(run, made):
    save(run, 3, made, keep_last=1)
    assert checkpoint.steps(run) == [3]


def test_the_best_one_is_kept(run, made):
    for step in (3, 4, 10):
        save(run, step, made, best=2)
    assert checkpoint.steps(run) == [2, 4, 10]


def test_every_nth_is_kept(run, made):
    for step in (3, 4, 5, 6, 8):
        save(run, step, made, keep_every=3, keep_last=1)
    assert checkpoint.steps(run) == [3, 6, 8]


def test_random_state_comes_back(run, made):
    torch.manual_seed(5)
    save(run, 3, made)
    expected = torch.rand(3)
    torch.manual_seed(6)
    checkpoint.load_optimizer(run, 3, trained(2)[1])
    assert torch.equal(torch.rand(3), expected)


def test_step_can_be_written_again(run, made):
    save(run, 2, made)
    assert checkpoint.verify(run / "checkpoints/step_2")["step"] == 2


def full(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("target", ["os.replace", "torch.save"])
def test_full_disk_keeps_the_checkpoint_before(run, made, monkeypatch, target):
    with monkeypatch.context() as patched, pytest.raises(RunError, match="disk is full"):
        patched.setattr(target, full)
        save(run, 3, made)
    assert checkpoint.steps(run) == [2] and checkpoint.verify(run / "checkpoints/step_2")


def test_full_disk_leaves_no_half_written_folder(run, made, monkeypatch):
    with monkeypatch.context() as patched, pytest.raises(RunError):
        patched.setattr("torch.save", full)
        save(run, 3, made)
    assert [p.name for p in (run / "checkpoints").iterdir()] == ["step_2"]


def test_full_disk_as_torch_tells_it_is_understood(run, made, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 64 vs 0")

    with monkeypatch.context() as patched, pytest.raises(RunError, match="disk is full"):
        patched.setattr("torch.save", broken)
        save(run, 3, made)


def test_other_errors_of_saving_are_not_disguised(run, made, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("something else")

    with monkeypatch.context() as patched, pytest.raises(RuntimeError, match="something else"):
        patched.setattr("torch.save", broken)
        save(run, 3, made)
