"""The player of a run: its windows as graphs, its loaders' queues, or both in one replay.

A change of a loader alone is played on its queue, which is made of what was recorded all the time.
Changes within steps are played on the windows. Where workers are waited for, what steps save may be
waited for instead: then both are played together, even if no change is about the loader.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gapless.catalogue import between
from gapless.model.account import Account
from gapless.model.change import NO_LOADER, Change, Delay, Feed, Hosted, Predicted
from gapless.model.finding import Rehearsal
from gapless.model.interval import Interval
from gapless.model.rhythm import Unlike
from gapless.model.seen import Seen
from gapless.model.study import Study
from gapless.replay.copies import rates_of
from gapless.replay.feeding import crowded, feed
from gapless.replay.nodes import Refusal
from gapless.replay.predict import Extra, predict
from gapless.replay.retimed import told
from gapless.replay.scene import Scene, scene
from gapless.replay.service import Inputs
from gapless.study import thread
from gapless.study.anchoring import ahead_of, drift_of, unprofiled_ns, waited_for
from gapless.study.joint import Joint, is_joint
from gapless.study.replaying import Player, Silent
from gapless.study.rereading import Capture, Window, chosen, reread

_WAITED: Final = 0.05  # of a step, for workers: from there on they may be what limits it
_HIDES: Final = 0.005  # of a step: what the thread spends more is waited less from there on
_UNPARTED: Final = "step"  # the leaf of what no window holds
_LEAST: Final = 0.02  # of a gain that is looked at once more, with the loader


@dataclass(frozen=True)
class Loaders:
    """Plays loaders by their queues; all else is left to what plays the windows."""

    inputs: tuple[Inputs, ...]
    windows: Player

    @property
    def rehearsal(self) -> Rehearsal | None:
        """Give how well the unchanged windows are played."""
        return self.windows.rehearsal

    def play(self, changes: Sequence[Change]) -> Predicted:
        """Predict what changes together give of an un-profiled step, or say why that is not."""
        feeds = [one for one in changes if isinstance(one, Feed)]
        numbers = {one.loader for one in feeds}
        if numbers == {NO_LOADER}:
            return Predicted(None, "feed", refused="no replay tells what so many threads do")
        known = [one for one in self.inputs if one.loader.id in numbers]
        why = next(filter(None, (crowded(one, feeds) for one in known)), None)
        if why is not None:
            return Predicted(None, "feed", refused=why)
        if len(feeds) < len(changes) or not known:
            return self.windows.play(changes)
        if len(numbers) > 1:
            return Predicted(None, "feed", refused="several loaders are not replayed together")
        found = feed(known[0], feeds)
        alone = all(one.intra_op_threads is None for one in feeds)
        return self.windows.capped(found) if isinstance(self.windows, Joint) and alone else found

    def account(self, changes: Sequence[Change]) -> Account | None:
        """Give the account of a window with changes made within it; ``None``: none is played."""
        return self.windows.account(changes)


@dataclass(frozen=True)
class Windows:
    """Plays windows, with the loader's queue where it matters."""

    scenes: tuple[Scene, ...]
    extra: Extra
    waited: int | None  # the loader whose workers are waited for
    rehearsal: Rehearsal | None
    hides: int | None = None  # the loader whose workers are waited for at all
    unlike: Unlike | None = None  # steps that no window holds

    def play(self, changes: Sequence[Change]) -> Predicted:
        """Predict what changes together give of an un-profiled step, or say why that is not."""
        found = self._played(changes)
        if self.unlike is None or found.speedup is None:
            return found
        return replace(found, speedup=spread(found.speedup, self.unlike))

    def _played(self, changes: Sequence[Change]) -> Predicted:
        hides = self.hides if any(isinstance(one, Delay) for one in changes) else None
        if hides is not None and hides in self.extra.loaders:
            return predict(self.scenes, (*changes, Feed(hides)), self.extra)
        found = predict(self.scenes, changes, self.extra)
        fed = any(isinstance(one, Feed) for one in changes)
        if fed or self.waited is None or self.waited not in self.extra.loaders:
            return found
        if found.speedup is None or found.speedup.low - 1 < _LEAST:
            return found  # what may be waited for instead makes it less, never more
        return predict(self.scenes, (*changes, Feed(self.waited)), self.extra)

    def account(self, changes: Sequence[Change]) -> Account | None:
        """Give the account of the longest window with changes made within it.

        Changes of a loader whose queue is played are left out: no trace tells of its waits.
        """
        known = self.extra.loaders
        rest = [one for one in changes if not (isinstance(one, Feed) and one.loader in known)]
        if not rest:
            return None
        longest = max(self.scenes, key=lambda one: len(one.graph.counted))
        return told(longest, rest, self.extra.rates)


@dataclass(frozen=True)
class Alone:
    """Plays the one thread of a training without a device, where its windows cannot be replayed."""

    seen: Seen
    rehearsal: Rehearsal | None

    def play(self, changes: Sequence[Change]) -> Predicted:
        """Predict what changes together give of an un-profiled step, or say why that is not."""
        return thread.price(self.seen, changes)

    def account(self, changes: Sequence[Change]) -> Account | None:
        """Give none."""
        del changes  # nothing is played as a trace


