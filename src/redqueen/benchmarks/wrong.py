"""Programs that cannot be right: for `redqueen eval gold --wrong`, which shows that the grader says
so."""

import re
from collections.abc import Sequence

from redqueen.benchmarks.suite import Wrong

_NEIGHBOURS = 3

_OTHER = """

def _other(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float, complex)):
        return value + 1
    if isinstance(value, str):
        return value + "x"
    if isinstance(value, list):
        return value + [None]
    if isinstance(value, tuple):
        return value + (None,)
    if isinstance(value, (set, frozenset)):
        return set(value) | {"x"}
    if isinstance(value, dict):
        return {**value, "x": None}
    return 1 if value is None else None

_right = {entry}

def {entry}(*arguments):
    return _other(_right(*arguments))
"""

_HOSTILE = {
    "equals everything": (
        "class Yes:\n    def __eq__(self, other): return True\n    def __ne__(self, other): return False\n    def __bool__(self): return True\n"
        "    def __hash__(self): return 0\n    def __call__(self, *a, **k): return self\n    def __getattr__(self, name): return self\n"
        "    def __iter__(self): return iter(())\n    def __len__(self): return 0\n    def __sub__(self, other): return 0\n"
        "    __rsub__ = __abs__ = __sub__\n    def __lt__(self, other): return True\n    __gt__ = __le__ = __ge__ = __lt__\n"
        "def {entry}(*a, **k): return Yes()\n"
    ),
    "a list that equals everything": (
        "class Yes(list):\n    def __eq__(self, other): return True\n    def __ne__(self, other): return False\n"
        "def {entry}(*a, **k): return Yes([Yes(['no', 'such', 'answer'])])\n"
    ),
    "exits before the tests": "import sys\ndef {entry}(*a, **k): sys.exit(0)\nsys.exit(0)\n",
    "exits for good": "import os\ndef {entry}(*a, **k): os._exit(0)\nos._exit(0)\n",
    "prints that it passed": (
        "print('VTrue')\nprint('.')\nprint('All tests passed')\ndef {entry}(*a, **k):\n    print('passed')\n    raise SystemExit(0)\n"
    ),
    "writes results of its own": (
        "import os\nfor fd in range(3, 25):\n    try: os.write(fd, b'VTrue\\n.\\n')\n    except OSError: pass\nos._exit(0)\n"
        "def {entry}(*a, **k): return None\n"
    ),
    "patches the builtins": (
        "import builtins\nclass Yes:\n    def __eq__(self, other): return True\nbuiltins.AssertionError = SystemExit\n"
        "builtins.all = lambda *a: True\n"
        "builtins.isinstance = lambda *a: True\nbuiltins.abs = lambda *a: 0\ndef {entry}(*a, **k): return Yes()\n"
    ),
    "raises": "def {entry}(*a, **k): raise AssertionError\n",
    "never ends an import": "def {entry}(*a, **k): return (_ for _ in ())\n",
}
"""Each computes nothing of what is asked. `{entry}` is the function that is called."""


def fenced_program(program: str) -> str:
    return f"```python\n{program}\n```"


def wrong_programs(solutions: Sequence[tuple[str, str]], place: int, tests: str) -> list[Wrong]:
    """Wrong replies to the item at that place, of (function, reference program) for every item:
    nothing, an attack (another for each item), the reference with every result changed, and the
    solutions of the next problems under this one's name."""
    entry, reference = solutions[place]
    name = list(_HOSTILE)[place % len(_HOSTILE)]
    found = [
        Wrong("empty", ""),
        Wrong("only words", "The function is easy to write."),
        Wrong(name, fenced_program(_HOSTILE[name].replace("{entry}", entry))),
    ]
    changed = reference + _OTHER.replace("{entry}", entry)
    found.append(Wrong("every result changed", fenced_program(changed), (changed, tests)))
    for step in range(1, min(_NEIGHBOURS + 1, len(solutions))):
        other, program = solutions[(place + step) % len(solutions)]
        program = re.sub(rf"\b{re.escape(other)}\b", entry, program)
        found.append(Wrong("another problem's solution", fenced_program(program), (program, tests)))
    return found


def hostile_programs(entry: str) -> dict[str, str]:
    return {name: program.replace("{entry}", entry) for name, program in _HOSTILE.items()}
