"""Queries: given tables, a question and the rows that answer it, write the query. It is correct
when it gives the right rows on hidden tables too.

Hidden rows follow from the shown ones, not from the teacher. A student's query runs in the sandbox
beside them but never beside gold, and nothing of the teacher's runs: there is nothing to control.
"""

from collections.abc import Mapping, Sequence

from redqueen.records import Problem
from redqueen.sandbox import Job, Outcome
from redqueen.tasks.kind import Block, Malformed, Reject, Request, RunRules, take
from redqueen.tasks.sql.databases import (
    MAX_QUERY,
    Database,
    SqlKind,
    query_job,
    read_outcome,
    read_result,
    read_sql,
    write_rows,
)
from redqueen.tasks.sql.examples import EXAMPLES
from redqueen.tasks.sql.texts import FEW_SHOT, ORDERED, PROPOSE_QUESTION, UNORDERED, WRITE
from redqueen.tasks.surface import describe_surface


class SqlQ(SqlKind):
    name = "sql_q"
    summary = "write the query that answers a question, on hidden rows as well"
    reference_kinds = ("sql_o",)
    proposal_blocks = ("tables", "query", "question")
    answer_blocks = ("query",)
    hidden = True

    def seeds(self) -> Sequence[Database]:
        return EXAMPLES

    def ask_proposal(self, references: Sequence[Problem]) -> Request:
        examples = tuple(self.show(problem) for problem in references)
        return self.request(
            "teacher", PROPOSE_QUESTION, examples=examples, few_shot=FEW_SHOT["sql_q"]
        )

    def read_proposal(self, blocks: Sequence[Block], references: Sequence[Problem]) -> Database:
        question = " ".join(take(blocks, "question").split())
        if not question:
            raise Malformed("no question")
        return Database(read_sql(blocks, "tables"), read_sql(blocks, "query"), question)

    def ask_answer(self, problem: Problem) -> Request:
        database: Database = problem.payload
        results = [read_result(gold) for gold in problem.gold]
        rows = write_rows(results[0].rows)
        # hidden rows may be in an order where the shown ones are too few to be in any
        order = ORDERED if any(result.ordered for result in results) else UNORDERED
        given = (("tables", database.tables), ("question", database.question), ("result", rows))
        return self.request("student", WRITE.format(order=order), given, few_shot=FEW_SHOT["write"])

    def surface(self, problem: Problem) -> Mapping[str, float | str]:
        """The answer is shown where the question has the query."""
        database: Database = problem.payload
        return describe_surface((("question", database.question),), database.query)

    def read_answer(self, blocks: Sequence[Block]) -> str:
        query = read_sql(blocks, "query")
        if len(query) > MAX_QUERY:
            raise Malformed(f"query of {len(query)} characters, at most {MAX_QUERY}")
        return query

    def grading(self, problem: Problem, answer: str, rules: RunRules) -> Job | None:
        return query_job(problem.payload.tables, answer, rules, self.hidden)

    def is_correct(self, problem: Problem, answer: str, outcome: Outcome | None) -> bool:
        try:
            results = read_outcome(outcome)["results"]
        except Reject:
            return False
        golds = map(read_result, problem.gold)
        return all(
            gold.is_answered_by(result["rows"]) and (result["ordered"] or not gold.ordered)
            for gold, result in zip(golds, results, strict=True)
        )
