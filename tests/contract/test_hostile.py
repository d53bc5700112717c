"""Every hostile program gets the correct verdict, harms nothing, and leaves the pool alive, with all
walls and with fewer."""

from pathlib import Path

import pytest

from redqueen.config.sandbox import SandboxConfig, Wall
from redqueen.sandbox import Job, Limits
from redqueen.sandbox.pool import SandboxPool
from tests.contract.hostile import ENV_NAME, ENV_SECRET, Case, canaries, is_correct, load_cases

pytestmark = pytest.mark.slow

LIMITS = Limits(cpu_s=0.5, memory_mb=128)
ENDLESS = Limits(cpu_s=0.15, memory_mb=128)
"""For programs that a limit is to end: most of them spin until it does."""


def wrong_verdicts(pool: SandboxPool, cases: list[Case], tmp_path: Path) -> list[str]:
    with canaries(tmp_path) as target:
        outcomes = pool.run(
            [
                Job(
                    target.fill(case.program),
                    (target.fill(case.input),),
                    stable=True,
                    limits=ENDLESS if case.verdict in ("ERROR", "TIMEOUT") else LIMITS,
                )
                for case in cases
            ]
        )
        wrong = [
            f"{case.name}: {case.verdict}, got {outcome.kind} {outcome.results[0].text[:80]}"
            for case, outcome in zip(cases, outcomes, strict=True)
            if not is_correct(target.fill(case.verdict), outcome)
        ]
        return wrong + target.find_traces()


@pytest.mark.parametrize(
    "without", [(), ("namespaces", "landlock")], ids=["all walls", "seccomp alone"]
)
def test_every_hostile_program_gets_its_verdict_and_harms_nothing(
    without: tuple[Wall, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENV_NAME, ENV_SECRET)
    with SandboxPool(SandboxConfig(workers=2, without=without)) as pool:
        assert wrong_verdicts(pool, load_cases(), tmp_path) == []
        assert pool.restarts == 0
        after = pool.run([Job("def f(x): return [repr(x), type(x) is int]", ("5",), stable=True)])
        assert after[0].values == ("['5', True]",)


def test_the_case_file_is_whole() -> None:
    cases = load_cases()
    assert len(cases) > 250
    assert len({case.name for case in cases}) == len(cases)
