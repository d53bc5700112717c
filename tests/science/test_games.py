"""Games between scripted members of known skill: what each role earns, and that ratings by role
order them."""

import re
import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import pytest

import redqueen as rq
from redqueen.ledger.row_types import TurnRow
from redqueen.tasks.prompts.compact import write_blocks
from tests.outside import critics
from tests.scripted import Script, TrustingSandbox, play, player, scripted_run, teacher

SETTINGS = (
    "propose.samples=4",
    "solve.attempts=4",
    "evolve.exam.problems=0",
    "ledger.checkpoint_every=100",
)
GAMES = "games={race=0.1, critique=0.3, repair=0.3, debate=0.3}"


def blocks(prompt: str) -> dict[str, str]:
    return dict(re.findall(r"^>>(\w+)\n(.*?)\n(?=>>)", prompt, re.M | re.S))


def gold(prompt: str) -> int:
    program = blocks(prompt)
    added = re.search(r"return x \+ (\d+)", program["program"])
    assert added
    return int(added[1]) + int(program["input"])


def solver(prompt: str, rng: Random) -> str:
    """Solves half of the problems."""
    answer = gold(prompt) + (rng.random() < 0.5)
    return f">>think\nI add them up.\nIt is {answer}.\n" + write_blocks([("output", str(answer))])


def critic(says: Callable[[bool, Random], bool]) -> Script:
    """From whether the attempt is correct: whether it says so."""

    def write(prompt: str, rng: Random) -> str:
        correct = blocks(prompt)["answer"] == str(gold(prompt))
        return write_blocks([("verdict", "correct" if says(correct, rng) else "wrong, line 2")])

    return write


def adviser(skill: float) -> Script:
    """Tells the right answer as often as this says, else a wrong one."""

    def write(prompt: str, rng: Random) -> str:
        answer = gold(prompt) + (rng.random() >= skill)
        verdict = "correct" if blocks(prompt)["answer"] == str(answer) else "wrong"
        return write_blocks([("critique", f"It is {answer}."), ("verdict", verdict)])

    return write


def repairer(trusts: float) -> Script:
    """Takes over what a critique says as often as this, else keeps its answer."""

    def write(prompt: str, rng: Random) -> str:
        given = blocks(prompt)
        told = given["critique"].removeprefix("It is ").removesuffix(".")
        answer = told if rng.random() < trusts else given["answer"]
        return write_blocks([("output", answer)])

    return write


def debater(skill: float) -> Script:
    """Convinces, by its argument, as often as this says."""
    return lambda prompt, rng: write_blocks(
        [("argument", "strong" if rng.random() < skill else "weak")]
    )


def judge(skill: float) -> Script:
    """Finds the correct answer as often as this says, whatever is argued."""

    def write(prompt: str, rng: Random) -> str:
        first = blocks(prompt)["first_answer"] == str(gold(prompt))
        right = rng.random() < skill
        return write_blocks([("verdict", "first" if first == right else "second")])

    return write


def swayed(prompt: str, rng: Random) -> str:
    """A judge that goes by the arguments alone."""
    given = blocks(prompt)
    strong = [given[f"{side}_argument"] == "strong" for side in ("first", "second")]
    side = rng.choice(["first", "second"]) if strong[0] == strong[1] else None
    return write_blocks([("verdict", side or ("first" if strong[0] else "second"))])


def honest(skill: float) -> Script:
    """Finds out whether an attempt is correct as often as this says."""
    return critic(lambda correct, rng: correct if rng.random() < skill else not correct)


LAZY = critic(lambda correct, rng: True)
SULLEN = critic(lambda correct, rng: False)
CONTRARIAN = critic(lambda correct, rng: not correct)
MUMBLES = lambda prompt, rng: write_blocks([("verdict", "perhaps")])  # noqa: E731


def earned(turns: Sequence[TurnRow], role: str) -> dict[str, float]:
    """The mean reward of each member in a role."""
    rewards: dict[str, list[float]] = defaultdict(list)
    for turn in turns:
        if turn["role"] == role:
            rewards[turn["member"]].append(turn["reward"])
    return {member: statistics.fmean(all_) for member, all_ in rewards.items()}


def ratings(run: rq.RunReader, role: str) -> list[str]:
    """Members from the best to the worst in a role."""
    rows = [row for row in run.role_ratings() if row["step"] == run.steps and row["role"] == role]
    return [row["member"] for row in sorted(rows, key=lambda row: -row["mu"])]


def played(folder: Path, students: Sequence[Script], *settings: str) -> rq.RunReader:
    with scripted_run(
        folder, TrustingSandbox(), [teacher(0.0)] * 2, students, [*SETTINGS, *settings]
    ) as run:
        play(run)
    return rq.open_run(folder)


