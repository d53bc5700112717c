"""Runs behind a reference solution called ENTRY: from then on every result is another value."""


def _change(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float, complex)):
        return value + 1
    if isinstance(value, str):
        return value + "x"
    if isinstance(value, list):
        return [*value, None]
    if isinstance(value, tuple):
        return (*value, None)
    if isinstance(value, (set, frozenset)):
        return set(value) | {"x"}
    if isinstance(value, dict):
        return {**value, "x": None}
    return 1 if value is None else None


_reference = ENTRY


def ENTRY(*arguments):
    return _change(_reference(*arguments))
