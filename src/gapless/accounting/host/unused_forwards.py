"""Forward passes that nothing uses: no backward pass runs through them, nothing takes their result.

Autograd numbers the nodes of its graph as a thread makes them, and the profiler notes that number
with each operator: the one that comes next as the operator begins, and of a node that a backward
pass evaluates its own. So an operator made nodes where the number is larger once it has ended; and
no backward pass needs it where none of these is evaluated.

That says nothing of its values: a generator's pictures are shown to a discriminator without the
graph that made them, a second network gives what the first one learns from. So a pass counts only
where another pass of the same step, which is used, calls the same operators with inputs of the same
sizes; and where nothing else of the step can have taken what it gives, since tensors are read by
operators. Which sizes that has, the nodes of the other one tell: a gradient is as large as what it
is of. What took a tensor of such a size may have taken the other's; then nothing is said.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gapless.accounting.host.cuda_graphs import PLAIN, SPARE, USED, GraphCalls, Sizes, graph_calls
from gapless.accounting.host.threads import Threads
from gapless.accounting.intervals import Lane, empty_column, union
from gapless.model.trace import Int64

_MIN_STEP_SHARE: Final = 0.5  # of the steps: what is done less often is no part of a step
_MODULE: Final = "nn.Module: "  # what the profiler calls the call of a module, with its number
CallSpan = tuple[int, int]  # positions among the calls, the last included


class UnusedPasses(Struct, frozen=True):
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
        """Return when they ran."""
        lane = union(self.start, self.end)
        return replace(lane, owner=self.event[lane.owner])


NO_PASSES: Final = UnusedPasses(
    empty_column(), empty_column(), empty_column(), empty_column(), empty_column()
)


class _UnusedPass(Struct, frozen=True):
    step: int
    call_keys: bytes  # what it called, in order
    span: CallSpan
    twin: CallSpan


def find_unused_passes(threads: Threads, *, alone: bool = False) -> UnusedPasses:
    """Find the passes that nothing uses in the whole steps of a capture.

    What the last step leaves may be used in the one behind it: of it only those count that other
    steps have, too. ``alone``: those of a single step count all the same.
    """
    calls = graph_calls(threads)
    if calls is None:
        return NO_PASSES
    passes = [
        candidate for number in range(calls.steps) for candidate in _step_passes(calls, number)
    ]
    spans = [span for candidate in passes for span in (candidate.span, candidate.twin)]
    passes = [
        candidate
        for candidate in passes
        if not _may_be_taken(calls, candidate, spans, _find_limit(calls, candidate, passes))
        and _is_same_network(threads, calls, candidate)
    ]
    last_step = calls.steps - 1
    proven_keys = {
        candidate.call_keys
        for candidate in passes
        if candidate.step < last_step or (alone and not last_step)
    }
    passes = [candidate for candidate in passes if candidate.call_keys in proven_keys]
    if len({candidate.step for candidate in passes}) < max(1, _MIN_STEP_SHARE * calls.steps):
        return NO_PASSES
    positions = np.array([(*candidate.span, *candidate.twin) for candidate in passes], np.int64)
    start, end = calls.start, calls.end
    return UnusedPasses(
        start[positions[:, 0]],
        end[positions[:, 1]],
        start[positions[:, 2]],
        end[positions[:, 3]],
        calls.event[positions[:, 0]],
    )


def _step_passes(calls: GraphCalls, number: int) -> list[_UnusedPass]:
    """Return the passes of a step that nothing uses."""
    lo, hi = np.searchsorted(calls.step, (number, number + 1)).tolist()
    in_chain = (calls.state[lo:hi] != PLAIN) & ~calls.is_cast[lo:hi]
    chain = lo + np.flatnonzero(in_chain)
    passes: list[_UnusedPass] = []
    for head, tail in _spare_runs(calls, chain):
        twin = _find_twin(calls, chain, head, tail)
        if twin is not None:
            span = int(chain[head]), int(chain[tail])
            call_keys = calls.key[chain[head : tail + 1]].tobytes()
            passes.append(_UnusedPass(number, call_keys, *_extend_spans(calls, lo, span, twin)))
    return passes


def _spare_runs(calls: GraphCalls, chain: Int64) -> Iterator[CallSpan]:
    """Yield each row of calls (positions in the chain) whose graph no backward pass needs.

    A call that one needs ends it, and a backward pass does.
    """
    head = -1
    for position, call in enumerate(chain.tolist()):
        ends = head >= 0 and calls.segment[call] != calls.segment[chain[position - 1]]
        if head >= 0 and (ends or calls.state[call] != SPARE):
            yield head, position - 1
            head = -1
        if head < 0 and calls.state[call] == SPARE:
            head = position
    if head >= 0:
        yield head, len(chain) - 1


def _find_twin(calls: GraphCalls, chain: Int64, head: int, tail: int) -> CallSpan | None:
    """Find the same calls once more in a step, with a result that a backward pass needs."""
    keys, states = calls.key[chain], calls.state[chain]
    wanted_keys, count = keys[head : tail + 1], tail + 1 - head
    for position in np.flatnonzero(keys == wanted_keys[0]).tolist():
        end = position + count
        is_apart = end <= head or position > tail
        if is_apart and np.array_equal(keys[position:end], wanted_keys) and states[end - 1] == USED:
            return int(chain[position]), int(chain[end - 1])
    return None


def _extend_spans(
    calls: GraphCalls, lo: int, span: CallSpan, twin: CallSpan
) -> tuple[CallSpan, CallSpan]:
    """Take in what both call before: views of their inputs, states of zeros."""
    (head, tail), (twin_head, twin_tail) = span, twin
    while (
        min(head, twin_head) > lo
        and head - 1 != twin_tail
        and twin_head - 1 != tail
        and calls.key[head - 1] == calls.key[twin_head - 1]
        and calls.state[head - 1] == calls.state[twin_head - 1] == PLAIN
        and calls.segment[head - 1] == calls.segment[head]
        and calls.segment[twin_head - 1] == calls.segment[twin_head]
    ):
        head, twin_head = head - 1, twin_head - 1
    return (head, tail), (twin_head, twin_tail)


def _find_limit(calls: GraphCalls, candidate: _UnusedPass, passes: Sequence[_UnusedPass]) -> int:
    """Return the position up to which a result may be taken: that of the same pass a step later."""
    starts = (
        min(later_pass.span[0], later_pass.twin[0])
        for later_pass in passes
        if later_pass.step > candidate.step
    )
    return min(starts, default=len(calls.event))


def _may_be_taken(
    calls: GraphCalls, candidate: _UnusedPass, spans: Sequence[CallSpan], limit: int
) -> bool:
    """Return whether something may have taken what a pass gives before it runs once more.

    Between both passes only the first one's result can be taken, and if it is the other's, what
    takes such a tensor behind them takes this one's. What does so first then may take either: the
    other's, if a backward pass needs it, since that would have run through this one, too; or if all
    losses are known, for it trains nothing then. But not where the same is done twice.
    """
    result_sizes = _result_sizes(calls, candidate)
    is_outside = ~calls.sizes_only[:limit]
    for head, tail in spans:
        is_outside[head : tail + 1] = False
    outside_calls = [
        index
        for index in np.flatnonzero(is_outside).tolist()
        if index > min(candidate.span[1], candidate.twin[1])
    ]
    takers = [index for index in outside_calls if calls.input_sizes(index) & result_sizes]
    later_takers = [index for index in takers if index >= max(candidate.span[0], candidate.twin[0])]
    has_early = len(later_takers) < len(takers)
    if not result_sizes or calls.is_opaque[outside_calls].any():
        return True
    if has_early and (bool(later_takers) or candidate.span[0] < candidate.twin[0]):
        return True
    last_used = int(np.flatnonzero((calls.state == USED) & (calls.step == candidate.step))[-1])
    keys = calls.key[later_takers].tolist()
    return len(set(keys)) < len(keys) or any(
        index < last_used for index in later_takers if calls.state[index] != USED
    )


def _is_same_network(threads: Threads, calls: GraphCalls, candidate: _UnusedPass) -> bool:
    """Return whether both passes are of one network, as far as stacks tell.

    Another one of the same make gives what is meant to differ: a teacher's, a target's.
    """
    modules = [_find_module(threads, calls, span) for span in (candidate.span, candidate.twin)]
    return None in modules or modules[0] == modules[1]


def _find_module(threads: Threads, calls: GraphCalls, span: CallSpan) -> int | None:
    """Return the name of the innermost module ("nn.Module: Net_0") whose call holds a pass."""
    trace, events = threads.trace, threads.trace.events
    is_module = np.array([name.startswith(_MODULE) for name in trace.names], bool)
    if not is_module.any():
        return None
    is_holder = (events.start <= calls.start[span[0]]) & (events.end >= calls.end[span[1]])
    rows = np.flatnonzero(is_holder & is_module[events.name] & (events.track == threads.main))
    return int(events.name[rows[np.argmax(events.start[rows])]]) if len(rows) else None


def _result_sizes(calls: GraphCalls, candidate: _UnusedPass) -> frozenset[Sizes]:
    """Return the sizes of all that a pass gives, within it as well; none: they are not known."""
    (head, tail), (twin_head, twin_tail) = candidate.span, candidate.twin
    results = [calls.output_sizes(index) for index in range(twin_head, twin_tail + 1)]
    if not any(results):
        return frozenset()
    inner = [
        calls.input_sizes(index)
        for index in range(head + 1, tail + 1)
        if calls.state[index] == SPARE
    ]
    transposed = {size[::-1] for size in calls.parameters}
    return frozenset[Sizes]().union(*results, *inner) - calls.parameters - transposed
