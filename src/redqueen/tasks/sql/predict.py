"""Prediction: given tables and a query, which rows does it give?

Grading compares rows: nothing runs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

from redqueen.records import Problem
from redqueen.sandbox import Job, Outcome
from redqueen.tasks.kind import Block, Malformed, Request, RunRules, take
from redqueen.tasks.sql.databases import Database, SqlKind, read_result, read_sql, write_rows
from redqueen.tasks.sql.examples import EXAMPLES
from redqueen.tasks.sql.rows import read_rows
from redqueen.tasks.sql.texts import FEW_SHOT, PREDICT, PROPOSE
from redqueen.tasks.surface import describe_surface


class SqlO(SqlKind):
    name = "sql_o"
    summary = "predict the rows that a query gives"
    reference_kinds = ("sql_q",)
    proposal_blocks = ("tables", "query")
    answer_blocks = ("result",)

    def seeds(self) -> Sequence[Database]:
        return EXAMPLES

    def ask_proposal(self, references: Sequence[Problem]) -> Request:
        examples = tuple(
            tuple(block for block in self.show(problem) if block[0] != "question")
            for problem in references
        )
        return self.request("teacher", PROPOSE, examples=examples, few_shot=FEW_SHOT["sql_o"])

    def read_proposal(self, blocks: Sequence[Block], references: Sequence[Problem]) -> Database:
        return Database(read_sql(blocks, "tables"), read_sql(blocks, "query"))

    def ask_answer(self, problem: Problem) -> Request:
        database: Database = problem.payload
        given = (("tables", database.tables), ("query", database.query))
        return self.request("student", PREDICT, given, few_shot=FEW_SHOT["predict"])

    def surface(self, problem: Problem) -> Mapping[str, float | str]:
        rows = write_rows(read_result(problem.gold[0]).rows)
        return describe_surface(self.ask_answer(problem).given, rows)

    def without_evidence(self, problem: Problem, rng: Random) -> Request | None:
        """The words of the query are shuffled."""
        words = problem.payload.query.split()
        query = " ".join(rng.sample(words, len(words)))
        return self.ask_answer(replace(problem, payload=replace(problem.payload, query=query)))

    def read_answer(self, blocks: Sequence[Block]) -> str:
        text = take(blocks, "result").strip()
        read_rows(text)
        return text

    def grading(self, problem: Problem, answer: str, rules: RunRules) -> Job | None:
        return None

    def is_correct(self, problem: Problem, answer: str, outcome: Outcome | None) -> bool:
        try:
            return read_result(problem.gold[0]).is_answered_by(read_rows(answer))
        except Malformed:
            return False
