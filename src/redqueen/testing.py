"""Contract tests for plug-ins: call one from your own test suite with what you supply.

    from redqueen.testing import check_kind, check_registry

    def test_my_kind() -> None:
        check_kind("my_package.tasks:Sums", proposals=[">>sum\\n1 + 2\\n>>end"], answers=[...])

Every check raises AssertionError with what is wrong.
"""

import dataclasses
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from redqueen.config.registry import table
from redqueen.config.stages import VerifyConfig
from redqueen.engine.protocol import (
    Completion,
    Engine,
    OptimizerSettings,
    SampleRequest,
    SamplingParams,
    TrainSample,
)
from redqueen.errors import ConfigError
from redqueen.models.peft_io import load_adapter
from redqueen.records import Problem, Proposal
from redqueen.sandbox import Sandbox
from redqueen.sandbox.pool import SandboxPool
from redqueen.stages.solve import grade_answers
from redqueen.stages.update.losses import LOSSES, bind_loss
from redqueen.stages.verify import verify_proposals
from redqueen.tasks import RunRules, TaskKind, load_kind
from redqueen.tasks.kind import load_problem, problem_fields
from redqueen.tasks.prompts import load_prompt_format


def check_registry(what: str, choice: Any) -> None:
    """A row of an open table, by name, import path or settings: it can be chosen, is refused with a
    wrong setting, and its settings survive JSON."""
    registry = table(what)
    chosen = registry.choose(choice)
    assert registry[chosen.type] is not None
    again = registry.choose(json.loads(chosen.model_dump_json()))
    assert again == chosen, f"the settings of {chosen.type} change when they are stored"
    try:
        registry.choose({**chosen.model_dump(), "no_such_setting": 1})
    except ConfigError:
        return
    raise AssertionError(f"{chosen.type} takes settings that it does not have")


def check_kind(
    name: str,
    proposals: Sequence[str],
    answers: Sequence[str] = (),
    wrong: Sequence[str] = (),
    prompt_format: str = "compact",
    sandbox: Sandbox | None = None,
) -> list[Problem]:
    """A task kind plays both sides on written texts. All proposals must be valid, different
    problems; the answers, one for each, correct; the wrong ones not. The problems are returned."""
    kind, prompts = load_kind(name), load_prompt_format(prompt_format)
    own = None if sandbox is not None else SandboxPool()
    try:
        box = sandbox or own
        assert box is not None
        posed = [Proposal(name, text) for text in proposals]
        verdicts = verify_proposals(posed, {name: kind}, prompts, box, VerifyConfig())
        problems = [verdict for verdict in verdicts if isinstance(verdict, Problem)]
        assert len(problems) == len(proposals), f"not all proposals are problems: {verdicts}"
        for problem in problems:
            _check_problem(problem, name)
            shown = prompts.render(kind.ask_answer(problem)).text
            assert shown, "a student is shown nothing"
        for texts, verdict in ((answers, True), (wrong, False)):
            assert not texts or len(texts) == len(problems), "one answer for each proposal"
            pairs = list(zip(problems, texts, strict=False))
            attempts = grade_answers(pairs, {name: kind}, prompts, box, VerifyConfig())
            for attempt in attempts:
                correct = attempt.verdict == "correct"
                assert correct == verdict, f"{attempt.text!r} is {attempt.verdict}"
        for problem, text in zip(problems, answers, strict=False):
            answer = kind.read_answer(prompts.parse(text, kind.answer_blocks))
            _check_jobs(problem, kind, answer)
        for garbage in ("", "\x00", "<answer></answer>", ">>" * 1000):
            (attempt,) = grade_answers(
                [(problems[0], garbage)], {name: kind}, prompts, box, VerifyConfig()
            )
            assert attempt.verdict != "correct", f"{garbage!r} is a correct answer"
        return problems
    finally:
        if own is not None:
            own.close()


def _check_problem(problem: Problem, name: str) -> None:
    kind = load_kind(name)
    assert dataclasses.is_dataclass(problem.payload), "a payload is a dataclass"
    fields = json.loads(json.dumps(problem_fields(problem)))
    assert load_problem(fields, kind) == problem, "a problem changes when it is stored"
    for text in (kind.cell(problem), kind.structure(problem)):
        assert isinstance(text, str) and text, "cell and structure are texts"
    assert kind.show(problem), "there is nothing to show of a problem"
    assert all(isinstance(value, int | float) for value in problem.features.values())


def _check_jobs(problem: Problem, kind: TaskKind, answer: str) -> None:
    rules = RunRules.of(VerifyConfig())
    verification = kind.verification(problem.payload, rules)
    grading = kind.grading(problem, answer, rules)
    if verification is not None and grading is not None:
        same = dataclasses.replace(
            grading, program=verification.program, inputs=verification.inputs
        )
        assert same == verification, (
            "a program can tell verification from grading: make both jobs with rules.job"
        )


def check_engine(engine: Engine, prompt: Sequence[int] = (1, 2, 3)) -> None:
    """An engine with at least two slots: samples repeat with their seed, members are independent,
    adapters can be read and written."""
    assert engine.slots >= 2, "the check needs two adapter slots"
    for slot in (0, 1):
        engine.new(slot, seed=slot)
    requests = [SampleRequest(tuple(prompt), 8, slot=0, seed=seed) for seed in (1, 2, 1)]
    finished: list[int] = []
    completions = engine.sample(
        requests, SamplingParams(), lambda done: finished.extend(number for number, _ in done)
    )
    assert sorted(finished) == [0, 1, 2], "every request is finished once"
    assert completions[0] == completions[2], "equal seeds give equal completions"
    assert all(len(one.tokens) == len(one.logprobs) for one in completions)
    adapter = engine.read(1)
    engine.write(0, adapter, reset_optimizer=True)
    assert engine.distances(0, 2)[0][1] < 1e-6, "what was written is not what is read"
    stats = engine.step({0: OptimizerSettings()})
    assert not stats.diverged, "a step without gradients diverged"
    assert engine.distances(0, 2)[0][1] < 1e-6, "a step without gradients changes weights"
    _check_learning(engine, requests[0], completions[0])
    _check_saving(engine)


def _check_learning(engine: Engine, request: SampleRequest, completion: Completion) -> None:
    sample = TrainSample(
        0, request.prompt, completion.tokens, 1.0, completion.logprobs, temperature=1.0
    )
    trained = engine.accumulate([sample], bind_loss(LOSSES.choose("reinforce")))
    assert set(trained.slots) <= {0}, "a member without samples was trained"
    stepped = engine.step({0: OptimizerSettings(learning_rate=1e-3)})
    assert set(stepped.grad_norms) == {0}


def _check_saving(engine: Engine) -> None:
    names = {0: "0/S0", 1: "0/S1"}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        before = engine.distances(0, 2)
        written = engine.save(folder, names)
        assert written and all((folder / file).is_file() for file in written)
        for member in names.values():
            load_adapter(folder / "adapters" / member)  # readable without the engine
        for slot in names:
            engine.new(slot, seed=99 + slot)
        engine.load(folder, names)
        assert engine.distances(0, 2) == before, "what is loaded is not what was saved"
