"""rlmlib: train and study Recursive Language Models. Importing it loads nothing heavy.

from rlmlib import RLM
RLM(root="tiny", leaf="lexical").ask(question, context).answer
"""

__version__ = "0.1.0"


def __getattr__(name: str):
    if name == "RLM":
        from .rlm import RLM

        return RLM
    raise AttributeError(f"module 'rlmlib' has no attribute '{name}'")