@dataclass(frozen=True)
class OneThread:
    """Plays a training without a device: by its account what the account knows better, or windows.

    What the thread does between operators is told of un-profiled steps, of which a replay knows as
    much as tracing left. Steps of several kinds the account weighs as often as they come, where a
    window holds them in other numbers.
    """

    alone: Alone
    windows: Windows
    weighed: bool

    @property
    def rehearsal(self) -> Rehearsal | None:
        """Give how well the unchanged windows are played."""
        return self.windows.rehearsal

    def play(self, changes: Sequence[Change]) -> Predicted:
        """Predict what changes together give of an un-profiled step, or say why that is not."""
        if self.weighed or all(map(_is_between, changes)):
            found = self.alone.play(changes)
            if found.speedup is not None:
                return found
        return self.windows.play(changes)

    def account(self, changes: Sequence[Change]) -> Account | None:
        """Give the account of a window with changes made within it; ``None``: none is played."""
        return self.windows.account(changes)


def player_of(
    captures: Sequence[Capture],
    seen: Seen,
    loaders: tuple[Inputs, ...] = (),
    *,
    cached: bool = True,
) -> Player:
    """Give what plays the what-ifs of a run; of a foreign trace no loader is known."""
    some = chosen(captures)
    if isinstance(some, str):
        return Loaders(loaders, _without(seen, _nothing(some) if captures else None, some))
    made = [_scene(one, seen.study) for one in reread(some, cached=cached)]
    scenes = tuple(one for one in made if isinstance(one, Scene))
    refusals = [one.reason for one in made if isinstance(one, Refusal)]
    if not scenes:
        why = refusals[0] if refusals else "no window can be read again"
        return Loaders(loaders, _without(seen, replace(_rehearsed(made), refused=why), why))
    rates = rates_of(seen.constants, _capability(seen))
    extra = Extra(rates, {one.loader.id: one for one in loaders})
    windows = Windows(
        scenes=scenes,
        extra=extra,
        waited=_waited(seen.study, _WAITED),
        rehearsal=_rehearsed(made),
        hides=_waited(seen.study, _HIDES),
        unlike=_unlike(seen),
    )
    if seen.has_device or not seen.study.account.steps:
        return Loaders(loaders, windows)
    one = OneThread(Alone(seen, windows.rehearsal), windows, weighed=_is_weighed(seen))
    return Loaders(loaders, one)


def spread(speedup: Interval, unlike: Unlike) -> Interval:
    """Give what steps as windows have them gain, of all steps: also of those that no window holds.

    Likely each of these saves as much time as any other; at the least nothing, at the most as large
    a part of itself.
    """
    held = 1 - unlike.time
    likely = min(1.0, held / max(held, 1 - unlike.steps))
    ends = ((speedup.low, held), (speedup.mid, likely), (speedup.high, 1.0))
    return Interval(*(1 / (1 - part * (1 - 1 / gain)) if gain > 1 else gain for gain, part in ends))


def _is_between(change: Change) -> bool:
    """Tell whether a change is of what the thread does between operators alone."""
    return isinstance(change, Hosted) and set(change.leaves) <= set(between.OWN)


def _unlike(seen: Seen) -> Unlike | None:
    """Give the steps that no window holds, and their share of all time, waits included."""
    recorded = seen.study.recorded
    made = None if recorded is None else recorded.account
    if made is None or made.unlike is None:
        return None
    return replace(made.unlike, time=seen.share(_UNPARTED))


def _is_weighed(seen: Seen) -> bool:
    recorded = seen.study.recorded
    known = None if recorded is None else recorded.account
    return known is not None and known.weighed


def _scene(window: Window, study: Study) -> Scene | Refusal:
    plain, ahead, drift = unprofiled_ns(study), ahead_of(study), drift_of(study)
    return scene(window.joined, window.ledger, plain, ahead=ahead, drift=drift)


def _waited(study: Study, least: float) -> int | None:
    found = waited_for(study, least)
    return None if found is None else found.id


def _nothing(why: str | None = None) -> Rehearsal:
    return Rehearsal(0, None, None, None, None, why)


def _without(seen: Seen, rehearsal: Rehearsal | None, why: str) -> Player:
    """Give what stands for windows that cannot be replayed."""
    one_thread = bool(seen.study.account.steps) and not seen.has_device
    if is_joint(seen):
        return Joint(seen, why, hosts=one_thread)
    return Alone(seen, rehearsal) if one_thread else Silent(why, rehearsal)


def _capability(seen: Seen) -> tuple[int, int] | None:
    return None if seen.facts is None else seen.facts.machine.capability


def _rehearsed(made: Sequence[Scene | Refusal]) -> Rehearsal:
    """Say how well the unchanged windows are played: of several the worst.

    Those that are not played for what plain steps were say how far off they are if none is played.
    """
    scenes = [one for one in made if isinstance(one, Scene)]
    refusals = [one for one in made if isinstance(one, Refusal)]
    if not scenes:
        return replace(
            _nothing(),
            imputed=_worst(one.imputed for one in refusals),
            unprofiled=_worst(one.unprofiled for one in refusals),
        )
    notes = dict.fromkeys(note for one in scenes for note in one.alpha.notes)
    left = dict.fromkeys(f"a window is left out: {one.reason}" for one in refusals)
    return Rehearsal(
        windows=len(scenes),
        imputed=_worst(one.identity.error for one in scenes),
        unprofiled=_worst(one.alpha.error for one in scenes if one.anchored),
        alpha_ns=scenes[0].alpha.mid if scenes[0].anchored else None,
        unexplained=max(one.identity.unexplained for one in scenes),
        notes=(*left, *notes),
    )


def _worst(errors: Iterable[float | None]) -> float | None:
    return max((one for one in errors if one is not None), key=abs, default=None)
