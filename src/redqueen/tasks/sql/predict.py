"""Prediction: given tables and a query, which rows does it give?

Grading compares rows: nothing runs."""

from collections.abc import Sequence

from redqueen.records import Problem
from redqueen.sandbox import Job, Outcome
from redqueen.tasks.kind import Block, Malformed, Request, RunRules, take
from redqueen.tasks.sql.databases import Database, SqlKind, read_result, read_sql
from redqueen.tasks.sql.examples import EXAMPLES
from redqueen.tasks.sql.rows import read_rows
from redqueen.tasks.sql.texts import FEW_SHOT, PREDICT, PROPOSE


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
