"""Where the steps of a training process end: the anchor rule, and which steps were profiled."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

import numpy as np
import numpy.typing as npt

from gapless import wire
from gapless.accounting.intervals import overlap, union
from gapless.model.recording import Fact, Marks, Process
from gapless.model.trace import Int64

_ENOUGH: Final = 5  # calls from which an optimizer may be the anchor
_BLOCK: Final = 10  # steps of a block of the bootstrap, at least
_STEADY: Final = 50  # steps below which no noise is given
_ROUNDS: Final = 400  # of the bootstrap
_RECENT: Final = 20_000  # steps that the bootstrap looks at, at most
Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Edges:
    """The ends of a process's steps, the thread that steps, and the rule that found them."""

    ends: Int64
    thread: int | None
    rule: str  # "optimizer" | "loader" | "none"
    anchor: str  # "SGD.step, train.py:41"


def fact_of(process: Process, noun: str, number: int) -> Fact | None:
    """Give the fact of a thing by its number, ``None`` if none was written."""
    return next((one for one in process.facts if one.noun == noun and one.id == number), None)


def place_of(file: str | None, line: int | None) -> str:
    """Name a place in the source in short: the file's name and the line."""
    if file is None:
        return ""
    name = PurePath(file).name
    return name if line is None else f"{name}:{line}"


def edges(process: Process) -> Edges:
    """Find the steps of a process: by its anchor optimizer, else by its busiest loader."""
    marks = process.marks
    whole = (marks.flags & (wire.RAISED | wire.EXHAUSTED)) == 0
    for kind, rule, choose in (
        (wire.STEP, "optimizer", _anchor),
        (wire.NEXT, "loader", _busiest),
    ):
        rows = np.flatnonzero((marks.kind == kind) & whole)
        if len(rows):
            return _edges(process, rows, rule, choose)
    return Edges(np.empty(0, np.int64), _only_thread(marks), "none", "")


def _edges(
    process: Process, rows: Int64, rule: str, choose: Callable[[Marks, Int64], int]
) -> Edges:
    marks = process.marks
    subject = choose(marks, rows)
    mine = rows[marks.subject[rows] == subject]
    thread = _most_common(marks.thread[mine])
    ends = np.unique(marks.end[mine[marks.thread[mine] == thread]])
    return Edges(ends, thread, rule, _anchor_name(process, rule, subject))


def _anchor(marks: Marks, rows: Int64) -> int:
    """Give the optimizer with the fewest calls in the steady part; the first seen of equals.

    The steady part is the later half of the time in which anything stepped. An optimizer must have
    been called five times in it; where none was: five times at all, and else once.
    """
    ends = marks.end[rows]
    late = rows[ends > ends.min() + (ends.max() - ends.min()) // 2]
    seldom = (_seldom(marks, some, least) for some, least in ((late, _ENOUGH), (rows, _ENOUGH)))
    found = next((one for one in seldom if one is not None), None)
    return _seldom(marks, rows, 1) or 0 if found is None else found


def _seldom(marks: Marks, rows: Int64, least: int) -> int | None:
    """Give the subject of the fewest marks, but of so many at least; the first seen of equals."""
    subjects, first, counts = np.unique(marks.subject[rows], return_index=True, return_counts=True)
    able = np.flatnonzero(counts >= least)
    if not len(able):
        return None
    return int(subjects[able[np.lexsort((first[able], counts[able]))[0]]])


def _busiest(marks: Marks, rows: Int64) -> int:
    return _most_common(marks.subject[rows])


def _most_common(values: Int64) -> int:
    """Give the value that occurs most often, the first seen of equals."""
    distinct, first, counts = np.unique(values, return_index=True, return_counts=True)
    return int(distinct[np.lexsort((first, -counts))[0]])


def _only_thread(marks: Marks) -> int | None:
    """Give the thread that most marks are of, where nothing stepped."""
    own = (marks.flags & wire.NOT_MAIN) == 0
    return _most_common(marks.thread[own]) if own.any() else None


def _anchor_name(process: Process, rule: str, subject: int) -> str:
    fact = fact_of(process, rule, subject)
    if fact is None:
        return "an optimizer" if rule == "optimizer" else "a loader"
    kind = str(fact.values.get("class") or ("optimizer" if rule == "optimizer" else "DataLoader"))
    kind = kind.rpartition(".")[2]
    what = f"{kind}.step" if rule == "optimizer" else f"hand-overs of {kind}"
    where = place_of(fact.file, fact.line)
    return f"{what}, {where}" if where else what


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


def logging_period(process: Process, ends: Int64) -> int | None:
    """Give how many steps lie between two calls of a logger; ``None``: it was hardly called."""
    marks = process.marks
    at = np.unique(np.searchsorted(ends, marks.start[marks.kind == wire.LOGGING]))
    return int(np.median(np.diff(at))) if len(at) > 1 else None
