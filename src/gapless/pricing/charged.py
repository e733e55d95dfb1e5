"""What the account charges to what changes are about: what is at stake, and what bounds a gain.

Two bounds of one quantity. *Own* is what the account charges to the object of a change itself: that
is at stake, and a cause is named by it. *Max* adds all that may go with it: no gain is larger. On a
device, leaves of the host are charged as far as the device was idle meanwhile. What removes one
reason for the host to be late removes them all (without a synchronisation it launches ahead, and
idle time behind that goes, too): there a step may be shortened by all that the host makes the
device wait, and by what is no longer launched; the device's other work stays. Without a device,
calls are worth what they take. A loader is worth the waits for it, the time in which its iterations
begin, and the processors that its workers take from computing. Each of several ranks has its own;
any of them may decide. What the account knows with an interval (what a checkpoint takes of a step,
of which few were seen) is counted with the upper end of it.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import Final

from msgspec import Struct

from gapless.catalogue.queries import windows
from gapless.catalogue.queries.ranks import rank_steps, rank_waits
from gapless.catalogue.queries.samples import UNSPLIT
from gapless.model.change import (
    NO_LOADER,
    Bucket,
    Change,
    CopyChange,
    Delay,
    Drop,
    HostChange,
    LoaderChange,
    Merge,
    Omit,
    Scale,
)
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence, NotObservedError
from gapless.model.leaf import DEVICE_WORK
from gapless.model.run import LoaderUse
from gapless.replay.loader.cores import pair_stretch

_COPIES: Final = ("copy.h2d", "idle.h2d")
_HOST: Final = (
    *("idle.sync", "idle.host", "idle.launch", "idle.alloc", "idle.h2d", "idle.compile"),
    *("idle.comm", "idle.unknown", "step"),
)
_EXCHANGE: Final = ("comm.", "idle.comm.")
_ALL_OF_HOST: Final = "idle.host"
_LUMPS: Final = ("idle.gc", "idle.io_main", "idle.profiler")  # known from the run's marks
_DATA: Final = "idle.data."
_OTHERS_LEAF: Final = "idle.device.wait"
_OTHERS_FACTOR: Final = 2.0  # times: others may take as much within kernels, where no wait shows it


class Charge(Struct, frozen=True):
    """Shares of the step that are charged to what a change is about: 0 to 1."""

    own_share: float  # to the object itself
    max_share: float  # including all that may go with it, at the upper end of what is measured


def charge_changes(evidence: Evidence, changes: Sequence[Change]) -> Charge:
    """Return what is charged to some changes together.

    Leaves, calls and waits for loaders are three views of the same time: the largest is their own.
    """
    charges = [(_charge_kind(change), _charge_change(evidence, change)) for change in changes]
    leaves, calls = (
        sum(charge.own_share for kind, charge in charges if kind is wanted_kind)
        for wanted_kind in (Drop, Omit)
    )
    waits = max((charge.own_share for kind, charge in charges if kind is LoaderChange), default=0.0)
    n_ranks = max(1, len(rank_waits.find_ranks(evidence)))
    return Charge(
        min(1.0, max(leaves, calls, waits)),
        min(1.0, n_ranks * sum(charge.max_share for _, charge in charges)),
    )


def _charge_kind(change: Change) -> type[Change]:
    match change:
        case Omit() | Merge():
            return Omit
        case LoaderChange(loader=loader) if loader != NO_LOADER:
            return LoaderChange
        case _:
            return Drop


def _charge_change(evidence: Evidence, change: Change) -> Charge:  # noqa: PLR0911 - one for each kind
    match change:
        case Drop() | HostChange():
            return _charge_leaves(evidence, change)
        case Scale():
            return _charge_work(evidence, change)
        case Omit() | Merge():
            return _charge_calls(evidence, change)
        case CopyChange():
            return Charge(
                _common_share(evidence, *_COPIES),
                evidence.share("copy.") + _host_idle_share(evidence),
            )
        case LoaderChange():
            return _charge_loader(evidence, change)
        case Bucket():
            return _charge_leaves(evidence, Drop(_EXCHANGE))
        case Delay():
            return Charge(0.0, 0.0)


# ── Leaves ──────────────────────────────────────────────────────────────────────────────────────


def _charge_leaves(evidence: Evidence, change: Drop | HostChange) -> Charge:
    leaves = change.leaves
    kept_share = change.factor if isinstance(change, HostChange) else Estimate(*3 * (change.keep,))
    max_removed = max(0.0, 1 - kept_share.low)
    frees_host = any(_frees_host(evidence, leaf) for leaf in leaves) and max_removed > 0
    other_leaves = [leaf for leaf in leaves if not _frees_host(evidence, leaf)]
    other_share = sum(_max_leaf_share(evidence, leaf, change) for leaf in other_leaves)
    if leaves == (rank_steps.STRAGGLER_WAIT,):
        other_share = max(other_share, rank_waits.known_excess_share(evidence))
    own_share = _common_share(evidence, *leaves) * max(0.0, 1 - kept_share.mid)
    if isinstance(change, HostChange) and _ALL_OF_HOST in leaves:
        # No window shows it: what slows the whole host may slow all of it.
        own_share += _common_share(evidence, UNSPLIT) * max_removed
    return Charge(own_share, frees_host * _host_idle_share(evidence) + max_removed * other_share)


def _frees_host(evidence: Evidence, prefix: str) -> bool:
    """Return whether what goes frees a device's host, which was ahead by what may be hidden."""
    return evidence.on_device and not prefix.startswith(
        (*DEVICE_WORK, *_LUMPS, _DATA.rstrip("."), _OTHERS_LEAF)
    )


