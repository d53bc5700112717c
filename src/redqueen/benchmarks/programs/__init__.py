"""Programs that graders run in other processes. They are read as text, never imported: each must
stand alone, without the rest of this package."""

import ast
from functools import cache
from importlib.resources import files


@cache
def read_program(name: str) -> str:
    """The text of a program without its docstring: candidates may end in an open string."""
    text = files(__package__).joinpath(f"{name}.py").read_text(encoding="utf-8")
    docstring = ast.parse(text).body[0]
    return "\n".join(text.split("\n")[docstring.end_lineno :])
