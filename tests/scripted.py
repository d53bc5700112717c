"""Members that follow a script, and an engine that only keeps count: the loop itself, with known
skills and no model.

A scripted problem says how hard it is (`level = 3`) and what it adds; a scripted student of some
skill knows the answer with the chance that level and skill give it.
"""

import ast
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Self

from redqueen.config.schema import Config
from redqueen.config.toml import load_config, to_toml
from redqueen.core.build import Parts, build_worlds
from redqueen.core.pipeline import Ports
from redqueen.core.run import Run
from redqueen.engine.protocol import (
    Adapter,
    BaseInfo,
    Completion,
    LoraPair,
    Loss,
    OnFinish,
    OptimizerSettings,
    Sampler,
    SampleRequest,
    SamplingParams,
    SlotStats,
    StepStats,
    Tokenizer,
    TrainSample,
    TrainStats,
)
from redqueen.engine.text_sampler import OnText, TextCompletion, TextRequest
from redqueen.ledger.checkpoint import Checkpoints
from redqueen.ledger.store import Ledger
from redqueen.records import Rollout
from redqueen.sandbox import Inspection, Job, Outcome, Result, Sandbox
from redqueen.sandbox.inspection.canonical import canonical_program
from redqueen.sandbox.inspection.complexity import measure
from redqueen.sandbox.protocol import Kind
from redqueen.tasks import load_kinds
from redqueen.tasks.prompts.compact import CompactFormat, write_blocks

Script = Callable[[str, Random], str]
"""From a prompt and a random stream: a text."""

SMALL = (
    "tasks.kinds=['code_o']",
    "propose.prompts=1",
    "propose.samples=4",
    "solve.attempts=4",
    "evolve.every=0",
    "evaluate.suite=",
    "tasks.prompt_format=compact",
)


def chance(skill: float, level: float) -> float:
    """That a student of this skill solves a problem of this level."""
    return 1 / (1 + math.exp(level - skill))


def teacher(*levels: float, valid: float = 1.0) -> Script:
    """Proposes problems of these levels, any of them as often; some are no problems at all."""

    def write(prompt: str, rng: Random) -> str:
        if rng.random() > valid:
            return "I have no idea"
        program = (
            f"def f(x):\n    level = {rng.choice(levels)}\n    return x + {rng.getrandbits(40)}"
        )
        return write_blocks([("program", program), ("input", str(rng.randint(1, 9)))])

    return write


def student(skill: float) -> Script:
    """Knows the answer as often as its skill says; where it does not, it is one off."""

    def write(prompt: str, rng: Random) -> str:
        parts = re.search(r"level = (\S+)\n    return x \+ (\d+)\n>>input\n(\d+)", prompt)
        if parts is None:  # a seed of the archive, in an exam
            return write_blocks([("output", "0")])
        off = 0 if rng.random() < chance(skill, float(parts[1])) else 1
        return write_blocks([("output", str(int(parts[2]) + int(parts[3]) + off))])

    return write


def both(proposes: Script, solves: Script) -> Script:
    """One member with two roles."""
    return lambda prompt, rng: (proposes if prompt.startswith(">>teacher") else solves)(prompt, rng)


def player(**roles: Script) -> Script:
    """A member that plays each role of a game by a script of its own."""

    def write(prompt: str, rng: Random) -> str:
        role = prompt.removeprefix(">>").partition(" ")[0]
        return roles[role](prompt, rng)

    return write


class ScriptedSampler:
    """Slots write by their scripts; the last texts are given first, as a model may do."""

    def __init__(self, scripts: Mapping[int, Script]) -> None:
        self.scripts = scripts

    def sample(
        self, requests: Sequence[TextRequest], temperature: float, on_finish: OnText
    ) -> list[TextCompletion]:
        completions = [self.complete(request) for request in requests]
        for completion in reversed(completions):
            on_finish([completion])
        return completions

    def complete(self, request: TextRequest) -> TextCompletion:
        text = self.scripts[request.slot](request.prompt.text, Random(request.seed))
        tokens = tuple(text.encode())
        return TextCompletion(request, text, Rollout((1,), tokens, (-0.5,) * len(tokens), "stop"))


