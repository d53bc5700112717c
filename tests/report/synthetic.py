"""A run that nobody played: a ledger with plausible figures, written as the loop writes them, of
any size and with any text.

As a program: python -m tests.report.synthetic FOLDER STEPS PROPOSALS ATTEMPTS writes one with four
teachers and four students.
"""

import hashlib
import json
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from redqueen.ledger.store import Ledger

Row = dict[str, Any]
KINDS = ("code_o", "code_i", "code_f")
OPERATORS = ("svd_jitter", "gaussian", "dare", "layerwise", "extrapolate")
REASONS = ("malformed", "error", "duplicate", "timeout", "unstable")


@dataclass
class Synthetic:
    """What to write. One student answers one teacher in a step; ratings and complexity drift, solve
    rates swing."""

    steps: int = 12
    proposals: int = 6
    """For each pairing."""
    attempts: int = 4
    members: int = 4
    """Of each role."""
    worlds: int = 1
    seed: int = 0
    evolve_every: int = 4
    evaluate_every: int = 6
    items: int = 40
    thought: str = "x is doubled, then one is added"
    """What stands in every attempt."""
    program: str = (
        "def f(x):\n    y = x * {n}\n    if y > {m}:\n        y -= {k}\n    return y + {n}\n"
    )
    arm: str = "run"
    person: str = "Ada"
    """Who poses, vetoes and rates something in every other step."""
    settings: Row = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        worlds = [_World(self, number) for number in range(self.worlds)]
        about = {
            "config": f"seed = {self.seed}\nsteps = {self.steps}\n",
            "steps": str(self.steps),
            "base": "pawn",
            "version": "0.1",
        }
        about |= {
            "created": "2026-01-01T00:00:00+00:00",
            "machine": json.dumps({"device": "CPU, 2 threads"}),
            "ended": "all steps played",
        }
        rows = [
            {
                "world": one.number,
                "arm": self.arm,
                "seed": one.seed,
                "config": {"seed": one.seed, **self.settings},
            }
            for one in worlds
        ]
        with Ledger.create(folder, about, rows) as ledger:
            ledger.write(0, _merged([world.beginning() for world in worlds]))
            ledger.add("placements", [_PLACEMENT])
            for step in range(1, self.steps + 1):
                ledger.write(step, _merged([world.step(step) for world in worlds]))
                ledger.add(
                    "timings",
                    [
                        {"step": step, "stage": stage, "seconds": s, "waited_s": s / 10}
                        for stage, s in _TIMINGS
                    ],
                )
                if step % self.evaluate_every == 0 or step == self.steps:
                    ledger.add("evals", [row for world in worlds for row in world.evals(step)])


_PLACEMENT = {
    "step": 1, "block": 0, "first_slot": 0, "slots": 8, "worker": 0, "host": "one",
    "device": "CPU, 2 threads",
}  # fmt: skip
_TIMINGS = (("propose", 4.0), ("solve", 6.0), ("update", 8.0), ("ledger", 0.2))


