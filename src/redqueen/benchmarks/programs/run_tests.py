"""A plain interpreter for programs and their tests, one JSON pair a line: answers 1 where the tests
fail, else 0. Each pair runs in a fork with limits on time and memory."""

import json
import os
import resource
import signal
import sys

for line in sys.stdin:
    program, tests = json.loads(line)
    pid = os.fork()
    if pid == 0:
        signal.setitimer(signal.ITIMER_PROF, 5)
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
        sys.stdin = open(os.devnull)
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        try:
            exec(compile(program + "\n" + tests, "<check>", "exec"), {"__name__": "check"})
        except BaseException:
            os._exit(1)
        os._exit(0)
    status = os.waitpid(pid, 0)[1]
    sys.stdout.write(f"{int(status != 0)}\n")
    sys.stdout.flush()
