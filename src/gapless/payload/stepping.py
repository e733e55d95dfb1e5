"""The steps while they happen: which calls are step edges.

Edges are those of the first of these kinds that is there: the user's own ``gapless.step()``,
passes of a line of which one optimizer step holds several and takes seconds, optimizer steps,
backward passes, hand-overs of loaders, forward passes of outermost modules. Of several things of a
kind the anchor is the one with the fewest calls among those called at least five times (ties: the
one seen first), and of loaders and modules the one with the most; until there is one, where steps
are long, among those called twice: five of them may be minutes. Once there is one, a rarer one
anchors from its third call: a window of its parts is no step. What is recorded does not depend on
it: the study decides again, over the whole run.
"""

from __future__ import annotations

import _thread

from .. import wire
from . import recorder
from .process_state import keep

MIN_LONG_CALLS = 2
MIN_RARER_CALLS = 3
LONG_NS = 1_000_000_000  # between two calls: steps of which five would be waited for too long
PERIOD = 64  # calls after which the anchor is chosen anew among those that still step
MIN_RECENT_CALLS = 2  # in the later half of the time, of what still steps
MAX_PAUSE = 5  # times its mean distance, since the last call of what still steps
LONELY_CALLS = 50  # calls without a step, before they anchor though there is an optimizer
FAR_CALLS = 200  # likewise, though something of a kind before stepped, but too seldom for an anchor
# Kinds, the first that is there leads. Calls of ``PASSES`` are counted as ``BACKWARDS``.
USERS, PASSES, OPTIMIZERS, BACKWARDS, LOADERS, FORWARDS = range(6)


class _Anchor:
    """Counts of calls, and whose are the edges."""

    def __init__(self, *, prefers_most: bool) -> None:
        self.most = prefers_most
        self.counts: dict[int, int] = {}  # by id, in the order in which they were first seen
        self.first: dict[int, int] = {}  # when the first call of each ended, and the last one
        self.last: dict[int, int] = {}
        # Counts some time ago, and later than that: the recent calls are those since the first.
        self.before: tuple[int, dict[int, int]] = 0, {}
        self.between: tuple[int, dict[int, int]] = 0, {}
        self.calls = 0  # since the anchor was last chosen anew
        self.period = PERIOD
        self.chosen: int | None = None

    def count_call(self, number: int, end: int) -> bool:
        """Count a call that ended so; return whether it is the anchor's."""
        count = self.counts[number] = self.counts.get(number, 0) + 1
        last = self.last.get(number, end)
        self.last[number] = end
        if count == 1:
            self.first[number] = end
        self.calls += 1
        if self.calls >= self.period:
            self._reconsider(end)
        elif count == wire.MIN_ENDING_CALLS:
            self._choose(self.counts, wire.MIN_ENDING_CALLS)
        elif count == MIN_RARER_CALLS and self.chosen is not None and not self.most:
            self._choose({self.chosen: self.counts[self.chosen], number: count}, MIN_RARER_CALLS)
        elif self.chosen is None and count < wire.MIN_ENDING_CALLS and end - last >= LONG_NS:
            self._choose(self.counts, MIN_LONG_CALLS)
        return number == self.chosen

    def _reconsider(self, end: int) -> None:
        self.period = max(PERIOD, 20 * len(self.counts))
        if self.calls >= self.period:
            now = dict(self.counts)  # other threads may step meanwhile
            self._remember(end, now)
            old = self.before[1]
            recent_calls = {
                number: count - old.get(number, 0)
                for number, count in now.items()
                if count >= wire.MIN_ENDING_CALLS and self._goes_on(number, end)
            }
            self._choose(recent_calls, MIN_RECENT_CALLS)
            self.calls = 0

    def _remember(self, end: int, counts: dict[int, int]) -> None:
        """Keep counts so that the recent calls are those of about half of the time."""
        start = min(self.first.values(), default=end)
        if end - start >= 2 * (self.between[0] - start):
            self.before, self.between = self.between, (end, counts)

    def _goes_on(self, number: int, end: int) -> bool:
        last, n_distances = self.last[number], max(1, self.counts[number] - 1)
        return end - last <= MAX_PAUSE * (last - self.first[number]) / n_distances

    def _choose(self, counts: dict[int, int], min_calls: int) -> None:
        candidates = [number for number in dict(counts) if counts[number] >= min_calls]
        if candidates:
            self.chosen = min(
                candidates, key=lambda number: -counts[number] if self.most else counts[number]
            )


class _Steps:
    """The calls that were seen, and the anchors among them."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Count from the beginning."""
        self.anchors = [_Anchor(prefers_most=kind in {LOADERS, FORWARDS}) for kind in range(6)]
        self.threads: set[int] = set()  # that stepped
        # By kind: calls of the kinds before it, and its own since then.
        self.lonely: dict[int, list[int]] = {}
        self.passes = 0  # backward passes since an optimizer stepped
        # Likewise by line: how many after its first, and when that ended.
        self.later_passes: dict[int, list[int]] = {}
        self.site_passes = 0  # of the line whose passes end steps, since an optimizer stepped
        self.short_steps = 0  # of optimizers in a row that held too few of these


_steps = keep(_Steps())


