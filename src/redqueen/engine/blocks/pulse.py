"""Whether a thread gets on. A worker says so while it computes, so that one that is slow is not
taken for one that hangs: loading a base takes minutes, and so does a long training pass."""

import sys


class Pulse:
    def __init__(self, thread: int, timeout_s: float) -> None:
        self.beat_s = min(5.0, timeout_s / 8)
        """How often to look."""
        self._thread, self._place = thread, list[tuple[int, int]]()

    def moved(self) -> bool:
        """Whether the thread stands elsewhere in the program than when it was last looked at. One
        that waits for a device that never answers stays in one place."""
        frame, place = sys._current_frames().get(self._thread), list[tuple[int, int]]()
        while frame is not None:
            place.append((id(frame), frame.f_lasti))
            frame = frame.f_back
        moved, self._place = place != self._place, place
        return moved
