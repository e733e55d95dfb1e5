"""Know the steps while they happen: which calls are step edges.

The anchor is the optimizer with the fewest calls among those called at least five times (ties: the
one seen first); until there is one, where steps are long, among those called twice: five of them
may be minutes. Where none steps, it is the loader with the most hand-overs. What is recorded does
not depend on it: the study decides again, over the whole run.
"""

from __future__ import annotations

import _thread

from . import recorder

ENOUGH = 5
TWICE = 2
LONG_NS = 1_000_000_000  # between two calls: steps of which five would be waited for too long
PERIOD = 64  # calls after which the anchor is chosen anew among those that still step
LONELY = 50  # hand-overs without a step, before a loader anchors though there is an optimizer
FAR = 200  # likewise, though an optimizer stepped, but too seldom for an anchor


class _Anchor:
    """Counts of calls, and whose are the edges."""

    def __init__(self, *, most: bool) -> None:
        self.most = most
        self.counts: dict[int, int] = {}  # by id, in the order in which they were first seen
        self.before: dict[int, int] = {}  # the counts when the anchor was last chosen anew
        self.calls = 0  # since then
        self.period = PERIOD
        self.chosen: int | None = None
        self.ends: dict[int, int] = {}  # of the first calls

    def called(self, number: int, end: int) -> bool:
        """Count a call that ended so; tell whether it is the anchor's."""
        count = self.counts[number] = self.counts.get(number, 0) + 1
        self.calls += 1
        if self.calls >= self.period:
            self._choose_anew()
        elif count == ENOUGH:
            self._choose(self.counts, ENOUGH)
        elif self.chosen is None and count < ENOUGH:
            if end - self.ends.get(number, end) >= LONG_NS:
                self._choose(self.counts, TWICE)
            self.ends[number] = end
        return number == self.chosen

    def _choose_anew(self) -> None:
        self.period = max(PERIOD, 20 * len(self.counts))
        if self.calls >= self.period:
            before = self.before
            now = dict(self.counts)  # other threads may step meanwhile
            called = {one: count - before.get(one, 0) for one, count in now.items()}
            self._choose(called, ENOUGH)
            self.before, self.calls = now, 0

    def _choose(self, counts: dict[int, int], least: int) -> None:
        able = [one for one in dict(counts) if counts[one] >= least]
        if able:
            self.chosen = min(able, key=lambda one: -counts[one] if self.most else counts[one])


_state = {"optimizers": _Anchor(most=False), "loaders": _Anchor(most=True)}


_threads: set[int] = set()  # that stepped
_lonely = [0, 0]  # steps so far, and batches handed over since the last one


def stepped(optimizer: int, start: int, end: int) -> None:
    """Take note of a call of ``optimizer.step``; do what waits for an edge if it is one."""
    _threads.add(_thread.get_ident())
    anchor = _state["optimizers"]
    if anchor.called(optimizer, end):
        recorder.edge(anchor.counts[optimizer] - 1, start, end)
    recorder.flush_when_due(end)


def handed_over(loader: int, start: int, end: int) -> None:
    """Take note of a batch that ``loader`` handed over; likewise."""
    anchor = _state["loaders"]
    edge = anchor.called(loader, end)
    if edge and _state["optimizers"].chosen is None and _alone(anchor.counts[loader]):
        recorder.edge(anchor.counts[loader] - 1, start, end)
    recorder.flush_when_due(end)


def several() -> bool:
    """Tell whether more than one thread has stepped."""
    return len(_threads) > 1


def count(optimizer: int | None) -> int:
    """Give how often ``optimizer`` has stepped."""
    return 0 if optimizer is None else _state["optimizers"].counts.get(optimizer, 0)


def steps() -> int:
    """Give how often any optimizer has stepped."""
    return sum(_state["optimizers"].counts.values())


def forget() -> None:
    """Count from the beginning."""
    _lonely[:] = [0, 0]
    _threads.clear()
    _state.update(optimizers=_Anchor(most=False), loaders=_Anchor(most=True))


def _alone(count: int) -> bool:
    """Tell whether a loader may anchor while no optimizer does."""
    steps = _state["optimizers"].counts
    if steps:
        calls = sum(steps.values())
        _lonely[:] = [calls, _lonely[1] + 1 if calls == _lonely[0] else 1]
        if _lonely[1] == FAR:
            recorder.unseen("steps", "the optimizer steps no more where it is seen (CUDA graph?)")
        return _lonely[1] >= FAR
    if recorder.known("optimizer"):
        if count == LONELY:
            recorder.unseen("steps", "no optimizer steps where it can be seen (compiled?)")
        return count >= LONELY
    return True
