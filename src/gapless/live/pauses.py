"""How often something that takes long is done: at most a fixed share of the time goes to it."""

import time
from collections.abc import Generator
from contextlib import contextmanager

from msgspec import Struct


class Pause(Struct):
    """The pause after each time that it was done: at least ``ratio`` times what that took."""

    ratio: float
    min_s: float
    _due_s: float = 0.0
    _is_ended: bool = False  # while it is done: another thread wants it again

    def is_due(self) -> bool:
        """Return whether enough time has passed."""
        return time.monotonic() >= self._due_s

    def end(self) -> None:
        """Let it be due at once; if it is being done, as soon as that is over."""
        self._due_s, self._is_ended = 0.0, True

    @contextmanager
    def measure(self) -> Generator[None]:
        """Do it inside: what it takes of a processor decides when it is due again."""
        start_s, self._is_ended = time.thread_time(), False
        try:
            yield
        finally:
            cost_s = time.thread_time() - start_s
            if not self._is_ended:
                self._due_s = time.monotonic() + max(self.min_s, cost_s * self.ratio)
