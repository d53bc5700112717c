"""Settings come from defaults, file, --set and keywords, in that order, and a wrong one names the
right one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from redqueen.config.renamed import RENAMED
from redqueen.config.schema import Config, merge
from redqueen.config.study import load_study
from redqueen.config.toml import (
    RECIPES,
    config_from_toml,
    find_recipe,
    load_config,
    to_toml,
)
from redqueen.errors import ConfigError
from redqueen.tasks import load_kinds


def test_a_file_changes_defaults_and_set_changes_the_file(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text("seed = 7\n[verify]\ncpu_s = 2.0\nmemory_mb = 99\n")
    config = load_config(
        file,
        ["verify.cpu_s=3", "tasks.prompt_format=compact", "tasks.kinds=['code_o']"],
        verify={"max_input_chars": 5},
    )
    assert (config.seed, config.verify.cpu_s, config.verify.memory_mb) == (7, 3.0, 99)
    assert (config.tasks.prompt_format, config.tasks.kinds) == ("compact", ("code_o",))
    assert config.verify.max_input_chars == 5
    assert config.verify.max_program_chars == Config().verify.max_program_chars


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["verify.cpu=1"], "Did you mean 'cpu_s'"),
        (["sed=1"], "Did you mean 'seed'"),
        (["evaluate.members=['students', 'vote']"], "a vote is measured by itself"),
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
            r"^with match.scheme=self_play every member has both roles: set population.teachers=0 and",
        ),
        (
            ["population.students=0"],
            r"population.students: must be greater than or equal to 1; got 0",
        ),
        (
            [
                "population.learning_rates=[1, 2, 3]",
                "population.teachers=1",
                "population.students=1",
            ],
            "3 rates for 2 members",
        ),
        (["population.learning_rates=[-1.0]"], "greater than or equal to 0"),
        (
            ["match.scheme=cross_play", "population.teachers=0", "population.students=1"],
            "needs two",
        ),
        (["match.students_per_problem=5"], "there are 4 students"),
        (["reward.teacher=regret"], "set match.students_per_problem=2 or more"),
        (["tasks.kinds=['code_o', 'code_i', 'code_o']"], "tasks.kinds names code_o twice"),
        (["tasks.kinds=[]"], "at least 1 item"),
        (["tasks.kinds=['code_x']"], r"^tasks.kinds.0: unknown task kind 'code_x'. Did you mean"),
        (["tasks.prompt_format=chta"], r"unknown prompt format 'chta'. Did you mean 'chat'"),
        (["engine.type=torhc"], r"^engine.type: unknown engine 'torhc'. Did you mean 'torch'"),
        (["sandbox.type=pol"], r"^sandbox.type: unknown sandbox 'pol'. Did you mean 'pool'"),
        (["match.scheme=pfps"], r"^match.scheme: unknown match scheme 'pfps'. Did you mean 'pfsp'"),
        (
            ["rate.outcome={type='threshold', threshold=1}"],
            r"^rate.outcome: rating outcome 'threshold': threshold: must be less than 1; got 1$",
        ),
        (
            ["rate.outcome.threshold=0.6"],
            r"^rate.outcome: rating outcome 'by_role': unknown setting 'threshold'",
        ),
        (["reward.techer=azr"], "Did you mean 'teacher'"),
        (
            ["reward.teacher=5"],
            r"^reward.teacher: a teacher reward is a name, or a table with `type` .*; got 5$",
        ),
        (["update.estimator=ppo"], "unknown estimator 'ppo'.* grpo, reinforce_pp, rloo, trr_pp"),
        (["solve.attempts=1"], "greater than or equal to 2"),
        (["ledger.keep=1"], "greater than or equal to 2"),
        (
            ["evolve.mutations=[]"],
            r"^evolve: mutations are empty: name some, or set crossover_share = 1$",
        ),
        (["evolve.crossovers=[]"], r"^evolve: crossovers are empty"),
        (["evolve.selection=roulette"], "unknown selection 'roulette'.* tournament, truncation"),
        (["evolve.share=1.5"], "less than or equal to 1"),
        (["evolve.every=-1"], "greater than or equal to 0"),
        (["evolve.hall_of_fame.size=2", "population.teachers=0"], "needs rated teachers"),
    ],
)
def test_a_wrong_setting_says_where_and_what_to_do(settings: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(None, settings)


@pytest.mark.parametrize("old_name", sorted(RENAMED))
def test_an_old_setting_fails_with_its_new_name(old_name: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{old_name} is now {RENAMED[old_name]}$"):
        load_config(None, [f"{old_name}=1"])


@pytest.mark.parametrize("value", ["all_proposals", "{type='all_proposals'}"])
def test_an_old_row_fails_with_its_new_name(value: str) -> None:
    with pytest.raises(ConfigError, match=r"^rate.outcome: all_proposals is now by_role$"):
        load_config(None, [f"rate.outcome={value}"])


def test_every_old_setting_of_a_section_is_named() -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(None, ["match.rating.mu=1", "match.rating.tau=2", "reward.right=3"])
    assert set(str(caught.value).splitlines()) == {
        "match.rating.mu is now rate.mu",
        "match.rating.tau is now rate.tau",
        "reward.right is now reward.student.correct",
    }


def test_every_new_name_of_an_old_setting_exists() -> None:
    config = load_config(rate={"outcome": "threshold"}, update={"loss": "ppo"})
    for path in RENAMED.values():
        value = config.model_dump()
        for name in path.split("."):
            assert name in value, path
            value = value[name]


# files


def test_a_missing_or_broken_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no config file .*nowhere\.toml"):
        load_config(tmp_path / "nowhere.toml")
    broken = tmp_path / "broken.toml"
    for content in (b"[[[", b"seed = \xff", b"seed = 1\nseed = 2\n"):
        broken.write_bytes(content)
        with pytest.raises(ConfigError, match="not a readable TOML file"):
            load_config(broken)


def test_a_stored_config_that_is_broken_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="the stored config is not valid TOML"):
        config_from_toml(to_toml(Config()) + "\nseed = [")
    with pytest.raises(ConfigError, match="sed: unknown setting"):
        config_from_toml("sed = 1")


def test_what_is_printed_reads_back_as_the_same_config(tmp_path: Path) -> None:
    config = load_config(
        None, ["seed=3", "sandbox.without=['landlock']", "verify.allowed_modules=['math']"]
    )
    file = tmp_path / "printed.toml"
    file.write_text(to_toml(config))
    assert load_config(file) == config


def test_any_text_and_any_key_survive_being_printed(tmp_path: Path) -> None:
    nasty = "\U0001f40d é ' \" \\ \t \r\n \x01 \x7f \x85 \u2028 # = ]"
    settings = {
        "no bare key": 1, "a.b": [1.5, True, nasty], "": "empty", nasty: {"deep": {nasty: []}},
        "tables": [{"x": [{"y z": "\r\n"}]}], "large": 10**15, "small": -1e-300,
    }  # fmt: skip
    config = load_config(
        None,
        base=f"/models/{nasty}",
        archive={"seeds": "/\U0001f40d/problems.jsonl"},
        evolve={"mutations": [{"type": "tests.outside.things:mutation", "settings": settings}]},
    )
    assert config.base == f"/models/{nasty}"
    assert config.evolve.mutations[0].model_dump()["settings"] == settings
    file = tmp_path / "printed.toml"
    file.write_text(to_toml(config), encoding="utf-8", newline="")
    assert load_config(file) == config
    assert config_from_toml(to_toml(config)) == config
    assert Config.model_validate_json(config.model_dump_json()) == config


def test_every_setting_is_printed_with_what_it_means() -> None:
    text = to_toml(Config())
    assert "# The seed of every random stream.\nseed = 0\n" in text
    assert "# teacher_learning_rate = (none)" in text
    assert "[evolve.hall_of_fame]" in text


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
        assert load_study(path, ["steps=1"])
    else:
        assert load_config(path, ["steps=1"]).steps == 1


# sections


def test_a_config_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Config().seed = 3  # type: ignore[misc]


def test_settings_of_a_config_are_changed_section_by_section() -> None:
    config = load_config(None, ["reward.teacher={type='azr', invalid=-2}"])
    changed = config.with_settings(steps=3, reward={"teacher": {"novelty": 0.5}})
    assert changed.steps == 3 and changed.solve == config.solve
    assert changed.reward.teacher.table() == {**config.reward.teacher.table(), "novelty": 0.5}
    other = changed.with_settings(reward={"teacher": {"type": "paper"}})
    assert other.reward.teacher == Config().reward.teacher


@pytest.mark.parametrize(
    ("first", "second", "merged"),
    [
        ({"a": {"x": 1, "y": 2}}, {"a": {"y": 3}}, {"a": {"x": 1, "y": 3}}),
        ({"a": {"type": "p", "x": 1}}, {"a": {"type": "q"}}, {"a": {"type": "q"}}),
        ({"a": {"type": "p", "x": 1}}, {"a": {"type": "p", "y": 2}}, {"a": {"type": "p", "x": 1, "y": 2}}),
        ({"a": {"type": "p", "x": 1}}, {"a": {"x": 2}}, {"a": {"type": "p", "x": 2}}),
        ({"a": "p"}, {"a": {"x": 2}}, {"a": {"type": "p", "x": 2}}),
        ({"a": {"type": "p", "x": 1}}, {"a": "q"}, {"a": "q"}),
        ({"a": [1]}, {"a": [2], "b": 3}, {"a": [2], "b": 3}),
    ],
)  # fmt: skip
def test_tables_are_merged_and_a_choice_of_another_type_replaces_the_whole(
    first: dict[str, object], second: dict[str, object], merged: dict[str, object]
) -> None:
    before = repr(first)
    assert merge({"section": first}, {"section": second}) == {"section": merged}
    assert repr(first) == before


def test_an_engine_or_sandbox_of_another_type_keeps_the_settings_of_its_section(
    tmp_path: Path,
) -> None:
    file = tmp_path / "a.toml"
    file.write_text("[engine]\nmax_num_seqs = 7\n[sandbox]\nworkers = 3\n")
    config = load_config(file, engine={"type": "my:Engine"}, sandbox={"type": "pool"})
    assert (config.engine.type, config.engine.max_num_seqs) == ("my:Engine", 7)
    assert (config.sandbox.type, config.sandbox.workers) == ("pool", 3)


# task kinds


@pytest.mark.parametrize("name", ["nowhere.at_all:Kind", "json:Kind", ":x"])
def test_a_task_kind_that_cannot_be_imported_is_named(name: str) -> None:
    with pytest.raises(ConfigError, match=f"the task kind '{name}' cannot be imported"):
        load_kinds(*load_config(None, [f"tasks.kinds=['{name}']"]).tasks.kinds)


def test_a_task_kind_comes_by_import_path() -> None:
    config = load_config(None, ["tasks.kinds=['redqueen.tasks.code.deduction:CodeO']"])
    assert [kind.name for kind in load_kinds(*config.tasks.kinds).values()] == ["code_o"]
