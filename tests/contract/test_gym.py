"""Problems of reasoning-gym: made again from a seed, graded by the data set's own scorer, in a
process that hostile answers cannot harm.

The package is heavy (matplotlib, pycosat and others), so that these tests use a small stand-in with
its interface; one test uses the package itself where it is installed.
"""

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from redqueen.config.stages import VerifyConfig
from redqueen.config.toml import load_config
from redqueen.errors import ConfigError
from redqueen.evaluate.suites import load_suite
from redqueen.records import Problem, Rejection
from redqueen.stages.solve import grade_answers
from redqueen.stages.verify import verify_payloads
from redqueen.tasks import RunRules, load_kind, load_kinds
from redqueen.tasks.gym import entries_of
from redqueen.tasks.gym.entries import Entry
from redqueen.tasks.gym.guarded_eval import is_formula
from redqueen.tasks.gym.number_games import makes_target
from redqueen.tasks.gym.scorer import SCORER
from redqueen.tasks.kind import Malformed
from redqueen.tasks.prompts import load_prompt_format
from redqueen.tasks.sources import load_source
from tests.scripted import TrustingSandbox

GYM = load_kind("gym")
RULES = RunRules.of(VerifyConfig())
CHAT = load_prompt_format("chat")
FAKE = """
import math, os, re
import sympy
def say(line):
    "On every pipe that there is."
    for descriptor in range(64):
        try: os.write(descriptor, line)
        except OSError: pass
class Sums:
    def __init__(self, seed, size): self.seed = seed
    def __getitem__(self, index):
        a, b = self.seed % 97, index + 2
        return {"question": f"What is {a} + {b}?", "answer": str(a + b), "metadata": {"parts": (a, b)}}
    def score_answer(self, answer, entry):
        if answer == "hang":
            while True: pass
        if answer == "memory": return len([0] * 10**10)
        if answer == "write": open("/tmp/redqueen-gym-canary", "w")
        if answer == "exit":
            import os; os._exit(0)
        return 1.0 if answer == entry["answer"] else 0.5 if answer == "almost" else 0.01
class Open(Sums):
    def __getitem__(self, index): return {"question": "Why?", "answer": None, "metadata": {}}
class Code(Sums):
    def score_answer(self, answer, entry):
        return 1.0 if answer == entry["answer"] or eval(answer) == [1, 2] else 0.0
class Any(Sums):
    def score_answer(self, answer, entry): return 1.0 if bool(answer) else 0.0
class Talking(Sums):
    def __getitem__(self, index):
        if self.seed == 13: say(b'{"request": 0, "question": "?"}\\n')
        print("making", index, flush=True)
        return super().__getitem__(index)
    def score_answer(self, answer, entry):
        if answer.startswith("{"):
            say(answer.encode() + b"\\n")
            while True: pass
        if answer == "read": return 1.0 if os.read(0, 100) else 0.0
        return super().score_answer(answer, entry)
class Algebra(Sums):
    def score_answer(self, answer, entry):
        return 1.0 if sympy.parse_expr(answer) == sympy.parse_expr(entry["answer"]) else 0.0
class Numbers(Sums):
    def __getitem__(self, index):
        metadata = {"numbers": [50, 10, 3, 3], "target": 500}
        return {"question": "Make 500.", "answer": "50*10 + 3 - 3", "metadata": metadata}
    def score_answer(self, answer, entry):
        used = sorted(map(int, re.findall(r"\\b\\d+\\b", answer)))
        return 1.0 if abs(eval(answer) - 500) < 1 and used == [3, 3, 10, 50] else 0.0
class Near(Sums):
    def score_answer(self, answer, entry):
        return min(1.0, math.exp(-abs(complex(answer) - complex(entry["answer"]))))
class Shuffled(Sums):
    def __getitem__(self, index):
        return {"question": ",".join({*map(str, range(99))}), "answer": "0", "metadata": {}}
DATASETS = {
    "sums": Sums, "open": Open, "code": Code, "any": Any, "talking": Talking, "algebra": Algebra,
    "countdown": Numbers, "near": Near, "shuffled": Shuffled,
}
def create_dataset(name, seed, size):
    return DATASETS[name](seed, size)
"""


