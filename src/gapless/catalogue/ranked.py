"""What the ranks of a run do of a step by themselves, and how long they wait for one another.

A step that ranks make together is as long as its slowest rank makes it. What a rank does by itself
is its step without its waits for the last rank in collectives: these would be shorter if the last
one came earlier, and all else would not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from gapless.catalogue.ruling import NotSeenError
from gapless.model.account import RowAccount
from gapless.model.host_code import HotLine
from gapless.model.seen import Seen

LAST: Final = "comm.straggler_wait"  # for a rank that is known
WAITS: Final = (LAST, "comm.wait_estimated")
Float = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Rank:
    """The steps of one rank, of all its windows."""

    rank: int
    rows: tuple[RowAccount, ...]

    @cached_property
    def lengths(self) -> Float:
        """Give how long each step took, in ns."""
        return np.array([one.row.end - one.row.start for one in self.rows], np.float64)

    @cached_property
    def waits(self) -> Float:
        """Give how long each step waited for the last rank, in ns."""
        return self._of(WAITS)

    @cached_property
    def known(self) -> Float:
        """Give how long each step waited for a last rank that is known, in ns."""
        return self._of((LAST,))

    @property
    def own(self) -> Float:
        """Give how long each step would have taken had the rank waited for no other, in ns."""
        return self.lengths - self.waits

    def mean(self, *prefixes: str) -> float:
        """Give what its steps hold of some leaves, in ns of a step."""
        return float(self._of(prefixes).mean())

    def _of(self, prefixes: tuple[str, ...]) -> Float:
        sums = (
            sum(ns for leaf, ns in one.leaves.items() if leaf.startswith(prefixes))
            for one in self.rows
        )
        return np.array(list(sums), np.float64)


def ranks_of(seen: Seen) -> tuple[Rank, ...]:
    """Give the ranks of which windows tell steps, in their order; none of a run of one rank.

    Of steps that no window shows on all of them, for whom others waited is not known: they are left
    out where there are better ones.
    """
    rows: dict[int, list[RowAccount]] = {}
    for one in seen.study.account.rows if seen.study.account.steps else ():
        if one.row.rank is not None:
            rows.setdefault(one.row.rank, []).append(one)
    found = tuple(Rank(rank, tuple(mine)) for rank, mine in sorted(rows.items()))
    return _met(found) if len(found) > 1 else ()


def _met(ranks: tuple[Rank, ...]) -> tuple[Rank, ...]:
    """Give the steps that all ranks made together, in the order of time; all if there are none."""
    every = [_places(one.rows) for one in ranks]
    found = [[_same(place, one) for one in every] for place in every[0]]
    rows = [[one.row for one in some if one] for some in found if all(some)]
    if not rows:
        return ranks
    return tuple(
        Rank(one.rank, mine) for one, mine in zip(ranks, zip(*rows, strict=True), strict=True)
    )


@dataclass(frozen=True)
class _Place:
    """A step in its window, which begins and ends so."""

    row: RowAccount
    begin: int
    end: int


def _places(rows: Sequence[RowAccount]) -> list[_Place]:
    """Give steps in the order of time, each in its window: there numbers rise."""
    windows: list[list[RowAccount]] = []
    for one in sorted(rows, key=lambda one: one.row.start):
        if not windows or (one.row.step or 0) <= (windows[-1][-1].row.step or 0):
            windows.append([])
        windows[-1].append(one)
    return [_Place(one, some[0].row.start, some[-1].row.end) for some in windows for one in some]


def _same(place: _Place, places: Sequence[_Place]) -> _Place | None:
    """Give the step of another rank that was made with one: of its number, at the same time.

    Steps of ranks may begin half a step apart, so that their own times do not tell.
    """
    return next(
        (
            one
            for one in places
            if one.row.row.step == place.row.row.step
            and max(one.begin, place.begin) < min(one.end, place.end)
        ),
        None,
    )


def several(seen: Seen) -> tuple[Rank, ...]:
    """Give the ranks of a run of several; none of a run of one.

    Raises ``NotSeenError`` where windows tell of one of them alone.
    """
    found = ranks_of(seen)
    world = seen.study.run.world if seen.facts is None else seen.facts.world.ranks
    if not found and (world or 1) > 1:
        raise NotSeenError("windows", f"of {world} ranks windows tell of no more than one")
    return found


def least(seen: Seen, *prefixes: str) -> float:
    """Give what a step of each rank holds of some leaves at least, in ns.

    What one rank has more of than all others is that rank's, and no trait of the training. Of a run
    of one rank it is what its step holds.
    """
    mean, ranks = seen.per_step(*prefixes), ranks_of(seen)
    windows = [one.mean(*prefixes) for one in ranks]
    whole = sum(windows)
    return mean * min(windows) * len(windows) / whole if whole else mean


def slowest(ranks: tuple[Rank, ...]) -> tuple[Rank, float]:
    """Give the rank whose steps take longest by themselves, and by how much, in ns of a step.

    Beside the next slowest: that one would decide if the slowest were no slower.
    """
    means = {one.rank: float(one.own.mean()) for one in ranks}
    last = max(ranks, key=lambda one: means[one.rank])
    return last, means[last.rank] - max(ns for rank, ns in means.items() if rank != last.rank)


def waited(ranks: tuple[Rank, ...], last: Rank) -> float:
    """Give how long the others wait in a step for a last rank that is known, in ns, mean."""
    others = [float(one.known.mean()) for one in ranks if one is not last]
    return sum(others) / len(others) if others else 0.0


def more(
    ranks: tuple[Rank, ...], one: Rank, groups: Mapping[str, tuple[str, ...]]
) -> list[tuple[str, float]]:
    """Give of which groups of leaves a rank has more than the others on average, and how much.

    In ns of a step, the largest first.
    """
    others = [each for each in ranks if each.rank != one.rank]
    found: list[tuple[str, float]] = []
    for name, leaves in groups.items():
        theirs = sum(each.mean(*leaves) for each in others) / len(others)
        found.append((name, one.mean(*leaves) - theirs))
    return sorted(found, key=lambda each: -each[1])


def line_of(seen: Seen, rank: int) -> HotLine | None:
    """Give the line in which a rank's training thread stands oftener than those of the others.

    By the share of its sampled stacks; ``None`` where none was sampled, or all are alike.
    """
    recorded = seen.study.recorded
    lines: Mapping[int, tuple[HotLine, ...]] = {} if recorded is None else recorded.rank_lines
    others = [other for other in lines if other != rank]
    if rank not in lines or not others:
        return None

    def surplus(one: HotLine) -> float:
        theirs = sum(_share(lines[other], one) for other in others)
        return one.share - theirs / len(others)

    mine = [one for one in lines[rank] if one.thread == "training"]
    most = max(mine, key=surplus, default=None)
    return None if most is None or surplus(most) < _OFTENER else most


_OFTENER: Final = 0.1  # of the samples


def _share(lines: tuple[HotLine, ...], one: HotLine) -> float:
    place = (one.thread, one.file, one.line)
    return sum(each.share for each in lines if (each.thread, each.file, each.line) == place)
