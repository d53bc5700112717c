"""What a person asks for on the live page becomes an action that waits for the run. What it says
about problems is looked up in the ledger, not taken from the page."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from redqueen.ledger.people import Inbox
from redqueen.ledger.run_reader import RunReader, open_run
from redqueen.records import PersonAction


def act(folder: Path, world: int, request: Mapping[str, Any]) -> PersonAction:
    """Write down what a person did. Raises ValueError, which says what is wrong with it."""
    action, content = request.get("action"), request.get("content")
    if not isinstance(action, str) or action not in ("pose", "veto", "rate"):
        raise ValueError("the action is pose, veto or rate")
    if not isinstance(content, Mapping):
        raise ValueError("content is not an object")
    with open_run(folder) as run:
        if action == "veto":
            side = _side(run, world, content.get("problem"))
            structure = side["structure"] if content.get("template") is True else ""
            content = {"problem": side["problem"], "structure": structure}
        elif action == "rate":
            content = {name: _side(run, world, content.get(name)) for name in ("better", "worse")}
            if content["better"]["problem"] == content["worse"]["problem"]:
                raise ValueError("a problem cannot be compared with itself")
        else:
            _check_kind(run, world, content.get("kind"))
    author = request.get("author")
    return Inbox(folder).add(author if isinstance(author, str) else "", action, content, world)


def _side(run: RunReader, world: int, key: object) -> dict[str, str]:
    query = "SELECT problem, author, structure FROM problems WHERE world = ? AND problem = ?"
    row = run.connection.execute(query, (world, key)).fetchone() if isinstance(key, str) else None
    if row is None:
        raise ValueError("the run has no such problem")
    return {
        "problem": row["problem"],
        "teacher": row["author"] or "",
        "structure": row["structure"],
    }


def _check_kind(run: RunReader, world: int, kind: object) -> None:
    settings = next(one.settings for one in run.worlds if one.number == world)
    kinds = settings.get("tasks", {}).get("kinds", ())
    if kind not in kinds:
        raise ValueError(f"the run plays the kinds {', '.join(kinds)}")
