"""From a leaf to its longest pieces, and from those to the events and lines behind them."""

import numpy as np

from gapless.model import category
from gapless.model.leaf import LEAF, LEAVES
from gapless.model.study import Leaf, Piece
from gapless.model.trace import Int64
from gapless.study.options import Options, leaves_below
from gapless.study.source import stacks
from gapless.study.view import View


def look_into(view: View, options: Options) -> Leaf | None:
    """Give the longest pieces of the leaf that was asked for, ``None`` if none was."""
    if options.leaf is None:
        return None
    ledger = view.ledger
    wanted = [LEAF[leaf] for leaf in leaves_below(options.leaf)]
    pieces = view.charged_to(wanted)
    length = (ledger.end - ledger.start)[pieces]
    order = np.argsort(-length, kind="stable")[: options.pieces]
    return Leaf(
        prefix=options.leaf,
        count=len(pieces),
        ns=int(length.sum()),
        median_ns=int(np.sort(length)[(len(length) - 1) // 2]) if len(length) else None,
        longest=_describe(view, pieces[order]),
    )


def _describe(view: View, pieces: Int64) -> tuple[Piece, ...]:
    ledger = view.ledger
    culprits = ledger.culprit[pieces].astype(np.int64)
    lines, operators = _lines(view, culprits), _operators(view, culprits)
    found: list[Piece] = []
    for at, piece in enumerate(pieces.tolist()):
        row, culprit = ledger.rows[ledger.row[piece]], int(culprits[at])
        under = int(ledger.facets.under[piece])
        found.append(
            Piece(
                row=row,
                offset_ns=int(ledger.start[piece]) - row.start,
                ns=int(ledger.end[piece] - ledger.start[piece]),
                leaf=LEAVES[ledger.leaf[piece]],
                under=LEAVES[under] if under >= 0 else None,
                refill=_name(view, int(ledger.facets.refill[piece])),
                culprit=_name(view, culprit),
                category=_category(view, culprit),
                thread=_thread(view, culprit),
                operator=operators[at],
                line=lines[at],
            )
        )
    return tuple(found)


def _name(view: View, event: int) -> str | None:
    return view.trace.names[int(view.trace.events.name[event])] if event >= 0 else None


def _category(view: View, event: int) -> str | None:
    return category.LABELS[int(view.trace.events.category[event])] if event >= 0 else None


def _thread(view: View, event: int) -> str | None:
    if event < 0:
        return None
    number = int(view.trace.events.track[event])
    if number == view.ledger.main_track:
        return "main"
    track = view.trace.tracks[number]
    on_device = view.trace.events.category[event] in category.ACTIVITIES
    return f"stream {track.tid}" if on_device else track.thread or f"thread {track.tid}"


def _operators(view: View, culprits: Int64) -> list[str | None]:
    """Name the operator that launched each activity, or around each call."""
    rows = _on_host(view, culprits)
    tracks = np.where(rows >= 0, view.trace.events.track[rows], -1).astype(np.int64)
    found = view.side.operator_at(tracks, view.trace.events.start[rows])
    events: list[int] = found.tolist()
    return [_name(view, one) for one in events]


def _on_host(view: View, culprits: Int64) -> Int64:
    """Give for each culprit the host event to look around: of an activity its launch."""
    acts, rows = view.acts, culprits.copy()
    for at, culprit in enumerate(culprits.tolist()):
        place = np.flatnonzero(acts.event == culprit)
        if len(place):
            rows[at] = acts.call[place[0]]
    return rows


def _lines(view: View, culprits: Int64) -> list[str | None]:
    """Name the user's innermost line around each culprit (of an activity: around its launch)."""
    known, rows = stacks(view.trace), _on_host(view, culprits)
    has = np.flatnonzero(rows >= 0)
    around = known.around(view.trace, rows[has])
    found: list[str | None] = [None] * len(culprits)
    for at, frame in zip(has.tolist(), around.tolist(), strict=True):
        if frame >= 0:
            file, line, function = known.places[int(view.trace.events.name[known.frames[frame]])]
            found[at] = f"{file}:{line} {function}"
    return found