@pytest.mark.slow
def test_a_lazy_critic_and_a_contrarian_end_below_an_honest_one(tmp_path: Path) -> None:
    critics = [honest(0.9), LAZY, SULLEN, CONTRARIAN, MUMBLES]
    students = [player(student=solver, critic=script) for script in critics]
    with played(tmp_path / "run", students, "steps=30", "games={critique=1}") as run:
        turns = run.turns()
        rewards = earned(turns, "critic")
        order = ratings(run, "critic")
    assert rewards["S0"] == pytest.approx(0.8, abs=0.15)
    assert rewards["S1"] == rewards["S2"] == 0.0  # whoever says the same of all
    assert rewards["S3"] == rewards["S4"] == -1.0
    assert order[0] == "S0" and set(order[1:3]) == {"S1", "S2"}
    truths = [turn["truth"] for turn in turns if turn["truth"]]
    assert truths.count("correct") == truths.count("wrong") > 50
    authors = {(turn["step"], turn["proposal"]): turn["member"] for turn in turns}
    with rq.open_run(tmp_path / "run") as run:
        for attempt in run.attempts():
            assert authors.get((attempt["step"], attempt["proposal"])) != attempt["student"]


@pytest.mark.slow
def test_ratings_order_critics_by_their_skill(tmp_path: Path) -> None:
    skills = [0.95, 0.5, 0.8, 0.65]
    students = [player(student=solver, critic=honest(skill)) for skill in skills]
    with played(tmp_path / "run", students, "steps=40", "games={critique=1}") as run:
        assert ratings(run, "critic") == ["S0", "S2", "S3", "S1"]


@pytest.mark.slow
def test_ratings_order_those_who_give_and_take_advice_by_what_it_gains(tmp_path: Path) -> None:
    """Half of the attempts are wrong: advice that is always right gains half a point, and whoever
    never follows it gains nothing."""
    advisers = [
        player(student=solver, adviser=adviser(s), repairer=repairer(1.0)) for s in (1, 0.5, 0)
    ]
    with played(tmp_path / "advice", advisers, "steps=25", "games={repair=1}") as run:
        turns = run.turns()
        gains = earned(turns, "adviser")
        assert ratings(run, "adviser") == ["S0", "S1", "S2"]
    assert gains["S0"] == pytest.approx(0.25) and gains["S2"] == pytest.approx(-0.25)
    trust = [
        player(student=solver, adviser=adviser(0.9), repairer=repairer(t)) for t in (0.9, 0.0, 0.5)
    ]
    with played(tmp_path / "trust", trust, "steps=25", "games={repair=1}") as run:
        assert earned(run.turns(), "repairer")["S1"] == 0.0
        assert ratings(run, "repairer") == ["S0", "S2", "S1"]


@pytest.mark.slow
def test_ratings_order_judges_by_what_they_find_and_debaters_by_whom_they_convince(
    tmp_path: Path,
) -> None:
    skills = [1.0, 0.5, 0.75, 0.0]
    judges = [player(student=solver, debater=debater(0.5), judge=judge(s)) for s in skills]
    with played(tmp_path / "judges", judges, "steps=40", "games={debate=1}") as run:
        rewards = earned(run.turns(), "judge")
        assert rewards["S0"] == 1.0 and rewards["S3"] == -1.0
        assert ratings(run, "judge") == ["S0", "S2", "S1", "S3"]
    speakers = [player(student=solver, debater=debater(s), judge=swayed) for s in (0.9, 0.1, 0.5)]
    with played(tmp_path / "speakers", speakers, "steps=40", "games={debate=1}") as run:
        assert ratings(run, "debater") == ["S0", "S2", "S1"]
        for turn in run.turns():
            pay = {"correct": (1.0, 0.0, -1.0), "wrong": (0.5, 0.0, -0.5)}
            if turn["role"] == "debater":
                assert turn["reward"] in pay[turn["verdict"]]


def everything(skill: float) -> Script:
    return player(
        student=solver,
        critic=honest(skill),
        adviser=adviser(skill),
        repairer=repairer(skill),
        debater=debater(skill),
        judge=judge(skill),
    )


@pytest.mark.slow
def test_critics_learn_to_tell_correct_from_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From chance to three quarters, by policy gradients on balanced pairs alone; the base stays
    at chance."""
    monkeypatch.setattr("tests.outside.engine._is_correct", critics.is_right)
    config = rq.load_config(
        steps=30,
        base="none",
        engine={"type": "tests.outside.critics:CriticEngine"},
        sandbox={"type": "tests.outside.things:NoSandbox"},
        tasks={"kinds": ["examples.custom_task:Sums"]},
        archive={"seeds": "tests.outside.seeds:one_sum"},
        games={"critique": {"samples": 4}},
        population={"teachers": 1, "students": 2},
        propose={"prompts": 1, "samples": 8},
        solve={"attempts": 4},
        update={"learning_rate": 0.2, "teacher_learning_rate": 0},
        evolve={"every": 0, "exam": {"problems": 0}},
        ledger={"checkpoint_every": 30},
        evaluate={"suite": ""},
    )
    with rq.Run.create(config, tmp_path / "run") as run:
        accuracy = [step.metrics["games/critique/critic/accuracy"] for step in run]
    assert accuracy[0] == pytest.approx(0.5, abs=0.15)
    assert statistics.fmean(accuracy[-5:]) > 0.75
