"""The sandbox: runs hundreds of hostile Python programs a second and returns what they computed, as
text.

Covered, each by its own wall and most by several: files, network, processes, signals, the trainer's
memory and environment, other programs, CPU time, memory, output size, forged results (only
canonical literals leave, and the verdict is made outside).

Not covered: kernel bugs in the few system calls that a computing interpreter needs; side channels
between processes on one CPU (cache timing); a program's lies about itself (it may return anything,
but not in the name of another program); the count of executed steps, which a program can disturb
(it is a metric and earns nothing). Against real adversaries, also run the whole trainer inside
gVisor or a microVM.
"""

from redqueen.sandbox.protocol import Inspection, Job, Limits, Outcome, Result, Sandbox

__all__ = ["Inspection", "Job", "Limits", "Outcome", "Result", "Sandbox"]
