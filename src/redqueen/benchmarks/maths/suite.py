"""The maths benchmarks: GSM8K, MATH-500, AIME, AMC, Minerva and OlympiadBench. They differ in their
fields only."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from redqueen.benchmarks.benchmark import Benchmark, WrongReply
from redqueen.benchmarks.data import Source
from redqueen.benchmarks.extraction import extract_boxed, extract_maths_answer, truncate_at
from redqueen.benchmarks.forgeries import forged_answers
from redqueen.benchmarks.maths.grader import Comparison
from redqueen.benchmarks.maths.text import normalize
from redqueen.benchmarks.suite import SYSTEM, Graders, Item, PromptStyle, Verdict
from redqueen.tasks.prompts import Prompt

_INSTRUCTION = "{}\n\nReason step by step, and put your final answer within \\boxed{{}}."
_FEW_SHOT = (
    (
        "A box holds 12 pencils. Mia has 3 boxes and gives 7 pencils away. How many pencils does "
        "she have left?",
        "Three boxes hold 3 \\cdot 12 = 36 pencils. After giving 7 away she has 36 - 7 = 29. The "
        "final answer is \\boxed{29}.",
    ),
    (
        "Find the positive solution of $x^2 - 2x - 1 = 0$.",
        "Completing the square gives $(x-1)^2 = 2$, so $x = 1 \\pm \\sqrt{2}$; we need "
        "$1+\\sqrt{2}$. The final answer is \\boxed{1+\\sqrt{2}}.",
    ),
    (
        "What fraction of an hour is 25 minutes?",
        "An hour has 60 minutes, and $\\frac{25}{60} = \\frac{5}{12}$. The final answer is "
        "\\boxed{\\frac{5}{12}}.",
    ),
)
_STOPS = ("\nProblem:", "\n\n\n")


@dataclass(frozen=True)
class Maths(Benchmark):
    name: str
    source: Source
    question: str
    """The field that holds the problem."""
    answer_of: Callable[[Mapping[str, Any]], str]
    """The reference answer of a row."""
    id_of: Callable[[int, Mapping[str, Any]], str]
    max_tokens: int = 2048
    decimals: bool = False
    """Whether a decimal fraction need only agree in the digits that gold has."""
    version: str = "maths-1"
    summary: str = ""

    def read_items(self, rows: Sequence[Mapping[str, Any]]) -> list[Item]:
        return [Item(self.id_of(number, row), row) for number, row in enumerate(rows)]

    def prompt(self, item: Item, style: PromptStyle) -> Prompt:
        problem = str(item.fields[self.question]).strip()
        if style.chat:
            return Prompt(_INSTRUCTION.format(problem), SYSTEM)
        examples = "".join(
            f"Problem: {question}\nSolution: {solution}\n\n" for question, solution in _FEW_SHOT
        )
        return Prompt(f"{examples}Problem: {problem}\nSolution:", None, _STOPS)

    def grade(
        self, items: Sequence[Item], replies: Sequence[str], style: PromptStyle, graders: Graders
    ) -> list[Verdict]:
        answers = [_extract_answer(reply, style) for reply in replies]
        verdicts = [Verdict(False, "no answer")] * len(items)
        answered = [number for number, answer in enumerate(answers) if answer]
        graded = graders.maths.grade(
            [self._comparison(items[number], answers[number] or "") for number in answered]
        )
        for number, verdict in zip(answered, graded, strict=True):
            verdicts[number] = verdict
        return verdicts

    def _comparison(self, item: Item, answer: str) -> Comparison:
        return Comparison(
            self.answer_of(item.fields), answer, self.decimals, float(item.fields.get("error") or 0)
        )

    def vote_key(self, item: Item, reply: str, style: PromptStyle) -> str | None:
        return normalize(_extract_answer(reply, style) or "")

    def gold_reply(self, item: Item) -> str | None:
        answer = self.answer_of(item.fields)
        return f"Working it out gives the result. The final answer is $\\boxed{{{answer}}}$."

    def wrong_replies(self, items: Sequence[Item], place: int) -> list[WrongReply]:
        gold = self.answer_of(items[place].fields)
        tricks = {
            "all at once": f"{gold}, ({gold})+1, ({gold})+2",
            "a choice": f"{gold} \\text{{ or }} ({gold})+1",
            "taken back": f"{gold}}} No: \\boxed{{-98765.4321",
            **_HOSTILE,
        }
        trick = list(tricks)[place % len(tricks)]
        answers = {"another number": "-98765.4321", "one more": f"({gold})+1", trick: tricks[trick]}
        answers |= _SLOW if place % _SLOW_EVERY == _SLOW_EVERY - 1 else {}
        return [
            WrongReply("empty", ""),
            WrongReply("without a number", "I do not know."),
            *(
                WrongReply(name, f"The final answer is $\\boxed{{{text}}}$.")
                for name, text in answers.items()
            ),
        ]

    def forged_replies(self, items: Sequence[Item], place: int) -> list[WrongReply]:
        other = items[(place + 1) % len(items)]
        return forged_answers(self.answer_of(items[place].fields), self.answer_of(other.fields))


_SLOW_EVERY = 100
_SLOW = {
    "too large to work out": "9^{9^{9^{9^{9}}}}",
    "nested deep": "\\frac{" * 60 + "1" + "}{2}" * 60,
}
"""Each takes seconds, up to the timeout."""
_HOSTILE = {
    "a command": "__import__('os').system('true')",
    "nothing": "",
    "only words": "\\text{none of these}",
    "not a formula": "\\frac{\\sqrt{\\begin",
}


def _extract_answer(reply: str, style: PromptStyle) -> str | None:
    return extract_maths_answer(reply if style.chat else truncate_at(reply, _STOPS))


def _number(value: Any) -> str:
    """Some files have 27.0 for 27."""
    return (
        str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()
    )


def _olympiad(row: Mapping[str, Any]) -> str:
    """`$69$,$84$` is the formula `69,84`."""
    return str(row["final_answer"][0]).strip().rstrip(".").replace("$", "").strip()


def _boxed(row: Mapping[str, Any]) -> str:
    return extract_boxed(str(row["solution"])) or str(row["solution"]).strip()


def _contest(
    name: str,
    file: str,
    hub: str,
    split: str,
    summary: str,
    question: str = "problem",
    rename: Mapping[str, str] | None = None,
) -> Maths:
    source = Source(file, (question, "answer", "id"), hub=hub, split=split, rename=rename)
    return Maths(
        name,
        source,
        question,
        lambda row: _number(row["answer"]),
        lambda number, row: f"{name}/{row['id']}",
        summary=summary,
    )


_AIME = "30 problems of a year's AIME: an integer"

MATHS: tuple[Maths, ...] = (
    Maths(
        "gsm8k",
        Source("gsm8k_test.jsonl", ("question", "answer"), hub="openai/gsm8k", config="main"),
        "question",
        lambda row: str(row["answer"]).rpartition("####")[2].strip(),
        lambda number, row: f"gsm8k/{number}",
        max_tokens=512,
        summary="1,319 word problems of grade-school maths: a number",
    ),
    Maths(
        "math500",
        Source("math500.jsonl", ("problem", "answer", "unique_id"), hub="HuggingFaceH4/MATH-500"),
        "problem",
        lambda row: str(row["answer"]),
        lambda number, row: str(row["unique_id"]),
        summary="500 competition problems of MATH: a formula",
    ),
    _contest("aime24", "aime24.jsonl", "HuggingFaceH4/aime_2024", "train", _AIME),
    _contest("aime25", "aime25.jsonl", "math-ai/aime25", "test", _AIME),
    _contest(
        "amc23",
        "amc23.jsonl",
        "math-ai/amc23",
        "test",
        "40 problems of the AMC of 2023: an integer",
        rename={"question": "problem"},
    ),
    Maths(
        "minerva",
        Source(
            "minerva_math.jsonl",
            ("problem", "solution"),
            hub="math-ai/minervamath",
            rename={"question": "problem", "answer": "solution"},
        ),
        "problem",
        _boxed,
        lambda number, row: f"minerva/{row.get('idx', number)}",
        decimals=True,
        summary="272 problems of undergraduate science: a number or a formula",
    ),
    Maths(
        "olympiadbench",
        Source(
            "olympiadbench.jsonl.gz",
            ("question", "final_answer", "id"),
            hub="Hothan/OlympiadBench",
            config="OE_TO_maths_en_COMP",
            split="train",
        ),
        "question",
        _olympiad,
        lambda number, row: f"olympiadbench/{row['id']}",
        summary="675 olympiad problems in English, text only: a formula",
    ),
)
