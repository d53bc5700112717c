"""docs/extending.md is a package: its Python blocks are written to files and called, its settings
are loaded, and one run uses all of it together."""

import importlib
import inspect
import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import pytest

import redqueen as rq
from redqueen.config.registry import TABLES
from redqueen.config.schema import merge
from redqueen.engine.protocol import Engine
from redqueen.sandbox.pool import SandboxPool
from redqueen.stages.evolve.merge import merge_adapters
from redqueen.tasks import load_kind
from redqueen.tasks.prompts import load_prompt_format
from redqueen.tasks.prompts.compact import write_blocks
from redqueen.testing import check_kind
from tests.outside.engine import TinyEngine

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/extending.md").read_text()
SETTINGS = re.findall(r"^```toml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
FILES: dict[str, str] = dict(
    re.findall(r"^```python\n# (\w+/\w+\.py)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
)


@pytest.fixture(scope="module", autouse=True)
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The page's modules, where Python finds them."""
    folder = tmp_path_factory.mktemp("page")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))
    for name in [name for name in sys.modules if name.partition(".")[0] == "my_package"]:
        del sys.modules[name]


def modules() -> dict[str, ModuleType]:
    names = [Path(name).stem for name in FILES if name.startswith("my_package/")]
    return {name: importlib.import_module(f"my_package.{name}") for name in names}


def test_every_python_block_belongs_to_a_file() -> None:
    assert len(FILES) == PAGE.count("```python")


def test_every_table_has_one_of_its_own() -> None:
    words = PAGE.lower()
    for what in TABLES:
        named = {"teacher reward": "a teacher's reward", "student reward": "a student's reward"}
        assert named.get(what, what) in words, what


