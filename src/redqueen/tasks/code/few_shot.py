"""Few-shot examples of the three code kinds: for each kind and role one request and one reply.

Small models follow a pattern better than its description. The chat format shows an example as an
earlier turn, with a problem of its own: shown beside the real problem, a 0.5B model repeated the
example's reasoning as its answer.
"""

from redqueen.tasks.kind import FewShot

_POSED = FewShot(
    "To turn a text around is a single step. I want several: letters that are counted, one that is passed over, and a choice at the end that "
    "depends on all of the counts.",
    (
        (
            "program",
            "def f(text, skipped):\n    counts = {}\n    for letter in text:\n        if letter == skipped:\n            continue\n"
            "        counts[letter] = counts.get(letter, 0) + 1\n    best = max(sorted(counts), key=counts.get)\n"
            "    return best * counts[best], len(counts)\n",
        ),
        ("input", "'mississippi', 's'"),
    ),
    examples=(
        (
            ("program", "def f(text):\n    return text[::-1].upper()\n"),
            ("input", "'abc'"),
            ("output", "'CBA'"),
        ),
    ),
)
_LISTS = (
    "[1, -2, 3]",
    "[]",
    "[-5]",
    "[0, 4]",
    "[7, 7]",
    "[-1, -2, 10]",
    "[6]",
    "[2, 0, -9, 8]",
    "[100, -100]",
    "[5, 4, 3, 2, 1]",
)

FEW_SHOT = {
    ("code_o", "teacher"): _POSED,
    ("code_i", "teacher"): _POSED,
    ("code_f", "teacher"): FewShot(
        "The function doubles positive numbers and drops the others. Lists with both sorts show it, and so do short ones and an empty one.",
        (("message", "Some numbers stay, and those grow."), *(("input", text) for text in _LISTS)),
        (
            (
                "program",
                "def f(numbers):\n    return [2 * number for number in numbers if number > 0]\n",
            ),
            ("input", "[3, -1]"),
            ("output", "[6]"),
        ),
    ),
    ("code_o", "student"): FewShot(
        "total is 0.\nword is 'ab': total is 0 + 2 = 2.\nword is 'stop': total is 2 + 4 = 6, and the loop ends.\nSo f returns '6'.",
        (("output", "'6'"),),
        (
            (
                "program",
                "def f(words):\n    total = 0\n    for word in words:\n        total += len(word)\n        if word == 'stop':\n            break\n"
                "    return str(total)\n",
            ),
            ("input", "['ab', 'stop', 'c']"),
        ),
    ),
    ("code_i", "student"): FewShot(
        "n * 3 + 1 has to be 13, so n * 3 is 12, and n is 4.\nCheck: f(4) is 4 * 3 + 1 = 13.",
        (("input", "4"),),
        (("program", "def f(n):\n    return n * 3 + 1\n"), ("output", "13")),
    ),
    ("code_f", "student"): FewShot(
        "4 - 1 is 3 and 9 - 2 is 7: the largest less the smallest. An empty list gives 0.",
        (
            (
                "program",
                "def f(numbers):\n    if not numbers:\n        return 0\n    return max(numbers) - min(numbers)\n",
            ),
        ),
        (
            ("message", "How far apart are they?"),
            *(
                block
                for given, output in (
                    ("[4, 1]", "3"),
                    ("[2, 9, 5]", "7"),
                    ("[6]", "0"),
                    ("[]", "0"),
                    ("[-1, 1]", "2"),
                )
                for block in (("input", given), ("output", output))
            ),
        ),
    ),
}
