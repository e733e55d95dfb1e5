"""Forward passes that nothing uses: no backward pass runs through them, nothing takes their result.

Autograd numbers the nodes of its graph as a thread makes them, and the profiler notes that number
with each operator: the one that comes next as the operator begins, and of a node that a backward
pass evaluates its own. So an operator made nodes where the number is larger once it has ended; and
no backward pass needs it where none of these is evaluated.

That says nothing of its values: a generator's pictures are shown to a discriminator without the
graph that made them, a second network gives what the first one learns from. So a pass counts only
where another one of the same step, which is used, calls the same operators with inputs of the same
sizes; and where nothing else of the step can have taken what it gives, since tensors are read by
operators. Which sizes that has, the nodes of the other one tell: a gradient is as large as what it
is of. What took a tensor of such a size may have taken the other's; then nothing is said.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from gapless.accounting.graphed import PLAIN, SPARE, USED, Calls, Sizes, graphed
from gapless.accounting.intervals import Lane, empty, union
from gapless.accounting.threads import Threads
from gapless.model.trace import Int64

_HALF: Final = 0.5  # of the steps: what is done less often is no part of a step
_MODULE: Final = "nn.Module: "  # what the profiler calls the call of a module, with its number
Span = tuple[int, int]  # positions among the calls, the last included


@dataclass(frozen=True)
class Passes:
    """Passes that nothing uses, on the training thread, and for each the one that is used."""

    start: Int64
    end: Int64
    twin_start: Int64
    twin_end: Int64
    event: Int64  # its first operator

    def __len__(self) -> int:
        """Count the passes."""
        return len(self.start)

    @property
    def lane(self) -> Lane:
        """Give when they ran."""
        found = union(self.start, self.end)
        return replace(found, owner=self.event[found.owner])


NO_PASSES: Final = Passes(empty(), empty(), empty(), empty(), empty())


@dataclass(frozen=True)
class _Pass:
    step: int
    called: bytes  # what it called, in order
    mine: Span
    twin: Span


def unused(threads: Threads, *, alone: bool = False) -> Passes:
    """Find the passes that nothing uses in the whole steps of a capture.

    What the last step leaves may be used in the one behind it: of it only those count that other
    steps have, too. ``alone``: those of a single step count all the same.
    """
    calls = graphed(threads)
    if calls is None:
        return NO_PASSES
    found = [one for number in range(calls.steps) for one in _of_step(calls, number)]
    spans = [span for one in found for span in (one.mine, one.twin)]
    found = [
        one
        for one in found
        if not _taken(calls, one, spans, _until(calls, one, found)) and _alike(threads, calls, one)
    ]
    last = calls.steps - 1
    proven = {one.called for one in found if one.step < last or (alone and not last)}
    found = [one for one in found if one.called in proven]
    if len({one.step for one in found}) < max(1, _HALF * calls.steps):
        return NO_PASSES
    at = np.array([(*one.mine, *one.twin) for one in found], np.int64)
    start, end = calls.start, calls.end
    return Passes(
        start[at[:, 0]], end[at[:, 1]], start[at[:, 2]], end[at[:, 3]], calls.event[at[:, 0]]
    )


def _of_step(calls: Calls, number: int) -> list[_Pass]:
    """Give the passes of a step that nothing uses."""
    lo, hi = np.searchsorted(calls.step, (number, number + 1)).tolist()
    kept = (calls.state[lo:hi] != PLAIN) & ~calls.casts[lo:hi]
    chain = lo + np.flatnonzero(kept)
    found: list[_Pass] = []
    for first, last in _spare(calls, chain):
        twin = _twin(calls, chain, first, last)
        if twin is not None:
            mine = int(chain[first]), int(chain[last])
            called = calls.key[chain[first : last + 1]].tobytes()
            found.append(_Pass(number, called, *_widened(calls, lo, mine, twin)))
    return found


def _spare(calls: Calls, chain: Int64) -> Iterator[Span]:
    """Give each row of calls (positions in the chain) whose graph no backward pass needs.

    A call that one needs ends it, and a backward pass does.
    """
    first = -1
    for at, call in enumerate(chain.tolist()):
        ends = first >= 0 and calls.part[call] != calls.part[chain[at - 1]]
        if first >= 0 and (ends or calls.state[call] != SPARE):
            yield first, at - 1
            first = -1
        if first < 0 and calls.state[call] == SPARE:
            first = at
    if first >= 0:
        yield first, len(chain) - 1


def _twin(calls: Calls, chain: Int64, first: int, last: int) -> Span | None:
    """Find the same calls once more in a step, with a result that a backward pass needs."""
    keys, states = calls.key[chain], calls.state[chain]
    wanted, many = keys[first : last + 1], last + 1 - first
    for at in np.flatnonzero(keys == wanted[0]).tolist():
        end = at + many
        apart = end <= first or at > last
        if apart and np.array_equal(keys[at:end], wanted) and states[end - 1] == USED:
            return int(chain[at]), int(chain[end - 1])
    return None


def _widened(calls: Calls, lo: int, mine: Span, twin: Span) -> tuple[Span, Span]:
    """Take in what both call before: views of their inputs, states of zeros."""
    (first, last), (other, end) = mine, twin
    while (
        min(first, other) > lo
        and first - 1 != end
        and other - 1 != last
        and calls.key[first - 1] == calls.key[other - 1]
        and calls.state[first - 1] == calls.state[other - 1] == PLAIN
        and calls.part[first - 1] == calls.part[first]
        and calls.part[other - 1] == calls.part[other]
    ):
        first, other = first - 1, other - 1
    return (first, last), (other, end)


def _until(calls: Calls, one: _Pass, every: Sequence[_Pass]) -> int:
    """Give the position up to which a result may be taken: that of the same pass a step later."""
    later = (min(each.mine[0], each.twin[0]) for each in every if each.step > one.step)
    return min(later, default=len(calls.event))


def _taken(calls: Calls, one: _Pass, spans: Sequence[Span], until: int) -> bool:
    """Tell whether something may have taken what a pass gives before it runs once more.

    Between both passes only the first one's result can be taken, and if it is the other's, what
    takes such a tensor behind them takes this one's. What does so first then may take either: the
    other's, if a backward pass needs it, since that would have run through this one, too; or if all
    losses are known, for it trains nothing then. But not where the same is done twice.
    """
    given = _given(calls, one)
    beside = ~calls.sized[:until]
    for first, last in spans:
        beside[first : last + 1] = False
    rest = [at for at in np.flatnonzero(beside).tolist() if at > min(one.mine[1], one.twin[1])]
    takes = [at for at in rest if calls.taken(at) & given]
    behind = [at for at in takes if at >= max(one.mine[0], one.twin[0])]
    early = len(behind) < len(takes)
    if not given or calls.opaque[rest].any():
        return True
    if early and (bool(behind) or one.mine[0] < one.twin[0]):
        return True
    known = int(np.flatnonzero((calls.state == USED) & (calls.step == one.step))[-1])
    keys = calls.key[behind].tolist()
    return len(set(keys)) < len(keys) or any(at < known for at in behind if calls.state[at] != USED)


def _alike(threads: Threads, calls: Calls, one: _Pass) -> bool:
    """Tell whether both passes are of one network, as far as stacks tell.

    Another one of the same make gives what is meant to differ: a teacher's, a target's.
    """
    around = [_module(threads, calls, span) for span in (one.mine, one.twin)]
    return None in around or around[0] == around[1]


def _module(threads: Threads, calls: Calls, span: Span) -> int | None:
    """Give the name of the innermost module ("nn.Module: Net_0") whose call holds a pass."""
    trace, events = threads.trace, threads.trace.events
    named = np.array([name.startswith(_MODULE) for name in trace.names], bool)
    if not named.any():
        return None
    holds = (events.start <= calls.start[span[0]]) & (events.end >= calls.end[span[1]])
    rows = np.flatnonzero(holds & named[events.name] & (events.track == threads.main))
    return int(events.name[rows[np.argmax(events.start[rows])]]) if len(rows) else None


def _given(calls: Calls, one: _Pass) -> frozenset[Sizes]:
    """Give the sizes of all that a pass gives, within it as well; none: they are not known."""
    (first, last), (other, end) = one.mine, one.twin
    results = [calls.given(at) for at in range(other, end + 1)]
    if not any(results):
        return frozenset()
    within = [calls.taken(at) for at in range(first + 1, last + 1) if calls.state[at] == SPARE]
    turned = {size[::-1] for size in calls.parameters}
    return frozenset[Sizes]().union(*results, *within) - calls.parameters - turned
