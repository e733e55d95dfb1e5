"""What changes would give: ratios of replays, changed to unchanged, with their intervals.

A ratio is applied to the un-profiled step; replayed nanoseconds are never shown. Changes that are
asked for together are played together, never added.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
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
from gapless.replay.beside import slowdown
from gapless.replay.changes import How
from gapless.replay.copies import USUAL_RATES, Rates
from gapless.replay.factors import open_intervals, settled
from gapless.replay.fed import fed_ratios
from gapless.replay.nodes import Float
from gapless.replay.scene import Scene, averaged
from gapless.replay.service import Inputs
from gapless.replay.simulate import StuckError
from gapless.replay.uncertainty import MODEL, EmptyStepError, Ends, Played, interval, joined, pooled

_SURVIVE: Final = frozenset({"sync", "host"})  # families whose gain must be there at the high α
_EMPTY: Final = "steps are so short that tracing them may have cost all of their time"
_TAILS: Final = ("idle.io_main", "idle.gc", "idle.alloc", "idle.compile", "idle.data.start-up")
_SYNCS: Final = ("ynchronize", "aten::item", "aten::_local_scalar_dense", "nonzero", "::is_nonzero")


@dataclass(frozen=True)
class Extra:
    """What predictions need beside windows."""

    rates: Rates = USUAL_RATES
    loaders: Mapping[int, Inputs] = field(default_factory=dict[int, Inputs])  # by id, as recorded


def predict(
    scenes: Sequence[Scene], changes: Sequence[Change], extra: Extra | None = None
) -> Predicted:
    """Predict what changes together give of an un-profiled step, or say why that is not."""
    extra, kind = extra or Extra(), family(changes)
    why = _refusal(scenes, changes, extra)
    if why is not None:
        return Predicted(None, kind, refused=why)
    notes = tuple(dict.fromkeys(note for one in scenes for note in one.alpha.notes))
    explanations = [tuple(scenes)]
    if any(one.other is not None for one in scenes):
        explanations.append(tuple(one.other or one for one in scenes))
    try:
        each = tuple(_ratios(some, changes, extra, kind) for some in explanations)
    except StuckError as error:
        return Predicted(None, kind, refused=f"changed so, the window cannot be played: {error}")
    except EmptyStepError:
        return Predicted(None, kind, refused=_EMPTY)
    alone = each[1:] and each
    return Predicted(joined(each), kind, notes=notes, each=alone)


def _ratios(
    scenes: Sequence[Scene], changes: Sequence[Change], extra: Extra, kind: str
) -> Interval:
    """Give the speed-up by one explanation of how far windows are off plain steps."""
    if _queued(changes, extra):
        return fed_ratios(scenes, changes, extra.rates, extra.loaders)
    return _replayed(scenes, changes, extra.rates, kind)


def family(changes: Sequence[Change]) -> str:
    """Name the kind of some changes: of several, the kind that is known worst."""
    return max((_family(one) for one in changes), key=lambda one: MODEL[one], default="host")


def _family(change: Change) -> str:
    match change:
        case Drop():
            return _of_leaves(change.leaves)
        case Omit():
            waits = all(any(word in name for word in _SYNCS) for name in change.names)
            return "sync" if waits else "host"
        case Scale():
            copies = change.leaves and all(leaf.startswith("copy") for leaf in change.leaves)
            return "copy" if copies and not change.names else "kernel"
        case Copied():
            return "copy"
        case Feed():
            return "feed"
        case Merge() | Hosted() | Delay():
            return "host"


def _of_leaves(leaves: Sequence[str]) -> str:
    kinds = (
        ("tail", _TAILS),
        ("sync", ("idle.sync",)),
        ("copy", ("copy", "idle.h2d")),
        ("kernel", ("busy", "comm")),
        ("feed", ("idle.data",)),
    )
    found = {
        next((kind for kind, starts in kinds if leaf.startswith(starts)), "host") for leaf in leaves
    }
    return max(found, key=lambda one: MODEL[one], default="host")


def _queued(changes: Sequence[Change], extra: Extra) -> bool:
    return any(isinstance(one, Feed) and one.loader in extra.loaders for one in changes)


def _refusal(scenes: Sequence[Scene], changes: Sequence[Change], extra: Extra) -> str | None:
    """Say why nothing can be predicted."""
    if not scenes:
        return "there is no window to replay"
    feeds = [one for one in changes if isinstance(one, Feed)]
    if any(one.loader not in extra.loaders and one.wait for one in feeds):
        return "what the loader's batches cost was not recorded"
    if len({one.loader for one in feeds}) > 1:
        return "changes of several loaders are not replayed together"
    return None


def _replayed(
    scenes: Sequence[Scene], changes: Sequence[Change], rates: Rates, kind: str
) -> Interval:
    every = [_played(one, changes, rates) for one in scenes]
    found = interval(pooled(every), kind, max(one.off for one in scenes))
    if kind not in _SURVIVE:
        return found
    least = _at_high_alpha(every)
    return Interval(min(found.low, least), found.mid, found.high)


def _at_high_alpha(every: Sequence[Played]) -> float:
    unchanged = sum(float(one.both[0][0].high.sum()) for one in every)
    left = sum(float(one.both[0][1].high.sum()) for one in every)
    return (
        unchanged / left if unchanged and left else inf
    )  # then tracing may have cost all that stays


def _played(scene: Scene, changes: Sequence[Change], rates: Rates) -> Played:
    """Play a window unchanged and changed, at the middle and the ends of what is not known."""
    alpha = scene.alpha
    if any(isinstance(one, Copied) and one.ahead for one in changes):
        rates = replace(rates, slowdown=slowdown(scene.view, rates.slowdown))

    def changed(some: Sequence[Change] = changes, with_rates: Rates = rates) -> Float:
        return scene.changed(some, alpha.mid, How(with_rates))

    parts = scene.parts(changes, How(rates))
    alphas = (
        Ends(scene.unchanged(alpha.low), scene.unchanged(alpha.high)),
        Ends(averaged(parts, alpha.low), averaged(parts, alpha.high)),
    )
    factors = [
        Ends(changed(settled(changes, one, -1)), changed(settled(changes, one, 1)))
        for one in open_intervals(changes)
    ]
    copies = [
        Ends(changed(with_rates=low), changed(with_rates=high))
        for low, high in _rates(changes, rates)
    ]
    middle = averaged(parts, alpha.mid)
    return Played(scene.unchanged(alpha.mid), middle, (alphas,), (*factors, *copies))


def _rates(changes: Sequence[Change], rates: Rates) -> list[tuple[Rates, Rates]]:
    """Give the rates at both ends of each of their intervals that some changes ask for."""
    found: list[tuple[Rates, Rates]] = []
    copies = [one for one in changes if isinstance(one, Copied)]
    if any(one.pinned for one in copies):
        low, high = _pointed(rates.pinned)
        found.append((replace(rates, pinned=low), replace(rates, pinned=high)))
        low, high = _pointed(rates.let_go)
        found.append((replace(rates, let_go=low), replace(rates, let_go=high)))
    if any(one.ahead for one in copies):
        low, high = _pointed(rates.slowdown)
        found.append((replace(rates, slowdown=low), replace(rates, slowdown=high)))
    return found


def _pointed(found: Interval) -> tuple[Interval, Interval]:
    low, high = found.low, found.high
    return Interval(low, low, low), Interval(high, high, high)
