"""What the account charges to what changes are about: what is at stake, and what bounds a gain.

Two ends of one quantity. *Its own* is what the account charges to the object of a change itself: so
much is at stake, and a cause is named by it. *The most* is that with all that may go with it: no
gain is larger. On a device leaves of the host are charged as far as it was idle meanwhile. What
frees the host of one reason to be late frees it for all (without a synchronisation it launches
ahead, and what was idle behind that goes, too): there a step may be shortened by all that the host
makes the device wait, and by what is launched no more; the device's other work stays. Without one,
calls are worth what they take. A loader is worth what it was waited for, what its iterations took
to begin, and the processors that its workers take from what computes. Of several ranks each has its
own; each may be the one that decides.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from gapless.catalogue import ranked, windowed
from gapless.catalogue.ruling import NotSeenError
from gapless.model.change import (
    NO_LOADER,
    Change,
    Copied,
    Delay,
    Drop,
    Feed,
    Hosted,
    Merge,
    Omit,
    Scale,
)
from gapless.model.interval import Interval
from gapless.model.run import LoaderUse
from gapless.model.seen import Seen

_COPIES: Final = ("copy.h2d", "idle.h2d")
_WORK: Final = ("busy.", "copy.", "comm.", "idle.device.gap", "idle.device.peer", "idle.graph")
_HOST: Final = (
    *("idle.sync", "idle.host", "idle.launch", "idle.alloc", "idle.h2d", "idle.compile"),
    *("idle.comm", "idle.unknown", "step"),
)
_ALL_OF_HOST: Final = "idle.host"
_UNPARTED: Final = (
    "step"  # no window tells what it holds: what slows the whole host may slow it all
)
_LUMPS: Final = ("idle.gc", "idle.io_main", "idle.profiler")  # what the run's marks give
_DATA: Final = "idle.data."
_OTHERS: Final = "idle.device.wait"
_AGAIN: Final = 2.0  # times: others may take as much within kernels, where no wait shows it


@dataclass(frozen=True)
class Charge:
    """Shares of the step that are charged to what a change is about: 0 to 1."""

    own: float  # to that itself
    most: float  # with all that may go with it


def charged(seen: Seen, changes: Sequence[Change]) -> Charge:
    """Give what is charged to some changes together.

    Leaves, calls and waits for loaders are three ways to look at the same time: of their own it is
    what the largest of them says.
    """
    every = [(_look(one), _charge(seen, one)) for one in changes]
    leaves, calls = (sum(one.own for look, one in every if look is each) for each in (Drop, Omit))
    waits = max((one.own for look, one in every if look is Feed), default=0.0)
    many = max(1, len(ranked.ranks_of(seen)))
    return Charge(
        min(1.0, max(leaves, calls, waits)), min(1.0, many * sum(one.most for _, one in every))
    )


def _look(change: Change) -> type[Change]:
    match change:
        case Omit() | Merge():
            return Omit
        case Feed(loader=loader) if loader != NO_LOADER:
            return Feed
        case _:
            return Drop


def _charge(seen: Seen, change: Change) -> Charge:
    match change:
        case Drop() | Hosted():
            return _of_leaves(seen, change)
        case Scale():
            return _of_work(seen, change)
        case Omit() | Merge():
            return _of_calls(seen, change)
        case Copied():
            return Charge(_everywhere(seen, *_COPIES), seen.share("copy.") + _idle(seen))
        case Feed():
            return _of_feed(seen, change)
        case Delay():
            return Charge(0.0, 0.0)


# ── Leaves ──────────────────────────────────────────────────────────────────────────────────────


def _of_leaves(seen: Seen, change: Drop | Hosted) -> Charge:
    leaves = change.leaves
    left = change.factor if isinstance(change, Hosted) else Interval(*3 * (change.keep,))
    less = max(0.0, 1 - left.low)
    freed = any(_frees(seen, leaf) for leaf in leaves) and less > 0
    rest = sum(_with_hidden(seen, leaf) for leaf in leaves if not _frees(seen, leaf))
    own = _everywhere(seen, *leaves) * max(0.0, 1 - left.mid)
    if isinstance(change, Hosted) and _ALL_OF_HOST in leaves:
        own += _everywhere(seen, _UNPARTED) * less
    return Charge(own, freed * _idle(seen) + less * rest)


def _frees(seen: Seen, prefix: str) -> bool:
    """Tell whether what goes frees the host of a device: it was ahead by all that may be hidden."""
    return seen.on_device and not prefix.startswith((*_WORK, *_LUMPS, _DATA.rstrip("."), _OTHERS))


def _everywhere(seen: Seen, *leaves: str) -> float:
    """Give the share of the step that each rank has of some leaves; of waits what the others wait.

    The rank that the others wait for does not wait.
    """
    if leaves and all(one in ranked.WAITS for one in leaves):
        ranks = len(ranked.ranks_of(seen))
        return min(1.0, seen.share(*leaves) * (ranks / (ranks - 1) if ranks > 1 else 1.0))
    step = seen.step_ns
    return ranked.least(seen, *leaves) / step if step and leaves else 0.0


def _idle(seen: Seen) -> float:
    """Give what the host makes its device wait: of plain steps, or of windows if they show more.

    Of a plain step the device's work comes first: what tracing made longer of it, the host lacks.
    """
    rows = seen.study.account.leaves.items()
    windows = sum(ns for leaf, ns in rows if leaf.startswith(_HOST))
    return max(seen.share(*_HOST), _per_step(seen, windows) if windows else 0.0)


def _with_hidden(seen: Seen, prefix: str) -> float:
    """Give what leaves below a prefix are worth; waits for data with what backlogs hide of them."""
    hides = seen.on_device and prefix.startswith(_DATA.rstrip("."))
    again = _AGAIN if prefix.startswith(_OTHERS) else 1.0
    return again * seen.share(prefix) + (_hidden(seen) if hides else 0.0)


def _hidden(seen: Seen) -> float:
    """Give the share of waits for data in which the device still had work."""
    recorded = seen.study.recorded
    made = None if recorded is None else recorded.account
    steps = 0 if made is None else made.account.steps or 0
    if made is None or not steps or not seen.step_ns:
        return 0.0
    return max(0.0, made.hidden_ns / steps / seen.step_ns)


# ── Activities and calls, of windows ────────────────────────────────────────────────────────────


def _of_work(seen: Seen, change: Scale) -> Charge:
    """Give what activities, or operators of a host, take of a step: of some leaves, or names."""
    named = _named(seen, change.names)
    leaves = seen.share(*change.leaves) if change.leaves else 0.0
    own = max(named, _everywhere(seen, *change.leaves)) * max(0.0, 1 - change.factor.mid)
    return Charge(own, (leaves + named) * max(0.0, 1 - change.factor.low))


def _named(seen: Seen, names: Sequence[str]) -> float:
    if not names:
        return 0.0
    if not seen.on_device:
        return _per_step(seen, sum(one.host_self_ns for one in windowed.operators(seen, *names)))
    kernels = seen.study.tables.kernels
    rows = [one for one in kernels if any(fnmatchcase(one.name, name) for name in names)]
    return _per_step(seen, sum(one.device_ns for one in rows))


def _of_calls(seen: Seen, change: Omit | Merge) -> Charge:
    """Give what calls take of a step: on a device what they launch, and what their host frees.

    In windows the host is slower, and waits less for its device: of their own calls are worth no
    more than it waits. Of calls that no table holds nothing is known.
    """
    goes = 1 - change.keep if isinstance(change, Omit) else 1.0
    rows, account = windowed.operators(seen, *change.names), seen.study.account
    if not rows:
        return Charge(0.0, goes)
    spent = sum(one.host_total_ns for one in rows)
    own = goes * spent / account.wall_ns if account.steps and account.wall_ns else 0.0
    if not seen.on_device:
        return Charge(own, goes * _per_step(seen, spent))
    launched = _per_step(seen, sum(one.device_total_ns or 0 for one in rows))
    return Charge(min(own, seen.share(*_HOST)), goes * (_idle(seen) + launched))


def _per_step(seen: Seen, ns: float) -> float:
    """Give a share of the step, of what the windows hold: of a plain step or theirs."""
    with suppress(NotSeenError):
        window = seen.study.account.wall_ns / windowed.steps(seen)
        return ns / windowed.steps(seen) / min(window, seen.step_ns or window)
    return 1.0


# ── Loaders ─────────────────────────────────────────────────────────────────────────────────────


def _of_feed(seen: Seen, feed: Feed) -> Charge:
    """Give what a loader is worth; of threads that compute nobody knows the most."""
    computes = feed.intra_op_threads is not None
    if computes and feed.num_workers is None and not seen.on_device:
        return Charge(_everywhere(seen, "busy."), 1.0)  # these threads compute operators
    uses = _uses(seen, feed)
    most = [] if computes or feed.loader == NO_LOADER else [_with_turns(seen, one) for one in uses]
    return Charge(_waits(seen, feed, uses), max(most, default=1.0))


def _uses(seen: Seen, feed: Feed) -> list[LoaderUse]:
    loaders = seen.facts.loaders if seen.facts is not None else ()
    return [use for one in loaders if one.id == feed.loader and (use := seen.use(one)) is not None]


def _waits(seen: Seen, feed: Feed, uses: Sequence[LoaderUse]) -> float:
    """Give what a loader was waited for, as far as a change of it is about that."""
    if seen.foreign:
        return _everywhere(seen, _DATA)
    loaders = seen.facts.loaders if seen.facts is not None else ()
    if not uses and [one.id for one in loaders] == [feed.loader]:  # all waits are for it
        threads = (feed.worker_threads, feed.intra_op_threads) != (None, None)
        return 0.0 if threads and feed.num_workers is None else _everywhere(seen, _DATA)
    share = max(((one.share or 0.0) * _concerned(one, feed) for one in uses), default=0.0)
    several = len(ranked.ranks_of(seen)) > 1
    return min(share, _everywhere(seen, _DATA)) if seen.on_device or several else share


def _concerned(use: LoaderUse, feed: Feed) -> float:
    """Give the share of a loader's waits that a change is about.

    Threads of workers take processors: they are about what fetches waited for one.
    """
    made = use.workers
    if feed.worker_threads is None or made is None:
        return 1.0
    whole = (made.on_cpu or 0.0) + (made.run_queue or 0.0) + (made.blocked or 0.0)
    return (made.run_queue or 0.0) / whole if whole else 0.0


def _with_turns(seen: Seen, use: LoaderUse) -> float:
    """Give what a loader was waited for, with its iterations' beginnings and its processors."""
    waits = (use.share or 0.0) + _restarts(seen, use)
    return waits + min(1.0, _taken(seen, use)) * max(0.0, 1 - waits)


def _restarts(seen: Seen, use: LoaderUse) -> float:
    """Give what beginning iterations of a loader took of a step."""
    recorded = seen.study.recorded
    steps = None if recorded is None else recorded.steps
    if steps is None or not steps.count or not seen.step_ns:
        return 0.0
    return use.restart_ns / steps.count / seen.step_ns


def _taken(seen: Seen, use: LoaderUse) -> float:
    """Give the share of the processors that a loader's workers take while steps are made.

    Theirs go to the training once they want them no more.
    """
    made, cores = use.workers, None if seen.facts is None else seen.facts.machine.cpus
    recorded = seen.study.recorded
    steps = None if recorded is None else recorded.steps
    if made is None or not made.processes or not cores or steps is None or not seen.step_ns:
        return 0.0
    wanted = (made.on_cpu or 1.0) + (made.run_queue or 0.0)
    return made.lifetime_ns * wanted / (steps.count * seen.step_ns) / cores
