"""How far the clock of one machine is from that of another, by what their ranks did together.

A collective ends on all ranks at once: the ends that windows of the same steps show are best. Where
no window shows any, the ends of common steps are taken: in each step there is something that ends
at once, so that step k of one rank cannot have ended before step k - 1 of the other. Without these
there is only what the machines believe the time of day to be.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gapless.accounting import Collectives, fit_clock, gather_collectives, pair_ends
from gapless.accounting.clock import clock_ranges, match_clocks
from gapless.capture.ranks.tasks import load_trace
from gapless.errors import GaplessError
from gapless.model.options import Options
from gapless.model.recording import Recording, Window
from gapless.model.trace import Int64
from gapless.recorded.nodes.shift import shift_recording
from gapless.recorded.shared_windows import group_windows
from gapless.recorded.training.processes import Training, select_steppers
from gapless.recorded.training.processes import trainings as find_trainings
from gapless.store import cache

_MIN_ENDS: Final = 3  # common collectives, or steps, that show an offset
_MAX_WINDOWS: Final = 2  # pairs of windows that are read: the first and the last show a drift
_SAME_CLOCK_NS: Final = 100_000_000  # machines of one name whose clocks differ by less are one
SAME_MACHINE: Final = "the same machine"  # where an offset is from
_TAIL: Final = 0.05  # of the differences, on either side: such a collective did not end at once


class ClockOffset(Struct, frozen=True):
    """A clock less another one, and how that is known."""

    ns: int
    error_ns: int | None
    source: str
    count: int  # of what it is derived from


class _WindowEnds(Struct, frozen=True):
    """The collectives of a window; how far its file's clock is from that of the recording."""

    collectives: Collectives
    offset_ns: int
    error_ns: int


def find_offset(first: Recording, peer: Recording, options: Options) -> ClockOffset:
    """Return how far the clock of one recording is from that of another one of the same job."""
    wall_ns = _wall_offset_ns(first, peer)
    if first.manifest.host == peer.manifest.host and abs(wall_ns) < _SAME_CLOCK_NS:
        return ClockOffset(0, 0, SAME_MACHINE, 0)
    pair = _pair_trainings(first, shift_recording(peer, wall_ns))
    if pair is None:
        return ClockOffset(wall_ns, None, "wall clock", 0)
    stepwise = _compare_steps(*pair)
    coarse_ns = wall_ns if stepwise is None else wall_ns + stepwise.ns
    span = np.array([pair[0].start, pair[0].end])
    exact = _compare_collectives(first, shift_recording(peer, coarse_ns), span, options)
    if exact is not None:
        return replace(exact, ns=coarse_ns + exact.ns)
    if stepwise is not None:
        return replace(stepwise, ns=coarse_ns)
    return ClockOffset(wall_ns, None, "wall clock", 0)


def _wall_offset_ns(first: Recording, peer: Recording) -> int:
    """Return the offset if both machines had the same time of day."""
    return unix_offset_ns(first) - unix_offset_ns(peer)


def unix_offset_ns(recording: Recording) -> int:
    """Return Unix time less the clock of a recording, as its machine knows it; 0 unknown."""
    manifest = recording.manifest
    if manifest.started_unix_ns:
        return manifest.started_unix_ns - manifest.started
    offsets = (process.unix_offset_ns for process in recording.processes)
    return next((offset for offset in offsets if offset is not None), 0)


def _pair_trainings(first: Recording, peer: Recording) -> tuple[Training, Training] | None:
    """Return the processes, one of each, that trained together longest.

    An elastic job starts its ranks anew, and those of one start step together.
    """
    candidates = [
        (_common_ns(own_training, peer_training), own_training, peer_training)
        for own_training in _steppers(first)
        for peer_training in _steppers(peer)
        if own_training.process.world == peer_training.process.world
    ]
    if not candidates:
        return None
    _, *pair = max(candidates, key=lambda candidate: candidate[0])
    return pair[0], pair[1]


def _steppers(recording: Recording) -> tuple[Training, ...]:
    """Return the processes of the lowest rank, one for each time that it was started."""
    all_trainings = [t for t in find_trainings(recording) if len(t.edges.ends) > 1]
    if any(training.process.rank is None for training in all_trainings):
        return select_steppers(all_trainings)
    lowest = min((training.process.rank or 0 for training in all_trainings), default=None)
    return tuple(t for t in all_trainings if t.process.rank == lowest)


def _common_ns(own_training: Training, peer_training: Training) -> int:
    return min(own_training.end, peer_training.end) - max(own_training.start, peer_training.start)


