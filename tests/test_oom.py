"""Out of memory is one line with a knob, by real failures of allocators."""

import subprocess
import sys

import pytest

from rlmlib import config
from rlmlib.errors import TrainingError, is_out_of_memory
from rlmlib.notebook import ROOT
from rlmlib.training.oom import micro_batch, out_of_memory_named

STEP = """
import resource, sys
sys.path.insert(0, "tests")
import torch
from support import NumberChat, tiny_model
from rlmlib import config
from rlmlib.errors import TrainingError
from rlmlib.models.conversation import TokenSequence
from rlmlib.training.oom import out_of_memory_named
from rlmlib.training.policy import Policy
from rlmlib.training.step import TrainItem, update

torch.set_num_threads(1)
def params(checkpointing):
    policy = {"gradient_checkpointing": checkpointing}
    return config.validate({"name": "x", "training": {"micro_batch_tokens": 100_000}, "policy": policy})

config_of_step = params(False).training
policy = Policy(tiny_model(positions=4096), NumberChat())
optimizer = torch.optim.SGD(policy.trainable, lr=0.1)
LENGTHS = (3000, 50)
items = [TrainItem(TokenSequence([2] * n, [0] * (n - 9) + [1] * 9, [-1.0] * n), 1.0) for n in LENGTHS for _ in range(20)]
update(policy, optimizer, items[-1:], config_of_step, 0.7)  # what is loaded once is loaded
size = int(next(line for line in open("/proc/self/status") if line.startswith("VmSize")).split()[1]) * 1024
resource.setrlimit(resource.RLIMIT_AS, (size + (60 << 20),) * 2)
for checkpointing in (False, True):
    try:
        with out_of_memory_named(params(checkpointing), "a training step", [len(item.sequence.ids) for item in items]):
            update(policy, optimizer, items, config_of_step, 0.7)
    except TrainingError as error:
        print(error)
"""

SAMPLER = """
import resource
from rlmlib import config
from rlmlib.errors import TrainingError
from rlmlib.training.oom import out_of_memory_named

params = config.validate({"name": "x"})
resource.setrlimit(resource.RLIMIT_AS, (1 << 30,) * 2)
try:
    with out_of_memory_named(params, "starting the sampler"):
        bytearray(2 << 30)
except TrainingError as error:
    print(error)
"""


def said(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_step_that_runs_out_of_memory():
    told = "out of memory in a training step (the longest sequence has 3000 tokens, a micro-batch 99000); "
    assert said(STEP).splitlines() == [
        told + "set policy.gradient_checkpointing: true",
        told + "lower training.micro_batch_tokens (now 100000; the longest sequence has 3000)",
    ]


def test_a_memory_error_where_there_is_none_left_to_estimate_with():
    assert said(SAMPLER) == "out of memory in starting the sampler; name a smaller policy.model"


def params(**policy) -> config.Params:
    return config.validate({"name": "x", "policy": policy})


def test_torchs_own_error_is_known():
    import torch

    with pytest.raises(TrainingError, match="out of memory in loading the policy"), out_of_memory_named(params(), "loading the policy"):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


@pytest.mark.parametrize(
    ("text", "turn"),
    [
        ("No available memory for the cache blocks. Try increasing `gpu_memory_utilization`.", "raise policy.vllm.gpu_memory (now 0.3)"),
        ("To serve at least one request, 7.03 GiB KV cache is needed, which is larger than the available", "raise policy.vllm.gpu_memory"),
        ("CUDA out of memory", "lower policy.vllm.gpu_memory (now 0.3)"),
    ],
)
def test_vllm_that_cannot_start(text, turn, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    wanted = params(sampler="vllm", vllm={"gpu_memory": 0.3})
    with pytest.raises(TrainingError) as caught, out_of_memory_named(wanted, "starting the sampler"):
        raise ValueError(text)
    assert turn in str(caught.value)


def test_an_error_that_came_of_it_is_known():
    try:
        try:
            raise MemoryError
        except MemoryError as error:
            raise RuntimeError("engine died") from error
    except RuntimeError as error:
        assert is_out_of_memory(error)


def test_other_errors_pass():
    with pytest.raises(RuntimeError, match="shapes"), out_of_memory_named(params(), "a training step", [3]):
        raise RuntimeError("shapes do not match")


def test_nothing_happens_where_nothing_fails():
    with out_of_memory_named(params(), "a training step"):
        pass


def test_micro_batch_is_that_of_the_step():
    from rlmlib.models.conversation import TokenSequence
    from rlmlib.training.step import TrainItem, micro_batches

    lengths = [30, 90, 100, 10]
    items = [TrainItem(TokenSequence([0] * n, [0] * n, [0.0] * n), 0.0) for n in lengths]
    for limit in (50, 100, 250, 1000):
        wanted = config.validate({"name": "x", "training": {"micro_batch_tokens": limit}})
        first = micro_batches(items, limit)[0]
        assert micro_batch(wanted, lengths) == len(first) * 100
