"""Know the steps while they happen: which calls are step edges.

Edges are those of the first of these kinds that is there: the user's own ``gapless.step()``,
optimizer steps, backward passes, hand-overs of loaders, forward passes of outermost modules. Of
several things of a kind the anchor is the one with the fewest calls among those called at least
five times (ties: the one seen first), and of loaders and modules the one with the most; until
there is one, where steps are long, among those called twice: five of them may be minutes. What is
recorded does not depend on it: the study decides again, over the whole run.
"""

from __future__ import annotations

import _thread

from . import recorder

ENOUGH = 5
TWICE = 2
LONG_NS = 1_000_000_000  # between two calls: steps of which five would be waited for too long
PERIOD = 64  # calls after which the anchor is chosen anew among those that still step
LONELY = 50  # calls without a step, before they anchor though there is an optimizer
FAR = 200  # likewise, though something of a kind before stepped, but too seldom for an anchor
USERS, OPTIMIZERS, BACKWARDS, LOADERS, FORWARDS = range(5)  # kinds, the first that is there leads


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


def _anchors() -> list[_Anchor]:
    return [_Anchor(most=kind in {LOADERS, FORWARDS}) for kind in range(5)]


_kinds = _anchors()
_threads: set[int] = set()  # that stepped
_lonely: dict[int, list[int]] = {}  # by kind: calls of the kinds before it, and its own since then
_passes = [0]  # backward passes since an optimizer stepped


def stepped(optimizer: int, start: int, end: int) -> None:
    """Take note of a call of ``optimizer.step``; do what waits for an edge if it is one."""
    _threads.add(_thread.get_ident())
    _passes[0] = 0
    anchor = _kinds[OPTIMIZERS]
    if anchor.called(optimizer, end) and _kinds[USERS].chosen is None:
        recorder.edge(anchor.counts[optimizer] - 1, start, end)
    recorder.flush_when_due(end)


def handed_over(loader: int, start: int, end: int) -> None:
    """Take note of a batch that ``loader`` handed over; likewise."""
    _called(LOADERS, loader, start, end)


def passed_back(site: int, start: int, end: int) -> None:
    """Take note of a backward pass that a line of the user's asked for; likewise."""
    _called(BACKWARDS, site, start, end)


def passed_forward(module: int, start: int, end: int) -> None:
    """Take note of a forward pass of an outermost module; likewise."""
    _called(FORWARDS, module, start, end)


def ended(site: int, at: int) -> None:
    """Take note of a step that the user says has ended; likewise."""
    _called(USERS, site, at, at)


def wants_passes() -> bool:
    """Tell whether a backward pass that begins is marked: no optimizer ends the steps."""
    if _kinds[OPTIMIZERS].chosen is None:
        return True
    _passes[0] += 1
    return _passes[0] > FAR


def trains() -> bool:
    """Tell whether anything steps or passes back: forward passes alone end no steps then."""
    return any(_kinds[kind].counts for kind in (USERS, OPTIMIZERS, BACKWARDS))


def several() -> bool:
    """Tell whether more than one thread has stepped."""
    return len(_threads) > 1


def count(optimizer: int | None) -> int:
    """Give how often ``optimizer`` has stepped."""
    return 0 if optimizer is None else _kinds[OPTIMIZERS].counts.get(optimizer, 0)


def steps() -> int:
    """Give how often any optimizer has stepped."""
    return sum(_kinds[OPTIMIZERS].counts.values())


def forget() -> None:
    """Count from the beginning."""
    _lonely.clear()
    _passes[0] = 0
    _threads.clear()
    _kinds[:] = _anchors()


def _called(kind: int, subject: int, start: int, end: int) -> None:
    if kind != LOADERS:  # a thread that only fetches ahead does not step
        _threads.add(_thread.get_ident())
    anchor = _kinds[kind]
    edge = anchor.called(subject, end)
    before = _kinds[:kind]
    if edge and not any(one.chosen is not None for one in before) and _alone(kind, subject):
        recorder.edge(anchor.counts[subject] - 1, start, end)
    recorder.flush_when_due(end)


def _alone(kind: int, subject: int) -> bool:
    """Tell whether calls of a kind may end steps while none of the kinds before it does."""
    calls = sum(sum(one.counts.values()) for one in _kinds[:kind])
    if calls:
        known = _lonely.setdefault(kind, [0, 0])
        known[:] = [calls, known[1] + 1 if calls == known[0] else 1]
        if known[1] == FAR and steps():
            recorder.unseen("steps", "the optimizer steps no more where it is seen (CUDA graph?)")
        return known[1] >= FAR
    if kind != USERS and recorder.known("optimizer"):
        many = _kinds[kind].counts[subject]
        if many == LONELY:
            recorder.unseen("steps", "no optimizer steps where it can be seen (compiled?)")
        return many >= LONELY
    return True