def note_step(optimizer: int, start: int, end: int) -> None:
    """Note a call of ``optimizer.step``; do what waits for an edge if it is one."""
    _steps.threads.add(_thread.get_ident())
    _steps.passes = 0
    _steps.later_passes.clear()
    if _steps.anchors[PASSES].chosen is not None:
        _keep_passes()
    anchor = _steps.anchors[OPTIMIZERS]
    if anchor.count_call(optimizer, end) and _leads(OPTIMIZERS):
        recorder.edge(anchor.counts[optimizer] - 1, start, end)
    recorder.flush_when_due(end)


def note_batch(loader: int, start: int, end: int) -> None:
    """Note a batch that ``loader`` handed over; likewise."""
    _note_call(LOADERS, loader, start, end)


def note_backward(site: int, start: int, end: int) -> None:
    """Note a backward pass that a line of the user's asked for; likewise."""
    passes = _steps.anchors[PASSES]
    if passes.chosen is None:
        _choose_passes(site, end)
    elif site == passes.chosen:
        _steps.site_passes += 1
    _note_call(BACKWARDS, site, start, end)


def note_forward(module: int, start: int, end: int) -> None:
    """Note a forward pass of an outermost module; likewise."""
    _note_call(FORWARDS, module, start, end)


def note_user_step(site: int, now_ns: int) -> None:
    """Note a step that the user says has ended; likewise."""
    _note_call(USERS, site, now_ns, now_ns)


def wants_passes() -> bool:
    """Return whether a backward pass that begins is marked: no optimizer ends the steps."""
    anchors = _steps.anchors
    if anchors[PASSES].chosen is not None or anchors[OPTIMIZERS].chosen is None:
        return True
    _steps.passes += 1
    return _steps.passes > FAR_CALLS


def trains() -> bool:
    """Return whether anything steps or passes back: forward passes alone end no steps then."""
    return any(_steps.anchors[kind].counts for kind in (USERS, OPTIMIZERS, BACKWARDS))


def has_several_threads() -> bool:
    """Return whether more than one thread has stepped."""
    return len(_steps.threads) > 1


def count(optimizer: int | None) -> int:
    """Return how often ``optimizer`` has stepped."""
    return 0 if optimizer is None else _steps.anchors[OPTIMIZERS].counts.get(optimizer, 0)


def steps() -> int:
    """Return how often any optimizer has stepped."""
    return sum(_steps.anchors[OPTIMIZERS].counts.values())


def forget() -> None:
    """Count from the beginning."""
    _steps.begin()


def _note_call(kind: int, subject: int, start: int, end: int) -> None:
    if kind != LOADERS:  # a thread that only fetches ahead does not step
        _steps.threads.add(_thread.get_ident())
    anchor = _steps.anchors[kind]
    edge = anchor.count_call(subject, end)
    if kind == BACKWARDS and _steps.anchors[PASSES].chosen is not None:
        ends_step = subject == _steps.anchors[PASSES].chosen and _leads(PASSES)
    else:
        ends_step = edge and _leads(kind) and _alone(kind, subject)
    if ends_step:
        recorder.edge(anchor.counts[subject] - 1, start, end)
    recorder.flush_when_due(end)


def _leads(kind: int) -> bool:
    """Return whether no kind before this one has an anchor."""
    return all(earlier.chosen is None for earlier in _steps.anchors[:kind])


def _choose_passes(site: int, end: int) -> None:
    """Have passes of a line end the steps where those of one optimizer step last for seconds.

    Before an optimizer has stepped for the first time too: its step may take minutes.
    """
    later_passes = _steps.later_passes
    pass_state = later_passes.get(site)
    if pass_state is None:
        later_passes[site] = [0, end]
        return
    pass_state[0] += 1
    has_optimizer = steps() > 0 or recorder.has_any("optimizer")
    if (
        has_optimizer
        and pass_state[0] >= wire.MIN_PASSES
        and end - pass_state[1] >= wire.LONG_STEP_NS
    ):
        sites = [key for key, (count, _) in dict(later_passes).items() if count >= wire.MIN_PASSES]
        _steps.anchors[PASSES].chosen = sites[0]


def _keep_passes() -> None:
    """Give the steps back to the optimizer where its steps have ceased to hold several passes.

    The many passes of the beginning were not the training's then (weights that are rated first).
    """
    _steps.short_steps = _steps.short_steps + 1 if _steps.site_passes < wire.MIN_PASSES else 0
    _steps.site_passes = 0
    if _steps.short_steps >= wire.MIN_ENDING_CALLS:
        _steps.anchors[PASSES].chosen = None


def _alone(kind: int, subject: int) -> bool:
    """Return whether calls of a kind may end steps while none of the kinds before it does."""
    calls = sum(sum(anchor.counts.values()) for anchor in _steps.anchors[:kind])
    if calls:
        lonely = _steps.lonely.setdefault(kind, [0, 0])
        lonely[:] = [calls, lonely[1] + 1 if calls == lonely[0] else 1]
        if lonely[1] == FAR_CALLS and steps():
            recorder.report_unobserved(
                "steps", "the optimizer steps no more where it is seen (CUDA graph?)"
            )
        return lonely[1] >= FAR_CALLS
    if kind != USERS and recorder.has_any("optimizer"):
        n_calls = _steps.anchors[kind].counts[subject]
        if n_calls == LONELY_CALLS:
            recorder.report_unobserved(
                "steps", "no optimizer steps where it can be seen (compiled?)"
            )
        return n_calls >= LONELY_CALLS
    return True
