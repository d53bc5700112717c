"""How threads wait for each other. Imported, for its effect, by the packages that load torch.

By default torch's threads spin. Where a core is taken by something else, a sandboxed program for instance, a step of 40 ms then takes over
a second; waiting asleep costs microseconds. The variable is read when torch is loaded, and left alone where the user has set it.

By default a thread keeps the interpreter for 5 ms while another waits for it. What drives a GPU lets go of it at every call: with texts
being graded in a second thread, a call of half a millisecond took twelve; with this, it takes one.
"""

import os
import sys

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
sys.setswitchinterval(0.0005)
