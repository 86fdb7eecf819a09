"""Before a run: what it takes of memory, tokens, dollars, hours and disk, and whether it can fit. Estimates, no promises.

    python -m rlmlib.training.preflight --params params/qwen3-4b.yaml [--device 80GB] [--ranks 4] [--out outputs/run]

Nothing is loaded. Without --device it is the GPU or CPU of this machine; with it, a GPU of so many GB, or `cpu:16GB`. Exit code 2
where the run cannot fit, with one line that names the knob to turn.
"""

import argparse
import importlib.util
import os
import re
import shutil
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .. import config, tracking
from ..config import Params
from ..errors import ConfigError, RlmError
from ..models import choose
from ..models.api import http_address
from ..runs import RunDir
from . import base_model, memory
from . import work as works
from .architecture import Architecture, architecture
from .architecture import model_config as config_of
from .knobs import knob
from .memory import GIB, MIB, Estimate
from .work import Rates, Work

GB = 10**9
USABLE_SHARE = 0.95  # of a device's memory: the rest is the driver's, and fragments
CONNECT_TIMEOUT_S = 3.0
NEEDED_PACKAGES = {"unsloth": "policy.trainer: peft", "vllm": "policy.sampler: torch"}
GPU_SET = "python tools/install.py --profile gpu"


@dataclass(frozen=True)
class Device:
    """Where the run would be. here: it is of this machine, so its disk, what is installed and what answers can be looked at."""

    kind: str  # cuda or cpu
    name: str
    bytes: int
    here: bool


@dataclass(frozen=True)
class Report:
    """What a run takes. str() of it is a table."""

    name: str
    device: Device
    ranks: int
    model: Architecture
    memory: Estimate
    rates: Rates
    work: Work
    disk: dict[str, int]  # bytes of the whole run
    disk_used: int  # of them there already
    disk_free: int
    vllm_sequences: float | None  # conversations of full length in vLLM's cache; None: no vLLM in this process

    def __str__(self) -> str:
        return "\n".join([f"{self.name}: estimates before the run", *_lines(self)])


def preflight(params: Params, run: RunDir | None = None, model_config=None, device: str | None = None, ranks: int | None = None) -> Report:
    """What a run takes, or what is left of one.

    run: its directory, whose own measurements replace assumptions, and whose disk it is. model_config: a transformers config
    instead of the one that policy.model names. device: None is that of this machine; see the top. ranks: trainers, as torchrun
    tells by default. Raises ConfigError where policy.model is unknown or `device` cannot be read.
    """
    where = named_device(device) if device else device_here()
    ranks = ranks or int(os.environ.get("WORLD_SIZE", "1"))
    model = architecture(model_config or config_of(params.policy.model))
    done = works.work(params, where.kind, run)
    in_process = params.policy.sampler == "vllm" and where.kind == "cuda"
    path = run.path if run else Path.cwd()
    return Report(
        name=params.name,
        device=where,
        ranks=ranks,
        model=model,
        memory=memory.estimate(params, model, where.kind, where.bytes, ranks),
        rates=works.rates(params, run),
        work=done,
        disk=works.disk(params, model, where.kind, done.rollouts, run),
        disk_used=works.used(path) if run else 0,
        disk_free=shutil.disk_usage(next(p for p in (path.resolve(), *path.resolve().parents) if p.exists())).free,
        vllm_sequences=memory.vllm_sequences(params, model, where.bytes) if in_process else None,
    )


def check(report: Report, params: Params):
    """Raises ConfigError, in one line that names each knob, where the run cannot fit or cannot start."""
    found = [*_sizes(report, params), *_targets(report, params), *_limits(report, params)]
    if report.device.here:
        found += [*_disk(report), *_packages(params, report.device), *_apis(params), *_servers(params)]
    if found:
        raise ConfigError("; ".join(found))


