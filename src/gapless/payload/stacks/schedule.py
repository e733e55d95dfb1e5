"""When looks are due: at times of their own, wherever what they look at stands.

Where C holds the GIL a look is late, and sees that C: it stands for the times at which looks were
due meanwhile, and the next is due as if it had come in time. Else looks would follow the ends of
such calls, and find the next one again and again (a call of 15 ms in a step of 33 would get two
thirds of it).
"""

from __future__ import annotations


def last_due(due: int, pause_ns: int, now: int) -> int:
    """Return when a look was due last, where one that was due at ``due`` came now."""
    return due + max(0, now - due) // max(1, pause_ns) * max(1, pause_ns)
