"""The public API: names and signatures are pinned, and the examples of the documents run."""

import inspect
from pathlib import Path

import pytest

import redqueen as rq
from tests.e2e.processes import run_script

REPOSITORY = Path(__file__).parents[2]

SIGNATURES = {
    "evaluate": "(target, suite, *, members, world, base, data, limit, samples, temperature, "
    "max_tokens, style, prompt_format, reasoning, device, dtype, cache, graders, on_progress)",
    "export_member": "(run, member, out, *, merged, world, base, portable, license_id)",
    "export_problems": "(run, out, form, world, *, license_id, everything)",
    "export_soup": "(run, out, *, merge, merged, world, base, portable, license_id)",
    "load_config": "(recipe, settings, **changes)",
    "load_study": "(path, settings, only)",
    "open_run": "(folder)",
    "report": "(run, out)",
    "track": "(run)",
}
CLASSES = {
    "Attempt", "Config", "EvalResult", "Job", "Member", "Outcome", "Problem", "RedQueenError",
    "Run", "RunReader", "Sandbox", "StepResult",
}  # fmt: skip


def shape(function: object) -> str:
    """Names of the parameters, without types and defaults."""
    signature = inspect.signature(function)  # type: ignore[arg-type]
    plain = [
        parameter.replace(annotation=inspect.Parameter.empty, default=inspect.Parameter.empty)
        for parameter in signature.parameters.values()
    ]
    return str(inspect.Signature(plain))


def test_the_names_are_pinned() -> None:
    assert set(rq.__all__) == {"__version__", *SIGNATURES, *CLASSES}
    assert set(rq.__all__) <= set(dir(rq))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        rq.nothing  # noqa: B018


@pytest.mark.parametrize("name", SIGNATURES)
def test_the_signature_of_a_function_is_pinned(name: str) -> None:
    import importlib

    module, _, attribute = rq._NAMES[name].partition(":")
    function = getattr(importlib.import_module(module), attribute or name)
    assert shape(function) == SIGNATURES[name]
    assert inspect.getdoc(function), name
    assert callable(getattr(rq, name))


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_a_class_is_documented(name: str) -> None:
    assert inspect.getdoc(getattr(rq, name)), name


def test_run_is_an_iterable_context() -> None:
    assert shape(rq.Run.create) == "(config, folder, name)"
    assert shape(rq.Run.resume) == "(folder, steps, base)"
    for method in ("__enter__", "__exit__", "__iter__", "play_step", "save", "close"):
        assert callable(getattr(rq.Run, method))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["minimal_loop", "custom_reward", "custom_task"])
def test_an_example_runs_as_it_stands(name: str, tmp_path: Path) -> None:
    script = REPOSITORY / "examples" / f"{name}.py"
    assert script.read_text().count("\n") <= 150
    assert len(run_script(script, tmp_path).out.splitlines()) >= 2
