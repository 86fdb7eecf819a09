"""Metrics beside metrics.jsonl: trackio, W&B and TensorBoard behind one small object.

A tracker never stops training: what fails once it is installed is told once, as a warning, and that tracker is left out. After
a restart the same run goes on, by the id kept in tracking.json of the run directory. Of the params, whatever could hold a secret
is left out: addresses lose user, password and query, and commands are not sent. Console output, code and environment are not either.
"""

import importlib
import json
import math
import uuid
import warnings
from types import ModuleType
from urllib.parse import urlsplit, urlunsplit

from .config import Params
from .errors import ConfigError, one_line
from .runs import RunDir, write_json

PACKAGES = {"trackio": "trackio", "wandb": "wandb", "tensorboard": "torch.utils.tensorboard"}  # what is imported of each
PRIVATE = ("sandbox_command",)


class Tracker:
    """Sends rows of metrics to each of tracking.to. Use as a context manager, or call finish()."""

    def __init__(self, params: Params, run: RunDir, step: int = 0):
        """step: the first that will be logged; what is there from it on is of an undone part of the run.

        Raises ConfigError where a package is not installed.
        """
        self._open = {}
        for name, module in imported(params).items():
            self._try(name, lambda name=name, module=module: self._start(name, module, params, run, step))

    def __enter__(self) -> "Tracker":
        return self

    def __exit__(self, *_):
        self.finish()

    def log(self, step: int, row: dict):
        """The finite numbers of a row."""
        numbers = {key: value for key, value in row.items() if isinstance(value, int | float) and math.isfinite(value) and key != "step"}
        for name, backend in list(self._open.items()):
            self._try(name, lambda backend=backend: backend.log(step, numbers))

    def finish(self):
        """Send what is left. May be called again."""
        for name, backend in list(self._open.items()):
            self._try(name, backend.finish)
        self._open = {}

    def _start(self, name: str, module, params: Params, run: RunDir, step: int):
        self._open[name] = BACKENDS[name](module, params, run, step)

    def _try(self, name: str, call):
        try:
            call()
        except Exception as error:  # noqa: BLE001 - whatever a tracker raises, training goes on
            self._open.pop(name, None)
            warnings.warn(f"tracking.to: {name} failed ({one_line(error, 200)}); training goes on without it", RuntimeWarning, stacklevel=4)


class _Trackio:
    def __init__(self, trackio, params: Params, run: RunDir, step: int):
        name = run_id(params, run)
        self._module = trackio
        self._run = trackio.init(project=params.tracking.project, name=name, config=public(params), resume="allow", embed=False)

    def log(self, step: int, numbers: dict):
        self._run.log(numbers, step=step)

    def finish(self):
        self._module.finish()


class _Wandb:
    def __init__(self, wandb, params: Params, run: RunDir, step: int):
        name = run_id(params, run)
        self._run = wandb.init(
            project=params.tracking.project,
            id=name,
            name=name,
            dir=str(run.path),
            config=public(params),
            resume="allow",
            settings=wandb.Settings(console="off", disable_git=True, disable_code=True, x_disable_meta=True),
        )
        self._run.define_metric("*", step_metric="step")  # W&B's own counter refuses steps that are done again after a restart

    def log(self, step: int, numbers: dict):
        self._run.log({**numbers, "step": step})

    def finish(self):
        self._run.finish()


class _TensorBoard:
    def __init__(self, tensorboard, params: Params, run: RunDir, step: int):
        self._writer = tensorboard.SummaryWriter(log_dir=str(run / "tensorboard"), purge_step=step)
        self._writer.add_text("params", "```\n" + json.dumps(public(params), indent=1) + "\n```", step)

    def log(self, step: int, numbers: dict):
        for key, value in numbers.items():
            self._writer.add_scalar(key, value, step)
        self._writer.flush()

    def finish(self):
        self._writer.close()


BACKENDS = {"trackio": _Trackio, "wandb": _Wandb, "tensorboard": _TensorBoard}


def imported(params: Params) -> dict[str, ModuleType]:
    """The packages of tracking.to by name. Raises ConfigError where one is not installed."""
    modules = {}
    for name in params.tracking.to:
        try:
            modules[name] = importlib.import_module(PACKAGES[name])
        except ImportError as error:
            why = f"{name} cannot be imported ({one_line(error, 120)})"
            raise ConfigError(f"tracking.to: {why}; pip install {name}, or take it out") from None
    return modules


def run_id(params: Params, run: RunDir) -> str:
    """The name of a run at every tracker: made once, then kept in the run directory."""
    path = run / "tracking.json"
    try:
        return json.loads(path.read_text())["id"]
    except (OSError, ValueError, KeyError):
        name = f"{params.name}-{uuid.uuid4().hex[:8]}"
        write_json(path, {"id": name})
        return name


def public(params: Params) -> dict:
    """The params without what could hold a secret."""

    def clean(value):
        if isinstance(value, dict):
            return {key: clean(item) for key, item in value.items() if key not in PRIVATE}
        if isinstance(value, list):
            return [clean(item) for item in value]
        return _without_secrets(value) if isinstance(value, str) and "://" in value else value

    return clean(params.model_dump(mode="json"))


def _without_secrets(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
