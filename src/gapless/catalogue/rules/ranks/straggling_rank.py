"""A rank for which the others wait in collectives."""

from typing import Final

import numpy as np
from msgspec.structs import replace

from gapless.catalogue.declare.rule import rule
from gapless.catalogue.queries import samples, windows
from gapless.catalogue.queries.ranks import collectives, rank_marks, rank_waits
from gapless.catalogue.queries.ranks.laden_rank import find_laden_rank
from gapless.catalogue.queries.ranks.rank_steps import STRAGGLER_WAIT, Rank
from gapless.model.change import Drop
from gapless.model.edit import Location
from gapless.model.evidence import Evidence, NotObservedError
from gapless.model.facts import Loader
from gapless.model.finding import Detection, Measure

_MIN_STEP_SHARE: Final = 0.02  # of the step
_MIN_SHARE: Final = 0.6  # of the time that ranks wait for one another
# Standard errors, by the number of steps (Student's t, 95 %): a smaller surplus may be chance.
_MIN_STANDARD_ERRORS: Final = {2: 6.3, 3: 2.9, 4: 2.4, 5: 2.1}
_MANY_STEPS_ERRORS: Final = 2.0
_MIN_MARKED_SHARE: Final = 0.5  # of the surplus: then marks of all steps show it, not chance
_MIN_COMPUTE_SHARE: Final = 0.5  # of the surplus
_MIN_WORK_RATIO: Final = 1.1  # of a rank's operations to those of any other
_MAX_TAKEN_CORES: Final = 0.5  # processors that others took
_MIN_EXPLAINED_SHARE: Final = 0.5  # of the surplus: else it is in the exchange, not in its work
_MIN_SURPLUS_SHARE: Final = 0.25  # of the surplus: smaller parts are not named
_COMPUTING: Final = "computing"
_UNFRAMED: Final = "off the processor, or where nothing is recorded"
_PYTHON: Final = "in Python between operators"
_CALLING: Final = "calling operators"
_ON_PROCESSORS: Final = (_UNFRAMED, _PYTHON, _CALLING)
_DATA_WAITS: Final = "waiting for data"
LEAVES_BY_ACTIVITY: Final[dict[str, tuple[str, ...]]] = {  # activity with an excess → leaves
    _DATA_WAITS: ("idle.data",),
    _UNFRAMED: ("idle.host.unframed",),
    _PYTHON: ("idle.host.python",),
    _CALLING: ("idle.host.dispatch", "idle.launch", "idle.host.optimizer"),
    _COMPUTING: ("busy.",),
    "in the garbage collector": ("idle.gc",),
    "on checkpoints": ("idle.io_main.checkpoint",),
    "on logging": ("idle.io_main.logging",),
    "on evaluation": ("idle.io_main.eval",),
    "on its own profiler": ("idle.io_main.profiling",),
    "on copies": ("copy.", "idle.h2d"),
    "waiting for its device": ("idle.sync",),
    "on memory": ("idle.alloc",),
}