class _World:
    def __init__(self, plan: Synthetic, number: int) -> None:
        self.plan, self.number, self.seed = plan, number, plan.seed + number
        self.random = Random(f"{plan.seed} {number}")
        self.teachers = [f"T{place}" for place in range(plan.members)]
        self.students = [f"S{place}" for place in range(plan.members)]
        self.ratings = {member: [25.0, 25 / 3] for member in [*self.teachers, *self.students]}
        self.cells: set[str] = set()
        self.behaviours: set[str] = set()
        self.known: list[str] = []

    def _where(self, rows: dict[str, list[Row]]) -> dict[str, list[Row]]:
        return {
            table: [{"world": self.number, **row} for row in of_table]
            for table, of_table in rows.items()
        }

    def _slot(self, member: str) -> int:
        return int(member[1:].partition(".")[0]) + (self.plan.members if member[0] == "S" else 0)

    def beginning(self) -> dict[str, list[Row]]:
        return self._where(
            {
                "births": [self._birth(member, [], "new") for member in self.ratings],
                "ratings": self._ratings(),
            }
        )

    def _birth(self, member: str, parents: list[str], operator: str) -> Row:
        mu, sigma = self.ratings[member]
        role = "teacher" if member[0] == "T" else "student"
        return {"member": member, "role": role, "slot": self._slot(member), "parents": parents, "operator": operator, "settings": {"eps": 0.1}, "mu": mu, "sigma": sigma}  # fmt: skip

    def _ratings(self) -> list[Row]:
        roles = {"T": "teacher", "S": "student"}
        return [
            {
                "member": member,
                "role": roles[member[0]],
                "version": 1,
                "mu": self.ratings[member][0],
                "sigma": self.ratings[member][1],
            }
            for member in [*self.teachers, *self.students]
        ]

    def step(self, step: int) -> dict[str, list[Row]]:
        rows: dict[str, list[Row]] = {
            name: []
            for name in (
                "pairings",
                "problems",
                "proposals",
                "attempts",
                "exams",
                "fitness",
                "births",
                "deaths",
                "people",
                "updates",
            )
        }
        students = self.random.sample(self.students, len(self.students))
        for pairing, (teacher, student) in enumerate(zip(self.teachers, students, strict=True)):
            self._pairing(rows, step, pairing, teacher, student)
        if step % self.plan.evolve_every == 0 and self.plan.members > 1:
            self._exam(rows, step)
            self._evolve(rows, step)
        if step % 2 == 0:
            rows["people"] = list(self._people(rows))
        rows["updates"] = [
            {"member": member, "samples": 8, "tokens": 400, "loss": 0.1, "grad_norm": 0.3, "entropy": 0.5, "logprob_gap": 1e-6, "logprob_gap_max": 1e-5, "kl": 0.0, "clipped_frac": 0.0}
            for member in [*self.teachers, *self.students]
        ]  # fmt: skip
        rows["ratings"] = self._ratings()
        rows["metrics"] = [
            {"name": name, "value": value} for name, value in self._metrics(step, rows).items()
        ]
        return self._where(rows)

    def _pairing(
        self, rows: dict[str, list[Row]], step: int, pairing: int, teacher: str, student: str
    ) -> None:
        plan, random = self.plan, self.random
        ease = 0.6 + 0.2 * math.sin(step / 5) + 0.05 * (self._slot(student) % 3)
        valid = correct = 0
        for number in range(plan.proposals):
            proposal = pairing * plan.proposals + number
            kind = KINDS[number % len(KINDS)]
            rejected = random.random() < 0.15
            row = {"proposal": proposal, "pairing": pairing, "teacher": teacher, "version": step - 1, "kind": kind, "prompt": number // 4, "shown": self.known[-2:], "tokens": 60, "logprob": -0.4, "finish_reason": "stop", "detail": "", "advantage": 0.1}  # fmt: skip
            program = (
                plan.program.replace("{n}", str(random.randrange(50)))
                .replace("{m}", str(step))
                .replace("{k}", str(random.randrange(9)))
            )
            if rejected:
                rows["proposals"].append(
                    {**row, "text": program, "rejection": random.choice(REASONS), "reward": -1.0}
                )
                continue
            valid += 1
            key = hashlib.sha256(f"{self.number} {step} {proposal}".encode()).hexdigest()[:32]
            self.known = [*self.known[-20:], key]
            rows["problems"].append(self._problem(key, kind, program, teacher, step))
            right = sum(
                self._attempt(rows, step, proposal, number, key, student, ease)
                for number in range(plan.attempts)
            )
            correct += right
            rate = right / plan.attempts
            rows["proposals"].append(
                {
                    **row,
                    "text": program,
                    "problem": key,
                    "solve_rate": rate,
                    "reward": 1 - rate if rate else 0.0,
                }
            )
        for member, gain in ((teacher, 1 - ease), (student, ease)):
            mu, sigma = self.ratings[member]
            self.ratings[member] = [mu + gain - 0.5 + random.gauss(0, 0.3), max(1.5, sigma * 0.97)]
        rows["pairings"].append({"pairing": pairing, "teacher": teacher, "student": student, "expected": 0.5, "score": ease, "winner": "student" if ease > 0.5 else "teacher", "proposals": plan.proposals, "valid": valid, "attempts": valid * plan.attempts, "correct": correct})  # fmt: skip

    def _problem(self, key: str, kind: str, program: str, teacher: str, step: int) -> Row:
        depth, branches = (
            5 + int(self.random.random() * (4 + step / 8)),
            1 + int(self.random.random() * (2 + step / 15)),
        )
        cell, behaviour = f"{kind}/d{depth // 2}/c{branches}", f"{self.random.randrange(400):x}"
        self.cells.add(cell)
        self.behaviours.add(behaviour)
        return {"problem": key, "kind": kind, "author": teacher, "payload": {"program": program, "inputs": ["3"], "message": ""}, "gold": ["7"], "features": {"ast_depth": depth, "cyclomatic": branches, "loc": 4 + step // 20, "variables": 2, "steps_executed": 4 + step // 10}, "structure": key[:6], "behaviour": behaviour, "cell": cell, "derived": int(kind == "code_f")}  # fmt: skip

    def _attempt(
        self,
        rows: dict[str, list[Row]],
        step: int,
        proposal: int,
        number: int,
        key: str,
        student: str,
        ease: float,
    ) -> bool:
        right = self.random.random() < ease
        text = f">>think\n{self.plan.thought}\n>>output\n{7 if right else 8}\n"
        rows["attempts"].append({"proposal": proposal, "attempt": number, "problem": key, "student": student, "version": step - 1, "text": text, "tokens": 30, "logprob": -0.2, "finish_reason": "stop", "verdict": "correct" if right else "wrong", "detail": "" if right else "another value", "reward": 1.0 if right else -0.5, "advantage": 0.0})  # fmt: skip
        return right

    def _people(self, rows: dict[str, list[Row]]) -> Iterator[Row]:
        """The first teacher's problems are liked better than the last one's."""
        first, last = rows["problems"][0], rows["problems"][-1]
        sides = [
            {"problem": one["problem"], "teacher": one["author"], "structure": one["structure"]}
            for one in (first, last)
        ]
        blocks = [["program", self.plan.program], ["input", "3"]]
        for number, (action, content, problem, outcome, detail) in enumerate(
            (
                (
                    "pose",
                    {"kind": KINDS[0], "blocks": blocks, "reference": ""},
                    None,
                    "rejected",
                    "malformed: no program",
                ),
                (
                    "veto",
                    {"problem": last["problem"], "structure": last["structure"]},
                    last["problem"],
                    "vetoed",
                    "1 left the archive",
                ),
                ("rate", {"better": sides[0], "worse": sides[1]}, first["problem"], "counted", ""),
                (
                    "answer",
                    {
                        "problem": first["problem"],
                        "text": "7",
                        "verdict": "correct",
                        "detail": "",
                        "seconds": 12.0,
                    },
                    first["problem"],
                    "correct",
                    "",
                ),
            )
        ):
            yield {
                "number": number,
                "author": self.plan.person,
                "action": action,
                "content": content,
                "problem": problem,
                "outcome": outcome,
                "detail": detail,
            }

    def _exam(self, rows: dict[str, list[Row]], step: int) -> None:
        """The later students are the better ones."""
        keys = self.known[-10:]
        for place, student in enumerate(self.students):
            solved = min(len(keys), 3 + 2 * place)
            for number, key in enumerate(keys):
                correct = int(number < solved)
                rows["exams"].append({"member": student, "problem": key, "attempts": 1, "correct": correct})  # fmt: skip
            rows["fitness"].append({"member": student, "role": "student", "measure": "exam", "fitness": place - 1.5, "exam": solved / len(keys), "chosen": int(student == self.students[-1])})  # fmt: skip
        for place, teacher in enumerate(self.teachers):
            rows["fitness"].append({"member": teacher, "role": "teacher", "measure": "reward", "fitness": 0.1 * place, "exam": None, "chosen": 0})  # fmt: skip

    def _evolve(self, rows: dict[str, list[Row]], step: int) -> None:
        for members in (self.teachers, self.students):
            order = sorted(members, key=lambda member: self.ratings[member][0])
            dead, parents = order[0], order[-2:]
            operator = self.random.choice(OPERATORS)
            parents = parents[1:] if operator in ("svd_jitter", "gaussian") else parents
            child = f"{dead.partition('.')[0]}.{step}"
            self.ratings[child] = list(self.ratings[parents[0]])
            rows["births"].append(self._birth(child, parents, operator))
            mu, sigma = self.ratings[dead]
            rows["deaths"].append(
                {"member": dead, "reason": "truncation", "mu": mu, "sigma": sigma}
            )
            members[members.index(dead)] = child

    def _metrics(self, step: int, rows: dict[str, list[Row]]) -> dict[str, float]:
        problems, attempts = rows["problems"], rows["attempts"]
        found = {
            "propose/count": len(rows["proposals"]),
            "propose/tokens": 60.0 * len(rows["proposals"]),
            "solve/tokens": 30.0 * len(attempts),
        }
        found |= {"verify/valid_frac": len(problems) / len(rows["proposals"]), "coverage/cells": len(self.cells), "coverage/behaviours": len(self.behaviours)}  # fmt: skip
        found |= {
            "propose/nll": 0.5 / math.sqrt(step),
            "solve/nll": 0.3,
            "archive/size": 20 + step,
            "reward/teacher": 0.1,
            "reward/student": 0.4,
        }
        found["solve/malformed_frac"] = 0.0
        if attempts:
            found["solve/pass_rate"] = sum(row["verdict"] == "correct" for row in attempts) / len(
                attempts
            )
            for name in ("ast_depth", "cyclomatic", "loc", "variables", "steps_executed"):
                found[f"complexity/{name}"] = sum(row["features"][name] for row in problems) / len(
                    problems
                )
        for role in ("teacher", "student"):
            found |= {
                f"population/distance/{role}": math.sqrt(step),
                f"population/least_distance/{role}": math.sqrt(step) / 2,
            }
        return found

    def evals(self, step: int) -> list[Row]:
        found = []
        for place, subject in enumerate(["base", *self.students]):
            for item in range(self.plan.items):
                luck = Random(f"{item}").random() + self.random.gauss(0, 0.1)
                correct = luck < 0.4 + (
                    0 if subject == "base" else 0.1 + 0.02 * place + 0.002 * step
                )
                found.append({"world": self.number, "step": step, "suite": "heldout-quick", "subject": subject, "item": f"{item:04d}", "kind": KINDS[item % 3], "tier": 1 + item % 4, "sample": 0, "correct": int(correct)})  # fmt: skip
        return found


def _merged(tables: list[dict[str, list[Row]]]) -> dict[str, list[Row]]:
    return {name: [row for rows in tables for row in rows[name]] for name in tables[0]}


if __name__ == "__main__":
    folder, steps, proposals, attempts = sys.argv[1:]
    Synthetic(
        int(steps), int(proposals), int(attempts), evolve_every=10, evaluate_every=20, items=300
    ).write(Path(folder))
