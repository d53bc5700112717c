"""The sandbox: runs hostile Python programs by the hundred a second and reports what they computed,
as text.

Covered, each by a wall of its own and most by several: files, network, processes, signals, the
trainer's memory and environment, other programs, CPU time, memory, output size, forged results
(only canonical literals leave, and the verdict is made outside).

Not covered: bugs of the kernel in the few system calls a computing interpreter needs; side channels
between processes on one CPU (cache timing); a program's own lies about itself (it may return what
it likes, it cannot return it for another); the count of executed steps, which a program can disturb
(it is a metric and earns nothing). Against real adversaries, put the whole trainer inside gVisor or
a microVM as well.
"""

from redqueen.sandbox.jobs import Inspection, Job, Limits, Outcome, Result, Sandbox

__all__ = ["Inspection", "Job", "Limits", "Outcome", "Result", "Sandbox"]
