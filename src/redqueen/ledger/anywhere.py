"""Settings in a ledger without those that say where a run was computed: records do not follow from
them."""

import json
import tomllib
from collections.abc import Sequence
from typing import Any

from redqueen.config.toml import to_toml, validate

_ENGINES = ("processes", "ray")
"""Compute what `torch` does, elsewhere."""


def without_placement(row: Sequence[Any]) -> tuple[Any, ...]:
    """A row of `run` or `worlds`, as it is for a run on one device."""
    return tuple(_replace(value) if _names_engine(value) else value for value in row)


def _names_engine(value: Any) -> bool:
    return isinstance(value, str) and any(f'"{engine}"' in value for engine in _ENGINES)


def _replace(text: str) -> str:
    for read, write in ((tomllib.loads, to_toml), (json.loads, lambda c: c.model_dump_json())):
        try:
            values = read(text)
        except ValueError:
            continue
        if isinstance(values, dict) and any(
            values.get(section, {}).get("type") in _ENGINES for section in ("engine", "sandbox")
        ):
            return write(validate(values, imports=False).without_placement)
    return text
