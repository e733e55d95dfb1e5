"""What changes give where there is no device: the time of the training thread, less what goes.

Operators run where they are called, so that there is nothing to overlap with but the loader's
workers: where these are waited for, what the thread saves may be waited for instead. The profiler
makes small operators slower than large ones; the low ends allow for that.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple
from fnmatch import fnmatchcase
from math import prod
from typing import Final

from gapless.model.change import (
    Change,
    Copied,
    Delay,
    Drop,
    Feed,
    Hosted,
    Merge,
    Omit,
    Predicted,
    Scale,
)
from gapless.model.interval import Interval
from gapless.model.seen import Seen

_HOST: Final = Interval(0.6, 1.0, 1.1)  # of time between operators, which a profiler inflates most
_WORK: Final = Interval(0.85, 1.0, 1.1)  # of operators
_CARRIED: Final = ("comm.", "idle.comm.")  # collectives: threads without events carry them out
_WAITED: Final = 0.02  # of a step, for workers: from there on they may be what limits it
_LEFT: Final = 0.02  # of a step stays at least
_KINDS: Final = ((Scale, "kernel"), (Omit, "sync"), (Drop, "sync"), (Hosted, "host"))
_UNKNOWN: Final[Mapping[type, str]] = {
    Merge: "what few large operators take instead of many small ones is not known: try it",
    Copied: "there is no device to copy to",
    Feed: "its loader was not recorded",
}
_INSTEAD: Final = "workers are waited for: what the thread saves may be waited for instead"


def price(seen: Seen, changes: Sequence[Change]) -> Predicted:
    """Predict what changes together give of a step of one thread, or say why that is not."""
    gone = _added(_of_leaves(seen, changes), _omitted(seen, changes))
    for one in changes:
        found = _gone(seen, one)
        if isinstance(found, str):
            return Predicted(None, _family(changes), refused=found)
        gone = _added(gone, found)
    speedup = Interval(*(1 / max(_LEFT, 1 - part) for part in (gone.low, gone.mid, gone.high)))
    if _fed(seen):
        speedup = Interval(min(1.0, speedup.low), speedup.mid, speedup.high)
        return Predicted(speedup, _family(changes), notes=(_INSTEAD,))
    return Predicted(speedup, _family(changes))


def _family(changes: Iterable[Change]) -> str:
    """Name the kind of a prediction: that of the change which is least known."""
    every = tuple(changes)
    return next(
        (family for kind, family in _KINDS if any(isinstance(one, kind) for one in every)), "host"
    )


def _fed(seen: Seen) -> bool:
    """Tell whether workers are waited for, so that they may be what limits the step."""
    uses = seen.study.recorded.loaders if seen.study.recorded is not None else ()
    return any(
        (one.share or 0.0) >= _WAITED and one.workers is not None and one.workers.processes > 0
        for one in uses
    )


def _of_leaves(seen: Seen, changes: Sequence[Change]) -> Interval:
    """Give the share of the step that goes of its leaves.

    Of one that several changes name each takes off what the others leave: it goes no more than once
    """
    gone = Interval(0.0, 0.0, 0.0)
    for leaf in seen.account.leaves:
        taken = [part for one in changes if (part := _taken(one, leaf)) is not None]
        kept = (prod(1 - part for part in ends) for ends in zip(*map(astuple, taken), strict=True))
        if taken:
            gone = _added(gone, _part(Interval(*(1 - one for one in kept)), _share(seen, leaf)))
    return gone


def _taken(change: Change, leaf: str) -> Interval | None:
    """Give the share of a leaf that a change takes off; ``None``: it does not name it."""
    if not isinstance(change, Drop | Hosted | Scale) or not leaf.startswith(change.leaves or "-"):
        return None
    match change:
        case Drop(leaves=leaves, keep=keep):
            return _part(_of(leaves), 1 - keep)
        case Hosted(leaves=leaves, factor=factor):
            return _scaled(_of(leaves), 1.0, factor)
        case Scale(factor=factor):
            return _scaled(_WORK, 1.0, factor)


def _gone(seen: Seen, change: Change) -> Interval | str:
    """Give the share of the step that a change takes off beside leaves, or why it is not known."""
    match change:
        case Drop() | Hosted() | Omit():
            return Interval(0.0, 0.0, 0.0)
        case Scale(names=names, factor=factor):
            return _scaled(_WORK, _named(seen, names), factor)
        case Delay(ns=ns):
            return _delayed(seen, ns)
        case Merge() | Copied() | Feed():
            return _UNKNOWN[type(change)]


def _delayed(seen: Seen, ns: int) -> Interval | str:
    """Give what a delay takes off: less than nothing; where workers are waited for, maybe all."""
    if not seen.step_ns:
        return "there are no steps"
    share = -ns / seen.step_ns
    return Interval(share, share, 0.0 if _fed(seen) else share)


def _of(leaves: Sequence[str]) -> Interval:
    """Give how much of some leaves a profiler made: next to nothing of what others carry out."""
    return _WORK if leaves and all(leaf.startswith(_CARRIED) for leaf in leaves) else _HOST


def _share(seen: Seen, leaf: str) -> float:
    account, step = seen.account, seen.step_ns
    return account.leaves[leaf] / account.steps / step if account.steps and step else 0.0


def _added(one: Interval, other: Interval) -> Interval:
    return Interval(one.low + other.low, one.mid + other.mid, one.high + other.high)


def _part(of: Interval, share: float) -> Interval:
    return Interval(of.low * share, of.mid * share, of.high * share)


def _scaled(of: Interval, share: float, factor: Interval) -> Interval:
    """Give what goes of a share that takes ``factor`` of its time: least where that is highest."""
    return Interval(
        share * (1 - factor.high) * (of.low if factor.high < 1 else 1.0),
        share * (1 - factor.mid),
        share * (1 - factor.low) * of.high,
    )


def _named(seen: Seen, names: Sequence[str]) -> float:
    """Give the share of the step in operators of some names, without what they call."""
    rows, wall = seen.study.tables.operators, seen.study.account.wall_ns
    found = [one.host_self_ns for one in rows if _is_one_of(one.name, names)]
    return min(1.0, sum(found) / wall) if wall else 0.0


def _omitted(seen: Seen, changes: Sequence[Change]) -> Interval:
    """Give the share of the step that goes with calls, and what they call.

    One may lie within another, of the same change or of others, and goes once: at least as much as
    the largest, or as all take by themselves, at most their sum.
    """
    every = [one for one in changes if isinstance(one, Omit)]
    own = most = total = 0.0
    for row in seen.study.tables.operators:
        gone = max((1 - one.keep for one in every if _is_one_of(row.name, one.names)), default=0.0)
        own += row.host_self_ns * gone
        most, total = max(most, row.host_total_ns * gone), total + row.host_total_ns * gone
    wall = seen.study.account.wall_ns
    if not wall:
        return Interval(0.0, 0.0, 0.0)
    least = min(1.0, max(own, most) / wall)
    return Interval(_HOST.low * least, least, min(1.0, max(least, total / wall)))


def _is_one_of(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, one) for one in patterns)
