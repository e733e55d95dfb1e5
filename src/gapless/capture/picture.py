"""One capture drawn: pieces of the ledger, threads and streams as bars on one axis.

No number is computed here: bars are the pieces and the events as they are.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace

from gapless.accounting.device.activities import KINDS
from gapless.capture.view import CaptureView
from gapless.model import category
from gapless.model.leaf import GROUP_CODE, GROUPS
from gapless.model.ledger import Row
from gapless.model.picture import Picture, StepSpan, Strip, StripKind
from gapless.model.trace import Int64

_MAX_BARS: Final = 100_000
_MAX_DEPTH: Final = 11  # of nested events: deeper ones are not drawn
_ON_HOST: Final = (
    category.CPU_OP,
    category.USER_ANNOTATION,
    category.RUNTIME,
    category.DRIVER,
)
_GROUP_CODES: Final = np.array(GROUP_CODE, np.int8)  # of each leaf
_KIND_GROUPS: Final = {  # of activities that do not compute
    "comm": GROUPS.index("communication"),
    **dict.fromkeys(("h2d", "d2h", "p2p"), GROUPS.index("copy")),
}


def draw_window(view: CaptureView) -> Picture | None:
    """Draw the counted steps of a capture, as many as there is room for; ``None`` without any."""
    rows = sorted((row.row for row in view.account.rows), key=lambda row: (row.start, row.end))
    if not rows:
        return None
    begin = _begin(view, rows)
    drawn_rows = _drawable(view, rows, begin)
    end = max(row.end for row in drawn_rows)
    strips = [strip for strip in _strips(view, begin, end) if len(strip.start)]
    names, strips = _intern(view, strips)
    device = drawn_rows[0].device
    return Picture(
        path=view.trace.path,
        rank=view.trace.rank,
        start_ns=begin + view.trace.origin_ns,
        length_ns=end - begin,
        names=names,
        strips=tuple(strips),
        steps=tuple(
            StepSpan(row.step, row.start - begin, row.end - begin)
            for row in drawn_rows
            if row.step is not None and row.device == device
        ),
        left_out_steps=len({row.step for row in rows} - {row.step for row in drawn_rows}),
    )


def _begin(view: CaptureView, rows: Sequence[Row]) -> int:
    """Return when the first counted step begins: on the host, which is ahead of the device."""
    first_event = int(view.trace.events.start.min()) if len(view.trace.events) else rows[0].start
    return max(first_event, min(rows[0].start, int(view.starts[0])))


def _drawable(view: CaptureView, rows: Sequence[Row], begin: int) -> Sequence[Row]:
    """Return the rows that end before there are too many bars; at least the first one."""
    ends = np.sort(np.concatenate([view.ledger.end, view.acts.end, _host_ends(view)]))
    ends = ends[ends > begin]
    if len(ends) <= _MAX_BARS:
        return rows
    last_ns = int(ends[_MAX_BARS])
    return [row for row in rows if row.end <= last_ns] or rows[:1]


def _host_ends(view: CaptureView) -> Int64:
    events = view.trace.events
    return events.end[np.isin(events.category, _ON_HOST)]


def _strips(view: CaptureView, begin: int, end: int) -> Iterator[Strip]:
    """Yield the strips from top to bottom; names are those of the trace."""
    yield from _account_strips(view, begin, end)
    yield from _thread_strips(view, begin, end)
    yield from _stream_strips(view, begin, end)


def _account_strips(view: CaptureView, begin: int, end: int) -> Iterator[Strip]:
    ledger, names = view.ledger, view.trace.events.name
    group_leaves = ledger.group_leaf()
    devices = np.array([-1 if row.device is None else row.device for row in ledger.rows], np.int64)[
        ledger.row
    ]
    is_inside = (ledger.start < end) & (ledger.end > begin)
    for device in np.unique(devices).tolist():
        pieces = np.flatnonzero(is_inside & (devices == device))
        culprits = ledger.culprit[pieces]
        yield Strip(
            title="account" if device < 0 else f"account of GPU {device}",
            kind=StripKind.ACCOUNT,
            start=(ledger.start[pieces] - begin).clip(0),
            end=ledger.end[pieces].clip(max=end) - begin,
            name=np.where(culprits >= 0, names[culprits], -1).astype(np.int32),
            leaf=ledger.leaf[pieces].astype(np.int8),
            group=_GROUP_CODES[group_leaves[pieces]],
            depth=np.zeros(len(pieces), np.int8),
        )


def _thread_strips(view: CaptureView, begin: int, end: int) -> Iterator[Strip]:
    """Yield the threads that did something, the training thread first."""
    events, main = view.trace.events, view.ledger.main_track
    rows = np.flatnonzero(
        np.isin(events.category, _ON_HOST)
        & (events.start < end)
        & (events.end > np.maximum(events.start, begin))
    )
    tracks: list[int] = np.unique(events.track[rows]).tolist()
    for track in sorted(tracks, key=lambda track: (track != main, track)):
        strip_rows = rows[events.track[rows] == track]
        order = np.lexsort((-events.end[strip_rows], events.start[strip_rows]))
        strip_rows = strip_rows[order]
        depth = _nest(events.start[strip_rows], events.end[strip_rows])
        is_shallow = depth <= _MAX_DEPTH
        strip_rows, depth = strip_rows[is_shallow], depth[is_shallow]
        thread = view.trace.tracks[track]
        title = "training thread" if track == main else thread.thread or f"thread {thread.tid}"
        yield Strip(
            title=title,
            kind=StripKind.THREAD,
            start=(events.start[strip_rows] - begin).clip(0),
            end=events.end[strip_rows].clip(max=end) - begin,
            name=events.name[strip_rows],
            leaf=np.full(len(strip_rows), -1, np.int8),
            group=np.full(len(strip_rows), -1, np.int8),
            depth=depth.astype(np.int8),
        )


def _nest(starts: Int64, ends: Int64) -> Int64:
    """Return how many earlier events each one lies in; sorted by start, the longest first."""
    depths, open_ends = np.zeros(len(starts), np.int64), list[int]()
    for index, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        while open_ends and open_ends[-1] <= start:
            open_ends.pop()
        depths[index] = len(open_ends)
        open_ends.append(end)
    return depths


def _stream_strips(view: CaptureView, begin: int, end: int) -> Iterator[Strip]:
    acts = view.acts
    kinds = np.array([_KIND_GROUPS.get(kind, -1) for kind in KINDS], np.int8)[acts.kind]
    is_compute = kinds < 0  # only what computes has a leaf of its own, whatever runs beside it
    groups = np.where(is_compute, _GROUP_CODES[view.classes], kinds)
    is_inside = (acts.start < end) & (acts.end > begin)
    pairs = sorted(
        set(zip(acts.device[is_inside].tolist(), acts.stream[is_inside].tolist(), strict=True))
    )
    for device, stream in pairs:
        rows = np.flatnonzero(is_inside & (acts.device == device) & (acts.stream == stream))
        rows = rows[np.argsort(acts.start[rows], kind="stable")]
        yield Strip(
            title=f"GPU {device}, stream {stream}",
            kind=StripKind.STREAM,
            start=(acts.start[rows] - begin).clip(0),
            end=acts.end[rows].clip(max=end) - begin,
            name=view.trace.events.name[acts.event[rows]],
            leaf=np.where(is_compute[rows], view.classes[rows], -1).astype(np.int8),
            group=groups[rows],
            depth=np.zeros(len(rows), np.int8),
        )


def _intern(view: CaptureView, strips: Sequence[Strip]) -> tuple[tuple[str, ...], list[Strip]]:
    """Return the names that are used, and the strips with the numbers of these."""
    columns = [strip.name for strip in strips]
    used, numbers = np.unique(
        np.concatenate(columns or [np.empty(0, np.int32)]), return_inverse=True
    )
    has_nameless = len(used) > 0 and used[0] < 0
    numbers = (numbers - has_nameless).astype(np.int32)
    used_numbers: list[int] = used.tolist()
    names = tuple(view.trace.names[number] for number in used_numbers if number >= 0)
    bounds = np.cumsum([len(column) for column in columns])[:-1]
    parts = np.split(numbers, bounds)
    return names, [replace(strip, name=part) for strip, part in zip(strips, parts, strict=True)]
