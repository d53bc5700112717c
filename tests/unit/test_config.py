"""Settings come from defaults, file and --set, in that order, and a wrong one names the right one."""

from pathlib import Path

import pytest

from redqueen.config import Config, load_config, to_toml
from redqueen.errors import ConfigError


def test_a_file_changes_defaults_and_set_changes_the_file(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text("seed = 7\n[verify]\ncpu_s = 2.0\nmemory_mb = 99\n")
    config = load_config(file, ["verify.cpu_s=3", "tasks.pack=compact", "tasks.kinds=['code_o']"])
    assert (config.seed, config.verify.cpu_s, config.verify.memory_mb, config.tasks.pack, config.tasks.kinds) == (7, 3.0, 99, "compact", ("code_o",))
    assert config.verify.max_program_chars == Config().verify.max_program_chars


def test_what_is_printed_reads_back_as_the_same_config(tmp_path: Path) -> None:
    config = load_config(None, ["seed=3", "sandbox.without=['landlock']", "verify.allowed_modules=['math']"])
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
    kinds = load_config(None, ["tasks.kinds=['redqueen.tasks.code_o:CodeO']"]).tasks.load_kinds()
    assert [kind.name for kind in kinds.values()] == ["code_o"]


def test_an_unknown_pack_is_named() -> None:
    with pytest.raises(ConfigError, match=r"tasks.pack: Input should be 'auto', 'chat' or 'compact'; got 'chta'"):
        load_config(None, ["tasks.pack=chta"])