@rule(
    "G601",
    "straggling-rank",
    figures="""
    the_world = (ddp(), world(ranks=2))
    # One rank sleeps in each step
    > Rank 1 comes late to the collectives: the other waits 8.0 ms of each 16.0 ms step for it; by
      itself it takes 8.0 ms longer than the next slowest, with 8.0 ms more off the processor, or
      where nothing is recorded.
    with_rank_lines(evidence_of_ranks(cpu(*the_world), {"busy.math": 6, "comm.exposed": 2,
      "comm.straggler_wait": 8}, {"busy.math": 6, "comm.exposed": 2, "idle.host.unframed": 8}),
      (hot_line(77, 0.9), hot_line(79, 0.0)), (hot_line(77, 0.3), hot_line(79, 0.6)))
    # On GPUs: the batches of one rank are longer
    > Rank 0 comes late to the collectives: the other waits 20.0 ms of each 100.0 ms step for it; by
      itself it takes 20.0 ms longer than the next slowest, with 20.0 ms more computing.
    gpu(*the_world)
    rank busy.tc_math 90, comm.exposed 10
    rank busy.tc_math 70, comm.exposed 10, comm.straggler_wait 20
    # A trace: the loader of one rank is late
    > Rank 1 comes late to the collectives: the other waits 50.0 ms of each 80.0 ms step for it; by
      itself it takes 50.0 ms longer than the next slowest, with 50.0 ms more waiting for data,
      which the training process loads itself.
    rank busy.math 25, comm.exposed 5, comm.straggler_wait 50
    rank busy.math 25, comm.exposed 5, idle.data.main 50
    operator("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", calls=1, host_ms=25)
    # On processors: few samples more do not explain it
    > Rank 1 comes late to the collectives: the other waits 40.0 ms of each 70.0 ms step for it; by
      itself it takes 40.0 ms longer than the next slowest, with 40.0 ms more computing.
    with_steps(evidence_of_ranks(cpu(*the_world), {"busy.math": 20, "comm.exposed": 10,
      "comm.straggler_wait": 40}, {"busy.math": 60, "comm.exposed": 10}),
      rank_rates={0: 60 / 0.07, 1: 70 / 0.07})
    # Steps vary more than it is late, but its sequences are always three times as long
    > Rank 1 comes late to the collectives: the other waits 4.5 ms of each 21.5 ms step for it; by
      itself it takes 3.0 ms longer than the next slowest, with 3.0 ms more computing; its operators
      have 3.0 times as much to compute as any other's.
    with_rank_work(evidence_of_ranks(cpu(*the_world), ({"busy.math": 14, "comm.exposed": 9},
      {"busy.math": 2, "comm.exposed": 9, "comm.straggler_wait": 9}), ({"busy.math": 11,
      "comm.exposed": 9, "comm.straggler_wait": 3}, {"busy.math": 11, "comm.exposed": 9})), 2, 6)
    # The same, where a third rank is not known
    with_rank_work(evidence_of_ranks(cpu(ddp(), world(ranks=3)), ({"busy.math": 14,
      "comm.exposed": 9}, {"busy.math": 2, "comm.exposed": 9, "comm.straggler_wait": 9}),
      ({"busy.math": 11, "comm.exposed": 9, "comm.straggler_wait": 3}, {"busy.math": 11,
      "comm.exposed": 9})), 2, 6)
    # The same of these few steps alone
    with_rank_work(evidence_of_ranks(cpu(*the_world), ({"busy.math": 14, "comm.exposed": 9},
      {"busy.math": 2, "comm.exposed": 9, "comm.straggler_wait": 9}), ({"busy.math": 11,
      "comm.exposed": 9, "comm.straggler_wait": 3}, {"busy.math": 11, "comm.exposed": 9})), 2, 6,
      is_steady=False)
    # Late in every second step: its samples, the same in each, do not explain it
    > Rank 1 comes late to the collectives: the other waits 20.0 ms of each 40.0 ms step for it; by
      itself it takes 20.0 ms longer than the next slowest, with 20.0 ms more computing.
    with_steps(evidence_of_ranks(cpu(*the_world), ({"busy.math": 20, "comm.straggler_wait": 40},
      {"busy.math": 20}), ({"busy.math": 60}, {"busy.math": 20})),
      rank_rates={0: 60 / 0.04, 1: 70 / 0.04})
    # Half of the steps, and most of the time
    > Rank 0 comes late to the collectives: the other waits 20.0 ms of each 60.0 ms step for it; by
      itself it takes 20.0 ms longer than the next slowest, with 20.0 ms more on checkpoints.
    gpu(*the_world)
    rank busy.math 40, idle.io_main.checkpoint 40 | busy.math 40
    rank busy.math 40, comm.straggler_wait 40 | busy.math 40
    # Layers on two ranks: each waits for the other's, and the last has more to do
    > Rank 1 comes late to the collectives: the other waits 48.0 ms of each 60.0 ms step for it; by
      itself it takes 12.0 ms longer than the next slowest, with 12.0 ms more in Python between
      operators.
    cpu(*the_world)
    rank busy.math 12, comm.straggler_wait 48
    rank busy.math 12, idle.host.python 12, comm.straggler_wait 36
    operator(collectives.SEND_CALL, calls=4, host_ms=1)
    # Ranks wait for one another in turn
    cpu(*the_world)
    rank busy.math 10 | busy.math 8, comm.straggler_wait 2
    rank busy.math 8, comm.straggler_wait 2 | busy.math 10
    # One rank alone shows nothing of the others
    cpu(*the_world)
    rank busy.math 6, comm.exposed 2, comm.wait_estimated 8
    """,
)
def straggling_rank(evidence: Evidence) -> Detection | None:
    """Recognise one rank that comes late to the collectives, so that all others wait for it.

    ## Why it costs time
    Ranks that reduce gradients together go on together: a step is as long as the slowest rank
    makes it. A rank that does more than the others, waits for more, or runs on a slower machine,
    delays them all. The traces of the others show their waits as communication, and that of the
    slow rank shows it busy: only a comparison of the ranks shows the cause.

    ## How it is measured
    Collectives are matched over the windows of all ranks; this shows how long a rank waits for the
    last one. What each rank does by itself is its step without those waits. One rank must be the
    slowest by at least 2 % of a step, by more than chance explains, and by what it does rather than
    by what exchanges take it; six tenths of all time that ranks wait for one another must be waits
    for it; where they send to one another (a pipeline), waits in steps that it takes longest for,
    since each waits for a neighbour that itself waits. Chance is left out by the windows' steps, or
    by samples of the whole run that stand at a line of its own; nor does it count where the inputs
    of operators, the same in each step, give this rank more to compute. On processors that other
    processes may have taken, a rank that only computes longer is not blamed, nor one whose host
    only takes longer at no line of its own; nor is one that in windows is later than a step takes
    without them: tracing slows ranks unequally; nor, without a device, one that neither marks nor
    samples show, where windows are longer than other steps by more than it is late. The gain is
    that of this rank being as fast as the next slowest, which then decides; extra computing is not
    saved but shared among all ranks. Without a device it is at least what samples of the whole run
    show in functions in which this rank alone stands. Waits for one another by chance remain. Its
    excess is found by comparing its steps with the others', and its line is the one at which its
    training thread was sampled more often than theirs.
    """
    ranks = rank_waits.require_ranks(evidence)
    if not ranks:
        return None
    straggler, surplus = rank_waits.find_slowest_rank(ranks)
    step_ns, share = float(straggler.lengths.mean()), _wait_share(evidence, ranks, straggler)
    if surplus < _MIN_STEP_SHARE * step_ns or share < _MIN_SHARE:
        return None
    excesses = rank_waits.find_surpluses(ranks, straggler, LEAVES_BY_ACTIVITY)
    compute_share = min(1.0, dict(excesses).get(_COMPUTING, 0.0) / surplus)
    ratio = rank_waits.work_ratio(evidence, straggler.rank)
    is_laden = ratio >= _MIN_WORK_RATIO and compute_share >= _MIN_COMPUTE_SHARE
    is_known = is_laden or rank_waits.is_surplus_sampled(evidence, straggler.rank)
    if not is_known and _is_by_chance(ranks, straggler):
        return None
    _require_room(evidence, ranks, straggler, surplus, is_known=is_known)
    if sum(ns for _, ns in excesses if ns > 0) < _MIN_EXPLAINED_SHARE * surplus:
        return None
    unsure_ns = sum(dict(excesses)[name] for name in _starved_activities(evidence, straggler.rank))
    if unsure_ns >= _MIN_COMPUTE_SHARE * surplus and not is_laden and _is_shared(evidence):
        reason = f"whether rank {straggler.rank} has more to do or fewer processors is not known"
        raise NotObservedError("processors", reason)
    largest = [excess for excess in excesses if excess[1] >= _MIN_SURPLUS_SHARE * surplus][
        :2
    ] or excesses[:1]
    laden = find_laden_rank(evidence) if largest[0][0] == _COMPUTING else None
    if laden is not None and laden.rank.rank == straggler.rank:
        return None  # named as uneven batches
    wait_ns = rank_waits.mean_straggler_wait(ranks, straggler)
    others_wait = "the other waits" if len(ranks) == 2 else "the others wait"  # noqa: PLR2004
    detection = straggling_rank.detection(
        f"Rank {straggler.rank} comes late to the collectives: {others_wait} "
        f"{windows.format_step_part(evidence, wait_ns)} for it; by itself it takes "
        f"{windows.ms(surplus)} longer than the next slowest, with "
        f"{' and '.join(_excess_words(evidence, activity, ns) for activity, ns in largest)}"
        f"{_work_words(ratio) if is_laden else ''}.",
        Drop((STRAGGLER_WAIT,), keep=max(0.0, compute_share) / len(ranks)),
        location=_excess_location(evidence, straggler.rank, largest[0][0]),
        measures=(
            Measure("rank", straggler.rank, ""),
            Measure("waited for it, a step", wait_ns, "ns"),
            Measure("of all waits for a last rank", share, "share"),
            Measure("by itself longer than the next slowest rank", surplus, "ns"),
            *(Measure(f"{activity}, more than the others", ns, "ns") for activity, ns in largest),
            Measure("ranks", len(ranks), ""),
        ),
        no_remedy=samples.offer_workers(
            evidence,
            "let that rank do what the others do: share its extra work among all, do it in a "
            f"thread{samples.OR_IN_WORKERS}; deal out samples by length; if it does nothing more, "
            "look at its machine",
        ),
    )
    return replace(detection, rank=straggler.rank)


