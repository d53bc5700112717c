"""One problem for a terminal, with gold answers and attempts; control characters are escaped."""

from collections.abc import Iterator

from redqueen.errors import DataError
from redqueen.report.escape import escape_controls
from redqueen.report.run_view import Run, RunView, open_views
from redqueen.report.sample import read_proposal


def show_problem(run: Run, key: str) -> str:
    """The problem whose key starts with `key`."""
    if not key:
        raise DataError("the key is empty: give the first characters of a problem's key")
    query = """SELECT step, proposal FROM proposals
        WHERE world = :world AND substr(problem, 1, length(:key)) = :key LIMIT 1"""
    with open_views([run]) as views:
        for view in views:
            for step, number in view.rows(query, key=key):
                return escape_controls("\n".join(_lines(view, step, number)))
        folder = views[0].folder
    raise DataError(
        f"no problem in {folder} has a key that starts with '{escape_controls(key)}'. "
        "The report and `redqueen export --problems --all` list the keys."
    )


def _lines(view: RunView, step: int, number: int) -> Iterator[str]:
    proposal = read_proposal(view, step, number)
    rate = proposal["solve_rate"]
    solved = "not attempted" if rate is None else f"solve rate {100 * rate:.0f} %"
    yield (
        f"{proposal['kind']} {proposal['problem']}: step {step}, "
        f"{proposal['teacher']} -> {proposal['student'] or 'all students'}, {solved}, "
        f"reward {proposal['reward']}"
    )
    for label, text in proposal["blocks"]:
        yield f"\n{label}:\n{text.rstrip()}"
    attempts = enumerate(proposal["attempts"], 1)
    for place, (text, verdict, detail, reward, _, tokens, student, *_) in attempts:
        facts = f"{verdict}, reward {reward}, {tokens} tokens" + (f" ({detail})" if detail else "")
        yield f"\n--- attempt {place} of {student}: {facts}"
        yield text.rstrip()
