"""The shape of the house: rooms, layers, the step that reads as the method, and what an import may
not cost."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

import redqueen

ROOT = Path(redqueen.__file__).parent
REPOSITORY = Path(__file__).parents[2]
STAGES = ["match", "propose", "verify", "solve", "reward", "rate", "update", "evolve", "record"]


def run_python(code: str, *flags: str) -> str:
    command = [sys.executable, *flags, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


# rooms


def test_every_module_is_in_a_room() -> None:
    loose = {path.stem for path in ROOT.glob("*.py")} - {"__init__", "__main__"}
    assert loose == {"records", "errors", "rng", "jsonl", "testing"}
    rooms = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert rooms == {
        "benchmarks", "cli", "config", "core", "engine", "evaluate", "ledger", "models", "pawn",
        "report", "sandbox", "serve", "stages", "tasks",
    }  # fmt: skip


def test_no_file_is_too_long() -> None:
    tables = {"kernels.py", "adapter_kernels.py", "grammar.py"}
    long = {
        str(path.relative_to(ROOT)): lines
        for path in ROOT.rglob("*.py")
        if (lines := path.read_text().count("\n")) > 350 and path.name not in tables
    }
    assert not long


def test_the_contracts_on_imports_are_kept() -> None:
    """Layers, stages that never import stages, benchmark data that cannot reach a reward, heavy
    imports in their rooms: stated in pyproject.toml."""
    command = [str(Path(sys.executable).with_name("lint-imports"))]
    result = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("name", "room"), [("TorchEngine", "engine/torch"), ("SandboxPool", "sandbox")]
)
def test_what_is_behind_a_port_is_named_in_its_own_room_only(name: str, room: str) -> None:
    """Benchmarks of speed compare an engine with others, and the sandbox is a port that the whole
    package may open by its usual name."""
    allowed = {"TorchEngine": ("engine/", "cli/bench/"), "SandboxPool": ("",)}[name]
    for path in ROOT.rglob("*.py"):
        where = path.relative_to(ROOT).as_posix()
        if name in path.read_text():
            assert where.startswith(allowed), f"{where} names {name}"


def test_nothing_but_the_date_of_a_run_depends_on_the_clock() -> None:
    """Durations and limits are measured by clocks that do not jump."""
    wall = re.compile(
        r"\btime\.time(_ns)?\(|\bdatetime\.(now|utcnow|today)\(|\bdate\.today\(|\bst_[mca]time\b"
        r"|from time import .*\btime\b|CURRENT_TIMESTAMP|\bdatetime\('now'"
    )
    found = {
        path.relative_to(ROOT).as_posix(): wall.findall(text)
        for path in (*ROOT.rglob("*.py"), *ROOT.rglob("*.sql"))
        if wall.search(text := path.read_text())
    }
    # Whoever saves weights on a server is shown when, and may say how long they stay.
    dates = {"core/build.py": 1, "serve/saved.py": 2}
    assert {name: len(uses) for name, uses in found.items()} == dates


# the method


def step_calls() -> list[str]:
    tree = ast.parse((ROOT / "core/step.py").read_text())
    function = next(node for node in tree.body if isinstance(node, ast.FunctionDef))
    calls = (node.func for node in ast.walk(function) if isinstance(node, ast.Call))
    ordered = sorted(
        (call for call in calls if isinstance(call, ast.Name)), key=lambda call: call.lineno
    )
    return [call.id for call in ordered if call.id in STAGES]


def test_the_step_reads_as_the_method() -> None:
    assert (ROOT / "core/step.py").read_text().count("\n") <= 100
    assert step_calls() == STAGES


def test_the_picture_shows_the_calls_of_the_step() -> None:
    text = (REPOSITORY / "docs/architecture.md").read_text()
    picture = next(block for block in re.findall(r"```\n(.*?)```", text, re.DOTALL))
    assert [word for word in re.findall(r"\w+", picture) if word in STAGES] == step_calls()


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_has_one_public_function_of_its_name_in_its_own_module(stage: str) -> None:
    module = importlib.import_module(f"redqueen.stages.{stage}")
    function = getattr(module, stage)
    assert inspect.isfunction(function) and function.__module__ == module.__name__
    assert next(iter(inspect.signature(function).parameters)) == "states"


# what cannot reach a reward


def reachable(hint: Any, classes: set[type]) -> None:
    """The classes within a type, and those within their fields."""
    for inner in get_args(hint):
        reachable(inner, classes)
    if isinstance(hint, type) and hint not in classes and hint.__module__.startswith("redqueen."):
        classes.add(hint)
        for field in get_type_hints(hint).values():
            reachable(field, classes)


@pytest.mark.parametrize(
    "name",
    [
        "redqueen.stages.reward.teacher",
        "redqueen.stages.reward.student",
        "redqueen.stages.update.advantages",
        "redqueen.stages.rate.outcome",
    ],
)
def test_nothing_that_a_reward_or_an_update_is_given_holds_a_measurement(name: str) -> None:
    """All that a function can read without an import is in its arguments: no class within these is
    one of evaluation or of the ledger."""
    classes: set[type] = set()
    functions = [
        thing
        for thing in vars(importlib.import_module(name)).values()
        if inspect.isfunction(thing) and thing.__module__ == name
    ]
    for function in functions:
        for hint in get_type_hints(function).values():
            reachable(hint, classes)
    assert functions and classes
    measured = ("redqueen.evaluate", "redqueen.ledger", "redqueen.benchmarks", "redqueen.cli")
    assert not [one for one in classes if one.__module__.startswith(measured)]


def test_no_kind_of_problem_is_named_outside_its_room() -> None:
    """Nothing but `tasks/` knows a kind by name, or looks into a payload. Pawn is trained on the
    code kinds, and takes their names from there; settings have them as defaults."""
    allowed = ("tasks/", "config/schema.py", "ledger/migration.py", "pawn/tokenizer.py")
    for path in ROOT.rglob("*.py"):
        where = path.relative_to(ROOT).as_posix()
        if not where.startswith(allowed):
            strings = [
                node.value
                for node in ast.walk(ast.parse(path.read_text()))
                if isinstance(node, ast.Constant) and isinstance(node.value, str)
            ]
            assert not {"code_o", "code_i", "code_f"} & set(strings), where


# what an import costs


def test_importing_redqueen_is_cheap_and_changes_nothing() -> None:
    code = (
        "import sys, time\n"
        "before = sys.getswitchinterval(), sorted(sys.modules)\n"
        "started = time.perf_counter(); import redqueen; seconds = time.perf_counter() - started\n"
        "heavy = {'torch', 'transformers', 'pydantic', 'numpy', 'rich'} & set(sys.modules)\n"
        "print(seconds < 0.1, sorted(heavy), sys.getswitchinterval() == before[0])"
    )
    assert run_python(code) == "True [] True\n"


def test_loading_settings_changes_no_process_wide_setting() -> None:
    code = (
        "import logging, os, signal, sys, threading\n"
        "def state(): return (sys.getswitchinterval(), sys.getrecursionlimit(), dict(os.environ), "
        "signal.getsignal(signal.SIGINT), threading.active_count(), logging.root.handlers)\n"
        "before = state()\n"
        "import redqueen as rq\n"
        "rq.load_config('pawn-cpu'); rq.Run, rq.Sandbox, rq.open_run\n"
        "print(state() == before, 'torch' in sys.modules)"
    )
    assert run_python(code) == "True False\n"


def test_help_imports_neither_torch_nor_pydantic() -> None:
    code = (
        "import sys, redqueen.cli.app; "
        "print(sorted({'torch', 'pydantic', 'transformers', 'numpy'} & set(sys.modules)))"
    )
    assert run_python(code) == "[]\n"


def test_what_a_zygote_loads_is_the_standard_library_and_little_of_ours() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT.parent)!r})\n"
        "from redqueen.sandbox import candidate, child, frozen_libc, host_traces, prepare, replicas\n"
        "names = {name.partition('.')[0] for name in sys.modules} - set(sys.stdlib_module_names)\n"
        "print(sorted(names - {'__main__', 'redqueen'}), "
        "sorted(name for name in sys.modules if name.startswith('redqueen.')))"
    )
    ours = """
        config config.modules sandbox sandbox.candidate sandbox.child sandbox.frozen_libc
        sandbox.host_traces sandbox.inspection sandbox.inspection.canonical
        sandbox.inspection.checks sandbox.inspection.complexity sandbox.inspection.imports
        sandbox.inspection.touches sandbox.inspection.type_uses sandbox.literal_tokens
        sandbox.literals sandbox.lockdown sandbox.prepare sandbox.protocol sandbox.replicas
        sandbox.wire
    """.split()
    assert run_python(code, "-S") == f"[] {[f'redqueen.{name}' for name in ours]}\n"


def test_what_makes_documents_loads_no_torch() -> None:
    """It runs in as many processes as there are cores."""
    code = (
        "import sys, redqueen.pawn.loader; "
        "print(sorted({'torch', 'transformers'} & set(sys.modules)))"
    )
    assert run_python(code) == "[]\n"


def test_a_wrong_name_of_a_suite_does_not_pay_for_torch() -> None:
    code = (
        "import sys; from redqueen.cli.evaluate import evaluate\n"
        "from redqueen.errors import ConfigError\n"
        "try: evaluate('pawn', ['heldot'])\n"
        "except ConfigError: print('torch' in sys.modules)"
    )
    assert run_python(code) == "False\n"


def test_plans_and_settings_of_evolution_load_no_torch() -> None:
    """The tables of operators, too: only making a child needs weights."""
    code = (
        "import sys; from random import Random\n"
        "from redqueen.config.stages import EvolveConfig\n"
        "from redqueen.stages.evolve.plan import plan_replacements\n"
        "from redqueen.stages.evolve.select import Standing\n"
        "standings = [Standing(str(i), 'teacher', i, 1, i - 3) for i in range(8)]\n"
        "planned = plan_replacements(standings, EvolveConfig(), Random(0))\n"
        "print(len(planned), 'torch' in sys.modules)"
    )
    assert run_python(code) == "2 False\n"
