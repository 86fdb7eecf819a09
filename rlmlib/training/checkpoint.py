"""Checkpoints: adapter, optimiser, curriculum and counters of one step, written atomically.

    checkpoints/step_N/   adapter_config.json adapter_model.safetensors (PEFT format), or a whole transformers folder (policy.tuning: full)
                          optimizer.pt  rng.pt  state.json  manifest.json (sha256 of each file)

A folder appears whole or not at all: it is written beside and renamed.
"""

import hashlib
import json
import os
import re
import shutil
from pathlib import Path

import torch

from ..config import Training
from ..errors import CheckpointError
from ..runs import RunDir, write_json, writing
from .policy import Policy
from .ranks import ALONE, Ranks

MANIFEST = "manifest.json"


def save(run: RunDir, step: int, policy: Policy, optimizer, state: dict, ranks: Ranks = ALONE):
    """Write checkpoints/step_N. On several ranks it is called on rank 0."""
    final = run / f"checkpoints/step_{step}"
    temporary = run / f"checkpoints/.step_{step}.{os.getpid()}.tmp"
    with writing(final):
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        try:
            with ranks.gathered(policy):
                policy.save_adapter(temporary)
            torch.save(ranks.optimizer_state(optimizer), temporary / "optimizer.pt")
            torch.save(_random_state(), temporary / "rng.pt")
            write_json(temporary / "state.json", {"step": step, **state})
            write_json(temporary / MANIFEST, {f.name: _digest(f) for f in sorted(temporary.iterdir()) if f.is_file()})
            shutil.rmtree(final, ignore_errors=True)
            os.replace(temporary, final)
        except Exception as error:
            shutil.rmtree(temporary, ignore_errors=True)
            # torch and safetensors wrap "no space left" in errors of their own
            if not isinstance(error, OSError) and re.search(r"no space|os error 28|enforce fail", str(error), re.IGNORECASE):
                raise OSError(28, os.strerror(28), str(final)) from None
            raise
    for leftover in (run / "checkpoints").glob(".step_*.tmp"):  # of a process that was killed while it wrote
        shutil.rmtree(leftover, ignore_errors=True)


def prune(run: RunDir, config: Training, best: int | None):
    """Delete checkpoints but the newest ones, the best one, and each that training.keep_every says."""
    saved = steps(run)
    for step in set(saved) - kept(saved, config, best):
        shutil.rmtree(run / f"checkpoints/step_{step}", ignore_errors=True)


def kept(saved: list[int], config: Training, best: int | None) -> set[int]:
    """Those of `saved` (oldest first) that stay."""
    every = {step for step in saved if config.keep_every and step % config.keep_every == 0}
    return {*saved[-config.keep_last :], *every, *({best} & set(saved))}


def steps(run: RunDir) -> list[int]:
    """Steps with a checkpoint, oldest first."""
    folder = run / "checkpoints"
    found = [re.fullmatch(r"step_(\d+)", p.name) for p in folder.iterdir()] if folder.is_dir() else []
    return sorted(int(m[1]) for m in found if m)


def verify(folder: Path) -> dict:
    """The state of a checkpoint whose files are those that were written; else CheckpointError."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
        wrong = [name for name, digest in manifest.items() if _digest(folder / name) != digest]
        state = json.loads((folder / "state.json").read_text())
    except (OSError, ValueError, AttributeError) as error:
        raise CheckpointError(f"{folder}: corrupt checkpoint ({error}); {_advice(folder)}") from None
    if wrong:
        raise CheckpointError(f"{folder}: corrupt checkpoint ({', '.join(wrong)} changed since written); {_advice(folder)}")
    return state


def load(run: RunDir, step: int, policy: Policy) -> dict:
    """Restore what was trained into the policy; returns the checkpoint's state. Raises CheckpointError."""
    folder = run / f"checkpoints/step_{step}"
    state = verify(folder)
    policy.load_adapter(folder)
    return state


def load_optimizer(run: RunDir, step: int, optimizer, ranks: Ranks = ALONE):
    """Restore optimiser and random numbers, those of `load` done before. They may be of a device that is not here."""
    folder = run / f"checkpoints/step_{step}"
    ranks.load_optimizer(optimizer, torch.load(folder / "optimizer.pt", map_location="cpu", weights_only=True))
    _set_random_state(torch.load(folder / "rng.pt", map_location="cpu", weights_only=True))


def _random_state() -> dict:
    """Of torch: dropout draws from it."""
    return {"cpu": torch.get_rng_state(), "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []}


def _set_random_state(state: dict):
    torch.set_rng_state(state["cpu"])
    for device, value in enumerate(state["cuda"][: torch.cuda.device_count()]):
        torch.cuda.set_rng_state(value, device)


def _advice(folder: Path) -> str:
    return f"delete {folder.name} to go on from the checkpoint before it, or start over (FRESH=1)"


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
