"""One contract for all open tables: rows can be chosen, stored and read back, names from outside
come by import path, and a mistake is answered with what is possible."""

import json
from typing import Any

import pytest

from redqueen.config.registry import TABLES, Choice, CustomChoice, Entry, Registry, table
from redqueen.config.schema import Config
from redqueen.config.toml import config_from_toml, load_config, to_toml
from redqueen.core.state import PairingState, ProposalResult, StepState
from redqueen.errors import ConfigError
from redqueen.records import Attempt, Pairing, Proposal
from redqueen.stages.reward import reward
from redqueen.testing import check_registry
from tests.outside import things
from tests.problems import addition, rated_world

HERE = "tests.outside.things:"
ROWS = [(what, name) for what in sorted(TABLES) for name in table(what)]
CHOSEN = {
    "match.scheme": "match scheme",
    "rate.outcome": "rating outcome",
    "reward.teacher": "teacher reward",
    "reward.student": "student reward",
    "update.estimator": "estimator",
    "update.loss": "loss",
    "archive.policy": "archive policy",
    "evolve.fitness": "fitness",
    "evolve.teacher_fitness": "teacher fitness",
    "evolve.selection": "selection",
}
"""Settings that choose from a table."""


def get(config: Config, path: str) -> Any:
    value: Any = config
    for name in path.split("."):
        value = getattr(value, name)
    return value


# every table


@pytest.mark.parametrize("what", TABLES)
def test_a_table_has_rows_and_says_what_it_holds(what: str) -> None:
    registry = table(what)
    assert registry.what == what
    assert len(registry) == len(list(registry)) > 0
    assert all(name in registry and ":" not in name for name in registry)


@pytest.mark.parametrize(("what", "name"), ROWS)
def test_every_row_satisfies_the_contract_of_plug_ins(what: str, name: str) -> None:
    check_registry(what, name)


