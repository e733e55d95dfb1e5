"""How often something that takes long is done: at most a fixed share of the time goes to it."""

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class Pause:
    """The pause after each time that it was done: at least ``ratio`` times what that took."""

    ratio: float
    min_s: float
    _due_s: float = 0.0

    def is_due(self) -> bool:
        """Return whether enough time has passed."""
        return time.monotonic() >= self._due_s

    def end(self) -> None:
        """Let it be due at once."""
        self._due_s = 0.0

    @contextmanager
    def measure(self) -> Generator[None]:
        """Do it inside: what it takes of a processor decides when it is due again."""
        start_s = time.thread_time()
        try:
            yield
        finally:
            cost_s = time.thread_time() - start_s
            self._due_s = time.monotonic() + max(self.min_s, cost_s * self.ratio)
