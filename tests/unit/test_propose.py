"""What teachers are asked: every pairing, kind and prompt has its own stream, and its references
come from the archive."""

import pytest

from redqueen.config.stages import ProposeConfig
from redqueen.core.archive import Archive
from redqueen.errors import ConfigError
from redqueen.records import Member, Pairing, Problem
from redqueen.sandbox.inspection.complexity import Complexity
from redqueen.stages.propose import Request, requests
from redqueen.tasks import KINDS
from redqueen.tasks.code.deduction import CodeO
from redqueen.tasks.prompts.compact import CompactFormat


def problem(number: int, kind: str = "code_o") -> Problem:
    text = f"def f(x):\n    return x + {number}\n"
    return Problem(kind, text, ("1",), (str(number + 1),), text, Complexity(3, 1, 2, 1), 1)


PAIRINGS = [
    Pairing(
        Member(f"T{number}", "teacher", number), Member(f"S{number}", "student", 2 + number), 0.5
    )
    for number in range(2)
]
ARCHIVE = Archive(100, [problem(number) for number in range(20)])


def asked(
    step: int = 1,
    seed: int = 0,
    archive: Archive = ARCHIVE,
    config: ProposeConfig | None = None,
    **kinds: object,
) -> list[Request]:
    return requests(
        PAIRINGS,
        archive,
        kinds or dict(KINDS),  # type: ignore[arg-type]
        CompactFormat(),
        config or ProposeConfig(prompts=2, samples=3),
        seed,
        step,
    )


def test_every_teacher_writes_every_kind_from_several_prompts_and_several_times_from_each() -> None:
    found = asked()
    assert len(found) == 2 * 3 * 2 * 3
    assert len({request.seed for request in found}) == len(found)
    prompts = {request.prompt_number: request.prompt for request in found}
    assert sorted(prompts) == list(range(12))
    assert all(request.prompt == prompts[request.prompt_number] for request in found)


def test_equal_seeds_and_steps_ask_the_same_and_others_do_not() -> None:
    assert asked() == asked()
    assert not {one.seed for one in asked()} & {one.seed for one in asked(step=2)}
    assert not {one.seed for one in asked()} & {one.seed for one in asked(seed=1)}


def test_what_one_pairing_is_asked_does_not_depend_on_the_others() -> None:
    alone = requests(
        PAIRINGS[:1],
        ARCHIVE,
        dict(KINDS),
        CompactFormat(),
        ProposeConfig(prompts=2, samples=3),
        0,
        1,
    )
    assert alone == [request for request in asked() if request.pairing == 0]


def test_references_are_of_the_kinds_that_a_kind_understands() -> None:
    archive = Archive(100, [problem(1, "code_o"), problem(2, "code_f"), problem(3, "other")])
    for request in asked(archive=archive):
        assert 1 <= len(request.references) <= KINDS[request.kind].reference_count
        assert {one.kind for one in request.references} <= {
            request.kind,
            *KINDS[request.kind].reference_kinds,
        }


def test_a_kind_that_wants_no_references_gets_none() -> None:
    class Unprompted(CodeO):
        reference_count = 0

    assert all(request.references == () for request in asked(unprompted=Unprompted()))


def test_an_empty_archive_stops_no_kind_that_can_do_without() -> None:
    assert all(request.references == () for request in asked(archive=Archive(1), code_o=CodeO()))


def test_induction_without_a_program_to_begin_from_says_what_to_do() -> None:
    with pytest.raises(
        ConfigError,
        match=r"code_f takes its programs from the archive, which has none.*archive\.seeds",
    ):
        asked(archive=Archive(9, [problem(1, "other")]), code_f=KINDS["code_f"])