def _compare_steps(own_training: Training, peer_training: Training) -> ClockOffset | None:
    """Return the offset by the ends of common steps; its error is what they leave open."""
    first_numbers, second_numbers = (
        _step_numbers(training) for training in (own_training, peer_training)
    )
    _, first_rows, second_rows = np.intersect1d(
        first_numbers, second_numbers, assume_unique=True, return_indices=True
    )
    first_ends, second_ends = (
        own_training.edges.ends[first_rows],
        peer_training.edges.ends[second_rows],
    )
    if len(first_ends) < _MIN_ENDS:
        return None
    offset_ns = int(np.median(second_ends - first_ends))
    low_ns = int((second_ends[:-1] - first_ends[1:]).max())
    high_ns = int((second_ends[1:] - first_ends[:-1]).min())
    error_ns = max(high_ns - offset_ns, offset_ns - low_ns, (low_ns - high_ns) // 2)
    return ClockOffset(offset_ns, error_ns, "steps", len(first_ends))


def _step_numbers(training: Training) -> Int64:
    """Return of each end of a step how many steps ended up to it."""
    return np.concatenate(([0], np.cumsum(training.edges.step_counts)))[: len(training.edges.ends)]


def _compare_collectives(
    first: Recording, peer: Recording, span: Int64, options: Options
) -> ClockOffset | None:
    """Return the offset by the ends of collectives in windows of the same steps.

    It is that in the middle of ``span``; what a clock that is faster than the other adds up to
    until its ends is part of the error.
    """
    pairs: list[tuple[Int64, Int64]] = []
    error_ns = 0
    for own_training, peer_training in _common_windows(first, peer):
        window_ends = [_read_window(*window, options) for window in (own_training, peer_training)]
        if window_ends[0] is None or window_ends[1] is None:
            continue
        ends = pair_ends(window_ends[0].collectives, window_ends[1].collectives)
        first_ends, second_ends = (
            end + (window_end.collectives.origin_ns - window_end.offset_ns)
            for end, window_end in zip(ends, filter(None, window_ends), strict=True)
        )
        pairs.append((first_ends, second_ends))
        error_ns = max(error_ns, sum(end.error_ns for end in filter(None, window_ends)))
    if sum(len(first_ends) for first_ends, _ in pairs) < _MIN_ENDS:
        return None
    first_ends, second_ends = (np.concatenate(ends) for ends in zip(*pairs, strict=True))
    line = fit_clock(first_ends, second_ends)
    misses = np.abs(np.quantile(second_ends - line.from_reference(first_ends), (_TAIL, 1 - _TAIL)))
    begin_ns, end_ns = (line.from_reference(span) - span).tolist()
    error_ns += round(float(misses.max())) + abs(end_ns - begin_ns) // 2
    return ClockOffset((begin_ns + end_ns) // 2, error_ns, "collectives", len(first_ends))


_FileWindow = tuple[Path, Window]


def _common_windows(first: Recording, peer: Recording) -> Iterator[tuple[_FileWindow, _FileWindow]]:
    """Yield the first and the last pair of windows of the same steps."""
    places = group_windows(
        [
            (str(path), process_rank, window)
            for recording in (first, peer)
            for path, window, process_rank in _plain_windows(recording)
        ]
    )
    firsts, seconds = (
        {
            places[str(path)].group: (path, window)
            for path, window, _ in reversed(list(_plain_windows(recording)))
            if str(path) in places
        }
        for recording in (first, peer)
    )
    groups = sorted(firsts.keys() & seconds.keys())
    for group in dict.fromkeys([*groups[:1], *groups[-1:]][:_MAX_WINDOWS]):
        yield firsts[group], seconds[group]


def _plain_windows(recording: Recording) -> Iterable[tuple[Path, Window, int | None]]:
    for process in recording.processes:
        for window in process.windows:
            if window.path is not None and window.discarded is None and not window.stacks:
                yield Path(recording.path) / window.path, window, process.rank


def _read_window(path: Path, window: Window, options: Options) -> _WindowEnds | None:
    """Return the collectives of a window; ``None`` if it or its clock cannot be read."""
    try:
        key = cache.content_key(path) if options.cache else None
        trace = load_trace(str(path), key)
    except GaplessError:
        return None  # the report says so, where it reads the window
    ranges = clock_ranges(trace)
    clock_match = None if ranges is None else match_clocks(ranges, window.readings)
    if clock_match is None:
        return None
    return _WindowEnds(gather_collectives(trace, window.first_step), *clock_match)


def order_recordings(recordings: Sequence[Recording]) -> list[Recording]:
    """Return the recordings of a job's machines, that of the lowest rank first."""
    return sorted(recordings, key=_first_rank)


def _first_rank(recording: Recording) -> tuple[int, int]:
    ranks = [process.rank for process in recording.processes if process.rank is not None]
    return (min(ranks, default=1 << 31), recording.manifest.started_unix_ns)
