"""What a run looks like from outside: the report page, comparisons, exports and trackers."""

import sys
from types import ModuleType
from typing import Any


class _CallableRoom(ModuleType):
    """`redqueen.report(...)` is part of the public API, and this package has the same name:
    whichever is imported first, calling it calls the function."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        from redqueen.report.page import report

        return report(*args, **options)


sys.modules[__name__].__class__ = _CallableRoom
