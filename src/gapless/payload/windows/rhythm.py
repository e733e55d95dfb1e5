"""Whether every so many steps one is far longer: a rollout, an accumulated or a second phase.

A window stands for the kinds of steps that it holds. One that opens anywhere misses the long one of
sixteen as a rule, in which the time may go.
"""

from __future__ import annotations

from collections import deque

LONG_RATIO = 4  # times the usual step: of another kind
SHARE = 5  # of the time, one part at least is theirs
LOOKED_AT = 128  # steps among which a rhythm is looked for
BEATS = 3  # long steps at equal distances
AHEAD = 2  # steps from the opening to the long one: the first of a window is left out


class Rhythm:
    """The last steps that no window touched, by number and length."""

    def __init__(self) -> None:
        self._lengths: deque[tuple[int, int]] = deque(maxlen=LOOKED_AT)
        self.held = False  # a window has held a long one

    def add(self, step: int, length: int) -> None:
        """Note a step."""
        self._lengths.append((step, length))

    def _beat(self) -> tuple[int, int, float] | None:
        """Return the last long step, how many lie between two, and how many times as long it is."""
        if self.held or len(self._lengths) < BEATS * 2:
            return None
        lengths = sorted(length for _, length in self._lengths)
        usual = max(1, lengths[len(lengths) // 2])
        limit = max(LONG_RATIO * usual, lengths[-BEATS] // 2)  # others were held up by something
        long = [item for item in self._lengths if item[1] > limit]
        if len(long) < BEATS or sum(length for _, length in long) * SHARE < sum(lengths):
            return None
        numbers = [step for step, _ in long]
        gaps = [after - before for before, after in zip(numbers, numbers[1:])]
        period = min(gaps, key=lambda gap: (-gaps.count(gap), gap))
        beats = [step for step in numbers if (numbers[-1] - step) % period == 0]
        if period < AHEAD or len(beats) < BEATS or len(beats) * 4 < len(numbers) * 3:
            return None
        return numbers[-1], period, long[-1][1] / usual

    def ahead(self, step: int, max_ratio: float = float("inf")) -> int | None:
        """Return how many steps after this one the next long one comes.

        ``None``: there is no rhythm, a window has held one, or it is ``max_ratio`` times as long.
        """
        beat = self._beat()
        if beat is None or beat[2] > max_ratio:
            return None
        last_step, period, _ = beat
        return period - (step - last_step) % period

    def passed_ns(self) -> int:
        """Return how long it takes from one to the next at most, as far as steps are known."""
        beat = self._beat()
        lengths = [length for _, length in self._lengths]
        return 0 if beat is None else sum(lengths) * beat[1] // max(1, len(lengths))

    def window(self, first_step: int, last_step: int) -> None:
        """Note a window that held these steps, the first of which is left out of accounts."""
        beat = self._beat()
        if beat is not None:
            until = self.ahead(first_step)
            self.held = until is not None and first_step + until <= last_step
