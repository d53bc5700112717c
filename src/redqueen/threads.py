"""How torch's threads wait for each other. Imported, for its effect, by the packages that load torch.

By default they spin. Where a core is taken by something else, a sandboxed program for instance, a step of 40 ms then takes over a
second; waiting asleep costs microseconds. The variable is read when torch is loaded, and left alone where the user has set it.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
