"""The games of a run, by share."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, ValidationInfo

from redqueen.config.registry import Choice, OneOf, UnreadChoice, may_import, table
from redqueen.errors import ConfigError

RACE = "race"
_ROUNDING = 1e-6


def _choose_games(value: Any, info: ValidationInfo) -> dict[str, Choice]:
    if not isinstance(value, Mapping):
        raise ValueError(
            f"games is a table of shares, such as {{ race = 0.8, critique = 0.2 }}; got {value!r}"
        )
    games, imports = table("game"), may_import(info)
    try:
        return {name: games.choose(_row(name, row), imports=imports) for name, row in value.items()}
    except ConfigError as error:
        raise ValueError(str(error)) from error


def _row(name: str, value: Any) -> Any:
    """A number is a share; a table may have the game's settings, and `type` where it is called by
    another name."""
    if isinstance(value, Choice):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return {"type": name, "share": value}
    return {"type": name, **value} if isinstance(value, Mapping) else value


Games = Annotated[dict[str, OneOf], BeforeValidator(_choose_games)]


def check_games(games: Mapping[str, Choice], students: int) -> None:
    """Shares are parts of one whole, and every game has the students it takes."""
    shares = {name: float(getattr(choice, "share", 0.0)) for name, choice in games.items()}
    total = sum(shares.values())
    rest = total - shares.get(RACE, 0.0)
    if total > 1 + _ROUNDING or (RACE in games and total < 1 - _ROUNDING):
        advice = (
            f"set games.{RACE}={round(1 - rest, 6):g}, what the others leave"
            if rest <= 1 + _ROUNDING
            else "at most 1 is possible"
        )
        raise ValueError(f"the shares of games add up to {round(total, 6):g}: {advice}")
    for name, choice in games.items():
        if isinstance(choice, UnreadChoice):
            continue
        least = getattr(table("game")[choice.type], "students", None)
        if least is None:
            raise ValueError(f"games.{name}: '{choice.type}' is no game (redqueen.tasks.games)")
        if shares[name] and students < least:
            raise ValueError(
                f"games.{name} takes {least} students, and there are {students}: set "
                f"population.students={least} or games.{name}=0"
            )
