"""Where the steps of a training process end: the anchor rule, and which steps were profiled."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Final

import numpy as np
import numpy.typing as npt

from gapless import wire
from gapless.accounting.intervals import NO_LANE, Lane, empty, overlap, union
from gapless.model.recording import Fact, Marks, Process
from gapless.model.trace import Int64
from gapless.study.recorded.endings import (
    ENOUGH,
    Endings,
    busiest,
    counted_up,
    endings,
    fewest,
    longest,
    most,
    phases,
    stopped,
)
from gapless.study.recorded.stretches import Stretches, stretches

_BLOCK: Final = 10  # steps of a block of the bootstrap, at least
_STEADY: Final = 50  # steps below which no noise is given
_ROUNDS: Final = 400  # of the bootstrap
_NAMED: Final = 3  # phases that are named
_RECENT: Final = 20_000  # steps that the bootstrap looks at, at most
Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Edges:
    """The ends of a process's steps, the thread that steps, and the rule that found them.

    Between two ends lies one step, or more where calls were summed in between.
    """

    ends: Int64
    thread: int | None
    rule: str  # "mark" | "optimizer" | "backward" | "loader" | "forward" | "none"
    anchor: str  # "SGD.step, train.py:41"
    many: Int64  # steps that lie between each end and the next
    count: int  # steps that ended
    summed: Lane  # stretches in which some ended that were not kept one by one
    first: int | None  # when the first one ended, if it was kept
    # What ends the steps of each phase, how many, and when the last one ends; one phase has none.
    phases: tuple[tuple[str, int, int], ...] = ()

    @property
    def noted(self) -> Bool:
        """Tell which stretches between two ends are one step each."""
        return self.many == 1


def fact_of(process: Process, noun: str, number: int) -> Fact | None:
    """Give the fact of a thing by its number, ``None`` if none was written."""
    return next((one for one in process.facts if one.noun == noun and one.id == number), None)


def kind_of(process: Process, loader: int) -> Hashable:
    """Give what loaders of a process have in common that one line made with the same settings."""
    fact = fact_of(process, "loader", loader)
    if fact is None or fact.file is None:
        return loader
    return fact.file, fact.line, fact.function, repr(sorted(fact.values.items()))


def place_of(file: str | None, line: int | None) -> str:
    """Name a place in the source in short: the file's name and the line."""
    if file is None:
        return ""
    name = PurePath(file).name
    return name if line is None else f"{name}:{line}"


def edges(process: Process) -> Edges:
    """Find the steps of a process by the first kind of call that is there (``_KINDS``).

    What was called less than five times and then, as far as one can see, no more (steps that are
    part of a CUDA graph) ends none if calls of a later kind went on to come.
    """
    found = stretches(process)
    every = [(rule, endings(process.marks, found, kind), choose) for rule, kind, choose in _KINDS]
    for at, (rule, calls, choose) in enumerate(every):
        if not len(calls.end) or stopped(calls, [later for _, later, _ in every[at + 1 :]]):
            continue
        if rule not in {"loader", "forward"}:
            return _edges(process, found, phases(calls, choose), rule)
        alike = _first_alike(process, calls.subject) if rule == "loader" else calls.subject
        alone = replace(calls, subject=alike)
        if rule == "loader" or int(calls.count.sum()) >= ENOUGH:
            return _edges(process, found, alone.take(alike == choose(alone)), rule)
    return Edges(empty(), _only_thread(process.marks), "none", "", empty(), 0, NO_LANE, None)


def _first_alike(process: Process, loaders: Int64) -> Int64:
    """Give for each loader the first that is like it: those of other epochs are the same."""
    distinct, at = np.unique(loaders, return_inverse=True)
    seen: dict[Hashable, int] = {}
    first = [seen.setdefault(kind_of(process, one), one) for one in distinct.tolist()]
    return np.array(first, np.int64)[at]


def _edges(process: Process, found: Stretches, calls: Endings, rule: str) -> Edges:
    thread = most(calls.thread, calls.count)
    mine = calls.take(calls.thread == thread)
    summed = mine.take(mine.stretch >= 0)
    ends = np.unique(mine.end[mine.stretch < 0])
    phased = _phases(process, rule, mine)
    name = _in_turn([name for name, _, _ in phased])
    parts = phased if len(phased) > 1 else ()
    if not len(summed.end):
        many = np.ones(max(0, len(ends) - 1), np.int64)
        return Edges(ends, thread, rule, name, many, len(ends), NO_LANE, int(ends[0]), parts)
    begun = int(ends[0]) if len(ends) and ends[0] < summed.end[0] else None
    # Where none was kept at a side of a stretch, the stretch's own bounds are ends.
    count = len(ends) + int(summed.count.sum())
    last = summed.end[-1:] if not len(ends) or summed.end[-1] > ends[-1] else empty()
    first = empty() if len(ends) else found.start[summed.stretch[:1]]
    many = np.ones(max(0, len(first) + len(ends) + len(last) - 1), np.int64)
    many[len(many) - len(last) :] = 0
    ends = np.concatenate((first, ends, last))
    place = np.searchsorted(ends, summed.end) - 1
    np.add.at(many, place[place >= 0], summed.count[place >= 0])
    held = np.unique(summed.stretch)
    lane = Lane(found.start[held], found.end[held], held)
    return Edges(ends, thread, rule, name, many, count, lane, begun, parts)