@pytest.mark.parametrize("text", SETTINGS)
def test_settings_can_be_loaded(text: str, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(text)
    config = rq.load_config(tmp_path / "mine.toml")
    for path in re.findall(r"my_package[\w.]+:\w+", text):
        assert path in config.model_dump_json()


def test_the_tests_of_the_page_pass() -> None:
    scope: dict[str, Any] = {}
    exec(FILES["tests/test_my_package.py"], scope)
    tests = [thing for name, thing in scope.items() if name.startswith("test_")]
    assert len(tests) == 3
    for test in tests:
        test()


def test_a_run_uses_all_of_it_together(package: Path, tmp_path: Path) -> None:
    """But the engine and the prompt format: a run has one of each, and this one needs no model."""
    config = small_config()
    called: set[str] = set()

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(package)):
            called.add(frame.f_code.co_qualname)

    sys.setprofile(watch)
    try:
        with rq.Run.create(config, tmp_path / "run") as run:
            with rq.track(run) as trackers:
                for step in run:
                    trackers.step(step.number, step.metrics)
            score = rq.evaluate(run, config.evaluate.suite).score
    finally:
        sys.setprofile(None)
    elsewhere = {"any_order", "engine", "formats", "skeleton"}
    used = {name: module for name, module in modules().items() if name not in elsewhere}
    assert functions(*used.values()) - called == {"mean_of_factors"}
    assert 0 <= score <= 1
    lines = (tmp_path / "run/metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [1, 2, 3, 4, 5, 6]
    with rq.open_run(tmp_path / "run") as reader:
        operators = {row["operator"] for row in reader.births()} - {"new"}
    assert operators >= {"my_package.operators:shrink", "my_package.operators:half_and_half"}


def small_config() -> rq.Config:
    """All settings of the page, on an engine without a model."""
    settings: dict[str, Any] = {}
    for text in SETTINGS:
        settings = merge(settings, tomllib.loads(text))
    del settings["tasks"]["prompt_format"]
    settings["engine"]["type"] = "tests.outside.engine:TinyEngine"
    return rq.load_config(
        **merge(
            settings,
            {
                "steps": 6,
                "base": "none",
                "population": {"teachers": 4, "students": 4},
                "propose": {"prompts": 1, "samples": 4},
                "solve": {"attempts": 4},
            },
        )
    )


def functions(*modules: ModuleType) -> set[str]:
    """The functions and methods that modules define."""
    names = set()
    for module in modules:
        for thing in vars(module).values():
            if getattr(thing, "__module__", "") != module.__name__:
                continue
            if inspect.isfunction(thing):
                names.add(thing.__qualname__)
            elif inspect.isclass(thing):
                own = vars(thing).items()
                names |= {f.__qualname__ for n, f in own if inspect.isfunction(f) and n[0] != "_"}
    return names


def test_a_merge_is_called_by_import_path() -> None:
    engine = TinyEngine(2)
    for slot in (0, 1):
        engine.new(slot, seed=slot)
    merged = merge_adapters(
        [engine.read(0), engine.read(1)], "my_package.operators:mean_of_factors"
    )
    pair, first = merged.projections["skill"], engine.read(0).projections["skill"]
    assert pair.a.shape == first.a.shape and not pair.a.equal(first.a)


def test_a_prompt_format_is_used_by_import_path() -> None:
    check_kind(
        "my_package.kinds:Sums",
        proposals=['{"sum": "17 + 25"}'],
        answers=['{"total": 42}'],
        wrong=['{"total": 41}'],
        prompt_format="my_package.formats:JsonFormat",
    )
    kind, prompts = load_kind("my_package.kinds:Sums"), load_prompt_format("compact")
    assert prompts.render(kind.ask_proposal(())).text == ">>teacher sums\n>>new\n"


def test_an_engine_is_made_by_import_path(tmp_path: Path) -> None:
    config = rq.load_config(
        "pawn-cpu",
        engine={"type": "my_package.engine:CountingEngine"},
        steps=1,
        population={"teachers": 1, "students": 1},
        propose={"samples": 2},
        solve={"attempts": 2},
        tasks={"kinds": ["code_o"]},
    )
    with rq.Run.create(config, tmp_path / "run") as run:
        (step,) = run
        counted: int = run.engine.tokens  # type: ignore[attr-defined]
    assert counted == step.metrics["propose/tokens"] + step.metrics["solve/tokens"]


def test_the_skeleton_of_an_engine_has_the_methods_of_the_port() -> None:
    skeleton = modules()["skeleton"].MyEngine
    names = {name for name in (*vars(skeleton), *skeleton.__annotations__) if name[0] != "_"}
    port = {name for base in Engine.__mro__ for name in vars(base) if name[0] != "_"}
    assert names - {"create"} == port
    for name in port:
        method = getattr(Engine, name)
        if inspect.isfunction(method):
            parameters = inspect.signature(getattr(skeleton, name)).parameters
            assert list(parameters) == list(inspect.signature(method).parameters), name


def test_a_kind_with_another_rule_is_graded_by_it(pool: SandboxPool) -> None:
    name = "my_package.any_order:AnyOrder"
    program = write_blocks([("program", "def f(x):\n    return [x, 1, True, 'a']"), ("input", "7")])
    for answer in ("[7, 1, True, 'a']", "['a', True, 7, 1]"):
        reply = [write_blocks([("output", answer)])]
        (problem,) = check_kind(name, proposals=[program], answers=reply, sandbox=pool)
    for answer in ("[7, True, 'a']", "[7, 1, 1, 'a']", "(7, 1, True, 'a')", "nonsense("):
        reply = [write_blocks([("output", answer)])]
        check_kind(name, proposals=[program], wrong=reply, sandbox=pool)
    asked = load_prompt_format("chat").render(load_kind(name).ask_answer(problem))
    assert "The order of a list does not count." in asked.text


def test_the_kind_that_whole_runs_are_tested_with_is_that_of_the_page() -> None:
    code = (ROOT / "tests/outside/any_order.py").read_text().partition('"""\n\n')[2]
    assert code == FILES["my_package/any_order.py"]
