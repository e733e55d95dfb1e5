"""From a leaf to its longest pieces, and from those to the events and lines behind them."""

from typing import Final

import numpy as np

from gapless.capture.source_lines import stacks
from gapless.capture.view import CaptureView
from gapless.model import category
from gapless.model.leaf import LEAF, LEAVES
from gapless.model.options import Options, leaves_below
from gapless.model.study import Leaf, Piece
from gapless.model.trace import Int64

_PIECES_OF_EACH: Final = 5  # of a leaf, where all are described


def describe_leaf(view: CaptureView, options: Options) -> Leaf | None:
    """Return the longest pieces of the leaf that was asked for, ``None`` if none was."""
    if options.leaf is None:
        return None
    leaf_numbers = [LEAF[leaf] for leaf in leaves_below(options.leaf)]
    return _describe(view, options.leaf, view.charged_to(leaf_numbers), options.pieces)


def describe_leaves(view: CaptureView) -> tuple[Leaf, ...]:
    """Return every leaf of the account with its few longest pieces, most time first."""
    pieces_by_leaf = ((name, view.charged_to([number])) for name, number in LEAF.items())
    leaves = [
        _describe(view, name, pieces, _PIECES_OF_EACH)
        for name, pieces in pieces_by_leaf
        if len(pieces)
    ]
    return tuple(sorted(leaves, key=lambda leaf: -leaf.ns))


def _describe(view: CaptureView, prefix: str, pieces: Int64, n_longest: int) -> Leaf:
    ledger = view.ledger
    lengths = (ledger.end - ledger.start)[pieces]
    order = np.argsort(-lengths, kind="stable")[:n_longest]
    return Leaf(
        prefix=prefix,
        count=len(pieces),
        ns=int(lengths.sum()),
        median_ns=int(np.sort(lengths)[(len(lengths) - 1) // 2]) if len(lengths) else None,
        longest=_describe_pieces(view, pieces[order]),
    )


def _describe_pieces(view: CaptureView, pieces: Int64) -> tuple[Piece, ...]:
    ledger = view.ledger
    culprits = ledger.culprit[pieces].astype(np.int64)
    lines, operators = _user_lines(view, culprits), _operator_names(view, culprits)
    descriptions: list[Piece] = []
    for index, piece in enumerate(pieces.tolist()):
        row, culprit = ledger.rows[ledger.row[piece]], int(culprits[index])
        under = int(ledger.facets.under[piece])
        descriptions.append(
            Piece(
                row=row,
                offset_ns=int(ledger.start[piece]) - row.start,
                ns=int(ledger.end[piece] - ledger.start[piece]),
                leaf=LEAVES[ledger.leaf[piece]],
                under=LEAVES[under] if under >= 0 else None,
                refill=_event_name(view, int(ledger.facets.refill[piece])),
                culprit=_event_name(view, culprit),
                category=_event_category(view, culprit),
                thread=_thread_name(view, culprit),
                operator=operators[index],
                line=lines[index],
            )
        )
    return tuple(descriptions)


def _event_name(view: CaptureView, event: int) -> str | None:
    return view.trace.names[int(view.trace.events.name[event])] if event >= 0 else None


def _event_category(view: CaptureView, event: int) -> str | None:
    return category.LABELS[int(view.trace.events.category[event])] if event >= 0 else None


def _thread_name(view: CaptureView, event: int) -> str | None:
    if event < 0:
        return None
    number = int(view.trace.events.track[event])
    if number == view.ledger.main_track:
        return "main"
    track = view.trace.tracks[number]
    on_device = view.trace.events.category[event] in category.ACTIVITIES
    return f"stream {track.tid}" if on_device else track.thread or f"thread {track.tid}"


def _operator_names(view: CaptureView, culprits: Int64) -> list[str | None]:
    """Return the name of the operator that launched each activity, or around each call."""
    rows = _host_events(view, culprits)
    tracks = np.where(rows >= 0, view.trace.events.track[rows], -1).astype(np.int64)
    operator_events = view.side.operator_at(tracks, view.trace.events.start[rows])
    events: list[int] = operator_events.tolist()
    return [_event_name(view, event) for event in events]


def _host_events(view: CaptureView, culprits: Int64) -> Int64:
    """Return for each culprit the host event to look around: of an activity its launch."""
    acts, rows = view.acts, culprits.copy()
    for index, culprit in enumerate(culprits.tolist()):
        positions = np.flatnonzero(acts.event == culprit)
        if len(positions):
            rows[index] = acts.call[positions[0]]
    return rows


def _user_lines(view: CaptureView, culprits: Int64) -> list[str | None]:
    """Return the user's innermost line around each culprit (of an activity: around its launch)."""
    python_stacks, rows = stacks(view.trace), _host_events(view, culprits)
    on_host = np.flatnonzero(rows >= 0)
    nearest_frames = python_stacks.frames_around(view.trace, rows[on_host])
    lines: list[str | None] = [None] * len(culprits)
    for index, frame in zip(on_host.tolist(), nearest_frames.tolist(), strict=True):
        if frame >= 0:
            file, line, function = python_stacks.locations[
                int(view.trace.events.name[python_stacks.frames[frame]])
            ]
            lines[index] = f"{file}:{line} {function}"
    return lines
