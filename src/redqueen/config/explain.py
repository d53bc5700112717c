"""What is wrong with a setting: where, what it takes, what we got, and the nearest name."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel

from redqueen.config.messages import explain_values
from redqueen.config.registry import Choice
from redqueen.config.renamed import find_renamed, find_renamed_row
from redqueen.config.schema import Config
from redqueen.config.section import Section
from redqueen.errors import unknown

_ALSO_CALLED = {
    "batch_size": "max_num_seqs",
    "beta": "kl",
    "clip_grad": "grad_clip",
    "generations": "attempts",
    "gpus": "devices",
    "kl_coef": "kl",
    "lr": "learning_rate",
    "lora_alpha": "alpha",
    "lora_rank": "rank",
    "max_grad_norm": "grad_clip",
    "max_length": "max_tokens",
    "max_new_tokens": "max_tokens",
    "max_steps": "steps",
    "model": "base",
    "num_generations": "attempts",
    "num_steps": "steps",
    "r": "rank",
    "random_seed": "seed",
    "target_modules": "targets",
    "temp": "temperature",
    "tracker": "trackers",
}
"""What other trainers call a setting."""


def explain(errors: Sequence[Any]) -> str:
    """The errors of a ValidationError, a line each; where a setting takes one of several sorts of
    values, the library has an error for each of them."""
    return "\n".join(_explain(path, list(of)) for path, of in groupby(errors, key=_path))


def _path(item: Any) -> tuple[str, ...]:
    """Of the setting: without the library's name for a sort of values, and without the place in a
    list that is too short."""
    path: list[str] = []
    section: Any = Config
    for part in item["loc"]:
        path.append(str(part))
        field = getattr(section, "model_fields", {}).get(part)
        section = field.annotation if field else None
        sorts = {*get_args(section)} - {type(None)} if _is_union(section) else ()
        if len(sorts) > 1:
            return (*path,)
    return (*path[:-1],) if _is_too_short(item) else (*path,)


def _is_too_short(item: Any) -> bool:
    return item["type"] == "missing" and isinstance(item["loc"][-1], int)


def _is_union(annotation: Any) -> bool:
    return get_origin(annotation) in (Union, UnionType)


def _explain(path: Sequence[str], items: Sequence[Any]) -> str:
    where, item = ".".join(path), items[-1]
    if _is_too_short(item):
        items = [item]
    if item["type"] == "extra_forbidden":
        if renamed := find_renamed(where, item["input"]):
            return "\n".join(f"{old} is now {new}" for old, new in renamed.items())
        return f"{where}: {_unknown(path)}"
    for old, new in find_renamed_row(where, item["input"]).items():
        return f"{where}: {old} is now {new}"
    if item["type"] == "value_error":
        # a check of ours, of a choice or of settings that do not go together: it says what we got
        message = item["ctx"]["error"]
        return f"{where}: {message}" if where else str(message)
    return f"{where}: {explain_values(items, where, _names_in(path))}"


def _unknown(path: Sequence[str]) -> str:
    """With the nearest name of the section, or with where the name is at home."""
    name, section = path[-1], ".".join(path[:-1])
    wanted = _ALSO_CALLED.get(name, name)
    places = [place for place in setting_paths() if place.rpartition(".")[2] == wanted]
    here = f"{section}.{wanted}" if section else wanted
    if here in places:
        places = [here]
    message = unknown("setting", name, _names_in(path[:-1]))
    if not places:
        return message
    return f"unknown setting '{name}'. Did you mean {' or '.join(places)}?"


def setting_paths() -> list[str]:
    """Every setting by its path, such as update.learning_rate."""
    return list(_walk(Config, ""))


def _walk(section: type[BaseModel], before: str) -> Iterator[str]:
    for name, field in section.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, Section) and not issubclass(inner, Choice):
            yield from _walk(inner, f"{before}{name}.")
        else:
            yield f"{before}{name}"


def _names_in(path: Sequence[str]) -> list[str]:
    """Names that are possible in a section."""
    sections: list[type[BaseModel]] = [Config]
    for name in path:
        fields = [
            section.model_fields[name] for section in sections if name in section.model_fields
        ]
        sections = [inner for field in fields for inner in _sections_in(field.annotation)]
    return sorted({name for section in sections for name in section.model_fields})


def _sections_in(annotation: Any) -> list[type[BaseModel]]:
    """The sections within a type: itself, the variants of a union, the items of a list."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [section for inner in get_args(annotation) for section in _sections_in(inner)]
