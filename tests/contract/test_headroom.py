"""What reinforcement moves in accuracy given reasoning."""

import pytest

from redqueen.evaluate import headroom
from redqueen.evaluate.headroom import Headroom, make_problems, measure_headroom
from redqueen.pawn.heldout import load_suite
from redqueen.pawn.programs import is_reserved, program_key


def test_problems_to_learn_from_are_fresh_in_every_step_and_never_reserved() -> None:
    first, again, other = (make_problems(6, (4, 7), 0, step) for step in (1, 1, 2))
    assert [problem.key for problem in first] == [problem.key for problem in again]
    assert {problem.key for problem in first}.isdisjoint(problem.key for problem in other)
    assert not any(is_reserved(program_key(problem.payload.program)) for problem in first)


@pytest.mark.slow
def test_every_seed_and_rate_learns_and_is_measured_beside_the_base(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(headroom, "load_large", lambda: load_suite("heldout-deduction"))
    settings = Headroom(
        device="cpu",
        seeds=2,
        rates=(0.0, 1e-3),
        steps=2,
        problems=2,
        attempts=2,
        items=4,
        every=1,
        workers=1,
    )
    result = measure_headroom(settings)
    assert [(level.step, level.slot) for level in result.levels] == [
        (step, slot) for step in (1, 2) for slot in range(4)
    ]
    assert result.gains(0, 2) == [0.0, 0.0]  # at rate 0 nothing moves
    assert all(len(rates) == 2 and min(rates) >= 0 for rates in result.sampled.values())
    assert all(own["reasons"] == 1 for own in result.free.values())
    assert {"free", "forced", "curves", "sampled"} == set(result.to_json())
