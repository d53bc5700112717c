"""What a setting takes and what it got, in plain words: none of Python's."""

from collections.abc import Sequence
from typing import Any

from redqueen.errors import plural

_TAKES = {
    "bool": "takes true or false",
    "finite": "takes a finite number",
    "float": "takes a number",
    "int": "takes a whole number",
    "string": "takes a text",
}
"""By how the library's name for the error begins."""
_SECTIONS = ("model_type", "model_attributes_type", "dict_type")
_LISTS = ("tuple_type", "list_type", "set_type", "frozen_set_type")


def explain_values(items: Sequence[Any], path: str = "", names: Sequence[str] = ()) -> str:
    """Errors of a ValidationError, of one setting: where it takes several sorts of values, one of
    each. `path` is that of the setting, `names` are those in it where it is a section."""
    first, *others = (_explain(item, path, names) for item in items)
    or_else = (text.removeprefix("must be ").removeprefix("takes ") for text in others)
    return ", or ".join((first, *or_else)) + f"; got {_show(items[0]['input'])}"


def _explain(item: Any, path: str, names: Sequence[str]) -> str:
    kind = item["type"]
    if kind in _SECTIONS:
        such = f", such as {path}.{names[0]}" if names else ""
        return f"is a section: set one of its settings{such}"
    if kind in _LISTS:
        # without quotes, as a shell leaves it, a list is read as a text
        names = [name.strip() for name in str(item["input"]).strip("[]").split(",")]
        such = f""", such as "{path}={names}\"""" if path else ""
        return f"takes a list{such}"
    if kind == "too_short":
        return f"takes at least {plural(item['ctx']['min_length'], 'item')}"
    if kind == "too_long":
        return f"takes at most {plural(item['ctx']['max_length'], 'item')}"
    if kind == "missing" and isinstance(item["loc"][-1], int):
        return f"takes at least {plural(item['loc'][-1] + 1, 'item')}"
    return _TAKES.get(kind.partition("_")[0], str(item["msg"]).replace("Input should", "must"))


def _show(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
