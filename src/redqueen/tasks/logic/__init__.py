"""Logic: constraint puzzles with exactly one solution, verified by an exact solver in process."""

from redqueen.tasks.kind import TaskKind
from redqueen.tasks.logic.generator import random_puzzles
from redqueen.tasks.logic.puzzles import Logic

KINDS: dict[str, TaskKind] = {"logic": Logic()}
SOURCES = {"logic": random_puzzles}
