"""Reads a run from its ledger: `open_run("runs/nb").attempts().to_pandas()`.

Read-only. Works while the run is being played, and on runs of older versions.
"""

import importlib
import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, overload

from redqueen.config.schema import Config
from redqueen.config.toml import config_from_toml, validate
from redqueen.errors import ConfigError, unknown
from redqueen.ledger.row_types import (
    JSON_COLUMNS,
    AttemptRow,
    BirthRow,
    DeathRow,
    EvalRow,
    ExamRow,
    FitnessRow,
    LineageRow,
    MemberRow,
    MetricRow,
    PairingRow,
    PersonRow,
    PlacementRow,
    ProblemRow,
    ProposalRow,
    RatingRow,
    RoleRatingRow,
    TimingRow,
    TurnRow,
    UpdateRow,
)
from redqueen.ledger.store import about_of, digest, last_step, open_to_read
from redqueen.ledger.tables import table_shapes

RowT = TypeVar("RowT")


class Table(Sequence[RowT], Generic[RowT]):
    """Rows of one table, each a dict by column."""

    def __init__(self, columns: Sequence[str], rows: list[RowT]) -> None:
        self.columns, self._rows = tuple(columns), rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> RowT: ...
    @overload
    def __getitem__(self, index: slice) -> "Table[RowT]": ...
    def __getitem__(self, index: int | slice) -> "RowT | Table[RowT]":
        rows = self._rows[index]
        return Table(self.columns, rows) if isinstance(rows, list) else rows

    def __repr__(self) -> str:
        return f"<{len(self)} rows of {', '.join(self.columns)}>"

    def to_pandas(self) -> Any:
        """A pandas DataFrame with a column for each column of the table."""
        try:
            pandas = importlib.import_module("pandas")
        except ImportError as error:
            raise ConfigError("to_pandas() needs pandas: pip install pandas") from error
        return pandas.DataFrame(self._rows, columns=list(self.columns))


@dataclass(frozen=True)
class WorldInfo:
    """One world of a run."""

    number: int
    """From 0."""
    arm: str
    """Its name in a study; `run` in a plain run."""
    seed: int
    """Of its random streams."""
    settings: dict[str, Any]
    """As they are stored, section by section."""

    @cached_property
    def config(self) -> Config:
        """What its settings name by import path is not imported, unless you vouch for it."""
        return validate(self.settings, imports=False)


@dataclass(frozen=True)
class RunMember:
    """A living member after the last step."""

    run: "RunReader"
    """The run it lives in."""
    row: MemberRow
    """Its row of `RunReader.members`."""

    def to_peft(self, out: str | Path, base: str | None = None) -> Path:
        """Write its adapter, as the newest checkpoint has it, as a PEFT folder.

        - `out`: the folder to write.
        - `base`: the name or path of the base to record. Without it, where `AutoPeftModel` finds
          the run's own: its name on the hub, or its folder, that of a bundled one in this package.
        """
        from redqueen.ledger.members import choose_member, newest_checkpoint, saved_members
        from redqueen.models.bundled import place_of
        from redqueen.models.peft_io import base_of, load_adapter, save_adapter

        checkpoint = newest_checkpoint(self.run.folder)
        saved = choose_member(saved_members(checkpoint, self.row["world"]), self.row["member"])
        if not saved.adapter.is_dir():
            raise ConfigError(
                f"the checkpoints of redqueen {self.run.about.get('version', '0.1')} have no PEFT "
                f"folders. Use redqueen.export_member(run, '{saved.id}', '{out}')."
            )
        _, fingerprint = base_of(saved.adapter)
        place = base or place_of(self.run.config.base)
        save_adapter(load_adapter(saved.adapter), Path(out), base=place, fingerprint=fingerprint)
        return Path(out)


