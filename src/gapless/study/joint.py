"""What changes give of a step that several ranks make together: the slowest of them decides.

Each rank's steps, as its windows have them, are parted into what it does by itself and its waits
for the last rank. A change shortens the first, on each rank by what that rank has of what goes;
then the step is as long as the longest of one step of each rank. Steps of different ranks are
drawn independently of one another, changed and unchanged alike, so that what ranks wait for one
another by chance alone stays. A gain on a rank that is not the slowest is none.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from gapless.catalogue.ranked import LAST, WAITS, Rank, ranks_of
from gapless.catalogue.rules.needless_reductions import REDUCERS
from gapless.model.account import Account
from gapless.model.change import Change, Drop, Hosted, Omit, Predicted, Scale
from gapless.model.finding import Rehearsal
from gapless.model.interval import Interval
from gapless.model.leaf import GROUPS, group_of
from gapless.model.run import ProcessTime, Recorded, StepAccount
from gapless.model.seen import Seen
from gapless.model.study import Study
from gapless.study import thread
from gapless.study.recorded.account import LUMPY, Steps, step_account
from gapless.study.rehearsing import Rehearsed, rehearse
from gapless.study.slowest import Played, interval
from gapless.study.tracing import eased, part, tracing

_DATA: Final = "idle.data"
_COMM: Final = ("comm.", "idle.comm.")
_AS_IT_IS: Final = Interval(1.0, 1.0, 1.0)
_MIDDLE: Final = 1  # of what tracing may have cost
_ALONE: Final = "windows tell of one rank alone: another may be the one that decides"


def is_joint(seen: Seen) -> bool:
    """Tell whether several ranks make the steps, even if windows tell of one of them alone."""
    world = seen.study.run.world if seen.facts is None else seen.facts.world.ranks
    return bool(ranks_of(seen)) or (world or 1) > 1


@dataclass(frozen=True)
class Joint:
    """Plays the steps that ranks make together.

    ``hosts``: these are steps of training threads; else communication alone can be played, and
    ``why`` says why nothing else is.
    """

    seen: Seen
    why: str
    hosts: bool

    @property
    def rehearsal(self) -> Rehearsal | None:
        """Give how well the unchanged step of all ranks is made again."""
        return self._rehearsed.rehearsal if self.seen.study.account.steps else None

    def play(self, changes: Sequence[Change]) -> Predicted:
        """Predict what changes together give of an un-profiled step, or say why that is not."""
        rest = [one for one in changes if not _evens(one)]
        if not self.hosts and not all(map(_is_communication, rest)):
            return Predicted(None, "host", refused=self.why)
        if not ranks_of(self.seen):
            return _of_one(thread.price(self.seen, changes))
        untrue = self._rehearsed.rehearsal.refused
        if untrue is not None:
            return Predicted(None, "host", refused=untrue)
        every = [_play(one, changes, rest) for one in self._scenes]
        found = [one.speedup for one in every if one.speedup is not None]
        if len(found) < len(every):
            return next(one for one in every if one.speedup is None)
        low, high = min(one.low for one in found), max(one.high for one in found)
        speedup = self._rehearsed.widened(Interval(low, found[_MIDDLE].mid, high))
        return replace(every[_MIDDLE], speedup=speedup)

    def capped(self, found: Predicted) -> Predicted:
        """Give what a loader's queue gives, no more than if no rank waited for data at all.

        The queue is that of all ranks alike: it does not know which of them decides. Where the
        ranks' steps cannot be made again, no gain is sure.
        """
        most, known = self._fed, found.speedup
        if known is None:
            return found
        if most is None:
            seen = self.hosts and bool(ranks_of(self.seen))
            return _unsure(found, known) if seen and self._rehearsed.rehearsal.refused else found
        mid = min(known.mid, most.mid)
        return replace(
            found, speedup=Interval(min(known.low, mid), mid, min(known.high, most.high))
        )

    @cached_property
    def _fed(self) -> Interval | None:
        return self.play((Drop((_DATA,)),)).speedup if ranks_of(self.seen) else None

    @cached_property
    def _rehearsed(self) -> Rehearsed:
        return rehearse(self.seen)

    @cached_property
    def _scenes(self) -> tuple["_Scene", ...]:
        return tuple(_Scene.of(eased(self.seen, ns)) for ns in tracing(self.seen))

    def account(self, changes: Sequence[Change]) -> Account | None:
        """Give none."""
        del changes  # nothing is played as a trace


@dataclass(frozen=True)
class _Scene:
    """The ranks of a run, and what is seen of each of them, without its waits for others."""

    ranks: tuple[Rank, ...]
    alone: tuple[Seen, ...]

    @classmethod
    def of(cls, seen: Seen) -> "_Scene":
        ranks = ranks_of(seen)
        return cls(ranks, tuple(_alone(seen, one) for one in ranks))


def _play(scene: _Scene, changes: Sequence[Change], rest: Sequence[Change]) -> Predicted:
    each = [thread.price(one, rest) for one in scene.alone]
    refused = next((one for one in each if one.speedup is None), None)
    if refused is not None:
        return refused
    gone = [_gone(one.speedup) for one in each]
    evens = max(
        (1 - one.keep for one in changes if isinstance(one, Drop) and _evens(one)), default=0.0
    )
    played = Played.of(scene.ranks, evens)
    family = "comm" if all(map(_is_communication, changes)) else each[0].family
    notes = (*dict.fromkeys(note for one in each for note in one.notes), _rests_on(scene.ranks))
    return Predicted(interval(played, gone, _waits_of(rest)), family, notes=notes)


def _evens(change: Change) -> bool:
    """Tell whether a change is that a slow rank becomes as fast as the next slowest."""
    return isinstance(change, Drop) and change.leaves == (LAST,)


def _is_communication(change: Change) -> bool:
    if isinstance(change, Omit):
        return bool(change.names) and all(name in REDUCERS for name in change.names)
    leaves = change.leaves if isinstance(change, Drop | Hosted | Scale) else ()
    named = isinstance(change, Scale) and bool(change.names)
    return bool(leaves) and not named and all(leaf.startswith(_COMM) for leaf in leaves)


def marked(seen: Seen, leaf: str) -> Interval | None:
    """Give the share of the joint step in what light marks tell of; ``None`` of else or one rank.

    The rank that has most of it delays the others by that: less, as far as it would have waited for
    them, but by no less than what each rank has.
    """
    if leaf not in LUMPY.values():
        return None
    recorded, ranks = seen.study.recorded, {one.rank: one for one in ranks_of(seen)}
    lives = () if recorded is None else recorded.timeline.processes
    shares = [(_share(one, leaf), ranks[one.rank]) for one in lives if one.rank in ranks]
    if len(shares) < 2:  # noqa: PLR2004 - one is the account itself
        return None
    most, last = max(shares, key=lambda one: one[0])
    waits = float(last.waits.sum() / last.lengths.sum())
    least = min(share for share, _ in shares)
    return Interval(max(least, most - waits), most, most)


def _share(one: ProcessTime, leaf: str) -> float:
    whole = sum(one.stepping.values())
    mine = sum(ns for name, ns in one.stepping.items() if LUMPY.get(name) == leaf)
    return mine / whole if whole else 0.0


def _of_one(found: Predicted) -> Predicted:
    if found.speedup is None:
        return found
    return replace(_unsure(found, found.speedup), notes=(*found.notes, _ALONE))


def _unsure(found: Predicted, known: Interval) -> Predicted:
    return replace(found, speedup=replace(known, low=min(1.0, known.low)))


def _rests_on(ranks: Sequence[Rank]) -> str:
    steps = min(len(one.rows) for one in ranks)
    return (
        f"of the step that {len(ranks)} ranks make together, of which the slowest decides: "
        f"{steps} steps or more of each in windows"
    )


# ── What goes, on each rank ─────────────────────────────────────────────────────────────────────


def _gone(speedup: Interval | None) -> Interval:
    found = speedup or _AS_IT_IS
    return Interval(1 - 1 / found.low, 1 - 1 / found.mid, 1 - 1 / found.high)


def _waits_of(changes: Sequence[Change]) -> Interval:
    """Give what stays of the waits that ranks have in turn: they go with what is not met for."""
    stays = _AS_IT_IS
    for one in changes:
        if not isinstance(one, Drop | Hosted | Scale) or not LAST.startswith(one.leaves or "-"):
            continue
        of = Interval(one.keep, one.keep, one.keep) if isinstance(one, Drop) else one.factor
        stays = Interval(stays.low * of.low, stays.mid * of.mid, stays.high * of.high)
    return stays


def _alone(seen: Seen, one: Rank) -> Seen:
    """Give what is seen of one rank, without its waits for others."""
    study = seen.study
    whole = sum(each.row.end - each.row.start for each in study.account.rows)
    share = float(one.lengths.sum()) / whole if whole else 0.0
    operators = tuple(part(each, share) for each in study.tables.operators)
    mine = replace(study, account=_summed(one), tables=replace(study.tables, operators=operators))
    recorded = study.recorded
    if recorded is not None and recorded.account is not None:
        made = _stepped(recorded, mine, one.rank) or recorded.account
        made = replace(made, account=_without_waits(made.account))
        mine = replace(mine, recorded=replace(recorded, account=made))
    return replace(seen, study=replace(mine, account=_without_waits(mine.account)))


def _summed(one: Rank) -> Account:
    leaves: dict[str, int] = {}
    groups: dict[str, int] = dict.fromkeys(GROUPS, 0)
    parts: dict[str, dict[str, int]] = {}
    for row in one.rows:
        for leaf, ns in row.leaves.items():
            leaves[leaf] = leaves.get(leaf, 0) + ns
    for leaf, ns in leaves.items():
        groups[group_of(leaf)] = groups.get(group_of(leaf), 0) + ns
        parts.setdefault(group_of(leaf), {})[leaf] = ns
    return Account(sum(leaves.values()), len(one.rows), leaves, groups, parts, one.rows)


def _stepped(recorded: Recorded, windows: Study, rank: int) -> StepAccount | None:
    """Join a rank's run rows with its windows."""
    mine = [one for one in recorded.timeline.processes if one.rank == rank and one.mean_ns]
    if not mine:
        return None
    most = max(mine, key=lambda one: one.steps)
    wall = sum(most.stepping.values())
    count = round(wall / (most.mean_ns or 1))
    return (
        step_account(Steps(count, wall, most.stepping, most.stepping), windows) if count else None
    )


def _without_waits(account: Account) -> Account:
    kept = {leaf: ns for leaf, ns in account.leaves.items() if not leaf.startswith(WAITS)}
    return replace(account, leaves=kept)