def largest_excess(ranks: tuple[Rank, ...], straggler: Rank) -> str:
    """Return the activity of which a rank has most more than the others."""
    return rank_waits.find_surpluses(ranks, straggler, LEAVES_BY_ACTIVITY)[0][0]


def _wait_share(evidence: Evidence, ranks: tuple[Rank, ...], straggler: Rank) -> float:
    """Return the share of the waits for a last rank that are waits for this one.

    As the collectives tell, or by who is last in each step, where marks were played into it, or
    ranks send to one another: each then waits for a neighbour that waits itself. Where neither is
    known, by who waits.
    """
    is_paired = len({len(rank.rows) for rank in ranks}) == 1
    is_sent = is_paired and windows.sum_calls(evidence, collectives.SEND_CALL).count > 0
    if straggler.played or is_sent:
        waits_ns = np.sum([rank.straggler_waits for rank in ranks], axis=0)
        is_last = np.argmax([rank.own_lengths for rank in ranks], axis=0) == ranks.index(straggler)
        return float(waits_ns[is_last].sum() / waits_ns.sum()) if waits_ns.sum() else 0.0
    told_waits = {row.rank: float(row.ns) for row in evidence.study.stragglers}
    if sum(told_waits.values()):
        return told_waits.get(straggler.rank, 0.0) / sum(told_waits.values())
    waits_by_rank = {rank.rank: float(rank.straggler_waits.sum()) for rank in ranks}
    total_ns = sum(waits_by_rank.values())
    return 1 - waits_by_rank[straggler.rank] / total_ns if total_ns else 0.0


