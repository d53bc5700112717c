"""What problems look like: surfaces, drift metrics, spoilt evidence."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from redqueen.benchmarks.suite import BASE
from redqueen.evaluate.suites import load_suite
from redqueen.tasks import load_kind
from redqueen.tasks.prompts.compact import write_blocks
from redqueen.tasks.surface import WATCHED, Surface, foreign_letters, is_shown, measure_drift
from tests.problems import code_problem
from tests.scripted import (
    Script,
    Stopped,
    TrustingSandbox,
    play,
    scripted_run,
    student,
    teacher,
)

LOOP = "def f(words):\n    total = 0\n    for word in words:\n        total += len(word)\n    return total\n"


def test_an_answer_is_shown_where_it_stands_as_a_whole() -> None:
    assert is_shown("[1, 2]", "f([1, 2])") and is_shown("abc", "x abc abcd")
    assert not is_shown("123", "a1234") and not is_shown("0", "f(0)")


def test_the_surface_of_a_program_tells_types_names_and_echoes() -> None:
    problem = code_problem(LOOP, ["['a', 'bc']"], ["3"])
    surface = load_kind("code_o").surface(problem)
    assert surface["answer_type"] == "int" and surface["first_argument"] == "words"
    assert (surface["answer_echo"], surface["answer_trivial"], surface["constants"]) == (0, 0, 1)
    echo = code_problem("def f(x):\n    return x\n", ["[]"], ["[]"])
    surface = load_kind("code_o").surface(echo)
    assert (surface["answer_echo"], surface["answer_trivial"]) == (1, 1)
    assert surface["answer_type"] == "list"


def test_a_message_that_has_a_line_of_the_program_is_seen() -> None:
    inputs, outputs = [str(n) for n in range(8)], [str(3 * n + 1) for n in range(8)]
    program = "def f(number):\n    return 3 * number + 1\n"
    for message, tells in (("it grows", 0.0), ("it is 3 * number + 1", 1.0)):
        problem = code_problem(program, inputs, outputs, "code_f", message)
        assert load_kind("code_f").surface(problem)["message_tells"] == tells


def test_every_metric_that_a_kind_has_can_be_watched() -> None:
    surfaces = [
        (item.kind, load_kind(item.kind).surface(item.fields["problem"]))
        for suite in ("heldout-quick", "heldout-logic")
        for item in load_suite(suite).items(None, None)
    ]
    measured = measure_drift(surfaces, {"teacher": ["ab"]})
    assert {name.split("/")[1] for name in measured} == WATCHED


def test_drift_is_measured_by_kind_and_role() -> None:
    surfaces: list[tuple[str, Surface]] = [
        ("a", {"n": 1.0, "t": "x"}),
        ("a", {"n": 3.0, "t": "x"}),
        ("b", {"n": 5.0}),
    ]
    metrics = measure_drift(surfaces, {"teacher": ["ab"], "student": []})
    assert metrics == {
        "drift/n/a": 2.0, "drift/t_top/a": 1.0, "drift/n/b": 5.0, "drift/foreign/teacher": 0.0,
    }  # fmt: skip
    assert foreign_letters(["ab", "因为"]) == 0.5


def _writes(program: Callable[[int], str]) -> Script:
    """A teacher of problems that all look alike."""
    return lambda prompt, rng: write_blocks(
        [("program", program(rng.getrandbits(40))), ("input", "3")]
    )


@pytest.mark.parametrize(("most", "ends"), [(0.5, 3), (1.0, 6)])
def test_a_world_ends_when_its_answers_stay_trivial(tmp_path: Path, most: float, ends: int) -> None:
    zero = _writes(lambda n: f"def f(x):\n    level = 0.0\n    return x * {n} * 0")
    settings = ("steps=6", f"stop.drift.answer_trivial={most}", "stop.drift_steps=3")
    with scripted_run(tmp_path, TrustingSandbox(), [zero], [student(0)], settings) as run:
        try:
            play(run, 2)
            assert run.worlds[0].steps_adrift == {"answer_trivial": 2 if most < 1 else 0}
        except Stopped:
            raise AssertionError("too early") from None
    with scripted_run(tmp_path, TrustingSandbox(), [zero], [student(0)], settings) as run:
        if ends < 6:
            with pytest.raises(Stopped, match=r"drift/answer_trivial. was above 0.5 for 3 steps"):
                play(run)
        else:
            play(run)
        assert run.step == ends


def test_a_threshold_for_one_kind_leaves_others_alone(tmp_path: Path) -> None:
    settings = ("steps=3", "stop.drift={'answer_top/code_i' = 0.1}", "stop.drift_steps=1")
    with scripted_run(tmp_path, TrustingSandbox(), [teacher(0)], [student(0)], settings) as run:
        play(run)
        assert run.worlds[0].steps_adrift == {}


def test_spoilt_evidence_shows_other_lines_and_keeps_the_gold_answer() -> None:
    suite = load_suite("shortcut")
    items = suite.items(None, 30)
    whole = {item.id: item for item in load_suite("heldout-quick").items(None, 30)}
    assert {item.kind for item in items} == {"code_o", "code_i", "code_f"}
    for item in items:
        problem = item.fields["problem"]
        assert problem == whole[item.id].fields["problem"]
        asked = load_kind(item.kind).ask_answer(problem)
        spoilt = item.fields["request"]
        assert spoilt != asked and spoilt.instruction == asked.instruction
        assert suite.prompt(item, BASE).text
    assert suite.items(None, 30) == items


@pytest.mark.parametrize("kind", ["logic"])
def test_a_puzzle_with_other_variables_has_another_solution(kind: str) -> None:
    logic = load_kind(kind)
    changed = 0
    for payload in logic.seeds():
        problem = logic.verified(payload, None, None).problem(kind)  # type: ignore[arg-type]
        request = logic.without_evidence(problem, Random(1))
        if request is not None:
            blocks = [("puzzle", dict(request.given)["puzzle"])]
            spoilt = logic.verified(logic.read_proposal(blocks, ()), None, None)  # type: ignore[arg-type]
            changed += spoilt.gold != problem.gold
    assert changed >= 3
