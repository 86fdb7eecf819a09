"""What the ranks other than 0 do: what rank 0 says, until it says stop."""

from ..config import Training
from .policy import Policy
from .ranks import Ranks
from .step import make_optimizer, take_step


def follow(policy: Policy, config: Training, ranks: Ranks):
    """Take this rank's share of every step. Returns when rank 0 has ended in good order; raises what went wrong here."""
    optimizer = None
    while True:
        name, payload = ranks.next_order()
        if name == "stop":
            return
        if name == "prepare":
            ranks.prepare(policy, config.parallel)
            optimizer = make_optimizer(policy, config)
        elif name == "step":
            take_step(policy, optimizer, payload, ranks)
        elif name == "gather":
            with ranks.gathered(policy):
                pass
        elif name == "save_optimizer":
            ranks.optimizer_state(optimizer)
        elif name == "load_optimizer":
            ranks.load_optimizer(optimizer)