def _is_by_chance(ranks: tuple[Rank, ...], straggler: Rank) -> bool:
    """Return whether its steps vary so much that it may be no slower than the next slowest.

    What marks show is known of all steps: only the rest varies with the few that windows hold.
    """
    other_ranks = [rank for rank in ranks if rank is not straggler]
    if len({len(rank.rows) for rank in ranks}) > 1 or len(straggler.rows) < 2:  # noqa: PLR2004
        return False
    surplus = straggler.own_lengths - np.max([rank.own_lengths for rank in other_ranks], axis=0)
    if _is_marked(ranks, straggler, float(surplus.mean())):
        return False
    varying = rank_marks.unmarked_lengths(straggler) - np.max(
        [rank_marks.unmarked_lengths(rank) for rank in other_ranks], axis=0
    )
    error = float(varying.std(ddof=1)) / len(surplus) ** 0.5
    return float(surplus.mean()) < error * _MIN_STANDARD_ERRORS.get(
        len(surplus), _MANY_STEPS_ERRORS
    )


def _is_marked(ranks: tuple[Rank, ...], straggler: Rank, surplus: float) -> bool:
    """Return whether marks of all steps show the surplus, or most of it."""
    other_marks = [rank_marks.marked_mean(rank) for rank in ranks if rank is not straggler]
    marked_ns = rank_marks.marked_mean(straggler) - max(other_marks)
    return straggler.played and marked_ns >= _MIN_MARKED_SHARE * surplus


