"""How long a training's steps are, seen from outside: how long ``gapless check`` has to wait."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Final

from gapless import wire

USUAL_S: Final = 60.0  # to wait for a window, from the first batch or step on
LONGEST_S: Final = 900.0  # likewise, where steps are long
_FIRST: Final = 5  # times as long while no two steps have ended
_UNSEEN_S: Final = 20.0  # that a process has torch before it says that nothing steps
_UNTIL_WINDOW: Final = 11, 18  # steps until it is in: one process, several
_AFTER_WINDOW_S: Final = 30.0  # for the window of stacks, and for the other ranks
_AFTER_WINDOW: Final = 8  # and so many steps
_SPARE: Final = 1.5  # times as long as it should take
_QUICK: Final = 64  # steps after which nobody asks how long they are
_KEPT: Final = 4
# Kinds of calls that end steps: the first of which there are two ends them.
_KINDS: Final = (wire.USER_STEP, wire.STEP, wire.BACKWARD, wire.FORWARD)


_Thing = tuple[int, str, int]  # place of its kind, log, subject


@dataclass
class Pace:
    """The steps that the logs of trainings tell of."""

    ends: dict[_Thing, deque[int]] = field(default_factory=dict[_Thing, deque[int]])
    counts: dict[_Thing, int] = field(default_factory=dict[_Thing, int])

    def take(self, log: str, body: bytes) -> None:
        """Read the steps among packed marks, as long as they are few."""
        if max(self.counts.values(), default=0) > _QUICK:
            return
        for kind, flags, subject, _, _, end, _ in wire.MARK.iter_unpack(body):
            if kind in _KINDS and not flags & wire.RAISED:
                one = _KINDS.index(kind), log, subject
                self.ends.setdefault(one, deque(maxlen=_KEPT)).append(end)
                self.counts[one] = self.counts.get(one, 0) + 1

    def step_s(self) -> float | None:
        """Give how long a step takes by what is called most; ``None`` before two ended."""
        many = [one for one, count in self.counts.items() if count > 1]
        one = max(many, key=lambda one: (-one[0], self.counts[one]), default=None)
        ends = () if one is None else tuple(self.ends[one])
        if len(ends) < 2:  # noqa: PLR2004 - between two lies one
            return None
        return median(after - before for before, after in pairwise(ends)) / 1e9


@dataclass
class Patience:
    """How long a check waits: ``asked`` seconds, or as long as steps of this length need."""

    asked: float | None
    tell: Callable[[str], None] | None = None
    _told: float = 0.0
    _reported: bool = False

    def before_any(self, began: float, loaded: float | None) -> float:
        """Give the seconds from the beginning until the first batch or step, and say so.

        ``began``, and when PyTorch was last ``loaded`` where nothing stepped in the twenty seconds
        since (``None``: nowhere), both in seconds on the monotonic clock.
        """
        usual = self.asked or USUAL_S
        if loaded is None:
            return _FIRST * self.asked if self.asked else USUAL_S + _UNSEEN_S
        wait = min(max(0.0, loaded - began) + usual, _FIRST * usual)
        if self.tell is not None and not self._reported:
            self._reported = True
            until = f"the check ends {usual:.0f} s after PyTorch was loaded"
            longer = f"--seconds {_FIRST * usual:.0f} waits longer"
            self.tell(f"nothing has ended a step yet; {until} ({longer})")
        return wait

    def before_window(self, pace: Pace, *, several: bool) -> float:
        """Give the seconds from the first batch or step on until a window is in."""
        if self.asked is not None:
            return self.asked
        step_s = pace.step_s()
        if step_s is None:
            return _FIRST * USUAL_S
        needs = _UNTIL_WINDOW[several] * step_s
        if needs > USUAL_S / _SPARE:
            self._say(step_s, needs)
        return min(max(USUAL_S, _SPARE * needs), LONGEST_S)

    def after_window(self, pace: Pace) -> float:
        """Give the seconds from the first window on."""
        return min(_AFTER_WINDOW_S + _AFTER_WINDOW * (pace.step_s() or 0.0), LONGEST_S)

    def _say(self, step_s: float, needs: float) -> None:
        if self.tell is None or needs <= _SPARE * self._told:
            return
        self._told = needs
        if needs > LONGEST_S:
            words = f"{LONGEST_S / 60:.0f} min are too few for a window; --seconds {needs * 2:.0f}"
            self.tell(f"a step takes {_time(step_s)}: {words} would do")
        else:
            about = _time(needs + min(15.0, 2 * step_s) + 2 * step_s)
            self.tell(f"a step takes {_time(step_s)}: the check takes about {about}")


def _time(seconds: float) -> str:
    if seconds < 100:  # noqa: PLR2004 - in words that one reads
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"  # noqa: PLR2004
    return f"{seconds / 60:.0f} min"
