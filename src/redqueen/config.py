"""The configuration: the sections that the stages own, from defaults, a sparse TOML file and `--set a.b=c`, in that order."""

import json
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError

from redqueen.errors import ConfigError, unknown
from redqueen.propose import ProposeConfig
from redqueen.sandbox.config import SandboxConfig
from redqueen.section import Section
from redqueen.solve import SolveConfig
from redqueen.tasks import TaskKind, load_kind
from redqueen.tasks.prompts import PromptPack, load_pack
from redqueen.verify import VerifyConfig


class TasksConfig(Section):
    kinds: tuple[str, ...] = Field(default=("code_o", "code_i", "code_f"), min_length=1)
    """Sorts of problems to play: names, or import paths of your own (`module:Class`)."""
    pack: Literal["chat", "compact"] = "chat"
    """Prompt pack: `chat` for instruction-tuned models, `compact` for tiny ones."""

    def load_kinds(self) -> dict[str, TaskKind]:
        return {name: load_kind(name) for name in self.kinds}

    def load_pack(self) -> PromptPack:
        return load_pack(self.pack)


class Config(Section):
    seed: int = 0
    """The seed of every random stream."""
    tasks: TasksConfig = TasksConfig()
    propose: ProposeConfig = ProposeConfig()
    verify: VerifyConfig = VerifyConfig()
    solve: SolveConfig = SolveConfig()
    sandbox: SandboxConfig = SandboxConfig()


def load_config(path: Path | None = None, settings: Sequence[str] = ()) -> Config:
    """Defaults, then the file, then the settings; raises ConfigError with the place and the nearest name."""
    values: dict[str, Any] = {} if path is None else _read_toml(path)
    for setting in settings:
        _set(values, setting)
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        raise ConfigError("\n".join(_explain(item) for item in error.errors())) from error


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError as error:
        raise ConfigError(f"there is no config file {path}") from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} is not a readable TOML file: {error}") from error


def _set(values: dict[str, Any], setting: str) -> None:
    name, equals, text = setting.partition("=")
    if not equals or not all(name.split(".")):
        raise ConfigError(f"--set takes a name and a value, such as verify.cpu_s=2; got '{setting}'")
    *sections, field = name.strip().split(".")
    for section in sections:
        values = values.setdefault(section, {})
        if not isinstance(values, dict):
            raise ConfigError(f"--set {setting}: '{section}' is a setting, not a section")
    values[field] = _value(text.strip())


def _value(text: str) -> Any:
    """A TOML value; anything else is text, so that quotes may be left out."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _explain(item: Any) -> str:
    path = [str(part) for part in item["loc"]]
    where = ".".join(path)
    if item["type"] == "extra_forbidden":
        return f"{where}: " + unknown("setting", path[-1], _fields(path[:-1]))
    return f"{where}: {item['msg']}; got {item['input']!r}"


def _fields(path: Sequence[str]) -> list[str]:
    section: type[BaseModel] = Config
    for name in path:
        inner = section.model_fields[name].annotation
        assert isinstance(inner, type) and issubclass(inner, BaseModel)
        section = inner
    return list(section.model_fields)


def to_toml(config: Config) -> str:
    """Every setting with its value and what it means, as a file that `load_config` reads back."""
    return "\n".join(_toml_lines(config, "")) + "\n"


def _toml_lines(section: BaseModel, prefix: str) -> Iterator[str]:
    inner: list[tuple[str, BaseModel]] = []
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if isinstance(value, BaseModel):
            inner.append((name, value))
            continue
        yield from (f"# {line}" for line in (field.description or "").splitlines())
        yield f"{name} = {json.dumps(sorted(value) if isinstance(value, frozenset) else value)}"
    for name, value in inner:
        yield f"\n[{prefix}{name}]"
        yield from _toml_lines(value, f"{prefix}{name}.")
