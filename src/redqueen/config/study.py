"""Studies: arms (sets of rules) times seeds, each a world of one run.

A study is a TOML file: `recipe` (a recipe to begin from), `seeds`, `outcomes` (what it is decided
by: `evaluate.outcomes`), `migration` (worlds exchange students every so many steps:
`evolve.migrate_every`), `[common]` (settings of all arms) and `[arms.NAME]` for each arm, with
sparse settings as in a recipe. Settings of the engine, the base and the steps are common to all.
"""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from redqueen.config.schema import Config, merge
from redqueen.config.toml import RECIPES, find_recipe, read_toml, set_value, validate
from redqueen.errors import ConfigError, unknown

_KEYS = ("recipe", "seeds", "outcomes", "migration", "common", "arms")


def load_study(
    path: Path, settings: Sequence[str], only: Sequence[str] = ()
) -> list[tuple[str, Config]]:
    """The worlds of a study, by arm and then by seed: what `Run.create` plays.

    - `path`: of the study's file.
    - `settings`: changes to every arm, `a.b=c`; `seeds=[0,1]` sets the seeds.
    - `only`: no other arms than these.
    """
    study = read_toml(path)
    if "arms" not in study and study.keys() <= Config.model_fields.keys():
        raise ConfigError(
            f"{path.stem} is a recipe, not a study: it has no arms. Play it with "
            f"`redqueen run {path.stem if path.parent == RECIPES else path}`"
        )
    for key in study:
        if key not in _KEYS:
            raise ConfigError(f"{path}: " + unknown("part of a study", key, _KEYS))
    settings = list(settings)
    for setting in [text for text in settings if text.startswith("seeds=")]:
        study["seeds"] = tomllib.loads(setting)["seeds"]
        settings.remove(setting)
    arms, seeds = study.get("arms"), study.get("seeds", [0])
    if not isinstance(arms, dict) or not arms or not isinstance(seeds, list) or not seeds:
        raise ConfigError(f"{path}: a study needs [arms.NAME] tables and a list of seeds")
    begin = read_toml(find_recipe(study["recipe"])) if "recipe" in study else {}
    begin = merge(begin, study.get("common", {}))
    if "outcomes" in study:
        begin = merge(begin, {"evaluate": {"outcomes": study["outcomes"]}})
    if "migration" in study:
        begin = merge(begin, {"evolve": {"migrate_every": study["migration"]}})
    return [
        (arm, _config(begin, arms[arm], settings, seed))
        for arm in _choose(arms, only)
        for seed in seeds
    ]


def _choose(arms: dict[str, Any], only: Sequence[str]) -> list[str]:
    """In the order of the study."""
    for arm in only:
        if arm not in arms:
            raise ConfigError(unknown("arm", arm, arms))
    return [arm for arm in arms if not only or arm in only]


def _config(
    begin: dict[str, Any], rules: dict[str, Any], settings: Sequence[str], seed: int
) -> Config:
    values = merge(begin, rules)
    for setting in settings:
        set_value(values, setting)
    values["seed"] = seed
    return validate(values)
