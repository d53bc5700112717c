"""The shape of the house: what may import what, and what a command may not pay for."""

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args, get_type_hints

import redqueen

ROOT = Path(redqueen.__file__).parent
STAGES = {"match", "propose", "verify", "solve", "reward", "update", "evolve"}


def imports(path: Path) -> set[str]:
    """Modules of ours that a file imports when it is imported itself."""
    found: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def test_help_imports_neither_torch_nor_pydantic() -> None:
    code = "import sys, redqueen.cli.app; print(sorted({'torch', 'pydantic', 'transformers', 'numpy'} & set(sys.modules)))"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "[]\n"
    )


def test_what_a_zygote_loads_is_the_standard_library_and_little_of_ours() -> None:
    code = (
        "import sys; from redqueen.sandbox import child, lockdown, prepare, wire\n"
        "names = {name.partition('.')[0] for name in sys.modules} - set(sys.stdlib_module_names)\n"
        "print(sorted(names - {'__main__', 'redqueen'}), sorted(name for name in sys.modules if name.startswith('redqueen.')))"
    )
    root = str(ROOT.parent)
    out = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path.insert(0, {root!r})\n{code}"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    ours = """
        config config.modules sandbox sandbox.child sandbox.inspection sandbox.inspection.canonical
        sandbox.inspection.checks sandbox.inspection.complexity sandbox.literal_tokens
        sandbox.literals sandbox.lockdown sandbox.prepare sandbox.protocol sandbox.wire
    """.split()
    assert out == f"[] {[f'redqueen.{name}' for name in ours]}\n"


def test_stages_do_not_import_each_other_but_for_their_settings() -> None:
    for path in [ROOT / f"{stage}.py" for stage in STAGES if (ROOT / f"{stage}.py").exists()]:
        for name in imports(path):
            first, _, rest = name.removeprefix("redqueen.").partition(".")
            if first in STAGES and first != path.stem:
                assert not rest or rest.endswith("Config"), f"{path.name} imports {name}"


def test_the_sandbox_knows_nothing_of_tasks() -> None:
    for path in (ROOT / "sandbox").glob("*.py"):
        assert not any(
            name.startswith(("redqueen.tasks", "redqueen.records", "redqueen.stages.verify"))
            for name in imports(path)
        ), path


def test_heavy_imports_stay_in_their_rooms() -> None:
    heavy = {"torch", "transformers", "vllm", "ray"}
    for path in ROOT.rglob("*.py"):
        room, *rest = path.relative_to(ROOT).parts
        allowed = room in ("model", "engine", "pawn") or (
            room == "evolve" and rest in (["thin.py"], ["draws.py"])
        )
        assert allowed or not heavy & {name.partition(".")[0] for name in imports(path)}, path


def test_what_is_evaluated_never_reaches_a_stage() -> None:
    """Benchmarks and held-out suites are a side exit: no stage can make a reward of them."""
    for path in ROOT.rglob("*.py"):
        room = path.relative_to(ROOT).parts[0].removesuffix(".py")
        if room in STAGES or room in (
            "tasks",
            "engine",
            "model",
            "archive",
            "records",
            "world",
            "loop",
        ):
            assert not any(
                name.startswith(("redqueen.evaluate", "redqueen.pawn.heldout"))
                for name in imports(path)
            ), path


def test_not_even_inside_a_function_does_what_rewards_or_trains_know_of_evaluation() -> None:
    for path in ROOT.rglob("*.py"):
        room = path.relative_to(ROOT).parts[0].removesuffix(".py")
        if room in (
            "reward",
            "update",
            "evolve",
            "match",
            "solve",
            "propose",
            "verify",
            "world",
            "loop",
        ):
            named = {
                name
                for node in ast.walk(ast.parse(path.read_text()))
                for name in (
                    [node.module or ""]
                    if isinstance(node, ast.ImportFrom)
                    else [a.name for a in node.names]
                    if isinstance(node, ast.Import)
                    else []
                )
            }
            assert not any(
                name.startswith(("redqueen.evaluate", "redqueen.commands")) for name in named
            ), path


def test_nothing_that_rewards_or_trains_can_read_the_ledger_where_measurements_are_kept() -> None:
    """Measurements leave a run through the ledger alone: who cannot open it cannot learn from them."""
    for path in ROOT.rglob("*.py"):
        room = path.relative_to(ROOT).parts[0].removesuffix(".py")
        if room in STAGES or room in (
            "tasks",
            "archive",
            "records",
            "world",
            "loop",
            "turn",
            "fixed",
            "engine",
            "model",
        ):
            text = path.read_text()
            assert "redqueen.ledger" not in text and "sqlite3" not in text, path


def reachable(hint: Any, found: set[type]) -> None:
    """The classes within a type, and those within their fields."""
    for inner in get_args(hint):
        reachable(inner, found)
    if isinstance(hint, type) and hint not in found and hint.__module__.startswith("redqueen."):
        found.add(hint)
        for field in get_type_hints(hint).values():
            reachable(field, found)


def test_nothing_that_a_reward_or_an_update_is_given_holds_a_measurement() -> None:
    """All that a function can read without an import is in its arguments: no class within these is
    one of evaluation or of the ledger."""
    for name in (
        "redqueen.stages.reward",
        "redqueen.stages.update.advantages",
        "redqueen.stages.rate.outcome",
    ):
        found: set[type] = set()
        functions = [
            thing
            for thing in vars(importlib.import_module(name)).values()
            if inspect.isfunction(thing) and thing.__module__ == name
        ]
        for function in functions:
            for hint in get_type_hints(function).values():
                reachable(hint, found)
        assert functions and found, name
        assert not [
            one
            for one in found
            if one.__module__.startswith(
                ("redqueen.evaluate", "redqueen.ledger", "redqueen.commands")
            )
        ], name


def test_what_makes_documents_loads_no_torch() -> None:
    """It runs in as many processes as there are cores."""
    code = "import sys, redqueen.pawn.loader; print(sorted({'torch', 'transformers', 'pydantic'} & set(sys.modules)))"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "[]\n"
    )


def test_a_wrong_name_of_a_suite_does_not_pay_for_torch() -> None:
    code = (
        "import sys; from redqueen.cli.evaluate import evaluate\n"
        "from redqueen.errors import ConfigError\n"
        "try: evaluate('pawn', ['heldot'])\n"
        "except ConfigError: print('torch' in sys.modules)"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "False\n"
    )


def test_plans_and_settings_of_evolution_load_no_torch() -> None:
    """The tables of operators, too: only making a child needs weights."""
    code = (
        "import sys; from random import Random; from redqueen.stages.evolve.config import EvolveConfig; from redqueen.stages.evolve.select import Standing\n"
        "from redqueen.stages.evolve.plan import plan\n"
        "print(len(plan([Standing(str(i), 'teacher', i, 1) for i in range(8)], EvolveConfig(), Random(0))), 'torch' in sys.modules)"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "2 False\n"
    )
