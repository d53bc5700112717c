"""Typical programs for the sandbox benchmark, each with its input."""

PROGRAMS: tuple[tuple[str, str], ...] = (
    (
        """\
def f(n):
    total = 0
    for i in range(n):
        if i % 3 == 0 or i % 5 == 0:
            total += i
    return total
""",
        "60",
    ),
    (
        """\
def f(words):
    counts = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    return counts
""",
        "['a', 'b', 'a']",
    ),
    (
        """\
def f(text):
    return ''.join(c.upper() if i % 2 else c for i, c in enumerate(reversed(text)))
""",
        "'red queen'",
    ),
    (
        """\
import math

def f(a, b):
    return [math.gcd(a, b), a * b // math.gcd(a, b)]
""",
        "84, 36",
    ),
    (
        """\
def f(rows):
    return [list(column) for column in zip(*rows)]
""",
        "[[1, 2, 3], [4, 5, 6]]",
    ),
    (
        """\
def f(n):
    a, b = 0, 1
    while a < n:
        a, b = b, a + b
    return (a, b)
""",
        "1000",
    ),
    (
        """\
def f(s):
    stack = []
    for c in s:
        if c in '([':
            stack.append(c)
        elif not stack or stack.pop() + c not in ('()', '[]'):
            return False
    return not stack
""",
        "'([])[]'",
    ),
    (
        """\
from collections import deque

def f(edges, start):
    graph = {}
    for a, b in edges:
        graph.setdefault(a, []).append(b)
    seen, queue = {start}, deque([start])
    while queue:
        for node in graph.get(queue.popleft(), []):
            if node not in seen:
                seen.add(node)
                queue.append(node)
    return seen
""",
        "[(1, 2), (2, 3), (4, 5)], 1",
    ),
)
