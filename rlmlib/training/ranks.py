"""Several trainers of one policy under torchrun: rank 0 runs the loop, the others do their share of each step.

    training.parallel: replicated   every rank holds the whole model; gradients are added up
    training.parallel: sharded      every rank holds its share of weights, gradients and optimiser state (FSDP)

Rank 0 gives orders and the others follow (follow.py): every method here that talks to them says so first, so the same call
works on rank 0 and in a follower. Waiting has limits, and what fails on one rank ends all of them.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from ..errors import ConfigError, RankError, TrainingError, one_line
from .policy import Policy

START_TIMEOUT = timedelta(minutes=10)  # until all ranks have met
STEP_TIMEOUT = timedelta(minutes=30)  # of a wait within a step: one rank may be that much slower than another
ORDER_TIMEOUT = timedelta(hours=12)  # of a wait for rank 0, which samples, judges and evaluates meanwhile
BUCKET_NUMBERS = 1 << 25  # gradients that are added up in one message
FAILURE = "rlm_failure"  # key of the common store: the first failure of any rank
LOST = "contact with another rank was lost: it was killed, or it hung; run the same command again to go on"

Result = TypeVar("Result")


class _Root(torch.nn.Module):
    """Runs any function of the model as a forward pass, so that FSDP gathers what the function reads of body and head."""

    def __init__(self, model: torch.nn.Module):
        super().__init__()
        self.model = model

    def forward(self, function: Callable[[], Any]):
        return function()


class Ranks:
    """This process among those that train one policy. Without arguments it is alone, and every method does next to nothing.

    Use as a context manager: leaving it in good order lets the other ranks end, leaving it by an error ends them. What comes
    of the end of another rank is raised as RankError with that rank's reason.
    """

    def __init__(self, rank: int = 0, size: int = 1, device: str = "cpu", store=None):
        self.rank, self.size, self.device = rank, size, torch.device(device)
        self._store = store
        self._orders = dist.new_group(backend="gloo", timeout=ORDER_TIMEOUT) if size > 1 else None
        self._root: torch.nn.Module | None = None  # where the policy is sharded

    def __enter__(self) -> "Ranks":
        return self

    def __exit__(self, kind, error, trace):
        if self.size == 1:
            return
        if error is None:
            self.order("stop")
            dist.destroy_process_group()
            return
        # this process ends now; its connections close with it, which wakes every rank that waits for it
        before = self._failure()
        if before or _is_loss_of_contact(error):
            raise RankError(before or LOST, told=bool(before) or self.rank > 0) from None
        text = one_line(error) if isinstance(error, Exception) else "interrupted"
        with contextlib.suppress(RuntimeError):
            self._store.compare_set(FAILURE, "", f"rank {self.rank}: {text}")

    def order(self, name: str, payloads: Sequence[Any] | None = None) -> Any:
        """Rank 0 tells every rank what comes next, each with a payload of its own; returns that of rank 0. No-op elsewhere."""
        payloads = payloads or [None] * self.size
        if self.size > 1 and self.rank == 0:
            dist.scatter_object_list([None], [(name, payload) for payload in payloads], group=self._orders)
        return payloads[0]

    def next_order(self) -> tuple[str, Any]:
        """(name, payload) of what rank 0 orders next. Waits for it."""
        received = [None]
        dist.scatter_object_list(received, group=self._orders)
        return received[0]

    def prepare(self, policy: Policy, parallel: str):
        """Give every rank the trainable weights of rank 0, then shard the policy where `parallel` says so.

        Weights are loaded before it, on rank 0; the optimiser is made after it, on every rank.
        """
        if self.size == 1:
            return
        self.order("prepare")
        for parameter in policy.trainable:
            dist.broadcast(parameter.data, 0)
        self._root = self._shard(policy) if parallel == "sharded" else None

    def forward(self, function: Callable[[], Result]) -> Result:
        """function(), which runs the model forward. Where it is sharded, all ranks must do so equally often."""
        return self._root(function) if self.sharded else function()

    @property
    def sharded(self) -> bool:
        return self._root is not None

    def gather(self, value: Result) -> list[Result]:
        """The values of all ranks, on every rank. Waits for the slowest."""
        if self.size == 1:
            return [value]
        values: list = [None] * self.size
        dist.all_gather_object(values, value)
        return values

    def sum_gradients(self, parameters: Sequence[torch.nn.Parameter]):
        """Add up the gradients of all ranks, in float32. FSDP has done so for a sharded policy."""
        if self.size == 1 or self.sharded:
            return
        for bucket in _buckets(parameters):
            gradients = [p.grad if p.grad is not None else torch.zeros_like(p) for p in bucket]
            flat = torch.cat([g.flatten().float() for g in gradients])
            dist.all_reduce(flat)
            for parameter, part in zip(bucket, flat.split([p.numel() for p in bucket]), strict=True):
                parameter.grad = part.view_as(parameter).to(parameter.dtype)

    @contextlib.contextmanager
    def gathered(self, policy: Policy) -> Iterator[None]:
        """Within it the policy of rank 0 has whole weights on the CPU, to be read (saved, pushed) but not run or changed."""
        if not self.sharded:
            yield
            return
        self.order("gather")
        with torch.no_grad():
            whole: dict[torch.nn.Parameter, torch.nn.Parameter | None] = {}
            for parameter in policy.model.parameters():
                full = _whole(parameter)
                whole[parameter] = torch.nn.Parameter(full.cpu(), parameter.requires_grad) if self.rank == 0 else None
        places = [(m, n, p) for m in policy.model.modules() for n, p in m.named_parameters(recurse=False) if whole[p] is not None]
        try:
            for module, name, parameter in places:
                module._parameters[name] = whole[parameter]  # FSDP watches setattr and load_state_dict, and neither is meant
            yield
        finally:
            for module, name, parameter in places:
                module._parameters[name] = parameter

    def optimizer_state(self, optimizer: torch.optim.Optimizer) -> dict:
        """state_dict of the optimiser as one process would have it; of use on rank 0 only."""
        if not self.sharded:
            return optimizer.state_dict()
        self.order("save_optimizer")
        state = optimizer.state_dict()
        whole = {i: {k: _whole(v).cpu() if torch.is_tensor(v) else v for k, v in entry.items()} for i, entry in state["state"].items()}
        return {**state, "state": whole if self.rank == 0 else {}}

    def load_optimizer(self, optimizer: torch.optim.Optimizer, state: dict | None = None):
        """Load what optimizer_state returned, from rank 0, whatever number of ranks wrote it."""
        if self.size == 1:
            optimizer.load_state_dict(state)
            return
        self.order("load_optimizer")
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        plan = [None]
        if self.rank == 0:
            shapes = {i: {k: v.to("meta") if _is_like(v, parameters[i]) else v for k, v in e.items()} for i, e in state["state"].items()}
            plan = [{**state, "state": shapes}]
        dist.broadcast_object_list(plan, 0)
        spread = plan[0]
        for index, entry in spread["state"].items():
            for key, value in entry.items():
                if _is_like(value, parameters[index]):
                    own = state["state"][index][key] if self.rank == 0 else torch.empty_like(value, device="cpu")
                    tensor = own.to(self.device)
                    dist.broadcast(tensor, 0)
                    entry[key] = _like(tensor, parameters[index])
        optimizer.load_state_dict(spread)

    def _shard(self, policy: Policy) -> torch.nn.Module:
        from torch.distributed.device_mesh import DeviceMesh
        from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

        mesh = DeviceMesh.from_group(dist.group.WORLD, self.device.type)
        precision = MixedPrecisionPolicy(reduce_dtype=torch.float32)
        for layer in next(m for m in policy.model.modules() if isinstance(m, torch.nn.ModuleList)):  # the decoder's
            fully_shard(layer, mesh=mesh, mp_policy=precision)
        root = fully_shard(_Root(policy.model), mesh=mesh, mp_policy=precision)
        for module in root.modules():
            if isinstance(module, FSDPModule):  # sums, not means: the loss is already over the tokens of all ranks
                module.set_gradient_divide_factor(1.0)
                module.set_force_sum_reduction_for_comms(True)
        return root

    def _failure(self) -> str:
        """What another rank said before it ended; empty where none did."""
        with contextlib.suppress(RuntimeError):  # the store may have ended too
            if self._store.check([FAILURE]):
                return self._store.get(FAILURE).decode()
        return ""


ALONE = Ranks()


def connect() -> Ranks:
    """The ranks that torchrun started this process among; alone without torchrun. Raises ConfigError, TrainingError.

    Each rank sees one GPU from now on, as device 0, so call it before anything touches CUDA.
    """
    size = int(os.environ.get("WORLD_SIZE", 1))
    if size == 1:
        return Ranks()
    gpus = torch.cuda.device_count()
    if gpus:
        _see_only(int(os.environ["LOCAL_RANK"]), gpus)
    try:
        store, rank, size = next(dist.rendezvous("env://", timeout=START_TIMEOUT))
        backend = "cpu:gloo,cuda:nccl" if gpus else "gloo"
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=STEP_TIMEOUT)
        return Ranks(rank, size, "cuda" if gpus else "cpu", store)
    except (RuntimeError, ValueError) as error:
        raise TrainingError(f"the {size} ranks could not meet ({one_line(error, 200)}); start them with torchrun") from None


def _see_only(local_rank: int, gpus: int):
    if local_rank >= gpus:
        raise ConfigError(f"torchrun: rank {local_rank} of this machine has no GPU, {gpus} are visible; lower --nproc-per-node")
    visible = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(gpus)))
    os.environ["CUDA_VISIBLE_DEVICES"] = visible.split(",")[local_rank]


def _buckets(parameters: Sequence[torch.nn.Parameter]) -> Iterator[list[torch.nn.Parameter]]:
    bucket, numbers = [], 0
    for parameter in parameters:
        if bucket and numbers + parameter.numel() > BUCKET_NUMBERS:
            yield bucket
            bucket, numbers = [], 0
        bucket.append(parameter)
        numbers += parameter.numel()
    if bucket:
        yield bucket


def _whole(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor put together from the shares of all ranks; itself where it is not sharded."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def _like(tensor: torch.Tensor, parameter: torch.nn.Parameter) -> torch.Tensor:
    """This rank's share of a whole tensor that all ranks hold, cut as the parameter is."""
    if not hasattr(parameter, "full_tensor"):
        return tensor
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(tensor, parameter.device_mesh, parameter.placements, src_data_rank=None)


def _is_like(value, parameter: torch.nn.Parameter) -> bool:
    """Whether a value of an optimiser's state is one number a weight."""
    return torch.is_tensor(value) and value.dim() > 0 and value.shape == parameter.shape


def _is_loss_of_contact(error: BaseException) -> bool:
    return isinstance(error, dist.DistError) or (isinstance(error, RuntimeError) and ("gloo" in str(error) or "NCCL" in str(error)))
