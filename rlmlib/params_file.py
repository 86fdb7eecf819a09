"""Reading a params file into a typed model, strictly.

An unknown key, a wrong type or a YAML 1.1 trap (`1e-5` is a string, `on` a boolean, `1:30` the number 90, `010` the
number 8, a key given twice) is refused with the key's full name before anything starts.
"""

import copy
import difflib
import re
from pathlib import Path
from typing import Annotated, TypeVar, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .errors import ConfigError

PositiveInt = Annotated[int, Field(ge=1)]
PositiveFloat = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]  # what every library takes
Model = TypeVar("Model", bound=BaseModel)


class Section(BaseModel):
    """Part of a params file. The descriptions of its fields are the manual."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class _Loader(yaml.SafeLoader):
    """SafeLoader that refuses a key given twice (PyYAML keeps the last one silently)."""


def _mapping_without_duplicates(loader, node, deep=False):
    seen = set()
    for key_node, _ in node.value:
        if key_node.tag == "tag:yaml.org,2002:merge":
            continue
        key = loader.construct_object(key_node, deep=True)
        if key in seen:
            raise ConfigError(f"line {key_node.start_mark.line + 1}: the key '{key}' is given twice; keep one")
        seen.add(key)
    return yaml.SafeLoader.construct_mapping(loader, node, deep=deep)


_OCTAL = re.compile(r"[-+]?0[0-9_]+")


def _number(loader, node):
    line = f"line {node.start_mark.line + 1}: {node.value}"
    if ":" in node.value:
        raise ConfigError(f"{line} is base 60 to YAML 1.1; write the plain number or quote it")
    if _OCTAL.fullmatch(node.value):
        raise ConfigError(f"{line} is base 8 to YAML 1.1; write it without the leading 0 or quote it")
    kind = "int" if node.tag.endswith("int") else "float"
    return getattr(yaml.SafeLoader, f"construct_yaml_{kind}")(loader, node)


_Loader.add_constructor("tag:yaml.org,2002:map", lambda loader, node: _mapping_without_duplicates(loader, node, True))
_Loader.add_constructor("tag:yaml.org,2002:int", _number)
_Loader.add_constructor("tag:yaml.org,2002:float", _number)

_NUMBER_STRING = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")


def _known_keys(model: type[BaseModel], location: tuple) -> list[str]:
    for part in location[:-1]:
        if isinstance(part, int):  # an item of a list, whose model was found with the list
            continue
        found = _model_in(model.model_fields[part].annotation) if part in model.model_fields else None
        if found is None:
            return []
        model = found
    return list(model.model_fields)


def _model_in(annotation) -> type[BaseModel] | None:
    """The section in an annotation such as Lora, list[Records] or Lora | None."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for part in get_args(annotation) if (model := _model_in(part))), None)


def _explain(error: dict, model: type[BaseModel]) -> str:
    location = error["loc"]
    key = ".".join(str(part) for part in location) or "the file"
    value = error.get("input")
    if error["type"] == "extra_forbidden":
        near = difflib.get_close_matches(str(location[-1]), _known_keys(model, location), n=1)
        return f"{key}: no such parameter" + (f"; did you mean '{near[0]}'?" if near else "")
    if error["type"] == "missing":
        return f"{key}: is required"
    if isinstance(value, str) and _NUMBER_STRING.fullmatch(value):
        return f"{key}: '{value}' is a string to YAML 1.1; write {float(value)!r} with a dot, such as 1.0e-5"
    if isinstance(value, bool) and error["type"] != "bool_type":
        return f"{key}: {value} came from a bare on/off/yes/no, which YAML 1.1 reads as a boolean; quote it ({error['msg'].lower()})"
    shown = "" if isinstance(value, dict | list | BaseModel) else f", got {value!r}"
    message = error["msg"].removeprefix("Value error, ")
    return f"{key}: {message[0].lower() + message[1:]}{shown}"


def validate(values: dict, model: type[Model], source: str = "params") -> Model:
    """A model from a nested dict. Raises ConfigError that names each bad key."""
    if not isinstance(values, dict):
        raise ConfigError(f"{source}: expected 'key: value' lines, found {type(values).__name__}")
    try:
        return model.model_validate(values)
    except ValidationError as error:
        problems = " ".join("; ".join(_explain(e, model) for e in error.errors()).split())
        raise ConfigError(f"{source}: {problems}") from None


def load(path: str | Path, model: type[Model], overrides: dict | None = None) -> Model:
    """Read a params file; `overrides` maps dotted keys to values, e.g. {"training.lr": 1e-4}."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); the presets are in params/") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not UTF-8 text; save it as UTF-8") from None
    try:
        values = yaml.load(text, Loader=_Loader)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    except RecursionError:
        raise ConfigError(f"{path}: is nested too deeply; a params file has sections and values") from None
    except (yaml.YAMLError, TypeError, ValueError) as error:  # a list as a key, an impossible date
        problem = " ".join(str(error).split())
        raise ConfigError(f"{path}: is not valid YAML: {problem}") from None
    return validate(override(values or {}, overrides or {}, str(path)), model, str(path))


def as_yaml(params: BaseModel) -> str:
    """A params file of resolved parameters. JSON would not do: 1e-05, which it writes, is a string to YAML 1.1."""
    return yaml.safe_dump(params.model_dump(), sort_keys=False)


def override(values: dict, overrides: dict, source: str = "params") -> dict:
    """A copy of a nested dict with dotted keys replaced."""
    values = copy.deepcopy(values)
    for dotted, value in overrides.items() if isinstance(values, dict) else ():
        *sections, last = dotted.split(".")
        target = values
        for section in sections:
            target = target.setdefault(section, {})
            if not isinstance(target, dict):
                raise ConfigError(f"{source}: {dotted}: '{section}' is a value, not a section")
        target[last] = value
    return values
