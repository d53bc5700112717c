"""A domain of your own without a single program: sums, verified and graded in process.

    python examples/custom_task.py

A kind owns its payload, what is verified and how, what is shown to whom, and how an answer is read
and graded. This one plays both sides on written texts; with a chat model it plays a run:
`tasks.kinds = ["custom_task:Sums"]`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import redqueen as rq
from redqueen.config.stages import VerifyConfig
from redqueen.records import Problem, Proposal
from redqueen.sandbox import Job, Outcome
from redqueen.stages.solve import grade_answers
from redqueen.stages.verify import verify_proposals
from redqueen.tasks.kind import Block, Kind, Malformed, Reject, Request, RunRules, Verified, take
from redqueen.tasks.prompts import load_prompt_format


@dataclass(frozen=True)
class Sum:
    terms: tuple[int, ...]


class Sums(Kind):
    name = "sums"
    payload = Sum
    proposal_blocks = ("sum",)
    answer_blocks = ("total",)

    def ask_proposal(self, references: Sequence[Problem]) -> Request:
        text = "Write a sum that is easy to get wrong, such as 17 + 25 + 8."
        return Request(self.name, "teacher", text, (), (), self.proposal_blocks)

    def read_proposal(self, blocks: Sequence[Block], references: Sequence[Problem]) -> Sum:
        text = take(blocks, "sum")
        if not re.fullmatch(r"\d{1,6}( \+ \d{1,6}){1,9}", text.strip()):
            raise Malformed("expected numbers with + between them")
        return Sum(tuple(int(term) for term in text.split("+")))

    def verification(self, payload: Sum, rules: RunRules) -> Job | None:
        return None  # nothing a model wrote is executed

    def verified(self, payload: Sum, outcome: Outcome | None, rules: RunRules) -> Verified:
        if len(set(payload.terms)) < 2:
            raise Reject("trivial", "all terms are equal")
        features = {"terms": len(payload.terms), "digits": len(str(max(payload.terms)))}
        gold, identity = str(sum(payload.terms)), tuple(map(str, sorted(payload.terms)))
        return Verified(payload, (gold,), features, identity)

    def ask_answer(self, problem: Problem) -> Request:
        shown = (("sum", " + ".join(map(str, problem.payload.terms))),)
        return Request(self.name, "student", "Add it up.", (), shown, self.answer_blocks)

    def read_answer(self, blocks: Sequence[Block]) -> str:
        return take(blocks, "total").strip()

    def grading(self, problem: Problem, answer: str, rules: RunRules) -> Job | None:
        return None  # and what executes nothing needs no control

    def is_correct(self, problem: Problem, answer: str, outcome: Outcome | None) -> bool:
        return answer == problem.gold[0]

    def cell(self, problem: Problem) -> str:
        return f"sums/{problem.features['terms']}/{problem.features['digits']}"


def main() -> None:
    kinds, prompts = {"sums": Sums()}, load_prompt_format("compact")
    texts = [">>sum\n17 + 25 + 8\n>>end", ">>sum\n8 + 25 + 17\n>>end", ">>sum\nseven\n>>end"]
    proposals = [Proposal("sums", text) for text in texts]
    with rq.Sandbox() as sandbox:
        verdicts = verify_proposals(proposals, kinds, prompts, sandbox, VerifyConfig())
        for text, verdict in zip(texts, verdicts, strict=True):
            print(text.splitlines()[1], "->", verdict if not isinstance(verdict, Problem) else "ok")
        problem = next(verdict for verdict in verdicts if isinstance(verdict, Problem))
        print(prompts.render(Sums().ask_answer(problem)).text)
        for answer in (">>total\n50\n>>end", ">>total\n49\n>>end", "fifty"):
            answers = [(problem, answer)]
            (attempt,) = grade_answers(answers, kinds, prompts, sandbox, VerifyConfig())
            print(repr(answer), "->", attempt.verdict)


if __name__ == "__main__":
    main()
