"""The start-up self-test: attacks on the walls, through the same path that every program takes.

Each program tries one thing that must not work and returns True if it did. An honest program runs
last: walls that stop everything are no use either.
"""

from redqueen.sandbox.protocol import Job, Limits, Outcome, Sandbox

ATTACKS: dict[str, str] = {
    "write a file": """
import os
def f():
    os.open('/tmp/redqueen-selftest', os.O_WRONLY | os.O_CREAT)
    return True
""",
    "read a file": """
def f():
    return bool(open('/etc/passwd').read())
""",
    "list a folder": """
import os
def f():
    return bool(os.listdir('/'))
""",
    "open a socket": """
import ctypes
def f():
    return ctypes.CDLL(None).socket(2, 1, 0) >= 0
""",
    "start a process": """
import os
def f():
    return os.fork() >= 0
""",
    "start a thread": """
import threading
def f():
    threading.Thread(target=int).start()
    return True
""",
    "replace itself": """
import os
def f():
    os.execv('/bin/true', ['true'])
""",
    "signal its parent": """
import os
def f():
    os.kill(1, 0)
    return True
""",
    "trace a process": """
import ctypes
def f():
    return ctypes.CDLL(None).ptrace(0, 0, 0, 0) == 0
""",
    "use io_uring": """
import ctypes
def f():
    return ctypes.CDLL(None).syscall(425, 8, ctypes.create_string_buffer(120)) >= 0
""",
    "sleep": """
import time
def f():
    time.sleep(0.001)
    return True
""",
    "outlive its CPU limit": """
def f():
    while True:
        pass
""",
    "outgrow its memory limit": """
def f():
    return len(bytearray(1 << 30)) > 0
""",
}
_HONEST = """
def f(x):
    return {'sum': sum(x), 'text': f'{x[0]:>3}'}
"""


def find_failures(sandbox: Sandbox) -> list[str]:
    """Each attack that succeeded, and what an honest program could not do; empty if the walls
    hold."""
    jobs = [Job(program, limits=Limits(cpu_s=0.1, memory_mb=64)) for program in ATTACKS.values()]
    *attacks, honest = sandbox.run([*jobs, Job(_HONEST, ("[1, 2, 3]",), stable=True)])
    failures = [
        f"a program can {name}"
        for name, outcome in zip(ATTACKS, attacks, strict=True)
        if _succeeded(outcome)
    ]
    if honest.kind != "value" or honest.values != ("{'sum': 6, 'text': '  1'}",):
        failures.append(f"an honest program does not run ({honest.kind} {honest.detail})")
    return failures


def _succeeded(outcome: Outcome) -> bool:
    return outcome.kind == "value" and outcome.values[0] != "False"
