"""What is asked about puzzles, in words, and a few-shot example for each role."""

from redqueen.tasks.kind import FewShot

LANGUAGE = """\
A puzzle is a JSON object. "variables" gives every variable its domain: a range such as "1..5", or an array of values. "constraints" is an
array of conditions that all hold, each written as an array with its operator first:
- ["=", x, y] and ["!=", x, y]; for numbers also "<", "<=", ">", ">="; ["all_different", x, y, ...]
- ["not", c], ["and", c, ...], ["or", c, ...], ["=>", c, d]: if c holds, so does d
- numbers: ["+", x, ...], ["-", x, y], ["*", x, ...], ["abs", x], ["%", x, 3] (the remainder), ["count", c, ...] (how many of these hold)"""

PROPOSE = f"""\
Invent one new logic puzzle. Somebody else will be given it and has to work out the only assignment of values to variables that satisfies
all constraints, in the head. The best puzzle is one that a skilled solver gets right about half of the time: no constraint gives a value
away, and several must be combined.

{LANGUAGE}

- Exactly one assignment satisfies all constraints: check this before you answer. Leave no variable free.
- At most 16 variables, 20 values each, and 40 constraints. Whole numbers and words only.
- Do not repeat an example or change it only slightly."""

SOLVE = f"""\
Find the only assignment of values to variables that satisfies all constraints of this puzzle. Rule out values step by step, check every
constraint at the end, then give the assignment as a JSON object with every variable.

{LANGUAGE}"""

_PUZZLE = """\
{
  "variables": {
    "ann": "1..3",
    "bob": "1..3",
    "cid": "1..3"
  },
  "constraints": [
    ["all_different", "ann", "bob", "cid"],
    ["<", "ann", "bob"],
    ["!=", ["+", "ann", "cid"], 3],
    ["=>", ["=", "cid", 1], ["=", "bob", 3]],
    ["!=", "cid", 1]
  ]
}"""
_POSED = """\
{
  "variables": {
    "a": "1..4",
    "b": "1..4",
    "c": "1..4",
    "d": "1..4"
  },
  "constraints": [
    ["all_different", "a", "b", "c", "d"],
    ["=", ["+", "a", "b"], ["+", "c", "d"]],
    ["<", "a", "c"],
    ["<", "c", "d"]
  ]
}"""

FEW_SHOT = {
    "teacher": FewShot(
        "Four different numbers from 1 to 4 add up to 10, so two pairs with equal sums have 5 each: 1 and 4, or 2 and 3. With a < c < d, "
        "a is 1 or 2. If a is 2, b is 3, and c and d are 1 and 4: c is 1 and not above a. So a is 1, b is 4, c is 2 and d is 3, and "
        "nothing else is possible.",
        (("puzzle", _POSED),),
        examples=((("puzzle", _PUZZLE), ("assignment", '{"ann": 1, "bob": 2, "cid": 3}')),),
    ),
    "student": FewShot(
        "ann < bob, so ann is 1 or 2. cid is not 1, so cid is 2 or 3.\n"
        "If ann is 2, bob is 3, and cid would have to be 1: impossible. So ann is 1.\n"
        "ann + cid is not 3, so cid is not 2: cid is 3, and bob is 2.\n"
        "Check: all differ, 1 < 2, 1 + 3 = 4 is not 3, and cid is not 1.",
        (("assignment", '{"ann": 1, "bob": 2, "cid": 3}'),),
        (("puzzle", _PUZZLE),),
    ),
}
