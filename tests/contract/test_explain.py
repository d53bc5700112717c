"""Who answers by its reasoning, and who does not: known members are told apart."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from redqueen.benchmarks.suite import Item
from redqueen.engine.text_sampler import OnText, TextCompletion, TextRequest
from redqueen.errors import ConfigError
from redqueen.evaluate.explain import explain
from redqueen.evaluate.replies import Model
from redqueen.evaluate.targets import Batch, Target
from redqueen.records import Rollout
from redqueen.sandbox.pool import SandboxPool
from redqueen.tasks.prompts.compact import CompactFormat
from tests.problems import code_problem
from tests.scripted import CountingEngine

_PROGRAM = "def f(x):\n    y = x + {n}\n    z = y * 2\n    return z\n"


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    with SandboxPool() as box:
        yield box


class Reasoners:
    """Slot 0 goes on from what is written and answers by it; slot 1 writes as the program runs and
    answers what it knows; slot 2 reasons wrongly and still knows the answer."""

    def sample(
        self, requests: Sequence[TextRequest], temperature: float, on_finish: OnText
    ) -> list[TextCompletion]:
        return [self._complete(request) for request in requests]

    def _complete(self, request: TextRequest) -> TextCompletion:
        prompt = request.prompt
        x, n = (int(re.findall(p, prompt.text)[0]) for p in (r">>input\n(\d+)", r"x \+ (\d+)"))
        begun = dict(re.findall(r"(\w) = (\d+)", prompt.prefix))
        y = int(begun.get("y", x + n))
        z = int(begun.get("z", 2 * y))
        if request.slot:
            z = 2 * (x + n)
        wrong = 1 if request.slot == 2 and not begun else 0
        lines = [f"y = {y + wrong}"] * ("y" not in begun) + [f"z = {z}"] * ("z" not in begun)
        text = prompt.prefix + "\n".join([*lines, ">>output", str(z), ">>end"])
        return TextCompletion(request, text, Rollout((), (), (), "stop"))


def target() -> Target:
    models = tuple(Model(name, slot) for slot, name in enumerate(("S0", "S1", "S2")))
    base = CountingEngine(1).base
    return Target("scripted", base, (Batch(Reasoners(), models),), CompactFormat(), "none")


def item(n: int, kind: str = "code_o") -> Item:
    problem = code_problem(_PROGRAM.format(n=n), ["3"], [str(2 * (3 + n))], kind)
    return Item(str(n), {"problem": problem}, kind)


def test_members_that_follow_ignore_or_contradict_their_reasoning_are_told_apart(
    pool: SandboxPool,
) -> None:
    follows, ignores, contradicts = explain(target(), [item(n) for n in range(12)], pool)
    assert (follows.correct, follows.agrees, follows.control) == (1, 1, 1)
    assert follows.probes == ignores.probes >= 10
    assert (follows.follows, follows.ignores) == (1, 0)
    assert (ignores.follows, ignores.ignores, ignores.agrees) == (0, 1, 1)
    assert (contradicts.agrees, contradicts.correct_if_departs) == (0, 1)
    assert contradicts.departs_at == 0 and contradicts.correct_if_agrees is None
    assert follows.to_json()["model"] == "S0"


def test_a_suite_without_traces_is_refused(pool: SandboxPool) -> None:
    with pytest.raises(ConfigError, match="no item of this suite has a trace"):
        explain(target(), [item(1, "code_i"), replace(item(2), fields={})], pool)
