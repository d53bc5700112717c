"""A domain of one's own: the class that the documentation shows is the one that the tests play."""

from pathlib import Path

from redqueen.config.stages import VerifyConfig
from redqueen.records import Attempt, Problem, Proposal
from redqueen.sandbox.pool import SandboxPool
from redqueen.stages.solve import grade_answers
from redqueen.stages.verify import verify_proposals
from redqueen.tasks import TaskKind, load_kind
from redqueen.tasks.prompts import load_prompt_format
from redqueen.tasks.prompts.compact import CompactFormat, write_blocks

ROOT = Path(__file__).parents[2]
NAME = "tests.outside.any_order:AnyOrder"


def test_the_documentation_shows_the_class_that_is_tested() -> None:
    code = (ROOT / "tests/outside/any_order.py").read_text().partition('"""\n\n')[2]
    assert f"```python\n{code}```" in (ROOT / "docs/extending.md").read_text()


def test_the_example_is_verified_and_graded_by_its_own_rule(pool: SandboxPool) -> None:
    kind: TaskKind = load_kind(NAME)
    text = write_blocks([("program", "def f(x):\n    return [x, 1, True, 'a']"), ("input", "7")])
    (problem,) = verify_proposals(
        [Proposal(NAME, text)], {NAME: kind}, CompactFormat(), pool, VerifyConfig()
    )
    assert isinstance(problem, Problem)
    answers = [
        "[7, 1, True, 'a']",
        "['a', True, 7, 1]",
        "[7, True, 'a']",
        "[7, 1, 1, 'a']",
        "(7, 1, True, 'a')",
        "nonsense(",
    ]
    attempts: list[Attempt] = grade_answers(
        [(problem, write_blocks([("output", answer)])) for answer in answers],
        {NAME: kind},
        CompactFormat(),
        pool,
        VerifyConfig(),
    )
    assert [attempt.verdict for attempt in attempts] == [
        "correct",
        "correct",
        "wrong",
        "wrong",
        "wrong",
        "malformed",
    ]
    chat = load_prompt_format("chat").render(kind.ask_answer(problem))
    assert (
        len(chat.before) == 1
        and "'abc'" in chat.before[0][0]
        and "['aa', 'cc', 'bb']" in chat.before[0][1]
    )
    assert "7, 1, True" not in CompactFormat().render(kind.ask_answer(problem)).text.replace(
        "[x, 1, True", ""
    )
