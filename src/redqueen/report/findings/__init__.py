"""What happened in a run and what looks suspicious, in plain sentences.

Each check is a function from the figures to findings, usually none. They are rules of thumb: a
finding says what was seen, by how much, and where to look. None of them is proof.
"""

from redqueen.report.findings import drift, run, students, teachers
from redqueen.report.findings.answers import Answer, list_answers, next_steps
from redqueen.report.findings.finding import Check, Figures, Finding

__all__ = [
    "CHECKS",
    "CHECKS_OF_TEACHERS",
    "Answer",
    "Finding",
    "list_answers",
    "list_findings",
    "next_steps",
]

CHECKS_OF_TEACHERS: tuple[Check, ...] = (
    teachers.complexity,
    teachers.balance,
    teachers.engagement,
    teachers.validity,
    teachers.voided,
    teachers.repeats_and_limits,
    teachers.novelty,
    teachers.templates,
    drift.hacks,
    drift.answers,
    drift.reuse,
    drift.held_out_copies,
)
"""Skipped where the problems are fixed."""
CHECKS: tuple[Check, ...] = (
    run.progress,
    run.verified_again,
    *CHECKS_OF_TEACHERS,
    students.solve_rate,
    students.unsolved,
    students.reward,
    students.malformed,
    students.cut_off,
    students.reasoning,
    run.evolution,
    run.fitness,
    run.collapse,
    students.held_out,
    students.forgetting,
    students.specialists,
    drift.language_and_length,
    drift.shortcuts,
    run.training,
)


def list_findings(figures: Figures) -> list[Finding]:
    """Facts first, then what went well, then what looks suspicious."""
    skipped = () if figures["has_teachers"] else CHECKS_OF_TEACHERS
    findings = [finding for check in CHECKS if check not in skipped for finding in check(figures)]
    return sorted(findings, key=lambda finding: ("fact", "good", "warning").index(finding.level))
