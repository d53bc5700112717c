"""Evaluation: a read-only side exit. What is measured here never becomes a reward."""

import sys
from types import ModuleType
from typing import Any


class _CallableRoom(ModuleType):
    """`redqueen.evaluate(...)` is part of the public API, and this package has the same name:
    whichever is imported first, calling it calls the function."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        from redqueen.evaluate.runner import evaluate

        return evaluate(*args, **options)


sys.modules[__name__].__class__ = _CallableRoom