def _only_thread(marks: Marks) -> int | None:
    """Give the thread that most marks are of, where nothing stepped."""
    own = (marks.flags & wire.NOT_MAIN) == 0
    return most(marks.thread[own], np.ones(int(own.sum()), np.int64)) if own.any() else None


def _phases(process: Process, rule: str, calls: Endings) -> tuple[tuple[str, int, int], ...]:
    """Give the name, the steps and the last end of what ends the steps, in order."""
    subjects, first, counts = counted_up(calls.subject, calls.count)
    found: dict[str, tuple[str, int, int]] = {}
    for at in np.argsort(first).tolist():
        name = _anchor_name(process, rule, int(subjects[at]))
        last = int(calls.end[calls.subject == subjects[at]].max())
        _, count, end = found.get(name, (name, 0, last))
        found[name] = name, count + int(counts[at]), max(end, last)
    return tuple(found.values())


def _in_turn(names: Sequence[str]) -> str:
    rest = len(names) - _NAMED
    told = ", then ".join(names[:_NAMED])
    return f"{told}, then {rest} more" if rest > 0 else told


def _anchor_name(process: Process, rule: str, subject: int) -> str:
    noun, usual, what = _WORDS[rule]
    fact = fact_of(process, noun, subject)
    if fact is None:
        return usual
    kind = str(fact.values.get("class") or usual).rpartition(".")[2]
    where = place_of(fact.file, fact.line)
    named = what.format(kind)
    return f"{named}, {where}" if where else named


_KINDS: Final = (  # rule, calls, and which of several things ends steps
    ("mark", wire.USER_STEP, fewest),
    ("optimizer", wire.STEP, fewest),
    ("backward", wire.BACKWARD, fewest),
    ("loader", wire.NEXT, busiest),
    ("forward", wire.FORWARD, longest),
)
_WORDS: Final = {  # rule → noun of the fact, what it is called without one, and with one
    "mark": ("site", "gapless.step()", "gapless.step()"),
    "optimizer": ("optimizer", "an optimizer", "{}.step"),
    "backward": ("site", "the backward pass", "the backward pass"),
    "loader": ("loader", "a loader", "hand-overs of {}"),
    "forward": ("module", "the forward pass", "the forward pass of {}"),
}


def unprofiled(process: Process, ends: Int64) -> Bool:
    """Tell which steps (the stretches between ends) no profiler touched, ours or the user's."""
    marks = process.marks
    ours = (marks.kind == wire.OBSERVER) & (marks.value == wire.OBSERVER_WINDOW)
    theirs = marks.kind == wire.USER_PROFILER
    spans = [
        (one.start, one.end + (one.stop_ns or 0) + (one.save_ns or 0)) for one in process.windows
    ]
    held = np.array(spans, np.int64).reshape(-1, 2)
    rows = np.flatnonzero(ours | theirs)
    taken = union(
        np.concatenate((held[:, 0], marks.start[rows])),
        np.concatenate((held[:, 1], marks.end[rows])),
    )
    return overlap(taken, ends[:-1], ends[1:]) == 0


def noise(lengths: Int64, period: int | None) -> float | None:
    """Give the relative half-width of the 90 % interval of the median step, ``None`` below 50.

    A moving-block bootstrap (Künsch 1989) in blocks of ten steps, or of one logging period where
    that is longer: neighbouring steps are alike.
    """
    recent = lengths[-_RECENT:]
    if len(recent) < _STEADY:
        return None
    block = min(max(_BLOCK, period or 0), len(recent) // 2)
    blocks = -(-len(recent) // block)
    heads = np.random.default_rng(0).integers(0, len(recent) - block + 1, (_ROUNDS, blocks))
    offsets = np.arange(block)
    medians = [np.median(recent[(one[:, None] + offsets).ravel()[: len(recent)]]) for one in heads]
    low, high = np.quantile(medians, (0.05, 0.95))
    middle = float(np.median(recent))
    return float(high - low) / 2 / middle if middle else None


def logging_period(process: Process, found: Edges) -> int | None:
    """Give how many steps lie between two calls of a logger; ``None``: it was hardly called."""
    marks = process.marks
    at = np.unique(np.searchsorted(found.ends, marks.start[marks.kind == wire.LOGGING]))
    steps = np.concatenate(([0], np.cumsum(np.append(found.many, 1))))[at]
    between = np.diff(at)[np.diff(at) == np.diff(steps)]  # others may have been summed
    return int(np.median(between)) if len(between) else None
