"""`redqueen bench selection`: whether selection finds the weaker student, and intervals cover what
they claim, by simulation with the package's own code."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from random import Random
from typing import Annotated

import typer
from rich.table import Table

from redqueen.cli.console import print_table
from redqueen.cli.options import Json
from redqueen.config.stages import ArchiveConfig, ExamConfig, RateConfig
from redqueen.core.archive import POLICIES, Archive
from redqueen.core.state import Played
from redqueen.core.trueskill import win_probability
from redqueen.evaluate.statistics import t_interval
from redqueen.records import Author, Member, Pairing, Problem, Rating
from redqueen.report.selection import rank_correlation
from redqueen.stages.evolve.exam import draw_problems
from redqueen.stages.evolve.rasch import fit_rasch
from redqueen.stages.evolve.select import SELECTIONS, Standing
from redqueen.stages.rate import rate_pair
from redqueen.stages.rate.outcome import OUTCOMES

_STUDENTS = 4
_PROPOSALS = 12
"""Of each teacher in a step."""
_ATTEMPTS = 8
_STEPS = 10
"""Between two exams."""
_SPREAD = 4.0
"""Standard deviation of difficulties in logits: as wide as what teachers write."""
_INTERACTION = 0.5
"""How much harder or easier a problem is for one student than its skill says, in logits."""
_REGIMES = {"79": 0.79, "50": 0.5, "30": 0.3}
"""How many attempts are solved, by name."""
_ALIKE = 0.25
"""Standard deviation of skills in logits: students of one world differ by a few points."""
_EXAMS = {"96 x 1": (96, 1), "96 x 8": (96, 8), "384 x 1": (384, 1), "384 x 8": (384, 8)}
"""Problems and attempts at each, by name."""


@dataclass(frozen=True, slots=True)
class SelectionBench:
    culled_worse: dict[str, float]
    """By percent solved: how often the one student of four that is worse by a logit is replaced."""
    ranks_by_skill: bool
    """Of two students that solve 5 and 20 % of everything, ratings and exams nearly always rank the
    second higher."""
    ranked_right: dict[str, float]
    """How often they do."""
    coverage: dict[str, float]
    """By the number of seeds: how often a 95 % interval holds the true mean."""
    exam_against_skill: dict[str, float]
    """By problems and attempts of an exam: its rank correlation with the skills of four students
    who differ as little as those of a world do, the mean."""


def selection(
    trials: Annotated[int, typer.Option(min=10, help="Simulations of each kind.")] = 200,
    seed: Annotated[int, typer.Option(help="Of all simulations.")] = 0,
    as_json: Json = False,
) -> None:
    """Simulate whether selection finds the weaker student, and intervals cover what they claim."""
    result = bench_selection(trials, seed)
    if as_json:
        print(json.dumps(asdict(result)))
    else:
        print_table(_table(result))


def bench_selection(trials: int, seed: int = 0) -> SelectionBench:
    rng = Random(seed)
    culled = {
        name: sum(_culls_worse(_center(solved), rng) for _ in range(trials)) / trials
        for name, solved in _REGIMES.items()
    }
    right = {
        "rating": sum(_rates_better_higher(rng) for _ in range(trials)) / trials,
        "exam": sum(_examines_better_higher(rng) for _ in range(trials)) / trials,
    }
    coverage = {str(seeds): _coverage(seeds, 20 * trials, rng) for seeds in (3, 5, 8)}
    exams = {
        name: _exam_against_skill(*size, max(10, trials // 4), rng) for name, size in _EXAMS.items()
    }
    return SelectionBench(culled, min(right.values()) >= 0.95, right, coverage, exams)


def _culls_worse(center: float, rng: Random) -> bool:
    """Students play and sit an exam on what was archived; one of them is replaced."""
    skills = [-1.0, *[0.0] * (_STUDENTS - 1)]
    archive, policy, levels = Archive(10_000), ArchiveConfig().policy, dict[str, float]()
    for number in range(_STEPS * _STUDENTS * _PROPOSALS):
        author, student = rng.randrange(_STUDENTS), rng.randrange(_STUDENTS)
        problem = Problem(str(number), "any", None, (), {}, Author(f"T{author}", 0))
        levels[problem.key] = rng.gauss(center, _SPREAD)
        chance = _chance(skills[student], levels[problem.key], rng)
        solved = sum(rng.random() < chance for _ in range(_ATTEMPTS)) / _ATTEMPTS
        if POLICIES[policy.type](problem, solved, policy.options):
            archive.add(problem)
        archive.solved(problem.key, solved, 1)
    config = ExamConfig()
    problems = draw_problems(archive, config.problems, rng)
    correct = [
        [_solve(skill, levels[problem.key], config.attempts, rng) for problem in problems]
        for skill in skills
    ]
    fitted, _ = fit_rasch(correct, config.attempts)
    standings = [
        Standing(f"S{place}", "student", 25.0, 1.0, skill) for place, skill in enumerate(fitted)
    ]
    choice = SELECTIONS.choose("truncation")
    (dead,) = SELECTIONS["truncation"](standings, 1, choice, rng).dead
    return dead.member == "S0"


def _rates_better_higher(rng: Random) -> bool:
    """Twenty games of each against one teacher."""
    config, teacher = RateConfig(), Rating()
    ratings = {0.05: Rating(), 0.2: Rating()}
    outcome = OUTCOMES[config.outcome.type]
    members = Member("T0", "teacher", 0), Member("S0", "student", 1)
    for _ in range(20):
        for chance, rating in ratings.items():
            pairing = Pairing(*members, win_probability(rating, teacher, config))
            solved = [
                sum(rng.random() < chance for _ in range(_ATTEMPTS)) / _ATTEMPTS
                for _ in range(_PROPOSALS)
            ]
            games = outcome(pairing, Played(tuple(solved), 0.0, 0.0), config.outcome.options)
            _, ratings[chance] = rate_pair(teacher, rating, games, config)
    return ratings[0.2].bound > ratings[0.05].bound


def _examines_better_higher(rng: Random) -> bool:
    problems = ExamConfig().problems
    correct = [[int(rng.random() < chance) for _ in range(problems)] for chance in (0.05, 0.2)]
    (worse, better), _ = fit_rasch(correct, 1)
    return better > worse


def _exam_against_skill(problems: int, attempts: int, trials: int, rng: Random) -> float:
    """On problems half of which are solved, as wide apart as those of teachers are."""
    rows: list[dict[str, float]] = []
    for trial in range(trials):
        skills = [rng.gauss(0, _ALIKE) for _ in range(_STUDENTS)]
        levels = [rng.gauss(0, _SPREAD) for _ in range(problems)]
        correct = [[_solve(skill, level, attempts, rng) for level in levels] for skill in skills]
        fitted, _ = fit_rasch(correct, attempts)
        rows += [
            {"step": trial, "fitness": fitness, "skill": skill}
            for fitness, skill in zip(fitted, skills, strict=True)
        ]
    found = rank_correlation(rows, "fitness", "skill")
    return found[0] if found else 0.0


def _coverage(seeds: int, trials: int, rng: Random) -> float:
    held = 0
    for _ in range(trials):
        interval = t_interval([rng.gauss(0, 1) for _ in range(seeds)])
        held += interval is not None and interval[0] <= 0 <= interval[1]
    return held / trials


def _chance(skill: float, level: float, rng: Random) -> float:
    return 1 / (1 + math.exp(level - skill - rng.gauss(0, _INTERACTION)))


def _solve(skill: float, level: float, attempts: int, rng: Random) -> int:
    """How many attempts at a problem are correct."""
    chance = _chance(skill, level, rng)
    return sum(rng.random() < chance for _ in range(attempts))


def _center(solved: float) -> float:
    """The mean difficulty at which students of skill 0 solve so much."""
    low, high = -20.0, 20.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if _solved(middle) > solved else (low, middle)
    return low


def _solved(center: float) -> float:
    places = [place / 50 for place in range(-250, 251)]
    weights = [math.exp(-(place**2) / 2) for place in places]
    chances = [1 / (1 + math.exp(center + _SPREAD * place)) for place in places]
    return _mean(chances, weights)


def _mean(values: Sequence[float], weights: Sequence[float]) -> float:
    return sum(v * w for v, w in zip(values, weights, strict=True)) / sum(weights)


def _table(result: SelectionBench) -> Table:
    table = Table(title="Selection and intervals, by simulation", title_justify="left")
    table.add_column("what")
    table.add_column("share", justify="right")
    for solved, share in result.culled_worse.items():
        table.add_row(f"worse student of four replaced, {solved} % solved", f"{share:.1%}")
    for by, share in result.ranked_right.items():
        table.add_row(f"20 % ranked above 5 % by {by}", f"{share:.1%}")
    for seeds, share in result.coverage.items():
        table.add_row(f"95 % interval over {seeds} seeds holds the mean", f"{share:.1%}")
    for size, correlation in result.exam_against_skill.items():
        table.add_row(f"exam of {size}: rank correlation with skill", f"{correlation:+.2f}")
    return table
