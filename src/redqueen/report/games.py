"""Games between students: how often critics and judges are right, what repairs gain, ratings by
role, and one game of each in full."""

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from redqueen.errors import ConfigError
from redqueen.evaluate.statistics import mean, score_interval
from redqueen.report.run_view import RunView, round_digits
from redqueen.report.sample import cut, show_problem
from redqueen.tasks.games import GAMES

_PLACE = "CAST(substr(json_extract(t.shown, '$[0]'), 2) AS INTEGER)"
_GAIN = f"""SELECT {{window}} AS w, t.game, t.role, count(*) AS n,
        avg((t.verdict = 'correct') - (a.verdict = 'correct')) AS gain
    FROM turns t JOIN attempts a ON a.world = t.world AND a.step = t.step
        AND a.proposal = t.proposal AND a.attempt = {_PLACE}
    WHERE t.world = :world AND t.verdict <> 'voided' AND t.role = :role AND t.game = :game
    GROUP BY w, t.game, t.role"""
_CLAIMS = """SELECT step, proposal, game, role, verdict, said, truth FROM turns
    WHERE world = :world AND verdict <> 'voided' AND (said <> '' OR verdict = 'malformed')"""
_TURNS = """SELECT turn, role, member, shown, prompt, text, verdict, said, truth, detail, reward
    FROM turns WHERE world = :world AND step = :step AND proposal = :number ORDER BY turn"""
_LATEST = """SELECT step, proposal, problem, sum(verdict = 'malformed') AS malformed, count(*) AS n
    FROM turns WHERE world = :world AND game = :game AND verdict <> 'voided'
    GROUP BY step, proposal ORDER BY malformed, n DESC, step DESC, proposal LIMIT 1"""
_PROBLEM = """SELECT problem, kind, payload, gold, features
    FROM problems WHERE world = :world AND problem = :problem"""
_ATTEMPT = """SELECT text, verdict, student FROM attempts
    WHERE world = :world AND step = :step AND proposal = :number AND attempt = :attempt"""


def games(view: RunView) -> dict[str, Any] | None:
    """None where none were played."""
    played = view.rows("SELECT DISTINCT game FROM turns WHERE world = :world")
    names = [row["game"] for row in played]
    if not names:
        return None
    return {
        "accuracy": list(_accuracy(view)),
        "gains": list(_gains(view, names)),
        "ratings": _ratings(view),
        "examples": [example for name in sorted(names) for example in _example(view, name)],
    }


def _accuracy(view: RunView) -> Iterator[dict[str, Any]]:
    """Of every role that claims something, over the run and in its last quarter; beside it what
    always saying the same word would have scored. What cannot be read is wrong."""
    rows = defaultdict(list)
    for row in view.rows(_CLAIMS):
        rows[row["game"], row["role"]].append(row)
    late = view.last - max(1, view.last // 4)
    for (game, role), claims in sorted(rows.items()):
        truths = [row["truth"] for row in claims if row["truth"] and row["step"] > late]
        if not any(row["said"] for row in claims):
            continue  # nothing it wrote could be read, or it never claims anything
        line, windows = view.windows.empty_line(), defaultdict(list)
        for row in claims:
            windows[(row["step"] - 1) // view.windows.size].append(row["verdict"] == "correct")
        for window, right in windows.items():
            line[window] = round_digits(sum(right) / len(right))
        last = _by_game([row for row in claims if row["step"] > late])
        yield {
            "game": game,
            "role": role,
            "line": line,
            "turns": len(claims),
            "last": [round_digits(value) for value in (mean(last), *score_interval(last))]
            if last
            else None,
            "same": round_digits(max(map(truths.count, truths)) / len(truths)) if truths else None,
        }


def _by_game(claims: list[Any]) -> list[float]:
    """The share that is right in each game: turns about one problem are no independent trials."""
    games: dict[tuple[int, int], list[bool]] = defaultdict(list)
    for row in claims:
        games[row["step"], row["proposal"]].append(row["verdict"] == "correct")
    return [sum(right) / len(right) for right in games.values()]


def _gains(view: RunView, names: list[str]) -> Iterator[dict[str, Any]]:
    """Of answers in a game over the attempt that they follow."""
    for name in sorted(names):
        for role in _answering(view, name):
            line = view.windows.empty_line()
            query = _GAIN.format(window=view.windows.sql.replace("step", "t.step"))
            for row in view.rows(query, role=role, game=name):
                line[row["w"]] = round_digits(row["gain"])
            yield {"game": name, "role": role, "line": line}


def _answering(view: RunView, name: str) -> list[str]:
    """The roles of a game whose texts are answers to the problem."""
    try:
        game = GAMES[view.setting("games", {}).get(name, {}).get("type", name)]
    except ConfigError:  # one of somebody's own, which is not here
        return []
    return [one.role for one in game.rounds if one.judge is None]


def _ratings(view: RunView) -> list[dict[str, Any]]:
    shown = set(view.windows.ends)
    members: dict[tuple[str, str], dict[str, Any]] = {}
    query = "SELECT * FROM role_ratings WHERE world = :world ORDER BY role, step, member"
    for row in view.rows(query):
        key = row["role"], row["member"]
        empty = {"role": row["role"], "member": row["member"], "steps": [], "mu": [], "sigma": []}
        if row["step"] in shown or key not in members:
            own = members.setdefault(key, empty)
            own["steps"].append(row["step"])
            own["mu"].append(round_digits(row["mu"], 4))
            own["sigma"].append(round_digits(row["sigma"], 4))
    return list(members.values())


def _example(view: RunView, game: str) -> Iterator[dict[str, Any]]:
    """The last game that could be read best: its problem, the attempts that it is about, and the
    first turn from each prompt."""
    for row in view.rows(_LATEST, game=game):
        place = {"step": row["step"], "number": row["proposal"]}
        turns = view.rows(_TURNS, **place)
        firsts = {turn["prompt"]: turn for turn in reversed(turns)}
        shown = [name for turn in turns for name in json.loads(turn["shown"])]
        attempts = sorted({int(name[1:]) for name in shown if name.startswith("a")})
        problems = view.rows(_PROBLEM, problem=row["problem"])
        yield {
            "game": game,
            "step": row["step"],
            "kind": next((one["kind"] for one in problems), ""),
            "blocks": [[label, cut(text)] for one in problems for label, text in show_problem(one)],
            "attempts": [_attempt(view, attempt, **place) for attempt in attempts],
            "turns": [_turn(turn) for _, turn in sorted(firsts.items())],
        }


def _attempt(view: RunView, attempt: int, **place: int) -> dict[str, Any]:
    row = view.row(_ATTEMPT, attempt=attempt, **place)
    return {"name": f"a{attempt}", **dict(row), "text": cut(row["text"])}


def _turn(row: Any) -> dict[str, Any]:
    names = ("role", "member", "verdict", "said", "truth", "detail")
    return {
        "name": f"t{row['turn']}",
        "shown": json.loads(row["shown"]),
        "text": cut(row["text"]),
        "reward": round_digits(row["reward"], 4),
        **{name: row[name] for name in names},
    }
