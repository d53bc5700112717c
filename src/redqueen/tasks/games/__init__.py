"""Games between members: what students do with a problem after they have attempted it. One file a
game; `race` has no further turns."""

from redqueen.config.games import RACE
from redqueen.config.registry import Registry
from redqueen.tasks.games.critique import CRITIQUE
from redqueen.tasks.games.debate import DEBATE
from redqueen.tasks.games.game import CustomGame, Game, Share
from redqueen.tasks.games.repair import REPAIR

GAMES: Registry[Game] = Registry(
    "game",
    {
        RACE: Game(settings=Share, summary="no turns after the attempts"),
        "critique": CRITIQUE,
        "repair": REPAIR,
        "debate": DEBATE,
    },
    custom=CustomGame,
)
