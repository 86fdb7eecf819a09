"""What the processes of test_ranks.py run."""

import copy
import json
import os
import random
import signal
import time
import traceback
from pathlib import Path

import torch
from support import VOCAB, NumberChat, bare_policy, tiny_model, with_adapter

from rlmlib.config import Training
from rlmlib.models.conversation import TokenSequence
from rlmlib.training import step
from rlmlib.training.follow import follow
from rlmlib.training.policy import Policy
from rlmlib.training.ranks import ALONE, connect

# adapter or all weights, and how they are spread
MODES = {"lora": (True, "replicated"), "full": (False, "replicated"), "sharded": (False, "sharded"), "sharded_lora": (True, "sharded")}
COUNTS = (7, 1, 4)  # conversations of each step; one is a single micro-batch, so that a rank has none
CONFIG = {"micro_batch_tokens": 60, "lr": 0.01, "grad_clip": 0.5}


def items(count: int, seed: int) -> list[step.TrainItem]:
    """Conversations of differing lengths."""
    rng = random.Random(seed)
    made = []
    for _ in range(count):
        sequence = TokenSequence()
        sequence.extend([rng.randrange(4, VOCAB) for _ in range(rng.randint(2, 20))], 0)
        reply = [rng.randrange(4, VOCAB) for _ in range(rng.randint(3, 20))]
        sequence.extend(reply, 1, [rng.uniform(-5, -2) for _ in reply])
        made.append(step.TrainItem(sequence, rng.uniform(-1, 1)))
    return made


def elsewhere(adapter: bool) -> Policy:
    """A policy with other trainable weights than those that training starts from."""
    return Policy(with_adapter(tiny_model(1), seed=2) if adapter else tiny_model(2), NumberChat())


def trained(adapter: bool, parallel: str, ranks=ALONE):
    """On rank 0: three steps, then a fourth one, and the fourth again from what was saved before it."""
    config = Training(parallel=parallel, **CONFIG)
    policy = bare_policy(1, adapter)
    ranks.prepare(policy, parallel)
    optimizer = step.make_optimizer(policy, config)
    stats, gradients = [], None
    for number, count in enumerate(COUNTS):
        stats.append(step.update(policy, optimizer, items(count, number), config, 0.7, ranks))
        if gradients is None:
            gradients = [p.grad.clone() for p in policy.trainable] if parallel == "replicated" else []
    weights, state = whole(policy, ranks), copy.deepcopy(ranks.optimizer_state(optimizer))
    optimizer.param_groups[0]["lr"] = 0.003
    stats.append(step.update(policy, optimizer, items(5, 9), config, 0.7, ranks))
    fourth = whole(policy, ranks)
    ranks.order("stop")
    return {"stats": stats, "gradients": gradients, "weights": weights, "state": state, "fourth": fourth}


def again(adapter: bool, parallel: str, before: dict, ranks=ALONE) -> dict:
    """On rank 0: the fourth step, from the weights and the optimiser's state that were saved before it."""
    config = Training(parallel=parallel, **CONFIG)
    policy = elsewhere(adapter)
    policy.model.load_state_dict(before["weights"], strict=False)
    ranks.prepare(policy, parallel)
    optimizer = step.make_optimizer(policy, config)
    ranks.load_optimizer(optimizer, copy.deepcopy(before["state"]))  # loading keeps the tensors, and a step changes them
    optimizer.param_groups[0]["lr"] = 0.003
    step.update(policy, optimizer, items(5, 9), config, 0.7, ranks)
    fourth = whole(policy, ranks)
    ranks.order("stop")
    return fourth


def whole(policy, ranks) -> dict:
    with ranks.gathered(policy):
        return {name: tensor.detach().clone() for name, tensor in policy.model.state_dict().items()}


def numbers(ranks, out: Path):
    """Everything that must come out as it does in one process, in all modes."""
    results = {}
    for name, (adapter, parallel) in MODES.items():
        if ranks.rank:
            for _ in range(2):
                follow(elsewhere(adapter), Training(parallel=parallel, **CONFIG), ranks)
        else:
            results[name] = trained(adapter, parallel, ranks)
            results[name]["again"] = again(adapter, parallel, results[name], ranks)
    if ranks.rank:
        assert ranks.next_order()[0] == "stop"
    else:
        torch.save(results, out)


def failing(ranks, out: Path, parallel: str, culprit: int, how: str):
    """The culprit fails in a forward pass, or rank 0 does between steps."""
    config = Training(parallel=parallel, **CONFIG)
    policy = bare_policy(1)
    failed = out.with_name("failed")
    if ranks.rank == culprit and how != "between":
        break_down(policy, how, failed)
    if ranks.rank:
        follow(policy, config, ranks)
        return
    ranks.prepare(policy, parallel)
    optimizer = step.make_optimizer(policy, config)
    for number in range(3):
        step.update(policy, optimizer, items(6, number), config, 0.7, ranks)
        if how == "between":
            failed.write_text(str(time.monotonic()))
            raise ValueError("nothing to learn from")


def break_down(policy, how: str, failed: Path):
    """The third pass fails, at the time that is written to the file `failed`."""
    whole_pass, passes = policy.hidden_states, 0

    def hidden_states(ids):
        nonlocal passes
        passes += 1
        if passes == 3:
            failed.write_text(str(time.monotonic()))
            if how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            raise ValueError("this rank is\nbroken")
        return whole_pass(ids)

    policy.hidden_states = hidden_states


def process(rank: int, port: int, folder: Path, function, *arguments):
    """One rank: how it ended goes to folder/RANK.json."""
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.environ |= {"TORCH_CPP_LOG_LEVEL": "FATAL", "GLOO_SOCKET_IFNAME": "lo", "CUDA_VISIBLE_DEVICES": ""}
    torch.set_num_threads(1)
    ended = {"error": None, "told": None}
    try:
        with connect() as ranks:
            function(ranks, folder / "results.pt", *arguments)
    except Exception as error:  # noqa: BLE001 - the test reads it
        ended = {"error": f"{type(error).__name__}: {error}", "told": getattr(error, "told", None), "trace": traceback.format_exc()}
    (folder / f"{rank}.json").write_text(json.dumps(ended | {"time": time.monotonic()}))