@pytest.fixture(scope="module", autouse=True)
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    package = tmp_path_factory.mktemp("packages") / "reasoning_gym"
    package.mkdir()
    (package / "__init__.py").write_text(FAKE)
    (package / "factory.py").write_text("from reasoning_gym import DATASETS\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(package.parent), prepend=":")
        patch.setattr("redqueen.tasks.gym.scorer.CPU_S", 0.5)
        SCORER.close()
        yield
        SCORER.close()


def problems(count: int = 3) -> list[Problem]:
    made = entries_of("sums")(Random(0), count, range(1, 3), ["gym"])
    verdicts = verify_payloads(
        [(kind, entry, None) for kind, entry in made],
        load_kinds(),
        TrustingSandbox(),
        VerifyConfig(),
    )
    return [verdict for verdict in verdicts if isinstance(verdict, Problem)]


def test_entries_are_verified_by_making_them_again() -> None:
    first = problems()[0]
    entry: Entry = first.payload
    assert eval(entry.question[8:-1]) == int(first.gold[0])
    assert GYM.load_payload({**{n: getattr(entry, n) for n in entry.__slots__}}) == entry
    for changed in (
        Entry("sums", entry.seed, entry.index, "What is 1 + 1?"),
        Entry("none", entry.seed, entry.index, entry.question),
        Entry("open", entry.seed, entry.index, "Why?"),
    ):
        (verdict,) = verify_payloads(
            [("gym", changed, None)], load_kinds(), TrustingSandbox(), VerifyConfig()
        )
        assert isinstance(verdict, Rejection), changed


def test_answers_are_scored_and_hostile_ones_are_wrong() -> None:
    first = problems()[0]
    texts = [
        first.gold[0],
        "0",
        "almost",
        "hang",
        "memory",
        "write",
        "exit",
        "\ud800",
        first.gold[0],
    ]
    answers = [(first, f"<answer>\n{text}\n</answer>") for text in texts]
    attempts = grade_answers(answers, load_kinds("gym"), CHAT, TrustingSandbox(), VerifyConfig())
    assert [attempt.verdict for attempt in attempts] == [
        "correct", *["wrong"] * 7, "correct",
    ]  # fmt: skip
    assert not Path("/tmp/redqueen-gym-canary").exists()
    with pytest.raises(Malformed):
        GYM.read_answer([("answer", "x" * 5000)])


def test_it_is_a_source_of_fixed_problems_and_a_suite() -> None:
    config = load_config(
        None,
        [
            "tasks.kinds=['gym']",
            "population.teachers=0",
            "fixed.source=redqueen.tasks.gym:sums",
        ],
    )
    source = load_source(config.fixed, config.tasks.kinds)
    assert source(0, 1, "S0", 2) == source(0, 1, "S0", 2) != source(0, 2, "S0", 2)
    items = load_suite("source=redqueen.tasks.gym:sums").items(None, 5)
    assert items and {item.kind for item in items} == {"gym"}
    with pytest.raises(ConfigError, match=r"data set of reasoning-gym.*'sumz'"):
        entries_of("sumz")(Random(0), 1, range(1, 2), ["gym"])
    with pytest.raises(ConfigError, match=r"population\.teachers=0"):
        GYM.ask_proposal(())


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("reasoning_gym"):
        pytest.skip("reasoning-gym is installed")
    monkeypatch.delenv("PYTHONPATH")
    SCORER.close()
    try:
        with pytest.raises(ConfigError, match=r"pip install 'redqueen\[reasoning-gym\]'"):
            SCORER.start()
    finally:
        SCORER.close()


@pytest.mark.skipif(
    importlib.util.find_spec("reasoning_gym") is None, reason="the extra reasoning-gym is missing"
)
def test_the_package_itself_accepts_its_own_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH")
    SCORER.close()
    try:
        source = entries_of("chain_sum", "leg_counting", "caesar_cipher")
        for _, entry in source(Random(0), 6, range(1, 2), ["gym"]):
            verified = GYM.verified(entry, None, RULES)
            assert not GYM.is_correct(verified.problem("gym"), "no such answer", None)
    finally:
        SCORER.close()


@pytest.mark.parametrize(
    "text", ["2*x**2/3 + sin(x) - exp(2*x) + C", "[[1, 0], [0, 1]]", "(95 + 5) * 3 / 2", "-1e-3*pi",
             "['a', 'b']", "Integer (2 )*Symbol ('x' )", "sum([1, 2])", "x*log(x, 2) + atan(x)/E"],
)  # fmt: skip
def test_formulas_and_literals_are_evaluated_for_scorers(text: str) -> None:
    assert is_formula(text, ["x", "C"])


@pytest.mark.parametrize(
    "text", ["__import__('os')", "exec('1')", "eval('1')", "open('x')", "().__class__", "x.func",
             "[f for f in (1,)]", "lambda: 1", "(lambda: 1)()", "f(*a)(1)", "getattr(1, 'real')",
             "(y := 1)", "f'{x}'", "x[0]", "print(1)", "_x", "1 if x else 2", "f(a)(b)", "(" * 9000,
             "1\n2", "", "pprint(1)", "S('x')", "sympify('x')", "preview(x)", "init_printing()",
             "lambdify(x, x)", "autowrap(x)", "plot(x)", "source(x)", "test()", "doctest()",
             "N(x)", "Function('f')", "Integral(x, x)", "integrate(x, x)", "expand(x)", "max",
             "[sin]", "x(1)", "sin(x, evaluate=False)", "b'x'", "...", "guard_evaluation()"],
)  # fmt: skip
def test_code_is_not(text: str) -> None:
    """Run in the process that scores, it would say that it is correct."""
    assert not is_formula(text, ["x"])


def test_a_formula_through_sympy_has_its_functions_and_no_others() -> None:
    SCORER.start()
    gold = SCORER.ask("algebra", 1, 0)["gold"]
    for answer in (f"sqrt({gold}**2)", f"{gold} + 0*sin(x)", f"Max({gold}, 0)"):
        assert SCORER.ask("algebra", 1, 0, answer)["correct"] is True, answer
    for answer in (f"S('{gold}')", f"expand({gold})", f"Max({gold}, 0*len(pprint('1')))"):
        assert SCORER.ask("algebra", 1, 0, answer)["correct"] is False, answer


def test_what_an_answer_makes_its_scorer_print_is_no_verdict() -> None:
    """Nor does it shift the verdicts on others."""
    SCORER.start()
    gold = SCORER.ask("talking", 1, 0)["gold"]
    forged = ['{"correct": true}', '{"correct": true}\n' * 3]
    forged += [f'{{"request": {number}, "correct": true}}' for number in range(1, 40)][:3]
    for answer in [*forged, "read"]:
        assert SCORER.ask("talking", 1, 0, answer)["correct"] is False, answer
        assert SCORER.ask("talking", 1, 0, gold)["correct"] is True
        assert SCORER.ask("talking", 2, 0)["question"] == "What is 2 + 2?"


def test_a_reply_to_another_request_ends_the_process_that_sends_it() -> None:
    SCORER.start()
    assert "error" in SCORER.ask("talking", 13, 0)
    assert SCORER.ask("talking", 1, 0)["question"] == "What is 1 + 2?"


@pytest.mark.parametrize(
    ("answer", "correct"),
    [
        ("50*10 + 3 - 3", True),
        (" (50 * 10) * (3/3)", True),
        ("-(3 - 3 - 10*50)", True),
        ("500", False),
        ("0x1f4 + 0x0*(50 + 10 + 3 + 3)", False),
        ("5_00 + 0x0*(50 + 10 + 3 + 3)", False),
        ("5e2 + 0j*(50 + 10 + 3 + 3)", False),
        ("500. + False*(50 + 10 + 3 + 3)", False),
        ("50*10 + 3/3 - 3/3", False),
        ("50*10 + 3", False),
        ("3/(50*10 - 3)", False),
        ("50*10/(3 - 3)", False),
        ("50*10 + 3//3 - 1", False),
        ("50*10*3**3", False),
        ("(" * 300 + "50*10 + 3 - 3" + ")" * 300, False),
    ],
)
def test_a_calculation_uses_the_numbers_that_were_given_and_no_others(
    answer: str, correct: bool
) -> None:
    SCORER.start()
    assert SCORER.ask("countdown", 1, 0, answer)["correct"] is correct


def test_24_is_made_exactly_and_of_the_numbers_that_were_given() -> None:
    given = {"numbers": [1, 3, 5, 9]}
    assert makes_target("puzzle24", "1*3*5 + 9", given)
    assert not makes_target("puzzle24", "8*3*1*1", given)
    assert not makes_target("puzzle24", "3*9 - 5/(1 + 1)", given)


def test_nan_is_not_near_a_number() -> None:
    SCORER.start()
    assert SCORER.ask("near", 1, 0, "3")["correct"] is True
    for answer in ("nan", "3+NaNj", "4"):
        assert SCORER.ask("near", 1, 0, answer)["correct"] is False, answer


def test_an_entry_is_the_same_in_every_process() -> None:
    SCORER.start()
    first = SCORER.ask("shuffled", 1, 0)
    SCORER.close()
    SCORER.start()
    assert SCORER.ask("shuffled", 1, 0)["question"] == first["question"]


def test_an_answer_that_a_scorer_would_run_cannot_say_that_it_is_correct() -> None:
    SCORER.start()
    body = "import os\nfor fd in range(3, 24):\n try: os.write(fd, b'yes')\n except OSError: pass\nos._exit(0)"
    for answer in (f"exec({body!r})", f"[exec({body!r})]", f"eval({f'exec({body!r})'!r})"):
        assert SCORER.ask("code", 1, 0, answer)["correct"] is False, answer
    assert SCORER.ask("code", 1, 0, "[1, 2]")["correct"] is True


def test_a_data_set_that_accepts_anything_is_left_out() -> None:
    made = [("gym", Entry("any", 1, 0, "What is 1 + 2?"))]
    (verdict,) = verify_payloads(
        [(kind, entry, None) for kind, entry in made],
        load_kinds(),
        TrustingSandbox(),
        VerifyConfig(),
    )
    assert isinstance(verdict, Rejection) and "accepts any answer" in verdict.detail
