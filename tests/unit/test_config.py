"""Settings come from defaults, file and --set, in that order, and a wrong one names the right one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from redqueen.config.schema import Config
from redqueen.config.toml import RECIPES, find_recipe, load_config, to_toml
from redqueen.errors import ConfigError


def test_a_file_changes_defaults_and_set_changes_the_file(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text("seed = 7\n[verify]\ncpu_s = 2.0\nmemory_mb = 99\n")
    config = load_config(
        file, ["verify.cpu_s=3", "tasks.prompt_format=compact", "tasks.kinds=['code_o']"]
    )
    assert (
        config.seed,
        config.verify.cpu_s,
        config.verify.memory_mb,
        config.tasks.prompt_format,
        config.tasks.kinds,
    ) == (7, 3.0, 99, "compact", ("code_o",))
    assert config.verify.max_program_chars == Config().verify.max_program_chars


def test_what_is_printed_reads_back_as_the_same_config(tmp_path: Path) -> None:
    config = load_config(
        None, ["seed=3", "sandbox.without=['landlock']", "verify.allowed_modules=['math']"]
    )
    file = tmp_path / "printed.toml"
    file.write_text(to_toml(config))
    assert load_config(file) == config


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["verify.cpu=1"], "Did you mean 'cpu_s'"),
        (["sed=1"], "Did you mean 'seed'"),
        (["verfy.cpu_s=1"], "Did you mean 'verify'"),
        (["verify.cpu_s=fast"], "verify.cpu_s"),
        (["verify.cpu_s=-1"], "greater than 0"),
        (["solve.temperature=0"], "greater than 0"),
        (["seed.x=1"], "seed"),
        (["seed"], "--set takes a name and a value"),
        (["=1"], "--set takes a name and a value"),
        (["seed=1", "seed.x=1"], "not a section"),
        (
            ["match.scheme=self_play"],
            r"^in self-play every member has both roles: set population.teachers=0 and population.students",
        ),
        (
            ["population.students=0"],
            r"population.students: Input should be greater than or equal to 1; got 0",
        ),
        (
            [
                "population.learning_rates=[1, 2, 3]",
                "population.teachers=1",
                "population.students=1",
            ],
            "3 rates for 2 members",
        ),
        (["population.learning_rates=[0.0]"], "greater than 0"),
        (["tasks.kinds=['code_o', 'code_i', 'code_o']"], "tasks.kinds names code_o twice"),
        (["tasks.kinds=[]"], "at least 1 item"),
        (["match.scheme=pfps"], "'pfsp', 'uniform', 'round_robin' or 'self_play'"),
        (["match.threshold=1"], "less than 1"),
        (["reward.varient=azr"], "Did you mean 'variant'"),
        (["update.estimator=ppo"], "'reinforce_pp', 'trr_pp', 'grpo' or 'rloo'"),
        (["solve.attempts=1"], "greater than or equal to 2"),
        (["ledger.keep=1"], "greater than or equal to 2"),
        (
            ["evolve.mutations=[]"],
            r"^evolve: mutations are empty: name some, or set crossover_share = 1$",
        ),
        (["evolve.crossovers=[]"], r"^evolve: crossovers are empty"),
        (["evolve.selection=roulette"], "'truncation', 'tournament'"),
        (["evolve.share=1.5"], "less than or equal to 1"),
        (["evolve.every=-1"], "greater than or equal to 0"),
    ],
)
def test_a_wrong_setting_says_where_and_what_to_do(settings: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(None, settings)


def test_a_missing_or_broken_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no config file .*nowhere\.toml"):
        load_config(tmp_path / "nowhere.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("[[[")
    with pytest.raises(ConfigError, match="not a readable TOML file"):
        load_config(broken)


def test_a_config_is_the_same_text_in_every_process() -> None:
    """Sets have another order in each: what the ledger keeps must not depend on it."""
    code = "from redqueen.config.schema import Config; from redqueen.config.toml import to_toml; import sys; sys.stdout.write(Config().model_dump_json() + to_toml(Config()))"
    texts = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(texts) == 1
    assert Config.model_validate_json(Config().model_dump_json()) == Config()


def test_an_unknown_recipe_is_named_with_the_nearest_one() -> None:
    with pytest.raises(
        ConfigError,
        match=r"unknown recipe 'pawn-cup'. Did you mean 'pawn-cpu'\?.*A recipe of your own is a TOML file",
    ):
        find_recipe("pawn-cup")


def test_a_folder_that_is_called_like_a_recipe_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pawn-cpu").mkdir()
    (tmp_path / "mine").write_text("steps = 3\n")
    monkeypatch.chdir(tmp_path)
    assert find_recipe("pawn-cpu").parent == RECIPES
    assert load_config(find_recipe("mine")).steps == 3


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.toml")), ids=lambda path: path.stem)
def test_every_recipe_that_ships_can_be_loaded(path: Path) -> None:
    if path.stem.startswith("study-"):
        with pytest.raises(ConfigError, match="is a study: play it with `redqueen study`"):
            load_config(path)
    else:
        assert load_config(path, ["steps=1"]).steps == 1


def test_a_config_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Config().seed = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("code_x", "Did you mean 'code_"),
        ("nowhere.at_all:Kind", "cannot be imported"),
        ("json:Kind", "cannot be imported"),
        (":x", "cannot be imported"),
    ],
)
def test_an_unknown_task_kind_is_named(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(None, [f"tasks.kinds=['{name}']"]).tasks.load_kinds()


def test_a_task_kind_comes_by_import_path() -> None:
    kinds = load_config(
        None, ["tasks.kinds=['redqueen.tasks.code.deduction:CodeO']"]
    ).tasks.load_kinds()
    assert [kind.name for kind in kinds.values()] == ["code_o"]


def test_an_unknown_pack_is_named() -> None:
    with pytest.raises(
        ConfigError,
        match=r"tasks.prompt_format: Input should be 'auto', 'chat' or 'compact'; got 'chta'",
    ):
        load_config(None, ["tasks.prompt_format=chta"])
