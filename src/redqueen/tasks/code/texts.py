"""What the code kinds ask, in words: for prompt formats that use any."""

INPUTS = 10
"""Inputs that a teacher of induction writes."""
SHOWN = 5
"""Input-output pairs that its student sees; the others are hidden."""

PROPOSE_PROGRAM = """\
Invent one new problem about reading Python: write a function `f` and one input for it. Somebody else will be given {shown} and has to
work out {hidden} in the head. The best problem is one that a skilled reader solves about half of the time: it takes several steps of
reasoning, each of them well defined.
- The program defines exactly one top-level function `f`; helper functions and imports of pure modules such as math, re, itertools and
  collections are fine.
- It must be deterministic: no randomness, no clock, no files, no input or print, nothing that depends on set order or object identity.
- It must end within a fraction of a second and return plain data: numbers, text, booleans, None, lists, tuples, sets or dicts.
- The input is the literal arguments of one call, written as between its parentheses, for example `[3, 1, 2], 'ab'`. No expressions.
- Do not repeat an example or change it only slightly."""

PROPOSE_INPUTS = f"""\
Here is a Python function. Write {INPUTS} different inputs for it and a short message. Somebody else will see the message and the first
{SHOWN} input-output pairs, and has to write a function that also gives the right output for the other {INPUTS - SHOWN}. Choose inputs
that together show what the function does, and a message that gives a hint without giving the program away.
- Each input is the literal arguments of one call, written as between its parentheses, for example `[3, 1, 2], 'ab'`. No expressions.
- The function must return without an error for every input."""

DEDUCE = """\
Work out what the function returns for this input. Go through it step by step, then give the returned value as a Python literal, exactly
as it would be written in source: quotes around text, the right type of brackets."""

ABDUCE = """\
Find arguments for which the function returns exactly this output; any that do are right. Reason backwards step by step, check your
guess, then give the arguments of the call as literals, written as between its parentheses, for example `[3, 1, 2], 'ab'`."""

INDUCE = """\
Find out what the hidden function does from these input-output pairs and the message, and write a function `f` that does the same for
every input. It must be deterministic and define exactly one top-level function `f`."""
