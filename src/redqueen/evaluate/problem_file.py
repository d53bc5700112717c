"""A file of verified problems as a suite: what progress in a domain of one's own is measured on."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from redqueen.benchmarks import suite
from redqueen.benchmarks.suite import PromptStyle
from redqueen.errors import DataError, unknown
from redqueen.evaluate.heldout import ProblemSuite, hash_prompts
from redqueen.jsonl import read_jsonl
from redqueen.records import Problem, content_key
from redqueen.tasks import TaskKind, load_kinds


@dataclass(frozen=True)
class ProblemFile(ProblemSuite):
    """Problems as `redqueen verify --out` and `redqueen export --problems` write them, with gold
    answers: nothing is verified again. Kinds of your own must be named, because a file cannot make
    us import anything."""

    path: Path
    kinds: Sequence[str] = ()
    max_tokens: int = 1024
    note: str = ""
    name: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", Path(self.path).stem)

    def prompt_version(self, style: PromptStyle) -> str:
        prompts = (self.prompt(item, style) for item in self.items(None, None))
        return f"{style.prompt_format.name}-{hash_prompts(prompts)}"

    def items(self, data: Path | None, limit: int | None) -> list[suite.Item]:
        problems = self._read()
        every = max(1, len(problems) // limit) if limit else 1
        return [
            suite.Item(problem.key, {"problem": problem}, problem.kind)
            for problem in problems[::every][:limit]
        ]

    def _read(self) -> list[Problem]:
        """Each once, however often the file has it. Texts of one key may differ in what does not
        matter, such as names; their answers may not."""
        known = {**load_kinds(), **load_kinds(*self.kinds)}
        problems: dict[str, Problem] = {}
        for number, row in read_jsonl(Path(self.path), required=("kind",)):
            if row.get("valid", True):
                where = f"{self.path}, line {number}"
                problem = read_problem(row, known, where)
                first = problems.setdefault(problem.key, problem)
                if (first.kind, first.gold) != (problem.kind, problem.gold):
                    raise DataError(f"{where}: another problem has the key '{problem.key}' too")
        if not problems:
            raise DataError(f"{self.path} has no problem")
        return list(problems.values())


def read_problem(row: dict[str, Any], known: dict[str, TaskKind], where: str) -> Problem:
    """The problem of a row; `where` is the row, for messages."""
    kind, gold = row["kind"], row.get("gold")
    if kind not in known:
        raise DataError(
            f"{where}: {unknown('task kind', kind, known)} One of your own needs a suite of its "
            "own: `SUITE = ProblemFile(path, kinds=[...])`, and `evaluate.suite = module:SUITE`."
        )
    if not isinstance(gold, list) or not all(isinstance(text, str) for text in gold) or not gold:
        raise DataError(
            f"{where}: no gold answer. `redqueen verify FILE --out VERIFIED` writes problems with "
            "theirs."
        )
    try:
        payload = known[kind].load_payload(row.get("payload", row))
    except ValueError as error:
        raise DataError(f"{where}: {error}") from error
    key = row.get("key") or row.get("problem") or content_key(kind, *gold, repr(payload))
    return Problem(str(key), kind, payload, tuple(gold), row.get("features") or {})
