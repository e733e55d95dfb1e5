"""How long a training's steps are, seen from outside: how long ``gapless check`` has to wait."""

from collections import deque
from collections.abc import Callable
from itertools import pairwise
from statistics import median
from typing import Final

from msgspec import Struct, field

from gapless import wire

USUAL_S: Final = 60.0  # to wait for a window, from the first batch or step on
LONGEST_S: Final = 900.0  # likewise, where steps are long
_FIRST_WAIT_FACTOR: Final = 5  # times as long while no two steps have ended
_SILENT_S: Final = 20.0  # that a process has torch before it says that nothing steps
_STEPS_TO_WINDOW: Final = 11, 18  # steps until it is in: one process, several
_AFTER_WINDOW_S: Final = 30.0  # for the window of stacks, and for the other ranks
_STEPS_AFTER_WINDOW: Final = 8  # and so many steps
_SAFETY_FACTOR: Final = 1.5  # times as long as it should take
_MAX_TIMED_STEPS: Final = 64  # steps after which nobody asks how long they are
_MAX_ENDS: Final = 4
# Kinds of calls that end steps: the first of which there are two ends them.
_STEP_KINDS: Final = (wire.USER_STEP, wire.STEP, wire.BACKWARD, wire.FORWARD)


_StepSource = tuple[int, str, int]  # position of its kind, log, subject


class StepPace(Struct):
    """The steps that the logs of trainings show."""

    ends: dict[_StepSource, deque[int]] = field(default_factory=dict[_StepSource, deque[int]])
    counts: dict[_StepSource, int] = field(default_factory=dict[_StepSource, int])

    def take_marks(self, log: str, body: bytes) -> None:
        """Read the steps among packed marks, as long as they are few."""
        if max(self.counts.values(), default=0) > _MAX_TIMED_STEPS:
            return
        for kind, flags, subject, _, _, end, _ in wire.MARK.iter_unpack(body):
            if kind in _STEP_KINDS and not flags & wire.RAISED:
                source = _STEP_KINDS.index(kind), log, subject
                self.ends.setdefault(source, deque(maxlen=_MAX_ENDS)).append(end)
                self.counts[source] = self.counts.get(source, 0) + 1

    def step_s(self) -> float | None:
        """Return how long a step takes by what is called most; ``None`` before two ended."""
        candidates = [source for source, count in self.counts.items() if count > 1]
        source = max(
            candidates, key=lambda candidate: (-candidate[0], self.counts[candidate]), default=None
        )
        step_s = None if source is None else self._distance_s(source)
        if source is None or step_s is None or step_s * 1e9 < wire.LONG_STEP_NS:
            return step_s
        passes = [
            self._distance_s(candidate)
            for candidate in candidates
            if candidate[0] == _STEP_KINDS.index(wire.BACKWARD) > source[0]
            and self.counts[candidate] >= wire.MIN_PASSES * self.counts[source]
        ]
        return min((pass_s for pass_s in passes if pass_s is not None), default=step_s)

    def _distance_s(self, source: _StepSource) -> float | None:
        ends = tuple(self.ends[source])
        if len(ends) < 2:  # noqa: PLR2004 - between two lies one
            return None
        return median(after - before for before, after in pairwise(ends)) / 1e9


class Patience(Struct):
    """How long a check waits: the seconds asked for, or as long as steps of this length need."""

    seconds: float | None
    report_progress: Callable[[str], None] | None = None
    _reported_s: float = 0.0
    _load_reported: bool = False

    def before_any(self, began: float, loaded: float | None, *, is_silent: bool) -> float:
        """Return the seconds from the beginning until the first batch or step.

        They are reported if something ``is_silent``: a process that has just ended waits for
        nothing. ``began``, and when PyTorch was last ``loaded`` where nothing stepped in the twenty
        seconds since (``None``: nowhere), both in seconds on the monotonic clock.
        """
        usual_s = self.seconds or USUAL_S
        if loaded is None:
            return _FIRST_WAIT_FACTOR * self.seconds if self.seconds else USUAL_S + _SILENT_S
        wait = min(max(0.0, loaded - began) + usual_s, _FIRST_WAIT_FACTOR * usual_s)
        if is_silent and self.report_progress is not None and not self._load_reported:
            self._load_reported = True
            until = f"the check ends {usual_s:.0f} s after PyTorch was loaded"
            longer = f"--seconds {_FIRST_WAIT_FACTOR * usual_s:.0f} waits longer"
            self.report_progress(f"nothing has ended a step yet; {until} ({longer})")
        return wait

    def before_window(self, pace: StepPace, *, several: bool) -> float:
        """Return the seconds from the first batch or step on until a window is in."""
        if self.seconds is not None:
            return self.seconds
        step_s = pace.step_s()
        if step_s is None:
            return _FIRST_WAIT_FACTOR * USUAL_S
        needed_s = _STEPS_TO_WINDOW[several] * step_s
        if needed_s > USUAL_S / _SAFETY_FACTOR:
            self._report_step(step_s, needed_s)
        return min(max(USUAL_S, _SAFETY_FACTOR * needed_s), LONGEST_S)

    def after_window(self, pace: StepPace) -> float:
        """Return the seconds from the first window on."""
        return min(_AFTER_WINDOW_S + _STEPS_AFTER_WINDOW * (pace.step_s() or 0.0), LONGEST_S)

    def _report_step(self, step_s: float, needed_s: float) -> None:
        if self.report_progress is None or needed_s <= _SAFETY_FACTOR * self._reported_s:
            return
        self._reported_s = needed_s
        if needed_s > LONGEST_S:
            words = (
                f"{LONGEST_S / 60:.0f} min are too few for a window; --seconds {needed_s * 2:.0f}"
            )
            self.report_progress(f"a step takes {_format_time(step_s)}: {words} would do")
        else:
            about = _format_time(needed_s + min(15.0, 2 * step_s) + 2 * step_s)
            self.report_progress(
                f"a step takes {_format_time(step_s)}: the check takes about {about}"
            )


def _format_time(seconds: float) -> str:
    if seconds < 100:  # noqa: PLR2004 - in words that one reads
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"  # noqa: PLR2004
    return f"{seconds / 60:.0f} min"