class RunReader:
    """One run. Every query sees complete steps; inside `snapshot()` all see the same steps."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.connection: sqlite3.Connection = open_to_read(folder)

    @property
    def about(self) -> dict[str, str]:
        """Facts about the run: version, base, machine, created, ..."""
        return about_of(self.connection)

    @property
    def config(self) -> Config:
        """The settings; in a study those of its first world. What they name by import path is not
        imported, unless you vouch for it."""
        return config_from_toml(self.about["config"], imports=False)

    @property
    def steps(self) -> int:
        """Complete steps so far."""
        return max(last_step(self.connection), 0)

    @property
    def worlds(self) -> list[WorldInfo]:
        """The worlds of a study; one in a plain run."""
        rows = self.connection.execute("SELECT world, arm, seed, config FROM worlds ORDER BY world")
        return [WorldInfo(world, arm, seed, json.loads(text)) for world, arm, seed, text in rows]

    def births(self, world: int | None = None) -> Table[BirthRow]:
        """Members that were born, with parents and operator; `world`: of one world."""
        return self._table("births", world)

    def deaths(self, world: int | None = None) -> Table[DeathRow]:
        """Members that were replaced, and why; `world`: of one world."""
        return self._table("deaths", world)

    def pairings(self, world: int | None = None) -> Table[PairingRow]:
        """Matches of a teacher and a student, with their games; `world`: of one world."""
        return self._table("pairings", world)

    def problems(self, world: int | None = None) -> Table[ProblemRow]:
        """Accepted problems; `world`: of one world."""
        return self._table("problems", world)

    def proposals(self, world: int | None = None) -> Table[ProposalRow]:
        """What teachers wrote: a problem, or why it was rejected; `world`: of one world."""
        return self._table("proposals", world)

    def attempts(self, world: int | None = None) -> Table[AttemptRow]:
        """What students answered, with the verdict; `world`: of one world."""
        return self._table("attempts", world)

    def turns(self, world: int | None = None) -> Table[TurnRow]:
        """What members wrote in games after the attempts; `world`: of one world."""
        return self._table("turns", world)

    def role_ratings(self, world: int | None = None) -> Table[RoleRatingRow]:
        """Ratings of members in the roles of games, step by step; `world`: of one world."""
        return self._table("role_ratings", world)

    def ratings(self, world: int | None = None) -> Table[RatingRow]:
        """Ratings of living members, step by step; `world`: of one world."""
        return self._table("ratings", world)

    def exams(self, world: int | None = None) -> Table[ExamRow]:
        """Answers in the common exams; `world`: of one world."""
        return self._table("exams", world)

    def fitness(self, world: int | None = None) -> Table[FitnessRow]:
        """What members were ranked by; `world`: of one world."""
        return self._table("fitness", world)

    def updates(self, world: int | None = None) -> Table[UpdateRow]:
        """What training a member came to, step by step; `world`: of one world."""
        return self._table("updates", world)

    def metrics(self, world: int | None = None) -> Table[MetricRow]:
        """Metrics by step and name; `world`: of one world."""
        return self._table("metrics", world)

    def evals(self, world: int | None = None) -> Table[EvalRow]:
        """Answers to the items of suites; `world`: of one world."""
        return self._table("evals", world)

    def people(self, world: int | None = None) -> Table[PersonRow]:
        """What people did; `world`: of one world."""
        return self._table("people", world)

    def timings(self) -> Table[TimingRow]:
        """Seconds of each stage, step by step."""
        return self._table("timings", None)

    def placements(self) -> Table[PlacementRow]:
        """Which worker and device had which block, from which step on."""
        return self._table("placements", None)

    def lineage(self, world: int | None = None) -> Table[LineageRow]:
        """Every member there ever was, in the order of birth; `world`: of one world."""
        return self._select(_LINEAGE.format(where=_where(world, "b.")), world)

    def members(self, world: int | None = None) -> Table[MemberRow]:
        """The living members after the last step; `world`: of one world."""
        return self._select(_MEMBERS.format(where=_where(world, "r.")), world)

    def member(self, name: str, world: int = 0) -> RunMember:
        """A living member: `name` is its id, such as S2; `world`: in a run of several."""
        living = {row["member"]: row for row in self.members(world)}
        if name not in living:
            raise ConfigError(unknown("living member", name, living))
        return RunMember(self, living[name])

    def digest(self) -> str:
        """One sha256 over all records: equal for equal runs."""
        return digest(self.folder)

    @contextmanager
    def snapshot(self) -> Iterator[Self]:
        """Inside, every query sees the run as it was at the first one."""
        if self.connection.in_transaction:  # an outer snapshot holds
            yield self
            return
        self.connection.execute("BEGIN")
        try:
            yield self
        finally:
            self.connection.execute("COMMIT")

    def close(self) -> None:
        """Close the file."""
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<run {self.folder}, {self.steps} steps>"

    def _table(self, name: str, world: int | None) -> Table[Any]:
        shape = table_shapes()[name]
        first = tuple(column for column in ("world", "step") if column in shape.columns)
        order = [*first, *(column for column in shape.key if column not in first)]
        query = f"SELECT * FROM {name} {_where(world)} ORDER BY {', '.join(order)}"
        return self._select(query, world)

    def _select(self, query: str, world: int | None) -> Table[Any]:
        cursor = self.connection.execute(query, {"world": world})
        columns = [column[0] for column in cursor.description]
        decoded = JSON_COLUMNS.intersection(columns)
        rows = []
        for values in cursor:
            row = dict(zip(columns, values, strict=True))
            rows.append(row | {name: json.loads(row[name]) for name in decoded})
        return Table(columns, rows)


def open_run(folder: str | Path) -> RunReader:
    """Open a run to read it, also while it is being played.

    - `folder`: of the run, or a packed ledger (`NAME.sqlite.xz`).
    """
    return RunReader(Path(folder))


def _where(world: int | None, table: str = "") -> str:
    return "" if world is None else f"WHERE {table}world = :world"


_LINEAGE = """
    SELECT b.world, b.member, b.role, b.slot, b.step AS born, d.step AS died, d.reason, b.parents,
        b.operator, b.settings, b.mu AS first_mu, coalesce(d.mu, r.mu, b.mu) AS mu,
        coalesce(d.sigma, r.sigma, b.sigma) AS sigma
    FROM births b LEFT JOIN deaths d ON d.world = b.world AND d.member = b.member
    LEFT JOIN ratings r ON r.world = b.world AND r.member = b.member
        AND r.step = (SELECT max(step) FROM ratings WHERE world = b.world)
    {where} ORDER BY b.world, b.step, b.slot, b.member"""
_MEMBERS = """
    SELECT r.world, r.member, r.role, b.slot, r.version, r.mu, r.sigma
    FROM (SELECT world, max(step) AS step FROM ratings GROUP BY world) last
    JOIN ratings r ON r.world = last.world AND r.step = last.step
    JOIN births b ON b.world = r.world AND b.member = r.member
    {where} ORDER BY r.world, b.slot"""
