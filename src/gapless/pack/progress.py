"""How far workers are, in words: samples done of all, and the time that is left."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from gapless.pack.workers import TaskEvent

_MIN_SHARE: Final = 0.02  # of the samples, before the time that is left is told
_MINUTE_S: Final = 60


class SampleProgress:
    """Samples that are done, task by task."""

    def __init__(
        self,
        words: str,
        counts: Mapping[int, int] | Sequence[int],
        say: Callable[[str], None],
    ) -> None:
        self._words, self._say = words, say
        self._counts = dict(counts if isinstance(counts, Mapping) else enumerate(counts))
        self._done = dict[int, int]()
        self._began_s = time.monotonic()

    def take(self, event: TaskEvent) -> None:
        """Show what an event says."""
        number = event.task.number
        self._done[number] = self._counts[number] if event.done is None else event.done
        done, total = sum(self._done.values()), sum(self._counts.values())
        share = done / total if total else 1.0
        self._say(
            f"{self._words}: {done:,} of {total:,} samples ({share:.0%}{self._rest_text(share)})"
        )

    def _rest_text(self, share: float) -> str:
        if not _MIN_SHARE <= share < 1:
            return ""
        left_s = (time.monotonic() - self._began_s) * (1 / share - 1)
        return f", {left_s:.0f} s left" if left_s < _MINUTE_S else f", {left_s / 60:.0f} min left"