@pytest.mark.parametrize(("what", "name"), ROWS)
def test_an_unknown_name_is_answered_with_the_nearest(what: str, name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        table(what).choose(f"{name}x")
    message = str(caught.value)
    assert message.startswith(f"unknown {what} '{name}x'. Did you mean '{name}'? Choose from: ")
    assert "One of your own is given by import path, `package.module:name`." in message


@pytest.mark.parametrize(("what", "name"), ROWS)
def test_a_setting_that_a_row_does_not_have_is_answered_with_the_nearest(
    what: str, name: str
) -> None:
    fields = [field for field in table(what).settings(name).model_fields if field != "type"]
    for field in fields or ["type"]:
        with pytest.raises(ConfigError) as caught:
            table(what).choose({"type": name, f"{field}x": 1})
        message = str(caught.value)
        assert message.startswith(f"{what} '{name}': unknown setting '{field}x'. Did you mean")
        assert field in message.partition("Choose from: ")[2]


@pytest.mark.parametrize("what", TABLES)
@pytest.mark.parametrize("value", [5, None, ["x"], {"scale": 1}, {"type": 3}])
def test_what_is_neither_a_name_nor_a_table_with_a_type_is_refused(what: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"a {what} is a name, or a table with `type`"):
        table(what).choose(value)


@pytest.mark.parametrize("what", TABLES)
def test_something_of_ones_own_comes_by_import_path(what: str) -> None:
    registry, path = table(what), f"{HERE}fitness"
    assert registry[path] is things.fitness
    assert path not in registry
    check_registry(what, path)
    free = registry.choose({"type": path, "settings": {"any": ["thing"]}})
    assert free.options == {"any": ["thing"]}


@pytest.mark.parametrize("what", TABLES)
@pytest.mark.parametrize(
    "path", ["nowhere.at_all:x", f"{HERE}nothing", f"{HERE}", ":x", ":", "tests..outside:x"]
)
def test_a_wrong_import_path_says_so(what: str, path: str) -> None:
    with pytest.raises(ConfigError, match=rf"^the {what} '{path}' cannot be imported: "):
        table(what).choose(path)


def test_settings_that_come_with_an_import_path_are_checked_like_any_other() -> None:
    registry = table("teacher reward")
    choice = registry.choose({"type": f"{HERE}teacher_reward", "top": 2})
    assert isinstance(choice, things.Steep) and choice.options is choice and choice.top == 2.0
    with pytest.raises(ConfigError, match=r"unknown setting 'topp'. Did you mean 'top'\?"):
        registry.choose({"type": f"{HERE}teacher_reward", "topp": 2})
    with pytest.raises(ConfigError, match=r"top: takes a number; got 'high'$"):
        registry.choose({"type": f"{HERE}teacher_reward", "top": "high"})


def test_a_row_may_be_an_import_path_an_entry_or_the_thing_itself() -> None:
    class Scaled(Choice):
        scale: float = 1.0

    registry: Registry[Any] = Registry(
        "thing", {"path": f"{HERE}policy", "entry": Entry(things.loss, Scaled), "self": things.loss}
    )
    assert registry["path"] is things.policy and registry["self"] is things.loss
    assert registry["entry"] is things.loss
    assert registry.choose({"type": "entry", "scale": 2}).table() == {"scale": 2.0}
    assert type(registry.choose("self")) is Choice
    assert type(registry.choose(f"{HERE}loss")) is CustomChoice


# in a config


@pytest.mark.parametrize("path", CHOSEN)
def test_a_setting_chooses_any_row_of_its_table_and_keeps_it_in_toml_and_json(path: str) -> None:
    section, name = path.split(".")
    for row in table(CHOSEN[path]):
        more: dict[str, Any] = {"population": {"teachers": 0}} if row[-5:] == "_play" else {}
        if row == "regret":
            more = {"match": {"students_per_problem": 2}}
        config = load_config(**{section: {name: row}, **more})
        assert get(config, path) == table(CHOSEN[path]).choose(row)
        assert config_from_toml(to_toml(config)) == config
        assert Config.model_validate_json(config.model_dump_json()) == config


def test_settings_of_choices_survive_toml_and_json() -> None:
    config = load_config(
        reward={"teacher": {"type": f"{HERE}teacher_reward", "top": 2.5}},
        rate={"outcome": {"type": "per_problem", "threshold": 0.7}},
        update={"loss": {"type": f"{HERE}loss", "average": 64, "settings": {"a": {"b": [1, "x"]}}}},
        evolve={
            "mutations": [
                "gaussian",
                {"type": "svd_jitter", "eps": 0.3, "weight": 2},
                {"type": f"{HERE}mutation", "weight": 0.5, "settings": {"shrink": 0.9}},
            ],
        },
    )
    for again in (
        config_from_toml(to_toml(config)),
        Config.model_validate_json(config.model_dump_json()),
        Config.model_validate(json.loads(config.model_dump_json())),
        config.with_settings(),
    ):
        assert again == config
        assert isinstance(again.reward.teacher, things.Steep)
        assert [type(choice) for choice in again.evolve.mutations] == [
            type(choice) for choice in config.evolve.mutations
        ]


def test_one_setting_of_the_default_choice_is_changed_by_its_path() -> None:
    default = Config().reward.teacher
    changed = load_config(None, ["reward.teacher.invalid=-2"]).reward.teacher
    assert changed.type == "paper"
    assert changed.table() == {**default.table(), "invalid": -2.0}


def test_a_setting_of_a_choice_is_changed_after_its_name_was_set() -> None:
    settings = ["reward.teacher=azr", "reward.teacher.invalid=-2"]
    changed = load_config(None, settings).reward.teacher
    assert (changed.type, changed.table()["invalid"]) == ("azr", -2.0)
    assert changed.table()["zero_pass"] == -0.5
    assert load_config(None, settings[:1], reward={"teacher": {"invalid": -2}}) == load_config(
        None, settings
    )


def test_a_mistake_in_a_choice_names_the_setting() -> None:
    with pytest.raises(ConfigError, match=r"^reward\.teacher: unknown teacher reward 'papr'\. Did"):
        load_config(None, ["reward.teacher=papr"])
    with pytest.raises(ConfigError, match=r"^evolve\.mutations\.1: mutation 'gaussian': unknown"):
        load_config(None, ["evolve.mutations=['svd_jitter', {type='gaussian', epss=1}]"])
    with pytest.raises(ConfigError, match=r"^update\.loss: the loss 'nowhere:x' cannot be import"):
        load_config(None, ["update.loss=nowhere:x"])


# what a plug-in is called with


def pay(attempt: Attempt, settings: dict[str, float]) -> float:
    """A student reward from outside, without a settings class."""
    return settings["correct"] if attempt.verdict == "correct" else settings["else"]


def test_free_settings_reach_the_plug_in_as_they_are() -> None:
    choice = f"{{type='{__name__}:pay', settings={{correct=3, else=1}}}}"
    world = rated_world([25.0], [25.0], f"reward.student={choice}")
    teacher, student = world.members
    problem = addition(1)
    state, match = StepState(world, 1), PairingState(0, Pairing(teacher, student, 0.5))
    attempts = [Attempt(problem, "", "correct"), Attempt(problem, "", "malformed")]
    state.results = [
        ProposalResult(match, 0, Proposal("code_o", ""), verdict=problem, attempts=attempts)
    ]
    reward([state])
    assert state.results[0].attempt_rewards == [3, 1]
