"""Rows of the ledger, as `open_run` returns them: columns as in `schema.sql`, JSON decoded."""

from typing import Any, Literal, TypedDict

Role = Literal["teacher", "student", "both"]


class BirthRow(TypedDict):
    world: int
    step: int
    member: str
    role: Role
    slot: int
    parents: list[str]
    operator: str
    settings: dict[str, Any]
    mu: float
    sigma: float


class DeathRow(TypedDict):
    world: int
    step: int
    member: str
    reason: str
    mu: float
    sigma: float


class PairingRow(TypedDict):
    world: int
    step: int
    pairing: int
    teacher: str
    student: str
    expected: float
    score: float | None
    winner: Literal["teacher", "student"] | None
    proposals: int
    valid: int
    attempts: int
    correct: int


class ProblemRow(TypedDict):
    world: int
    step: int
    problem: str
    kind: str
    author: str | None
    payload: dict[str, Any]
    gold: list[str]
    features: dict[str, float]
    structure: str
    behaviour: str
    cell: str
    derived: int


class ProposalRow(TypedDict):
    world: int
    step: int
    proposal: int
    pairing: int
    teacher: str
    version: int
    kind: str
    prompt: int
    shown: list[str]
    text: str
    tokens: int
    logprob: float
    finish_reason: Literal["stop", "length"]
    problem: str | None
    rejection: str | None
    detail: str
    solve_rate: float | None
    reward: float
    advantage: float


class AttemptRow(TypedDict):
    world: int
    step: int
    proposal: int
    attempt: int
    problem: str
    student: str
    version: int
    text: str
    tokens: int
    logprob: float
    finish_reason: Literal["stop", "length"]
    verdict: Literal["correct", "wrong", "malformed", "voided"]
    detail: str
    reward: float
    advantage: float


class TurnRow(TypedDict):
    world: int
    step: int
    proposal: int
    turn: int
    game: str
    problem: str
    round: int
    role: str
    member: str
    version: int
    prompt: int
    shown: list[str]
    text: str
    tokens: int
    logprob: float
    finish_reason: Literal["stop", "length"]
    said: str
    truth: str
    verdict: Literal["correct", "wrong", "malformed", "voided"]
    detail: str
    reward: float
    advantage: float


class RoleRatingRow(TypedDict):
    world: int
    step: int
    member: str
    role: str
    mu: float
    sigma: float


class RatingRow(TypedDict):
    world: int
    step: int
    member: str
    role: Role
    version: int
    mu: float
    sigma: float


class ExamRow(TypedDict):
    world: int
    step: int
    member: str
    problem: str
    attempts: int
    correct: int


class FitnessRow(TypedDict):
    world: int
    step: int
    member: str
    role: Role
    measure: str
    fitness: float
    exam: float | None
    chosen: int


class UpdateRow(TypedDict):
    world: int
    step: int
    member: str
    samples: int
    tokens: int
    loss: float
    grad_norm: float
    entropy: float
    logprob_gap: float
    logprob_gap_max: float
    kl: float
    clipped_frac: float


class MetricRow(TypedDict):
    world: int
    step: int
    name: str
    value: float


class EvalRow(TypedDict):
    world: int
    step: int
    suite: str
    subject: str
    item: str
    kind: str
    tier: int
    sample: int
    correct: int


class TimingRow(TypedDict):
    step: int
    stage: str
    seconds: float
    waited_s: float


class PlacementRow(TypedDict):
    step: int
    block: int
    first_slot: int
    slots: int
    worker: int
    host: str
    device: str


class PersonRow(TypedDict):
    world: int
    step: int
    number: int
    author: str
    action: Literal["pose", "veto", "rate", "answer"]
    content: dict[str, Any]
    problem: str | None
    outcome: str
    detail: str


class LineageRow(TypedDict):
    """A member from birth to death or today, with its rating at birth and its last one."""

    world: int
    member: str
    role: Role
    slot: int
    born: int
    died: int | None
    reason: str | None
    parents: list[str]
    operator: str
    settings: dict[str, Any]
    first_mu: float
    mu: float
    sigma: float


class MemberRow(TypedDict):
    """A living member after the last step."""

    world: int
    member: str
    role: Role
    slot: int
    version: int
    mu: float
    sigma: float


JSON_COLUMNS = frozenset({"parents", "settings", "payload", "gold", "features", "shown", "content"})
"""Columns that are stored as JSON text."""
