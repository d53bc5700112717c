"""Items of our own in the formats of the benchmarks' files."""

import gzip
import json
from pathlib import Path
from typing import Any

TRIPLE = "def triple(x: int) -> int:\n    "
HUMANEVAL = [
    {
        "task_id": "Own/0", "entry_point": "triple", "prompt": f'from typing import List\n\n\n{TRIPLE}""" Three times x.\n    >>> triple(2)\n    6\n    """\n',
        "canonical_solution": "    return 3 * x\n", "test": "\ndef check(candidate):\n    assert candidate(2) == 6\n    assert candidate(-1) == -3\n",
        "base_input": [[2], [-1]], "plus_input": [[0], [10**20]], "atol": 0,
    },
    {
        "task_id": "Own/1", "entry_point": "thirds", "prompt": 'def thirds(xs):\n    """ A third of each. """\n',
        "canonical_solution": "    return [x / 3 for x in xs]\n",
        "test": "\ndef check(candidate):\n    assert abs(candidate([3.0, 1.0])[1] - 1 / 3) < 1e-6\n    assert candidate([]) == []\n",
        "base_input": [[[3.0, 1.0]], [[]]], "plus_input": [[[1e9, 2.0]]], "atol": 1e-6,
    },
    {
        "task_id": "Own/2", "entry_point": "find_zero", "prompt": 'def find_zero(xs: list):\n    """ A zero of the polynomial. """\n',
        "canonical_solution": "    return -xs[0] / xs[1]\n",
        "test": "\ndef check(candidate):\n    assert abs(1 + 2 * candidate([1, 2])) < 1e-4\n", "base_input": [[[1, 2]]], "plus_input": [[[-6, 3]]], "atol": 1e-4,
    },
]  # fmt: skip
MBPP = [
    {
        "task_id": 11, "text": "Write a function to add two numbers.", "code": "def add(a, b):\n    return a + b\n",
        "test_list": ["assert add(1, 2) == 3", "assert add((1,), (2,)) == (1, 2)", "assert add(0.5, 0.25) == 0.75"], "test_setup_code": "", "challenge_test_list": [],
    },
    {
        "task_id": 12, "text": "Write a function to say how high a tree is.",
        "code": "class Node:\n    def __init__(self, below=None):\n        self.below = below\ndef height(node):\n    return 0 if node is None else 1 + height(node.below)\n",
        "test_list": ["assert height(tree) == 2", "assert height(leaf) == 1"], "test_setup_code": "leaf = Node()\ntree = Node(leaf)", "challenge_test_list": [],
    },
    {
        "task_id": 13, "text": "Write a function to count letters.", "code": "from collections import Counter\ndef letters(text):\n    return Counter(text)\n",
        "test_list": ["assert letters('aab') == {'a': 2, 'b': 1}"], "test_setup_code": "", "challenge_test_list": [],
    },
    {"task_id": 600, "text": "Of another split.", "code": "", "test_list": ["assert True"], "test_setup_code": "", "challenge_test_list": []},
]  # fmt: skip
MBPP_PLUS = [
    {
        "task_id": "Mbpp/1", "entry_point": "common", "prompt": '"""\nWrite a function to find what two tuples share.\nassert set(common((1, 2),(2, 3))) == set((2,))\n"""\n',
        "canonical_solution": "def common(a, b):\n    return tuple(set(a) & set(b))\n", "assertion": "assert common((1, 2), (2, 3)) == (2,)",
        "base_input": [[[1, 2], [2, 3]]], "plus_input": [[["b", "a", "c"], ["c", "b"]], [[[1], [2]], [[2]]]], "atol": 0,
    },
    {
        "task_id": "Mbpp/2", "entry_point": "text_match_three", "prompt": '"""\nWrite a function that matches abbb.\nassert not text_match_three("ac")\n"""\n',
        "canonical_solution": "import re\ndef text_match_three(text):\n    return re.search('ab{3}', text)\n", "assertion": "assert not text_match_three('ac')",
        "base_input": [["ac"]], "plus_input": [["abbb"]], "atol": 0,
    },
    {
        "task_id": "Mbpp/3", "entry_point": "half", "prompt": '"""\nWrite a function to halve a number.\nassert half(3) == 1.5\n"""\n',
        "canonical_solution": "def half(x):\n    return x / 2\n", "assertion": "assert half(3) == 1.5",
        "base_input": [[3]], "plus_input": [[float("inf")], [float("nan")], [7]], "atol": 0,
    },
]  # fmt: skip
CRUXEVAL = [
    {
        "id": "sample_0",
        "code": "def f(xs):\n    return sorted(xs)[1:]",
        "input": "[3, 1, 2]",
        "output": "[2, 3]",
    },
    {
        "id": "sample_1",
        "code": "def f(text, n):\n    return text * n == 'abab'",
        "input": "'ab', n=2",
        "output": "True",
    },
    {
        "id": "sample_2",
        "code": "def f():\n    return {'k': (1, None)}",
        "input": "",
        "output": "{'k': (1, None)}",
    },
    {
        "id": "sample_3",
        "code": "def f(xs, key):\n    return max(xs, key=key)",
        "input": "[1, -2], lambda x: -x",
        "output": "-2",
    },
]
LIVECODEBENCH = [
    {
        "question_id": "a", "question_content": "Print the sum of two numbers.", "starter_code": "", "metadata": "{}",
        "public_test_cases": json.dumps([{"input": "1 2\n", "output": "3\n", "testtype": "stdin"}, {"input": "0 0\n", "output": "0", "testtype": "stdin"}]),
    },
    {
        "question_id": "b", "question_content": "Reverse a list.", "starter_code": "class Solution:\n    def turn(self, xs: List[int]) -> List[int]:\n        ",
        "metadata": '{"func_name": "turn"}', "public_test_cases": json.dumps([{"input": "[1, 2]", "output": "[2, 1]", "testtype": "functional"}]),
    },
]  # fmt: skip
GSM8K = [
    {"question": "What is 999 + 1?", "answer": "999 + 1 = 1000\n#### 1,000"},
    {"question": "And one less than 6?", "answer": "6 - 1 = 5\n#### 5"},
]
ANSWERS = [
    "\\frac{1}{2}",
    "(3, \\frac{\\pi}{2})",
    "\\text{Evelyn}",
    "x=5",
    "1 \\pm \\sqrt{19}",
    "(2,\\infty)",
    "52_8",
    "\\begin{pmatrix} -1 \\\\ 2 \\end{pmatrix}",
]
MATH500 = [
    {"problem": f"Problem {n}", "answer": answer, "unique_id": f"own/{n}"}
    for n, answer in enumerate(ANSWERS)
]
CONTEST = [
    {"id": 1, "problem": "Find it.", "answer": "073"},
    {"id": 2, "problem": "Find it too.", "answer": 27.0},
]
MINERVA = [
    {"idx": 0, "problem": "How large?", "solution": "It is \\boxed{1.6} cm."},
    {"idx": 1, "problem": "How many?", "solution": "\\boxed{4.5e33}"},
    {"idx": 2, "problem": "Which law?", "solution": "\\[\\boxed{\\frac{d x}{d t}=k x-a}\\]"},
]
OLYMPIAD = [
    {"id": 1, "question": "Which?", "final_answer": ["$69$,$84$"], "error": None},
    {"id": 2, "question": "About?", "final_answer": ["4.2"], "error": "1e-1"},
    {
        "id": 3,
        "question": "Where?",
        "final_answer": ["$(-\\infty, 0) \\cup\\{1\\}$."],
        "error": None,
    },
]
FILES: dict[str, list[dict[str, Any]]] = {
    "humaneval.jsonl": HUMANEVAL, "humaneval_plus.jsonl.gz": HUMANEVAL, "mbpp.jsonl": MBPP, "mbpp_plus.jsonl.gz": MBPP_PLUS, "cruxeval.jsonl": CRUXEVAL,
    "livecodebench_v1_public.jsonl": LIVECODEBENCH, "gsm8k_test.jsonl": GSM8K, "math500.jsonl": MATH500, "aime24.jsonl": CONTEST, "aime25.jsonl": CONTEST,
    "amc23.jsonl": CONTEST, "minerva_math.jsonl": MINERVA, "olympiadbench.jsonl.gz": OLYMPIAD,
}  # fmt: skip


def write_items(folder: Path) -> Path:
    for name, rows in FILES.items():
        text = "".join(json.dumps(row) + "\n" for row in rows).encode()
        (folder / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return folder