def _common_share(evidence: Evidence, *leaves: str) -> float:
    """Return the share of the step that some leaves have on each rank; waits count for the others.

    The rank that the others wait for does not wait.
    """
    if leaves and all(leaf in rank_steps.RANK_WAITS for leaf in leaves):
        return rank_waits.waited_share(evidence, leaves)
    step_ns = evidence.step_ns
    return rank_waits.min_rank_ns(evidence, *leaves) / step_ns if step_ns and leaves else 0.0


def _host_idle_share(evidence: Evidence) -> float:
    """Return how long the host keeps its device waiting, in plain steps or in windows.

    In a plain step the device's work comes first: what tracing adds to it, the host's share
    lacks. But no host is worth more than what that work leaves of a step.
    """
    rows = evidence.study.account.leaves.items()
    windows_ns = sum(ns for leaf, ns in rows if leaf.startswith(_HOST))
    windows_share = _step_share(evidence, windows_ns) if windows_ns else 0.0
    left_share = max(0.0, 1 - evidence.share(*DEVICE_WORK))
    return max(evidence.share(*_HOST), min(windows_share, left_share))


def _max_leaf_share(evidence: Evidence, prefix: str, change: Change) -> float:
    """Return the worth of leaves below a prefix, by the upper end where their mean has an interval.

    Waits for data include what backlogs hide.
    """
    is_data = evidence.on_device and prefix.startswith(_DATA.rstrip("."))
    factor = _OTHERS_FACTOR if isinstance(change, Drop) and prefix.startswith(_OTHERS_LEAF) else 1.0
    spreads: Mapping[str, float] = {} if evidence.run_steps is None else evidence.run_steps.spreads
    unsure_share = sum(
        spread * evidence.share(leaf) for leaf, spread in spreads.items() if leaf.startswith(prefix)
    )
    return (
        factor * evidence.share(prefix)
        + unsure_share
        + (_hidden_share(evidence) if is_data else 0.0)
    )


def _hidden_share(evidence: Evidence) -> float:
    """Return the share of waits for data in which the device still had work."""
    step_account = evidence.step_account
    steps = 0 if step_account is None else step_account.account.steps or 0
    if step_account is None or not steps or not evidence.step_ns:
        return 0.0
    return max(0.0, step_account.hidden_ns / steps / evidence.step_ns)


def _charge_work(evidence: Evidence, change: Scale) -> Charge:
    named_share = _named_share(evidence, change.names)
    leaf_share = evidence.share(*change.leaves) if change.leaves else 0.0
    own_share = max(named_share, _common_share(evidence, *change.leaves)) * max(
        0.0, 1 - change.factor.mid
    )
    return Charge(own_share, (leaf_share + named_share) * max(0.0, 1 - change.factor.low))


def _named_share(evidence: Evidence, names: Sequence[str]) -> float:
    if not names:
        return 0.0
    if not evidence.on_device:
        return _step_share(
            evidence,
            sum(operator.host_self_ns for operator in windows.select_operators(evidence, *names)),
        )
    kernels = evidence.study.tables.kernels
    rows = [kernel for kernel in kernels if any(fnmatchcase(kernel.name, name) for name in names)]
    return _step_share(evidence, sum(kernel.device_ns for kernel in rows))


def _charge_calls(evidence: Evidence, change: Omit | Merge) -> Charge:
    """Return what calls take of a step: on a device what they launch, and what their host frees.

    In windows the host is slower, and waits less for its device: calls by themselves are worth no
    more than it waits. Nothing is known of calls that no table holds.
    """
    removed_share = 1 - change.keep if isinstance(change, Omit) else 1.0
    rows, account = windows.select_operators(evidence, *change.names), evidence.study.account
    if not rows:
        return Charge(0.0, removed_share)
    spent_ns = sum(operator.host_total_ns for operator in rows)
    own_share = (
        removed_share * spent_ns / account.wall_ns if account.steps and account.wall_ns else 0.0
    )
    if not evidence.on_device:
        return Charge(own_share, removed_share * _step_share(evidence, spent_ns))
    launched_share = _step_share(evidence, sum(operator.device_total_ns or 0 for operator in rows))
    return Charge(
        min(own_share, evidence.share(*_HOST)),
        removed_share * (_host_idle_share(evidence) + launched_share),
    )


