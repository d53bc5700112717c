"""Code reasoning: Python programs that are run in the sandbox."""

from redqueen.tasks.code.abduction import CodeI
from redqueen.tasks.code.deduction import CodeO
from redqueen.tasks.code.induction import CodeF
from redqueen.tasks.kind import TaskKind

KINDS: dict[str, TaskKind] = {"code_o": CodeO(), "code_i": CodeI(), "code_f": CodeF()}
