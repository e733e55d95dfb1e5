"""Whether every so many steps one is far longer: a rollout, an accumulated or a second phase.

A window stands for the kinds of steps that it holds. One that opens anywhere misses the long one of
sixteen as a rule, in which the time may go.
"""

from __future__ import annotations

from collections import deque

FAR = 4  # times the usual step: of another kind
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
        """Give the last long step, how many lie between two, and how many times as long it is."""
        if self.held or len(self._lengths) < BEATS * 2:
            return None
        lengths = sorted(length for _, length in self._lengths)
        usual = max(1, lengths[len(lengths) // 2])
        least = max(FAR * usual, lengths[-BEATS] // 2)  # others were held up by something
        long = [one for one in self._lengths if one[1] > least]
        if len(long) < BEATS or sum(one for _, one in long) * SHARE < sum(lengths):
            return None
        numbers = [step for step, _ in long]
        gaps = [after - one for one, after in zip(numbers, numbers[1:])]
        period = min(gaps, key=lambda gap: (-gaps.count(gap), gap))
        beats = [step for step in numbers if (numbers[-1] - step) % period == 0]
        if period < AHEAD or len(beats) < BEATS or len(beats) * 4 < len(numbers) * 3:
            return None
        return numbers[-1], period, long[-1][1] / usual

    def ahead(self, step: int, most: float = float("inf")) -> int | None:
        """Give how many steps after this one the next long one comes.

        ``None``: there is no rhythm, a window has held one, or it is ``most`` times as long.
        """
        beat = self._beat()
        if beat is None or beat[2] > most:
            return None
        last, period, _ = beat
        return period - (step - last) % period

    def passed_ns(self) -> int:
        """Give how long it takes from one to the next at most, as far as steps are known."""
        beat = self._beat()
        lengths = [length for _, length in self._lengths]
        return 0 if beat is None else sum(lengths) * beat[1] // max(1, len(lengths))

    def window(self, first: int, last: int) -> None:
        """Note a window that held these steps, the first of which is left out of accounts."""
        beat = self._beat()
        if beat is not None:
            until = self.ahead(first)
            self.held = until is not None and first + until <= last
