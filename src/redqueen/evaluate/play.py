"""A person plays against the students of a run: the same problems, the same grading.

Answers are recorded with their author's name, and change nothing: nobody is trained on them, and
the digest of a run leaves them out.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from redqueen.core.state import PersonResult
from redqueen.errors import ConfigError, DataError, unknown
from redqueen.ledger.lock import RunLock
from redqueen.ledger.people import Inbox
from redqueen.ledger.rows import person_row
from redqueen.ledger.run_reader import RunReader, WorldInfo
from redqueen.ledger.store import Ledger, open_to_read
from redqueen.records import Attempt, Problem
from redqueen.sandbox import Sandbox
from redqueen.stages.solve import grade_answers
from redqueen.tasks import stored_kind
from redqueen.tasks.kind import Block, Request
from redqueen.tasks.prompts import Prompt
from redqueen.tasks.prompts.compact import CompactFormat

_CANDIDATES = """SELECT q.problem, coalesce(a.rate > 0 AND a.rate < 1, 0) AS telling FROM problems q
    LEFT JOIN (SELECT problem, avg(verdict = 'correct') AS rate FROM attempts
        WHERE world = :world AND verdict <> 'voided' GROUP BY problem) a ON a.problem = q.problem
    WHERE q.world = :world AND (:kind IS NULL OR q.kind = :kind)
        AND q.problem NOT IN (SELECT problem FROM people WHERE world = :world
            AND author = :author AND action = 'answer' AND problem IS NOT NULL)
    ORDER BY q.step, q.problem"""
_ATTEMPTS = """SELECT step, student, text, verdict, detail FROM attempts
    WHERE world = ? AND problem = ? ORDER BY step, proposal, attempt"""


class _Typed:
    """What a person types: the answer and nothing else where one block is asked for; else blocks,
    marked as in the compact format."""

    name = "typed"

    def render(self, request: Request) -> Prompt:
        return CompactFormat().render(request)

    def reasoning_prefix(self, kind: str) -> str:
        return ""

    def parse(self, text: str, wanted: tuple[str, ...]) -> list[Block]:
        return [(wanted[0], text)] if len(wanted) == 1 else CompactFormat().parse(text, wanted)


@dataclass(frozen=True, slots=True)
class StudentAttempt:
    step: int
    student: str
    text: str
    verdict: str
    detail: str


def choose_problem(
    run: RunReader, world: int, author: str, kind: str | None, rng: Random
) -> Problem:
    """One that the person has not answered yet; of those that some attempts solve and some do not,
    while there are any."""
    values = {"world": world, "author": author, "kind": kind}
    rows = run.connection.execute(_CANDIDATES, values).fetchall()
    if not rows:
        of_kind = f" of the kind {kind}" if kind else ""
        raise DataError(f"{run.folder} has no problem{of_kind} that {author} has not answered yet.")
    telling = [row for row in rows if row["telling"]]
    return find_problem(run, world, rng.choice(telling or rows)["problem"])


def find_problem(run: RunReader, world: int, key: str) -> Problem:
    """The problem whose key starts with this."""
    if not key:
        raise DataError("the key is empty: give the first characters of a problem's key")
    query = "SELECT problem FROM problems WHERE world = ? AND substr(problem, 1, length(?)) = ?"
    row = run.connection.execute(f"{query} LIMIT 1", (world, key, key)).fetchone()
    if row is None:
        raise DataError(
            f"no problem in {run.folder} has a key that starts with '{key}'. The report and "
            "`redqueen export --problems --all` list the keys."
        )
    (found,) = [one for one in run.problems(world) if one["problem"] == row["problem"]]
    kind = stored_kind(found["kind"])
    payload = kind.load_payload(found["payload"])
    return Problem(found["problem"], found["kind"], payload, (*found["gold"],), found["features"])


def find_world(run: RunReader, number: int) -> WorldInfo:
    worlds = {str(world.number): world for world in run.worlds}
    if str(number) not in worlds:
        raise ConfigError(unknown("world", str(number), worlds))
    return worlds[str(number)]


def ask(problem: Problem) -> Request:
    """What the students were asked."""
    return stored_kind(problem.kind).ask_answer(problem)


def grade(problem: Problem, text: str, sandbox: Sandbox, world: WorldInfo) -> Attempt:
    """The verdict on what a person typed, under the rules of the run."""
    kinds = {problem.kind: stored_kind(problem.kind)}
    (attempt,) = grade_answers([(problem, text)], kinds, _Typed(), sandbox, world.config.verify)
    return attempt


def read_attempts(run: RunReader, world: int, problem: Problem) -> list[StudentAttempt]:
    """All that students ever answered to it."""
    rows = run.connection.execute(_ATTEMPTS, (world, problem.key))
    return [StudentAttempt(*row) for row in rows]


def count_correct(attempts: Sequence[StudentAttempt]) -> dict[str, tuple[int, int]]:
    """By student: correct attempts, and all of them."""
    counts: dict[str, tuple[int, int]] = {}
    for attempt in attempts:
        correct, total = counts.get(attempt.student, (0, 0))
        counts[attempt.student] = (correct + (attempt.verdict == "correct"), total + 1)
    return counts


def record_answer(folder: Path, world: int, author: str, attempt: Attempt, seconds: float) -> bool:
    """Write a person's answer down. Whether it is in the ledger already: while a run is being
    played nobody else writes there, and its next step takes the answer up."""
    content: dict[str, Any] = {
        "problem": attempt.problem.key,
        "text": attempt.text,
        "verdict": attempt.verdict,
        "detail": attempt.detail[:1000],
        "seconds": seconds,
    }
    inbox = Inbox(folder)
    try:
        action = inbox.add(author, "answer", content, world)
    except ValueError as error:
        raise DataError(str(error)) from error
    try:
        with RunLock(folder), Ledger.open(folder) as ledger:
            step = ledger.last_step()
            with closing(open_to_read(folder)) as reader:
                query = "SELECT coalesce(max(number), -1) + 1 FROM people WHERE step = ?"
                (number,) = reader.execute(query, (step,)).fetchone()
            person = PersonResult(
                number, action, attempt.verdict, action.content["detail"], attempt.problem.key
            )
            ledger.add("people", [{"world": world, "step": step, **person_row(person)}])
            # after the ledger: a kill in between leaves it there twice rather than not at all
            inbox.mark(step, action)
    except ConfigError:  # it is being played, or is of an older version
        return False
    return True
