"""Who trains the policy: chosen here, in one place."""

import torch

from ..config import Params
from .policy import Policy


def load_policy(params: Params, adapter: bool = True) -> Policy:
    """The policy of a params file, ready to be trained (a fresh adapter changes nothing); or its bare base. Raises ConfigError."""
    at_once = 2 if params.training.max_async_level else 1  # sampling and training share the threads
    torch.set_num_threads(max(1, params.policy.threads // at_once))
    if params.policy.trainer == "unsloth":
        from . import unsloth_trainer as trainer
    else:
        from . import peft_trainer as trainer
    return trainer.load(params, adapter)


def import_first(params: Params):
    """Import what has to be imported before transformers is: Unsloth patches it. Raises ConfigError where it is missing."""
    if params.policy.trainer == "unsloth":
        from .unsloth_trainer import import_unsloth

        import_unsloth()