class CountingEngine:
    """Every slot is a number, to which what it learns is added."""

    def __init__(self, slots: int) -> None:
        self.weights = [0.0] * slots
        self.grads: list[list[float]] = [[] for _ in range(slots)]

    def sample(
        self,
        requests: Sequence[SampleRequest],
        sampling: SamplingParams,
        on_finish: OnFinish = lambda finished: None,
    ) -> list[Completion]:
        raise AssertionError("scripted members do not come here")

    def accumulate(self, samples: Sequence[TrainSample], loss: Loss, kl: float = 0.0) -> TrainStats:
        """The gradient of a sample is its advantage times the sum of its tokens."""
        by_slot: dict[int, list[TrainSample]] = {}
        for sample in samples:
            if sample.has_gradient:
                by_slot.setdefault(sample.slot, []).append(sample)
        for slot, own in by_slot.items():
            for sample in own:
                assert isinstance(sample.advantage, float)
                self.grads[slot].append(sample.advantage * sum(sample.completion))
        stats = {
            slot: SlotStats(
                len(own), sum(len(one.completion) for one in own), 0.0, 0.5, 0.0, 0.0, 0.0, 0.0
            )
            for slot, own in by_slot.items()
        }
        return TrainStats(stats, 0, 0.0, 0.0, 0.0, 0.0)

    def step(self, slots: Mapping[int, OptimizerSettings]) -> StepStats:
        for slot, settings in slots.items():
            for grad in self.grads[slot]:
                self.weights[slot] += settings.learning_rate * grad
        self.grads = [[] for _ in self.weights]
        return StepStats(dict.fromkeys(slots, 1.0), frozenset())

    @property
    def slots(self) -> int:
        return len(self.weights)

    @property
    def parameters_each(self) -> int:
        return 1

    @property
    def base(self) -> BaseInfo:
        return BaseInfo("none", "", 0, "float32", "cpu", "no hardware", "compact", False, 1 << 30)

    @property
    def tokenizer(self) -> Tokenizer:
        raise AssertionError("scripted members do not come here")

    def bare(self) -> Sampler:
        raise AssertionError("scripted members do not come here")

    def checkpointed(self, folder: Path) -> None:
        pass

    def close(self) -> None:
        pass

    def new(self, slot: int, seed: int) -> None:
        self.weights[slot] = 0.0

    def read(self, slot: int) -> Adapter:
        import torch

        pair = LoraPair(torch.ones(4, 2), torch.full((2, 4), self.weights[slot]))
        return Adapter({"q": pair}, 2, 2)

    def write(self, slot: int, adapter: Adapter, *, reset_optimizer: bool) -> None:
        a, b = adapter.projections["q"]
        self.weights[slot] = float((a @ b).mean()) / 2

    def copy_optimizer(self, source: int, target: int) -> None:
        raise AssertionError("there is no optimizer state")

    def distances(self, first: int, count: int) -> list[list[float]]:
        mine = self.weights[first : first + count]
        return [[abs(one - other) for other in mine] for one in mine]

    def save(self, folder: Path, names: Mapping[int, str]) -> list[Path]:
        weights = {name: self.weights[slot] for slot, name in names.items()}
        (folder / "weights.json").write_text(json.dumps(weights))
        return [Path("weights.json")]

    def load(self, folder: Path, names: Mapping[int, str]) -> None:
        weights = json.loads((folder / "weights.json").read_text())
        for slot, name in names.items():
            self.weights[slot] = weights[name]


class TrustingSandbox:
    """Runs the scripts' programs where it stands, for tests of many steps: there is nothing hostile
    in them."""

    def run(self, jobs: Sequence[Job]) -> list[Outcome]:
        return [self._run(job) for job in jobs]

    def close(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def _run(self, job: Job) -> Outcome:
        space: dict[str, Any] = {}
        exec(job.program, space)
        results = []
        for text in job.inputs:
            try:
                results.append(Result("value", repr(space["f"](*ast.literal_eval(f"({text},)")))))
            except (TypeError, ValueError, IndexError, KeyError, ZeroDivisionError) as error:
                results.append(Result("error", type(error).__name__))
        kind: Kind = next((result.kind for result in results if result.kind != "value"), "value")
        tree = ast.parse(job.program)
        return Outcome(
            kind,
            tuple(results),
            inspection=Inspection(canonical_program(tree), measure(tree, job.program)),
            steps=len(job.inputs),
        )


@dataclass(frozen=True)
class ScriptedArm:
    """A world of a run whose members follow the scripts."""

    name: str
    teachers: Sequence[Script]
    students: Sequence[Script]
    settings: Sequence[str] = ()

    def config(self) -> Config:
        teachers, students = len(self.teachers), len(self.students)
        sizes = [f"population.teachers={teachers}", f"population.students={students}"]
        return load_config(None, [*SMALL, *sizes, *self.settings])


@contextmanager
def scripted_run(
    folder: Path,
    sandbox: Sandbox,
    teachers: Sequence[Script],
    students: Sequence[Script],
    settings: Sequence[str] = (),
) -> Iterator[Run]:
    """A run of one world in the folder, new or to be resumed."""
    arm = ScriptedArm("run", teachers, students, settings)
    with scripted_worlds(folder, sandbox, [arm]) as run:
        yield run


@contextmanager
def scripted_worlds(
    folder: Path, sandbox: Sandbox, scripted: Sequence[ScriptedArm], mixes_worlds: bool = False
) -> Iterator[Run]:
    """A run of several worlds in the folder, new or to be resumed."""
    arms = [(arm.name, arm.config()) for arm in scripted]
    config = arms[0][1]
    scripts: dict[int, Script] = {}
    slots = 0
    for arm, (_, own) in zip(scripted, arms, strict=True):
        scripts |= dict(enumerate([*arm.teachers, *arm.students], slots))
        slots += own.slots
    ports = Ports(
        ScriptedSampler(scripts),
        CountingEngine(slots),
        sandbox,
        load_kinds(*config.tasks.kinds),
        CompactFormat(),
        ThreadPoolExecutor(1),
    )
    new = not (folder / "run.sqlite").exists()
    about = {"config": to_toml(config), "base": "none", "steps": str(config.steps)}
    rows = [
        {"world": number, "arm": name, "seed": own.seed, "config": own.model_dump_json()}
        for number, (name, own) in enumerate(arms)
    ]
    with Ledger.create(folder, about, rows) if new else Ledger.open(folder) as ledger:
        checkpoints = Checkpoints(folder, config.ledger.keep)
        parts = Parts(config, build_worlds(arms, ports), ports, ledger, checkpoints, mixes_worlds)
        with Run(parts, ExitStack()) as run:
            run.begin() if new else run.restore()
            yield run
        ports.background.shutdown()


def play(run: Run, until: int | None = None) -> None:
    """Its steps, all or up to one."""
    if until is None or run.step < until:
        for step in run:
            if step.number == until:
                break
    if run.stop_reason:
        raise Stopped(run.stop_reason)


class Stopped(Exception):
    """The run has nothing left to learn from."""
