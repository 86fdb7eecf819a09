"""Who trains the policy: chosen here, in one place."""

import torch

from ..config import Params
from .policy import Policy


def load_policy(params: Params, adapter: bool = True) -> Policy:
    """The policy of a params file, ready to be trained (a fresh adapter changes nothing); or its bare base. Raises ConfigError."""
    torch.set_num_threads(params.policy.threads)
    if params.policy.trainer == "unsloth":
        from . import unsloth_trainer as trainer
    else:
        from . import peft_trainer as trainer
    return trainer.load(params, adapter)
