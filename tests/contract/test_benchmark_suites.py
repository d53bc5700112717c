"""Every suite by the same tests: its own answers are right, wrong ones are not, and what a
candidate claims does not count."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from redqueen.benchmarks.data import read_rows
from redqueen.benchmarks.gold import grade_gold, grade_wrong
from redqueen.benchmarks.maths.judge import Comparison, MathsJudge
from redqueen.benchmarks.suite import Item, Judges
from redqueen.benchmarks.suites import BENCHMARKS, GROUPS, expand
from redqueen.benchmarks.wrong import fenced_program, hostile_programs
from redqueen.errors import ConfigError, DataError
from redqueen.sandbox.pool import SandboxPool
from tests.contract.benchmark_items import write_items


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_items(tmp_path_factory.mktemp("benchmarks"))


@pytest.fixture(scope="module")
def judges(pool: SandboxPool) -> Iterator[Judges]:
    with MathsJudge(workers=1) as maths:
        yield Judges(pool, maths)


def items_of(name: str, data: Path) -> list[Item]:
    return BENCHMARKS[name].items(read_rows(name, BENCHMARKS[name].source, data))


def right(name: str, item: Item, reply: str, judges: Judges, style: str = "chat") -> bool:
    return BENCHMARKS[name].grade([item], [reply], style, judges)[0].right  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [name for name in BENCHMARKS if name != "livecodebench"])
def test_the_reference_answers_of_a_suite_are_right(name: str, data: Path, judges: Judges) -> None:
    result = grade_gold(BENCHMARKS[name], items_of(name, data), judges, lambda count: None)
    assert (result.score, result.failed) == (1.0, ())


@pytest.mark.parametrize("name", list(BENCHMARKS))
def test_answers_that_are_wrong_by_proof_are_not_right(
    name: str, data: Path, judges: Judges
) -> None:
    result = grade_wrong(BENCHMARKS[name], items_of(name, data), judges, lambda count: None)
    assert result.n >= 6
    assert (result.score, result.failed) == (0.0, ())


@pytest.mark.parametrize("style", ["chat", "base"])
@pytest.mark.parametrize("name", list(BENCHMARKS))
def test_a_prompt_holds_the_question_and_never_the_answer(
    name: str, style: str, data: Path
) -> None:
    suite = BENCHMARKS[name]
    for item in items_of(name, data):
        prompt = suite.prompt(item, style)  # type: ignore[arg-type]
        assert (prompt.system is None) == (style == "base")
        assert not any(
            answer in prompt.text
            for answer in (item.fields.get("canonical_solution"), item.fields.get("code"))
            if answer and "crux" not in name
        )
        assert suite.prompt_version.partition("-")[0] in name + "maths"


@pytest.mark.parametrize("name", ["humaneval", "humaneval+", "mbpp", "mbpp+"])
def test_no_attack_on_the_tests_scores(name: str, data: Path, judges: Judges) -> None:
    item = items_of(name, data)[0]
    entry = item.fields.get("entry_point", "add")
    replies = [fenced_program(program) for program in hostile_programs(entry).values()]
    verdicts = BENCHMARKS[name].grade([item] * len(replies), replies, "chat", judges)
    assert not any(verdict.right for verdict in verdicts)


def test_livecodebench_runs_programs_and_methods(data: Path, judges: Judges) -> None:
    program, method = items_of("livecodebench", data)
    assert right(
        "livecodebench",
        program,
        "```python\na, b = map(int, input().split())\nprint(a + b)\n```",
        judges,
    )
    assert not right("livecodebench", program, "```python\nprint(3)\n```", judges)
    assert right(
        "livecodebench",
        method,
        "```python\nclass Solution:\n    def turn(self, xs: List[int]) -> List[int]:\n        return tuple(xs[::-1])\n```",
        judges,
    )
    assert not right(
        "livecodebench",
        method,
        "```python\nclass Solution:\n    def turn(self, xs):\n        return xs\n```",
        judges,
    )
    assert grade_gold(BENCHMARKS["livecodebench"], [program], judges, lambda count: None).skipped


def test_a_base_model_continues_the_prompt(data: Path, judges: Judges) -> None:
    assert right(
        "humaneval",
        items_of("humaneval", data)[0],
        "    return x * 3\n\nprint(triple(1))\nassert False",
        judges,
        "base",
    )
    assert right(
        "mbpp",
        items_of("mbpp", data)[0],
        "def add(a, b):\n    return b + a if a == 1 else a + b\n\nassert add(1, 1) == 5",
        judges,
        "base",
    )
    assert right(
        "cruxeval-o", items_of("cruxeval-o", data)[0], " [2, 3]\n\ndef g(): pass", judges, "base"
    )
    assert right(
        "cruxeval-i", items_of("cruxeval-i", data)[0], "[2, 0, 3])\n\ndef g(): pass", judges, "base"
    )
    assert right(
        "gsm8k",
        items_of("gsm8k", data)[0],
        " It is \\boxed{1000}.\n\nProblem: next? \\boxed{5}",
        judges,
        "base",
    )


def test_right_answers_in_other_words_are_right(data: Path, judges: Judges) -> None:
    triple, thirds, zero = items_of("humaneval+", data)
    assert right(
        "humaneval+",
        triple,
        "Sure!\n```python\ndef triple(x: List) -> int:\n    return x + x + x\n```\nFor example:\n```python\ntriple(2)\n```",
        judges,
    )
    assert right(
        "humaneval+",
        thirds,
        "```python\nfrom __future__ import annotations\ndef thirds(xs):\n    return [x * (1 / 3) for x in xs]\n```",
        judges,
    )
    assert not right(
        "humaneval+",
        thirds,
        "```python\ndef thirds(xs):\n    return [x * 0.333 for x in xs]\n```",
        judges,
    )
    assert right(
        "humaneval+",
        zero,
        "```python\ndef find_zero(xs):\n    return -xs[0] / xs[1] + 1e-7\n```",
        judges,
    )
    common, match, half = items_of("mbpp+", data)
    assert right(
        "mbpp+",
        common,
        "```python\ndef common(a, b):\n    return sorted(set(a) & set(b), reverse=True)\n```",
        judges,
    )
    assert right(
        "mbpp+",
        match,
        "```python\ndef text_match_three(text):\n    return 'abbb' in text\n```",
        judges,
    )
    assert not right(
        "mbpp+", match, "```python\ndef text_match_three(text):\n    return True\n```", judges
    )
    assert right("mbpp+", half, "```python\ndef half(x):\n    return x * 0.5\n```", judges)


def test_an_answer_to_cruxeval_is_a_value_however_it_is_written(data: Path, judges: Judges) -> None:
    item = items_of("cruxeval-o", data)[0]
    for answer in (
        "[2,3]",
        "`[2, 3]`",
        "```python\n[2, 3]\n```",
        "assert f([3, 1, 2]) == [2, 3]",
        "[2] + [3]",
        "list((2, 3))",
    ):
        assert right(
            "cruxeval-o", item, f"<think>[9]</think> So <answer>{answer}</answer>", judges
        ), answer
    for answer in (
        "(2, 3)",
        "[3, 2]",
        "f([3, 1, 2])",
        "[x for x in (2, 3)]",
        "sorted([3, 2])",
        "'[2, 3]'",
        "[2, 3",
        "2, 3",
    ):
        assert not right("cruxeval-o", item, f"<answer>{answer}</answer>", judges), answer
    for answer in ("[2, 3, 0]", "xs=[2, 3, 1]", "f([1, 2, 3])", "f([1, 2, 3]) == [2, 3]"):
        assert right("cruxeval-i", item, f"<answer>{answer}</answer>", judges), answer
    for answer in ("[2, 3]", "[2, 3, 1], 0", "f.__class__", "*[[2, 3, 4]]"):
        assert not right("cruxeval-i", item, f"<answer>{answer}</answer>", judges), answer


SAME = [
    ("\\frac{1}{2}", "0.5"), ("\\frac{1}{2}", "\\dfrac12"), ("1000", "1,000"), ("1,000", "\\$1000"), ("073", "73"), ("x=5", "5"), ("18", "$18$."),
    ("(3, \\frac{\\pi}{2})", "(3,\\pi/2)"), ("1 \\pm \\sqrt{19}", "1 - \\sqrt{19}, 1 + \\sqrt{19}"), ("(2,\\infty)", "(2, +\\infty)"),
    ("\\text{Evelyn}", "Evelyn"), ("\\text{(C)}", "C"), ("69,84", "84, 69"), ("2\\sqrt{2}", "\\sqrt{8}"), ("90^\\circ", "90"), ("n^2+2n+1", "(n+1)^2"),
]  # fmt: skip
OTHER = [
    ("\\frac{1}{2}", "0.49"), ("1000", "100"), ("18", "18.5"), ("69,84", "69"), ("69", "69,84"), ("(1,2)", "(2,1)"), ("(2,\\infty)", "[2,\\infty)"),
    ("\\text{Evelyn}", "Carla"), ("\\text{even}", "\\text{neve}"), ("\\text{(C)}", "(D)"), ("5", "x"), ("n^2", "n^2+1"), ("2", "\\text{2 or 3}"), ("12", "1,2"),
]  # fmt: skip


@pytest.mark.parametrize(("pairs", "expected"), [(SAME, True), (OTHER, False)])
def test_formulas_are_compared_by_what_they_mean(
    pairs: list[tuple[str, str]], expected: bool, judges: Judges
) -> None:
    verdicts = judges.maths.judge([Comparison(gold, answer) for gold, answer in pairs])
    assert [
        pair for pair, verdict in zip(pairs, verdicts, strict=True) if verdict.right != expected
    ] == []


def test_a_measured_number_need_agree_only_in_the_digits_it_has(judges: Judges) -> None:
    answers = ["1.57", "1.6", "1.5708", "\\frac{\\pi}{2}", "1.66", "1.5", "16", "-1.6"]
    verdicts = judges.maths.judge([Comparison("1.6", answer, decimals=True) for answer in answers])
    assert [verdict.right for verdict in verdicts] == [True] * 4 + [False] * 4
    verdicts = judges.maths.judge(
        [
            Comparison("4.5e33", answer, decimals=True)
            for answer in ("4.5 \\times 10^{33}", "4.52e33", "4.6e33", "48")
        ]
    )
    assert [verdict.right for verdict in verdicts] == [True, True, False, False]
    assert [
        verdict.right
        for verdict in judges.maths.judge(
            [Comparison("48", "48.3", decimals=True), Comparison("4.2", "4.3", tolerance=0.1)]
        )
    ] == [
        False,
        True,
    ]


@pytest.mark.slow
def test_a_formula_that_cannot_be_worked_out_harms_nobody() -> None:
    huge = ["9^{9^{9^{9}}}", "(" * 1900, "x" * 5000]
    with MathsJudge(workers=1, timeout_s=2) as maths:
        verdicts = maths.judge(
            [*(Comparison("7", answer) for answer in huge), Comparison("7", "\\frac{14}{2}")]
        )
    assert [verdict.right for verdict in verdicts] == [False] * len(huge) + [True]


def test_groups_hold_every_suite_once() -> None:
    assert {*GROUPS["code"], *GROUPS["math"]} == set(BENCHMARKS) == set(GROUPS["all"])
    assert expand(["gsm8k", "math"])[:2] == ["gsm8k", "math500"]
    with pytest.raises(ConfigError, match="Did you mean 'humaneval"):
        expand(["humanevall"])


def test_missing_data_says_which_suite_where_it_looked_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = BENCHMARKS["mbpp+"].source
    with pytest.raises(DataError) as told:
        read_rows("mbpp+", source, tmp_path)
    assert all(
        word in str(told.value)
        for word in ("mbpp+", "mbpp_plus.jsonl", str(tmp_path), "evalplus", "--data")
    )
    monkeypatch.delenv("REDQUEEN_DATA", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(DataError, match=r"redqueen\[hub\]"):
        read_rows("mbpp+", source, None)
    (tmp_path / "mbpp_plus.jsonl").write_text('{"task_id": 1}\n')
    with pytest.raises(DataError, match="no field 'prompt'"):
        read_rows("mbpp+", source, tmp_path)
