"""Every suite by the same tests: its own answers are correct, wrong ones are not, and what a
candidate claims does not count."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from redqueen.benchmarks.benchmark import WrongReply
from redqueen.benchmarks.data import read_rows
from redqueen.benchmarks.gold import grade_forged, grade_gold, grade_wrong, keep_proven
from redqueen.benchmarks.maths.grader import Comparison, MathsGrader
from redqueen.benchmarks.suite import BASE, CHAT, Graders, Item, PromptStyle
from redqueen.benchmarks.table import BENCHMARKS, GROUPS, expand_groups
from redqueen.errors import ConfigError, DataError
from redqueen.sandbox.pool import SandboxPool
from tests.contract.benchmark_items import write_items


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_items(tmp_path_factory.mktemp("benchmarks"))


@pytest.fixture(scope="module")
def graders(pool: SandboxPool) -> Iterator[Graders]:
    with MathsGrader(workers=1) as maths:
        yield Graders(pool, maths)


def items_of(name: str, data: Path) -> list[Item]:
    return BENCHMARKS[name].items(data, None)


def is_correct(
    name: str, item: Item, reply: str, graders: Graders, style: PromptStyle = CHAT
) -> bool:
    return BENCHMARKS[name].grade([item], [reply], style, graders)[0].correct


@pytest.mark.parametrize("name", [name for name in BENCHMARKS if name != "livecodebench"])
def test_the_reference_answers_of_a_suite_are_correct(
    name: str, data: Path, graders: Graders
) -> None:
    result = grade_gold(BENCHMARKS[name], items_of(name, data), graders, lambda count: None)
    assert (result.score, result.failed) == (1.0, ())


@pytest.mark.parametrize("name", list(BENCHMARKS))
def test_answers_that_are_provably_wrong_are_rejected(
    name: str, data: Path, graders: Graders
) -> None:
    result = grade_wrong(BENCHMARKS[name], items_of(name, data), graders, lambda count: None)
    assert result.n >= 6
    assert (result.score, result.failed) == (0.0, ())


@pytest.mark.parametrize("style", [CHAT, BASE], ids=["chat", "base"])
@pytest.mark.parametrize("name", list(BENCHMARKS))
def test_a_prompt_holds_the_question_and_never_the_answer(
    name: str, style: PromptStyle, data: Path
) -> None:
    suite = BENCHMARKS[name]
    for item in items_of(name, data):
        prompt = suite.prompt(item, style)
        assert (prompt.system is None) == (style == BASE)
        assert not any(
            answer in prompt.text
            for answer in (item.fields.get("canonical_solution"), item.fields.get("code"))
            if answer and "crux" not in name
        )
        assert suite.prompt_version(style).partition("-")[0] in name + "maths"


@pytest.mark.slow
@pytest.mark.parametrize("name", [*GROUPS["code"], "gsm8k", "math500", "minerva"])
def test_no_cheat_scores(name: str, data: Path, graders: Graders) -> None:
    items = items_of(name, data)
    result = grade_forged(BENCHMARKS[name], items, graders, lambda count: None)
    assert result.n >= 12 * len(items)
    assert (result.correct, result.failed) == (0, ())


def test_a_constant_that_passes_the_items_own_tests_is_no_forgery(data: Path) -> None:
    item = items_of("mbpp", data)[0]
    lucky = WrongReply("lucky", "", ("def add(*a): return sum(a)", "assert add(1, 2) == 3"))
    wrong = WrongReply("wrong", "", ("def add(*a): return 0", "assert add(1, 2) == 3"))
    assert keep_proven([(item, lucky), (item, wrong)]) == [(item, wrong)]


def test_livecodebench_runs_programs_and_methods(data: Path, graders: Graders) -> None:
    program, method = items_of("livecodebench", data)
    assert is_correct(
        "livecodebench",
        program,
        "```python\na, b = map(int, input().split())\nprint(a + b)\n```",
        graders,
    )
    assert not is_correct("livecodebench", program, "```python\nprint(3)\n```", graders)
    assert is_correct(
        "livecodebench",
        method,
        "```python\nclass Solution:\n    def turn(self, xs: List[int]) -> List[int]:\n        return tuple(xs[::-1])\n```",
        graders,
    )
    assert not is_correct(
        "livecodebench",
        method,
        "```python\nclass Solution:\n    def turn(self, xs):\n        return xs\n```",
        graders,
    )
    assert grade_gold(BENCHMARKS["livecodebench"], [program], graders, lambda count: None).skipped


def test_a_base_model_continues_the_prompt(data: Path, graders: Graders) -> None:
    assert is_correct(
        "humaneval",
        items_of("humaneval", data)[0],
        "    return x * 3\n\nprint(triple(1))\nassert False",
        graders,
        BASE,
    )
    assert is_correct(
        "mbpp",
        items_of("mbpp", data)[0],
        "def add(a, b):\n    return b + a if a == 1 else a + b\n\nassert add(1, 1) == 5",
        graders,
        BASE,
    )
    assert is_correct(
        "cruxeval-o", items_of("cruxeval-o", data)[0], " [2, 3]\n\ndef g(): pass", graders, BASE
    )
    assert is_correct(
        "cruxeval-i", items_of("cruxeval-i", data)[0], "[2, 0, 3])\n\ndef g(): pass", graders, BASE
    )
    assert is_correct(
        "gsm8k",
        items_of("gsm8k", data)[0],
        " It is \\boxed{1000}.\n\nProblem: next? \\boxed{5}",
        graders,
        BASE,
    )


def test_correct_answers_in_other_words_are_correct(data: Path, graders: Graders) -> None:
    triple, thirds, zero = items_of("humaneval+", data)
    assert is_correct(
        "humaneval+",
        triple,
        "Sure!\n```python\ndef triple(x: List) -> int:\n    return x + x + x\n```\nFor example:\n```python\ntriple(2)\n```",
        graders,
    )
    assert is_correct(
        "humaneval+",
        thirds,
        "```python\nfrom __future__ import annotations\ndef thirds(xs):\n    return [x * (1 / 3) for x in xs]\n```",
        graders,
    )
    assert not is_correct(
        "humaneval+",
        thirds,
        "```python\ndef thirds(xs):\n    return [x * 0.333 for x in xs]\n```",
        graders,
    )
    assert is_correct(
        "humaneval+",
        zero,
        "```python\ndef find_zero(xs):\n    return -xs[0] / xs[1] + 1e-7\n```",
        graders,
    )
    common, match, half = items_of("mbpp+", data)
    assert is_correct(
        "mbpp+",
        common,
        "```python\ndef common(a, b):\n    return sorted(set(a) & set(b), reverse=True)\n```",
        graders,
    )
    assert is_correct(
        "mbpp+",
        match,
        "```python\ndef text_match_three(text):\n    return 'abbb' in text\n```",
        graders,
    )
    assert not is_correct(
        "mbpp+", match, "```python\ndef text_match_three(text):\n    return True\n```", graders
    )
    assert is_correct("mbpp+", half, "```python\ndef half(x):\n    return x * 0.5\n```", graders)


def test_an_answer_to_cruxeval_is_a_value_however_it_is_written(
    data: Path, graders: Graders
) -> None:
    item = items_of("cruxeval-o", data)[0]
    for answer in (
        "[2,3]",
        "`[2, 3]`",
        "```python\n[2, 3]\n```",
        "assert f([3, 1, 2]) == [2, 3]",
        "[2] + [3]",
        "list((2, 3))",
    ):
        assert is_correct(
            "cruxeval-o", item, f"<think>[9]</think> So <answer>{answer}</answer>", graders
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
        assert not is_correct("cruxeval-o", item, f"<answer>{answer}</answer>", graders), answer
    for answer in ("[2, 3, 0]", "xs=[2, 3, 1]", "f([1, 2, 3])", "f([1, 2, 3]) == [2, 3]"):
        assert is_correct("cruxeval-i", item, f"<answer>{answer}</answer>", graders), answer
    for answer in (
        "[2, 3]",
        "[2, 3, 1], 0",
        "f.__class__",
        "*[[2, 3, 4]]",
        'exec("f = lambda *a: [2, 3]") or (lambda exec: 0)',
        'lambda x=exec("f = lambda *a: [2, 3]"): 0',
        "(lambda list: list)([2, 3, 1])",
        "[2, 3, 1] if (lambda x: x) else x",
    ):
        assert not is_correct("cruxeval-i", item, f"<answer>{answer}</answer>", graders), answer


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
    pairs: list[tuple[str, str]], expected: bool, graders: Graders
) -> None:
    verdicts = graders.maths.grade([Comparison(gold, answer) for gold, answer in pairs])
    assert [
        pair for pair, verdict in zip(pairs, verdicts, strict=True) if verdict.correct != expected
    ] == []


def test_a_measured_number_need_agree_only_in_the_digits_it_has(graders: Graders) -> None:
    answers = ["1.57", "1.6", "1.5708", "\\frac{\\pi}{2}", "1.66", "1.5", "16", "-1.6"]
    verdicts = graders.maths.grade([Comparison("1.6", answer, decimals=True) for answer in answers])
    assert [verdict.correct for verdict in verdicts] == [True] * 4 + [False] * 4
    verdicts = graders.maths.grade(
        [
            Comparison("4.5e33", answer, decimals=True)
            for answer in ("4.5 \\times 10^{33}", "4.52e33", "4.6e33", "48")
        ]
    )
    assert [verdict.correct for verdict in verdicts] == [True, True, False, False]
    assert [
        verdict.correct
        for verdict in graders.maths.grade(
            [Comparison("48", "48.3", decimals=True), Comparison("4.2", "4.3", tolerance=0.1)]
        )
    ] == [
        False,
        True,
    ]


def test_an_identity_is_no_answer_where_the_reference_reads_as_one(graders: Graders) -> None:
    answers = {"N = n": True, "n": True, "q_{99} = q_{99}": False, "1 = 1": False, "m": False}
    verdicts = graders.maths.grade([Comparison("N=n", answer) for answer in answers])
    assert [verdict.correct for verdict in verdicts] == list(answers.values())


def test_equal_answers_to_equal_questions_are_compared_once(graders: Graders) -> None:
    asked = Comparison("2x + 2", "2(x+1)")
    first, again = graders.maths.grade([asked, asked])
    assert first.correct and first is again is graders.maths.grade([asked])[0]


@pytest.mark.slow
def test_a_formula_that_cannot_be_worked_out_harms_nobody() -> None:
    huge = ["9^{9^{9^{9}}}", "(" * 1900, "x" * 5000]
    with MathsGrader(workers=1, cpu_s=1) as maths:
        verdicts = maths.grade(
            [*(Comparison("7", answer) for answer in huge), Comparison("7", "\\frac{14}{2}")]
        )
    assert [verdict.correct for verdict in verdicts] == [False] * len(huge) + [True]


def test_groups_hold_every_suite_once() -> None:
    assert {*GROUPS["code"], *GROUPS["math"]} == set(BENCHMARKS) == set(GROUPS["all"])
    assert expand_groups(["gsm8k", "math"])[:2] == ["gsm8k", "math500"]
    with pytest.raises(ConfigError, match="Did you mean 'humaneval"):
        expand_groups(["humanevall"])


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
