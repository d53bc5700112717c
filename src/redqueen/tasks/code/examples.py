"""A few small problems for archives of bases that were not trained on our own programs: of
different types, none with a trick."""

from redqueen.tasks.code.programs import Code

_PROGRAMS = (
    (("def f(a):", "    return a"), "'hello'"),
    (
        (
            "def f(n):",
            "    total = 0",
            "    for i in range(1, n + 1):",
            "        if i % 3 == 0:",
            "            total += i",
            "    return total",
        ),
        "10",
    ),
    (
        (
            "def f(words):",
            "    counts = {}",
            "    for word in words:",
            "        counts[word[0]] = counts.get(word[0], 0) + len(word)",
            "    return counts",
        ),
        "['sea', 'sun', 'rain']",
    ),
    (
        (
            "def f(text, k):",
            "    return ''.join(c.upper() if i % k == 0 else c for i, c in enumerate(text))[::-1]",
        ),
        "'elephant', 3",
    ),
    (
        (
            "def f(items):",
            "    seen = []",
            "    for item in items:",
            "        if item in seen:",
            "            seen.remove(item)",
            "        else:",
            "            seen.append(item)",
            "    return seen",
        ),
        "[4, 7, 4, 2, 7, 4]",
    ),
    (
        (
            "def f(a, b):",
            "    steps = 0",
            "    while b:",
            "        a, b = b, a % b",
            "        steps += 1",
            "    return a, steps",
        ),
        "84, 30",
    ),
)
"""Lines of a program, and its input."""

EXAMPLES = tuple(Code("\n".join(lines) + "\n", (given,)) for lines, given in _PROGRAMS)