def _step_share(evidence: Evidence, ns: float) -> float:
    """Return a duration within windows as a share of a plain step, or of the windows' steps."""
    with suppress(NotObservedError):
        window_step_ns = evidence.study.account.wall_ns / windows.count_steps(evidence)
        return (
            ns
            / windows.count_steps(evidence)
            / min(window_step_ns, evidence.step_ns or window_step_ns)
        )
    return 1.0


# ── Loaders ─────────────────────────────────────────────────────────────────────────────────────


def _charge_loader(evidence: Evidence, change: LoaderChange) -> Charge:
    """Return what a loader is worth; the maximum is unknown for threads that compute."""
    is_compute = change.intra_op_threads is not None
    if is_compute and change.num_workers is None and not evidence.on_device:
        return Charge(_common_share(evidence, "busy."), 1.0)  # these threads compute operators
    uses = _loader_uses(evidence, change)
    is_known = not is_compute and change.loader != NO_LOADER
    max_shares = [_max_wait_share(evidence, use) for use in uses if is_known]
    freed_ns = (change.freed_ns or 0) * (evidence.facts.world.passes_a_step or 1.0)  # of batches
    freed_share = max(0.0, freed_ns / (evidence.step_ns or float("inf")))
    max_share = min(1.0, max(max_shares, default=1.0) + freed_share)
    return Charge(_wait_share(evidence, change, uses) + freed_share, max_share)


def _loader_uses(evidence: Evidence, change: LoaderChange) -> list[LoaderUse]:
    loaders = evidence.facts.loaders
    return [
        use
        for loader in loaders
        if loader.id == change.loader and (use := evidence.loader_use(loader)) is not None
    ]


def _wait_share(evidence: Evidence, change: LoaderChange, uses: Sequence[LoaderUse]) -> float:
    """Return the waits for a loader, as far as a change of it concerns them."""
    if evidence.is_trace_only:
        return _common_share(evidence, _DATA)
    loaders = evidence.facts.loaders
    if not uses and [loader.id for loader in loaders] == [change.loader]:  # all waits concern it
        sets_threads = (change.worker_threads, change.intra_op_threads) != (None, None)
        return (
            0.0 if sets_threads and change.num_workers is None else _common_share(evidence, _DATA)
        )
    share = max(((use.share or 0.0) * _concerned_share(use, change) for use in uses), default=0.0)
    has_ranks = len(rank_waits.find_ranks(evidence)) > 1
    return min(share, _common_share(evidence, _DATA)) if evidence.on_device or has_ranks else share


def _concerned_share(use: LoaderUse, change: LoaderChange) -> float:
    """Return the share of a loader's waits that a change concerns.

    Threads of workers occupy processors: they concern the time that fetches waited for one.
    """
    workers = use.workers
    if change.worker_threads is None or workers is None:
        return 1.0
    total_share = (workers.on_cpu or 0.0) + (workers.run_queue or 0.0) + (workers.blocked or 0.0)
    return (workers.run_queue or 0.0) / total_share if total_share else 0.0


def _max_wait_share(evidence: Evidence, use: LoaderUse) -> float:
    """Return the waits for a loader, with its iterations' starts and its processors.

    Threads that share processors with workers get their part of the time nevertheless: beside one
    worker on each of them, half of it. Threads that compute together go on only while all have one:
    two of three on two processors a third of the time.
    """
    wait_share = (use.share or 0.0) + _restart_share(evidence, use)
    demand = _processor_share(evidence, use)
    lost_share = min(demand, max(0.5, demand / (1 + demand)))
    lost_share = max(lost_share, _team_share(evidence, demand))
    return wait_share + lost_share * max(0.0, 1 - wait_share)


def _team_share(evidence: Evidence, demand: float) -> float:
    machine = evidence.facts.machine
    cores, n_threads = machine.cpus or 0, machine.intra_op_threads or 1
    if evidence.on_device or not 1 < n_threads <= cores:
        return 0.0
    return min(1.0, demand * cores) * (1 - 1 / pair_stretch(n_threads + 1, cores))


def _restart_share(evidence: Evidence, use: LoaderUse) -> float:
    """Return the share of a step that starting iterations of a loader took."""
    steps = evidence.run_steps
    if steps is None or not steps.count or not evidence.step_ns:
        return 0.0
    return use.restart_ns / steps.count / evidence.step_ns


def _processor_share(evidence: Evidence, use: LoaderUse) -> float:
    """Return the share of the processors that a loader's workers use while steps run.

    The training gets them when the workers no longer need them.
    """
    workers, cores = use.workers, evidence.facts.machine.cpus
    steps = evidence.run_steps
    if workers is None or steps is None or not (workers.processes and cores and evidence.step_ns):
        return 0.0
    demand = (workers.on_cpu or 1.0) + (workers.run_queue or 0.0)
    return workers.lifetime_ns * demand / (steps.count * evidence.step_ns) / cores
