"""The start-up self-test: attacks on the walls, through the same path that every program takes.

Each program tries one thing that must not work and returns True if it did. A clean program comes
last: walls that stop everything are no use either.
"""

from typing import TYPE_CHECKING

from redqueen.sandbox.jobs import Job, Limits, Outcome

if TYPE_CHECKING:
    from redqueen.sandbox.pool import SandboxPool

ATTACKS: dict[str, str] = {
    "write a file": "import os\ndef f():\n    os.open('/tmp/redqueen-selftest', os.O_WRONLY | os.O_CREAT)\n    return True",
    "read a file": "def f():\n    return bool(open('/etc/passwd').read())",
    "list a folder": "import os\ndef f():\n    return bool(os.listdir('/'))",
    "open a socket": "import ctypes\ndef f():\n    return ctypes.CDLL(None).socket(2, 1, 0) >= 0",
    "start a process": "import os\ndef f():\n    return os.fork() >= 0",
    "start a thread": "import threading\ndef f():\n    threading.Thread(target=int).start()\n    return True",
    "replace itself": "import os\ndef f():\n    os.execv('/bin/true', ['true'])",
    "signal its parent": "import os\ndef f():\n    os.kill(1, 0)\n    return True",
    "trace a process": "import ctypes\ndef f():\n    return ctypes.CDLL(None).ptrace(0, 0, 0, 0) == 0",
    "use io_uring": "import ctypes\ndef f():\n    return ctypes.CDLL(None).syscall(425, 8, ctypes.create_string_buffer(120)) >= 0",
    "sleep": "import time\ndef f():\n    time.sleep(0.001)\n    return True",
    "outlive its CPU limit": "def f():\n    while True:\n        pass",
    "outgrow its memory limit": "def f():\n    return len(bytearray(1 << 30)) > 0",
}


def failures(pool: "SandboxPool") -> list[str]:
    """What an attack achieved, or what an honest program could not do; empty when the walls stand."""
    jobs = [Job(program, limits=Limits(cpu_s=0.1, memory_mb=64)) for program in ATTACKS.values()]
    honest = Job(
        "def f(x):\n    return {'sum': sum(x), 'text': f'{x[0]:>3}'}", ("[1, 2, 3]",), stable=True
    )
    *attacks, clean = pool.run([*jobs, honest])
    broken = [
        f"a program can {name}"
        for name, outcome in zip(ATTACKS, attacks, strict=True)
        if _achieved(outcome)
    ]
    if clean.kind != "value" or clean.values != ("{'sum': 6, 'text': '  1'}",):
        broken.append(f"an honest program does not run ({clean.kind} {clean.detail})")
    return broken


def _achieved(outcome: Outcome) -> bool:
    return outcome.kind == "value" and outcome.values[0] != "False"
