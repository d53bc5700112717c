"""How threads wait for each other. Imported, for its effect, by the packages that load torch.

By default a thread keeps the interpreter for 5 ms while another waits for it. What drives a GPU lets go of it at every call: with texts
being graded in a second thread, a call of half a millisecond took twelve; with this, it takes one.

Torch's own threads spin while they wait, which is two and a half times as fast as waiting asleep, as long as no other program takes a core from
them (overlap.py); where one does, OMP_WAIT_POLICY=PASSIVE or fewer threads (OMP_NUM_THREADS) are faster.
"""

import sys

sys.setswitchinterval(0.0005)
