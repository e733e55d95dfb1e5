"""The health lines: what is missing and what is therefore not said, and what to be careful with."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from gapless.capture.ranks.summary import SYNCS_TO_NOTE, CaptureFacts, UnreadableFile
from gapless.model.account import Account
from gapless.model.study import StudyHealth
from gapless.model.trace import Count

_COLLECTIVES_PREFIX: Final = "collectives "  # notes that concern no single rank
_FOREIGN: Final = {  # by source: profilers whose formats have neither shapes nor stacks
    "nsight": "Nsight Systems",
    "xla": "XLA",
    "perfetto": "Perfetto",
    "rocprof": "rocprof",
}
_FOREIGN_WORDS: Final = {
    "input shapes": "why tensor cores stay unused",
    "Python stacks": "lines of source",
}
_NOTABLE: Final = 0.02  # of the wall time: smaller shares of what is unsure are only in the account


def build_health(
    captures: Sequence[CaptureFacts], unreadable: Sequence[UnreadableFile], account: Account
) -> StudyHealth:
    """Join the evidence of all ranks and return sentences that say what it means."""
    dropped = _add_counts(count for capture in captures for count in capture.dropped)
    repaired = _add_counts(count for capture in captures for count in capture.repaired)
    partition_notes = _add_counts(
        count for capture in captures for count in capture.partition_notes
    )
    sentences = (
        *_rank_notes(captures, unreadable),
        *_damage_notes(captures, dropped, repaired),
        *_absence_notes(captures, account),
        *_uncertainty_notes(captures, account),
        *_reader_notes(captures, partition_notes),
    )
    return StudyHealth(
        source=", ".join(sorted({capture.source for capture in captures})),
        events=sum(capture.events for capture in captures),
        dropped=sum(count.count for count in dropped),
        repaired=sum(count.count for count in repaired),
        truncated=any(capture.truncated for capture in captures),
        resolution_ns=max(capture.resolution_ns for capture in captures),
        launches_recorded=_launched_share(captures),
        clock_error_ns=max(capture.clock_error_ns for capture in captures),
        details=(
            *(Count(f"dropped: {count.what}", count.count) for count in dropped),
            *(Count(f"repaired: {count.what}", count.count) for count in repaired),
            *partition_notes,
        ),
        notes=sentences,
    )


def _add_counts(counts: Iterable[Count]) -> tuple[Count, ...]:
    totals = Counter[str]()
    for count in counts:
        totals[count.what] += count.count
    return tuple(Count(kind, count) for kind, count in totals.most_common())


def _launched_share(captures: Sequence[CaptureFacts]) -> float | None:
    with_activities = [capture for capture in captures if capture.launched is not None]
    activities = sum(capture.activities for capture in with_activities)
    return (
        sum(capture.launched or 0 for capture in with_activities) / activities
        if activities
        else None
    )


def _rank_notes(
    captures: Sequence[CaptureFacts], unreadable: Sequence[UnreadableFile]
) -> Iterator[str]:
    for file in unreadable:
        yield f"left out: {file.path}: {file.reason}"
    ranks = {capture.rank for capture in captures if capture.rank is not None}
    repeated = [
        rank for rank, files in Counter(capture.rank for capture in captures).items() if files > 1
    ]
    if repeated and ranks:
        rank_list = ", ".join("none" if rank is None else str(rank) for rank in repeated)
        yield f"several files of rank {rank_list}: all are counted, as captures of one job"
    world = max((capture.world for capture in captures if capture.world is not None), default=None)
    if world is not None and len(ranks) < world:
        n_missing = world - len(ranks)
        yield (
            f"{n_missing} of {world} ranks are not here: who came last to a collective can be said "
            "only of those that are"
            if len(ranks) > 1
            else f"one rank of {world}: waiting in collectives is estimated, and who came last is "
            "not said; give the files of all ranks"
        )


def _damage_notes(
    captures: Sequence[CaptureFacts], dropped: Sequence[Count], repaired: Sequence[Count]
) -> Iterator[str]:
    events = sum(capture.events for capture in captures)
    for word, counts in (("dropped", dropped), ("repaired", repaired)):
        if counts:
            n_events = sum(count.count for count in counts)
            kinds = ", ".join(f"{count.what} ({count.count:,})" for count in counts[:3])
            remainder = f" and {len(counts) - 3} more" if len(counts) > 3 else ""  # noqa: PLR2004
            yield f"{n_events:,} of {events:,} events {word}: {kinds}{remainder}"
    n_cut = sum(capture.truncated for capture in captures)
    if n_cut:
        subject = "the file ends" if len(captures) == 1 else f"{n_cut} of {len(captures)} files end"
        yield f"{subject} in the middle: what came after the last whole event is not known"


def _absence_notes(captures: Sequence[CaptureFacts], account: Account) -> Iterator[str]:
    has_devices = any(capture.activities for capture in captures)
    has_host = any(capture.host_events for capture in captures)
    if not has_devices:
        yield "no device activity: the account is that of the training thread"
    if not has_host:
        yield "no host events: idle time has no cause here, and there are no operators"
    if account.steps is None:
        yield (
            "no steps (no ProfilerStep#, no optimizer, no repeating range): no figures per step; "
            "--step RANGE names the ranges that are steps"
        )
    if has_devices and has_host:
        yield from _launch_notes(captures)
    lacking = [
        name
        for name, is_present in (
            ("input shapes", any(capture.has_shapes for capture in captures)),
            ("Python stacks", any(capture.has_stacks for capture in captures)),
        )
        if not is_present
    ]
    if all(capture.source == "xla" for capture in captures):
        yield "causes and fixes are those of PyTorch: none is looked for in a profile of XLA"
    if has_host and lacking:
        yield _describe_lacking(lacking, captures)


def _launch_notes(captures: Sequence[CaptureFacts]) -> Iterator[str]:
    share = _launched_share(captures) or 0.0
    if share == 0.0:
        yield "no launch is recorded: why the device was idle cannot be said (unrecorded)"
    elif share < 1 - _NOTABLE:
        yield (
            f"{_format_percent(1 - share)} of the activities have no launch record: idle before: "
            "unknown"
        )
    if any(capture.streams > 1 for capture in captures) and not any(
        capture.has_sync_records for capture in captures
    ):
        hint = (
            ""
            if all(capture.source in _FOREIGN for capture in captures)
            else " (enable_cuda_sync_events)"
        )
        yield f"several streams, but waits between them are not recorded{hint}"


def _format_percent(share: float) -> str:
    """Format a share as per cent with one decimal."""
    return f"{share * 100:.1f} %"


def _describe_lacking(lacking: Sequence[str], captures: Sequence[CaptureFacts]) -> str:
    foreign = sorted(
        {_FOREIGN[capture.source] for capture in captures if capture.source in _FOREIGN}
    )
    if foreign:
        words = " and ".join(_FOREIGN_WORDS[name] for name in lacking)
        writers = " and ".join(foreign)
        return f"no {' and no '.join(lacking)} in what {writers} wrote: not said are {words}"
    unsaid = {
        "input shapes": "why tensor cores stay unused (record_shapes=True)",
        "Python stacks": "lines of source (with_stack=True)",
    }
    consequences = " and ".join(unsaid[name] for name in lacking)
    return f"no {' and no '.join(lacking)}: not said are {consequences}"


def _uncertainty_notes(captures: Sequence[CaptureFacts], account: Account) -> Iterator[str]:
    if any(capture.resolution_ns >= 1000 for capture in captures):  # noqa: PLR2004
        yield "timestamps are whole microseconds: every length is ± 1 µs, gaps below that are noise"
    wall_ns = account.wall_ns or 1
    unknown_share = account.leaves.get("busy.other", 0) / wall_ns
    if unknown_share >= _NOTABLE:
        yield (
            f"{_format_percent(unknown_share)} of the time is of kernels of an unknown kind "
            "(busy.other)"
        )
    wait_share = account.leaves.get("idle.device.wait", 0) / wall_ns
    if wait_share >= _NOTABLE:
        yield (
            f"{_format_percent(wait_share)} of the time the device waited for launched work "
            "(idle.device.wait)"
        )
    syncs = sum(capture.syncs for capture in captures)
    if account.steps and syncs > SYNCS_TO_NOTE * account.steps:
        yield (
            f"{syncs / account.steps:.0f} synchronisations a step: above {SYNCS_TO_NOTE}, what "
            "they cost beyond their own time is underestimated"
        )
    if account.groups.get("host", 0) / wall_ns >= _NOTABLE:
        yield "the profiler slows the host: waiting for it is an upper bound"
    if account.leaves.get("idle.data.unstaged", 0):
        yield "while the profiler starts, loaders run ahead: waiting for data is a lower bound"
    if account.steps is not None and not account.left_out:
        yield f"all {account.steps} steps are counted, the first one too, which is often slower"


def _reader_notes(
    captures: Sequence[CaptureFacts], partition_notes: Sequence[Count]
) -> Iterator[str]:
    for note, count in Counter(
        note for capture in captures for note in capture.reader_notes
    ).items():
        yield note if count == len(captures) else f"{note} ({count} of {len(captures)} files)"
    for partition_note in partition_notes:
        if len(captures) > 1 or not partition_note.what.startswith(_COLLECTIVES_PREFIX):
            yield f"{partition_note.what} ({partition_note.count:,})"