def device_here() -> Device:
    """The GPU of this process, or its CPU and the memory that a container leaves it."""
    import torch

    if torch.cuda.is_available():
        index = torch.cuda.current_device()
        return Device("cuda", torch.cuda.get_device_name(index), torch.cuda.get_device_properties(index).total_memory, True)
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        total = min(total, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    except (OSError, ValueError):  # no limit, or another version of cgroups
        pass
    return Device("cpu", "the CPU of this machine", total, True)


def named_device(text: str) -> Device:
    """'80GB': a GPU of 80e9 bytes, as cards are named; 'cpu:16GB': a CPU."""
    found = re.fullmatch(r"(?:(cuda|cpu):)?(\d+(?:\.\d+)?) ?GB", text, re.IGNORECASE)
    if not found:
        raise ConfigError(f"device: '{text}' is no size; write 80GB for a GPU, or cpu:16GB")
    kind = (found[1] or "cuda").lower()
    return Device(kind, f"a {'GPU' if kind == 'cuda' else 'CPU'} of {found[2]} GB", int(float(found[2]) * GB), False)


def _sizes(report: Report, params: Params):
    """What of memory and positions is too much."""
    asked = params.sampling.max_sequence_tokens
    if asked > report.model.positions:
        yield f"sampling.max_sequence_tokens: {asked} is over the model's {report.model.positions} positions; lower it"
    need, have = report.memory.peak, report.device.bytes * USABLE_SHARE
    if need > have:
        what = f"memory: about {size(need)} are needed, over {USABLE_SHARE:.0%} of the {size(report.device.bytes)} of {report.device.name}"
        yield f"{what}; {knob(params, report.memory.terms)}"
    if report.vllm_sequences is not None and report.vllm_sequences < 1:
        share = params.policy.vllm.gpu_memory
        yield f"policy.vllm.gpu_memory: {share:g} leaves no room for one conversation of {asked} tokens beside the weights; raise it"


def _targets(report: Report, params: Params):
    if params.policy.tuning == "lora":
        yield from _refusal(base_model.check_targets, params.policy.lora.targets, [linear.name for linear in report.model.linears])


def _refusal(function: Callable, *arguments):
    """The text of the ConfigError that a call raises, if it does."""
    try:
        function(*arguments)
    except ConfigError as error:
        yield str(error)


def _disk(report: Report):
    missing = sum(report.disk.values()) - report.disk_used
    if missing > report.disk_free:
        largest = max(report.disk, key=report.disk.get)
        knobs = {"checkpoints": "training.keep_last or keep_every", "contexts": "tasks.pool or tasks.max_chars"}
        turn = knobs.get(largest, "training.steps")
        yield f"disk: about {size(missing)} are needed and {size(report.disk_free)} are free; free some, or lower {turn}"


def _limits(report: Report, params: Params):
    limits, work = params.limits, report.work
    if limits.dollars is not None:
        if work.dollars is None:
            unknown = params.leaf.model if work.leaf_dollars is None else params.judge.model
            yield f"limits.dollars: the price of '{unknown}' is not known; set `free: true` for a server of your own, or take the limit out"
        elif work.dollars > limits.dollars:
            turn = "lower training.steps or harness.max_delegated_tokens, or raise the limit"
            yield f"limits.dollars: about {work.dollars:,.0f} dollars are expected, over {limits.dollars:g}; {turn}"
    if limits.hours is not None and work.hours is not None and work.hours > limits.hours:
        yield f"limits.hours: about {work.hours:.1f} hours are expected, over {limits.hours:g}; lower training.steps, or raise the limit"


def _packages(params: Params, device: Device):
    yield from _refusal(tracking.imported, params)
    policy = params.policy
    for package, instead in NEEDED_PACKAGES.items():
        if package in (policy.trainer, policy.sampler) and importlib.util.find_spec(package) is None:
            yield f"{package} is not installed: install the GPU set ({GPU_SET}), or set {instead}"
    if policy.load_in_4bit:
        if device.kind != "cuda":
            yield "policy.load_in_4bit: needs an NVIDIA GPU; set it to false"
        elif importlib.util.find_spec("bitsandbytes") is None:
            yield f"policy.load_in_4bit: bitsandbytes is not installed: install the GPU set ({GPU_SET}), or set it to false"


def _apis(params: Params):
    """Leaf or judge without a key or an address. Nothing is asked of them."""
    for section, model in (("leaf", params.leaf), ("judge", params.judge)):
        if model.engine in ("gemini", "openai"):
            yield from (f"{section}: {why}" for why in _refusal(choose.chat_model, model, params.harness.leaf_timeout_s))


def _servers(params: Params):
    """Servers of the policy that take no connection."""
    for number, url in enumerate(params.policy.vllm.urls if params.policy.sampler == "server" else ()):
        try:
            parts = http_address(url, f"policy.vllm.urls.{number}", "put a key into VLLM_API_KEY")
        except ConfigError as error:
            yield str(error)
            continue
        host, port = parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
        try:
            socket.create_connection((host, port), CONNECT_TIMEOUT_S).close()
        except (OSError, UnicodeError) as error:
            yield f"policy.vllm.urls: {host}:{port} does not answer ({error}); start it first"


def size(value: float) -> str:
    """Bytes for a reader."""
    return f"{value / GIB:.1f} GiB" if value >= GIB else f"{value / MIB:.1f} MiB"


def _lines(report: Report):
    def row(name: str, value: str, note: str = "") -> str:
        return f"  {name:26}{value:>14}  {note}".rstrip()

    def count(value: float) -> str:
        return f"{value:,.0f}"

    device, work, known = report.device, report.work, report.rates
    ranks = f", {report.ranks} ranks" if report.ranks > 1 else ""
    yield f"memory of {device.name} ({size(device.bytes)}{ranks})"
    phases = ((report.memory.always, ""), (report.memory.training, "while training"), (report.memory.sampling, "while sampling"))
    for terms, note in phases:
        yield from (row(name, size(value), note) for name, value in terms.items())
    yield row("at its peak", size(report.memory.peak), f"{report.memory.peak / device.bytes:.0%} of the device")
    if report.vllm_sequences is not None:
        yield row("vLLM's cache", f"{report.vllm_sequences:.1f}", "conversations of full length")
    yield f"work of {work.steps} steps, by {known.source}"
    yield row("rollouts a step", count(work.rollouts), f"{known.acceptance:.0%} of the groups carry a signal")
    yield row("tokens a step", count(work.tokens), f"of the policy's conversations; {count(work.trained_tokens)} are trained on")
    yield row("tokens in all", count(work.tokens * work.steps))
    yield row("leaf calls in all", count(work.leaf_calls))
    yield row("leaf tokens in all", count(work.leaf_tokens), f"{count(known.leaf_tokens)} a rollout")
    yield row("judge calls in all", count(work.judge_calls))
    for name, value in (("leaf, dollars", work.leaf_dollars), ("judge, dollars", work.judge_dollars)):
        yield row(name, "not known" if value is None else f"{value:,.2f}", "its price is not in the table" if value is None else "")
    yield row("hours", "not known" if work.hours is None else f"{work.hours:.1f}", work.hours_source)
    yield "disk"
    yield from (row(name, size(value)) for name, value in report.disk.items())
    yield row("in all", size(sum(report.disk.values())), f"{size(report.disk_used)} there already, {size(report.disk_free)} free")
    if "assum" in known.source:
        yield "assumed"
        yield from _assumptions(known)


def _assumptions(known: Rates):
    if known.source == "assumptions":
        yield f"  a rollout's leaf tokens: those of the study's base policy, {works.STUDY_LEAF_TOKENS:,}, or what the harness allows"
        yield f"  a leaf call: {works.WINDOW_SHARE:.0%} of leaf.window_tokens, and {works.REPLY_SHARE:.0%} of leaf.max_tokens as reply"
    yield f"  a rollout: {works.TURNS_SHARE:.0%} of harness.max_turns, replies of {works.REPLY_SHARE:.0%} of max_turn_tokens, full outputs"
    yield f"  a verdict: {works.JUDGE_TOKENS[0]} tokens and {works.JUDGE_TOKENS[1]} of reply, for each rollout of the families judged"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--params", required=True, type=Path, help="params file")
    parser.add_argument("--device", help="80GB: a GPU of that size; cpu:16GB; default: what this machine has")
    parser.add_argument("--ranks", type=int, help="trainers under torchrun")
    parser.add_argument("--out", type=Path, help="run directory, whose own measurements are used")
    options = parser.parse_args(arguments)
    try:
        params = config.load(options.params)
        report = preflight(params, RunDir(options.out) if options.out else None, device=options.device, ranks=options.ranks)
        print(report)
        check(report, params)
    except RlmError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
