"""Fitness: what members of a role are ranked by, for deaths, parents, the hall of fame and the
chosen student.

A row is `(member, evidence, settings) -> float | None`; None where nothing is known of the member.
Then the whole role is ranked by rating, since other numbers do not compare.
"""

import logging
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from redqueen.config.registry import Choice, Registry
from redqueen.config.stages import EvolveConfig
from redqueen.core.world import Evidence, World
from redqueen.records import Member

log = logging.getLogger(__name__)

Fitness = Callable[[Member, Evidence, Any], float | None]


def rating_bound(member: Member, evidence: Evidence, settings: Choice) -> float:
    """The lower bound of the rating, mu - 3 sigma."""
    return member.rating.bound


def exam_skill(member: Member, evidence: Evidence, settings: Choice) -> float | None:
    """Its skill in the common exam."""
    return evidence.exam.skills.get(member.id) if evidence.exam else None


def shared_exam(member: Member, evidence: Evidence, settings: Choice) -> float | None:
    """Fitness sharing: the points of every problem in the exam are divided between those who solve
    it, so that what few can do counts for more. On average 1 over the students."""
    exam = evidence.exam
    if exam is None or member.id not in exam.correct:
        return None
    shares = [
        solved / total
        for solved, total in zip(
            exam.correct[member.id], map(sum, zip(*exam.correct.values(), strict=True)), strict=True
        )
        if total
    ]
    return len(exam.correct) * sum(shares) / len(shares) if shares else 0.0


def mean_reward(member: Member, evidence: Evidence, settings: Choice) -> float | None:
    """What its proposals have earned since members were last replaced, on average."""
    total, count = evidence.rewards.get(member.id, (0.0, 0))
    return total / count if count else None


def information(member: Member, evidence: Evidence, settings: Choice) -> float | None:
    """How well its problems tell students apart: how much more often the better half of the
    students solves them than the other half. Better by the exam's other problems."""
    exam = evidence.exam
    own = [
        place
        for place, problem in enumerate(exam.problems if exam else ())
        if problem.author is not None and problem.author.member == member.id
    ]
    if exam is None or not own or len(exam.correct) < 2:
        return None
    total = {student: sum(correct) for student, correct in exam.correct.items()}
    gaps = []
    for place in own:
        ranked = sorted(total, key=lambda student: total[student] - exam.correct[student][place])
        half = len(ranked) // 2
        top, bottom = (
            sum(exam.correct[student][place] for student in group)
            for group in (ranked[-half:], ranked[:half])
        )
        gaps.append((top - bottom) / (half * exam.attempts))
    return statistics.fmean(gaps)


def progress(member: Member, evidence: Evidence, settings: Choice) -> float | None:
    """How far its students have come since the last exam, beside the others; each counts by its
    attempts at the teacher's problems."""
    exam, taught = evidence.exam, evidence.taught.get(member.id)
    if exam is None or taught is None:
        return None
    gains = {
        student: exam.skills[student] - evidence.before[student]
        for student in taught
        if student in exam.skills and student in evidence.before
    }
    attempts = sum(taught[student] for student in gains)
    if not attempts:
        return None
    return sum(taught[student] * gain for student, gain in gains.items()) / attempts


FITNESS: Registry[Fitness] = Registry(
    "fitness", {"exam": exam_skill, "shared": shared_exam, "rating": rating_bound}
)
TEACHER_FITNESS: Registry[Fitness] = Registry(
    "teacher fitness",
    {
        "reward": mean_reward,
        "information": information,
        "progress": progress,
        "rating": rating_bound,
    },
)


def judge(world: World) -> dict[str, tuple[str, float]]:
    """What each member is ranked by, and its fitness."""
    judged: dict[str, tuple[str, float]] = {}
    for role in dict.fromkeys(member.role for member in world.members):
        members = [member for member in world.members if member.role == role]
        name, values = _judge_role(members, world.config.evolve, world.evidence)
        judged |= {member: (name, value) for member, value in values.items()}
    return judged


def _judge_role(
    members: Sequence[Member], config: EvolveConfig, evidence: Evidence
) -> tuple[str, Mapping[str, float]]:
    teaches = members[0].role == "teacher"
    table, choice = (
        (TEACHER_FITNESS, config.teacher_fitness) if teaches else (FITNESS, config.fitness)
    )
    values = {member.id: table[choice.type](member, evidence, choice.options) for member in members}
    known = {name: value for name, value in values.items() if value is not None}
    if len(known) == len(members):
        return choice.type, known
    if len(members) > 1:
        log.warning(
            "%ss are ranked by rating this time: by %s nothing is known yet of %s",
            members[0].role if members[0].role != "both" else "member",
            choice.type,
            ", ".join(name for name in values if name not in known),
        )
    return "rating", {member.id: member.rating.bound for member in members}
