"""One problem in a terminal: its program, its gold answers and every attempt, with nothing left in
it that a terminal would act on."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from redqueen.errors import DataError
from redqueen.ledger.store import reader
from redqueen.report.escape import plain
from redqueen.report.run_view import Side, sides
from redqueen.report.sample import proposal


def show_problem(folder: Path, key: str) -> str:
    """The problem whose key begins like this."""
    with contextlib.closing(reader(folder)) as connection:
        for side in sides(connection, folder):
            pattern = key.replace("%", "").replace("_", "") + "%"
            found = side.rows(
                "SELECT step, proposal FROM proposals WHERE world = :world AND problem LIKE :pattern LIMIT 1",
                pattern=pattern,
            )
            if found:
                return plain("\n".join(_lines(side, *found[0])))
    raise DataError(
        f"the run in {folder} has no problem whose key begins with '{plain(key)}'; the report and `redqueen export --problems` have the keys"
    )


def _lines(side: Side, step: int, number: int) -> Iterator[str]:
    found = proposal(side, step, number)
    rate = (
        "not attempted"
        if found["solve_rate"] is None
        else f"{100 * found['solve_rate']:.0f} % right"
    )
    yield f"{found['kind']} {found['problem']}: step {step}, {found['teacher']} -> {found['student']}, {rate}, reward {found['reward']}"
    for name, value in found["payload"].items():
        yield f"\n{name}:\n" + "\n".join(value if isinstance(value, list) else [str(value)])
    yield "\ngold:\n" + "\n".join(map(str, found["gold"]))
    for place, (text, verdict, detail, reward, _, tokens) in enumerate(found["attempts"], 1):
        yield f"\n--- attempt {place}: {verdict}, reward {reward}, {tokens} tokens" + (
            f" ({detail})" if detail else ""
        )
        yield text.rstrip()
