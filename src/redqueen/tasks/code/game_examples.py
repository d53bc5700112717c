"""Few-shot examples of the code kinds for the roles of games: one wrong attempt of each kind, and
what a critic, its author, two debaters and a judge make of it."""

from redqueen.tasks.kind import Block, FewShot


def _roles(
    kind: str,
    given: tuple[Block, ...],
    *,
    reasoning: tuple[str, ...],
    wrong: str,
    wrong_line: int,
    check: str,
    critique: str,
    right: tuple[Block, ...],
    argument: str,
    other_argument: str,
) -> dict[tuple[str, str], FewShot]:
    """All roles around one wrong attempt. `check` is how somebody careful works the problem out."""
    numbered = "\n".join(f"{number}: {line}" for number, line in enumerate(reasoning, 1))
    attempt = (("reasoning", numbered), ("answer", wrong))
    verdict = ("verdict", f"wrong, line {wrong_line}")
    answer = right[0][1].rstrip()
    return {
        (kind, "critic"): FewShot(
            f"{check}\nThe attempt answers something else. Its line {wrong_line} is the first wrong one.",
            (verdict,),
            (*given, *attempt),
        ),
        (kind, "adviser"): FewShot(
            f"{check}\nThe attempt answers something else. Its line {wrong_line} is the first wrong one.",
            (("critique", critique), verdict),
            (*given, *attempt),
        ),
        (kind, "repairer"): FewShot(
            f"The critique says: {critique} I check it.\n{check}\nThe critique is right, so I change my answer.",
            right,
            (*given, *attempt, ("critique", critique), verdict),
        ),
        (kind, "debater"): FewShot(
            check,
            (("argument", argument),),
            (*given, ("defended", answer), ("other", wrong)),
        ),
        (kind, "judge"): FewShot(
            f"I work it out myself.\n{check}\nSo the second answer is correct, and the first argument misleads.",
            (("verdict", "second"),),
            (
                *given,
                ("first_answer", wrong),
                ("first_argument", other_argument),
                ("second_answer", answer),
                ("second_argument", argument),
            ),
        ),
    }


GAME_EXAMPLES: dict[tuple[str, str], FewShot] = {
    **_roles(
        "code_o",
        (
            (
                "program",
                "def f(numbers):\n    total = 1\n    for number in numbers:\n        if number % 2:\n            total *= number\n    return total\n",
            ),
            ("input", "[3, 4, 5]"),
        ),
        reasoning=(
            "total is 1.",
            "3 is odd: total is 1 * 3 = 3.",
            "4 is multiplied as well: total is 3 * 4 = 12.",
            "5 is odd: total is 12 * 5 = 60.",
        ),
        wrong="60",
        wrong_line=3,
        check="total is 1. 3 is odd: total is 3. 4 is even, so it is passed over. 5 is odd: total is 3 * 5 = 15. f returns 15.",
        critique="Line 3 is wrong: 4 is even, so `number % 2` is 0 and total stays 3. Then 5 makes it 15.",
        right=(("output", "15"),),
        argument="`number % 2` is 0 for 4, so 4 is passed over. Only 3 and 5 are multiplied, and 1 * 3 * 5 is 15. The other answer multiplies 4 as well.",
        other_argument="All three numbers are multiplied one after the other, and 3 * 4 * 5 is 60.",
    ),
    **_roles(
        "code_i",
        (
            ("program", "def f(text, n):\n    return text[:n].upper() + text[n:]\n"),
            ("output", "'REd'"),
        ),
        reasoning=(
            "The first n letters become capitals.",
            "One letter of 'REd' is a capital, so n is 1.",
            "The text is 'red'.",
        ),
        wrong="'red', 1",
        wrong_line=2,
        check="f('red', 1) is 'R' + 'ed' = 'Red', which is not 'REd'. Two letters are capitals, so n is 2: f('red', 2) is 'RE' + 'd' = 'REd'.",
        critique="Line 2 is wrong: R and E are both capitals, so n has to be 2. With n = 1 the output is 'Red'.",
        right=(("input", "'red', 2"),),
        argument="text[:2] is 're', in capitals 'RE', and text[2:] is 'd': together 'REd'. With n = 1 only R becomes a capital, and the output is 'Red'.",
        other_argument="The first letter becomes a capital, so n = 1 is right for 'REd'.",
    ),
    **_roles(
        "code_f",
        (
            ("message", "Something is left out."),
            *(
                block
                for call, output in (
                    ("'abc'", "'ac'"),
                    ("'a'", "'a'"),
                    ("''", "''"),
                    ("'banana'", "'bnn'"),
                    ("'xyzw'", "'xz'"),
                )
                for block in (("input", call), ("output", output))
            ),
        ),
        reasoning=(
            "'abc' becomes 'ac': the letter b is left out.",
            "So all letters b are removed.",
        ),
        wrong="def f(text):\n    return text.replace('b', '')",
        wrong_line=2,
        check="'banana' becomes 'bnn', so b stays there. Letters at places 0, 2 and 4 are b, n and n: every second letter is left out. 'xyzw' gives 'xz'.",
        critique="Line 2 is wrong: 'banana' keeps its b. Every second letter is left out, which fits all five pairs.",
        right=(("program", "def f(text):\n    return text[::2]\n"),),
        argument="text[::2] gives 'ac', 'a', '', 'bnn' and 'xz': all five pairs. Without b, 'banana' would be 'anana', not 'bnn'.",
        other_argument="In 'abc' it is the b that is gone, so b is what the function removes.",
    ),
}