def _require_room(
    evidence: Evidence,
    ranks: tuple[Rank, ...],
    straggler: Rank,
    surplus: float,
    *,
    is_known: bool,
) -> None:
    """Raise ``NotObservedError`` if what tracing adds to windows' steps may be all of a surplus.

    Without it they would be longer than steps are without windows: these show no room for it.
    """
    step_ns, longest_ns = evidence.step_ns or float("inf"), float(straggler.lengths.mean())
    reason = f"in windows rank {straggler.rank} is later than a step takes without them"
    if surplus > step_ns:
        raise NotObservedError("steps", reason)
    is_known = is_known or evidence.on_device or _is_marked(ranks, straggler, surplus)
    if not is_known and longest_ns - surplus > step_ns:
        reason = f"windows are longer than other steps by more than rank {straggler.rank} is late"
        raise NotObservedError("steps", reason)


def _starved_activities(evidence: Evidence, rank: int) -> tuple[str, ...]:
    """Return the activities that take longer where others take a rank's processors.

    If it is sampled at a line of its own, only what it computes.
    """
    has_line = rank_waits.find_surplus_line(evidence, rank) is not None
    return (_COMPUTING,) if evidence.is_trace_only or has_line else (_COMPUTING, *_ON_PROCESSORS)


def _is_shared(evidence: Evidence) -> bool:
    """Return whether others may have taken the processors that the ranks compute on."""
    if evidence.on_device:
        return False
    if evidence.is_trace_only:
        return True
    contention = evidence.contention
    return contention is not None and contention.cores > _MAX_TAKEN_CORES


def _excess_words(evidence: Evidence, activity: str, ns: float) -> str:
    """Return a phrase on the excess of a rank and, for waits for data, who causes them."""
    words = f"{windows.ms(ns)} more {activity}"
    loader = _training_loader(evidence) if activity == _DATA_WAITS else None
    if loader is None:
        return words
    origin = "its workers make" if loader.num_workers else "the training process loads itself"
    return f"{words}, which {origin}"


def _work_words(ratio: float) -> str:
    return f"; its operators have {ratio:.1f} times as much to compute as any other's"


def _training_loader(evidence: Evidence) -> Loader | None:
    """Return the loader that feeds the training, if there is but one."""
    loaders = [loader for loader in evidence.facts.loaders if loader.trains is not False]
    return loaders[0] if len(loaders) == 1 else None


def _excess_location(evidence: Evidence, rank: int, activity: str) -> Location | None:
    """Return the line at which a rank is sampled more often; for waits for data the loader's."""
    line = rank_waits.find_surplus_line(evidence, rank)
    if line is not None:
        return Location(line.file, line.line, line.function)
    loader = _training_loader(evidence) if activity == _DATA_WAITS else None
    if loader is not None and loader.location is not None:
        return loader.location
    leaves = LEAVES_BY_ACTIVITY[activity]
    names = {site.name for site in evidence.study.sites if site.name.startswith(leaves)}
    return windows.find_calling_function(evidence, *names) if names else None
