"""The health lines: what is missing and what is therefore not said, and what to be careful with."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from gapless.model.account import Account
from gapless.model.study import StudyHealth
from gapless.model.trace import Count
from gapless.study.part import SYNCS_TO_NOTE, Evidence, Missing

_ACROSS: Final = "collectives "  # notes that say nothing of one rank alone
_NOTABLE: Final = 0.02  # of the wall time: smaller shares of what is unsure are only in the account


def health(parts: Sequence[Evidence], missing: Sequence[Missing], account: Account) -> StudyHealth:
    """Join the evidence of all ranks and say in sentences what it means."""
    dropped = _added(one for part in parts for one in part.dropped)
    repaired = _added(one for part in parts for one in part.repaired)
    partition = _added(one for part in parts for one in part.partition_notes)
    sentences = (
        *_ranks(parts, missing),
        *_damage(parts, dropped, repaired),
        *_absent(parts, account),
        *_unsure(parts, account),
        *_from_rooms(parts, partition),
    )
    return StudyHealth(
        source=", ".join(sorted({part.source for part in parts})),
        events=sum(part.events for part in parts),
        dropped=sum(one.count for one in dropped),
        repaired=sum(one.count for one in repaired),
        truncated=any(part.truncated for part in parts),
        resolution_ns=max(part.resolution_ns for part in parts),
        launches_recorded=_launched(parts),
        clock_error_ns=max(part.clock_error_ns for part in parts),
        details=(
            *(Count(f"dropped: {one.what}", one.count) for one in dropped),
            *(Count(f"repaired: {one.what}", one.count) for one in repaired),
            *partition,
        ),
        notes=sentences,
    )


def _added(counts: Iterable[Count]) -> tuple[Count, ...]:
    found = Counter[str]()
    for one in counts:
        found[one.what] += one.count
    return tuple(Count(what, count) for what, count in found.most_common())


def _launched(parts: Sequence[Evidence]) -> float | None:
    known = [part for part in parts if part.launched is not None]
    activities = sum(part.activities for part in known)
    return sum(part.launched or 0 for part in known) / activities if activities else None


def _ranks(parts: Sequence[Evidence], missing: Sequence[Missing]) -> Iterator[str]:
    for one in missing:
        yield f"left out: {one.path}: {one.reason}"
    have = {part.rank for part in parts if part.rank is not None}
    twice = [rank for rank, files in Counter(part.rank for part in parts).items() if files > 1]
    if twice and have:
        which = ", ".join("none" if rank is None else str(rank) for rank in twice)
        yield f"several files of rank {which}: all are counted, as captures of one job"
    world = max((part.world for part in parts if part.world is not None), default=None)
    if world is not None and len(have) < world:
        lacking = world - len(have)
        yield (
            f"{lacking} of {world} ranks are not here: who came last to a collective can be said "
            "only of those that are"
            if len(have) > 1
            else f"one rank of {world}: waiting in collectives is estimated, and who came last is "
            "not said; give the files of all ranks"
        )


def _damage(
    parts: Sequence[Evidence], dropped: Sequence[Count], repaired: Sequence[Count]
) -> Iterator[str]:
    events = sum(part.events for part in parts)
    for word, counts in (("dropped", dropped), ("repaired", repaired)):
        if counts:
            many = sum(one.count for one in counts)
            what = ", ".join(f"{one.what} ({one.count:,})" for one in counts[:3])
            rest = f" and {len(counts) - 3} more" if len(counts) > 3 else ""  # noqa: PLR2004
            yield f"{many:,} of {events:,} events {word}: {what}{rest}"
    cut = sum(part.truncated for part in parts)
    if cut:
        whose = "the file ends" if len(parts) == 1 else f"{cut} of {len(parts)} files end"
        yield f"{whose} in the middle: what came after the last whole event is not known"


def _absent(parts: Sequence[Evidence], account: Account) -> Iterator[str]:
    devices = any(part.activities for part in parts)
    host = any(part.host_events for part in parts)
    if not devices:
        yield "no device activity: the account is that of the training thread"
    if not host:
        yield "no host events: idle time has no cause here, and there are no operators"
    if account.steps is None:
        yield "no steps (no ProfilerStep#, no optimizer, no repeating range): no figures per step"
    if devices and host:
        yield from _launches(parts)
    lacks = [
        name
        for name, have in (
            ("input shapes", any(part.has_shapes for part in parts)),
            ("Python stacks", any(part.has_stacks for part in parts)),
        )
        if not have
    ]
    if host and lacks:
        yield _recorded_without(lacks)


def _launches(parts: Sequence[Evidence]) -> Iterator[str]:
    share = _launched(parts) or 0.0
    if share == 0.0:
        yield "no launch is recorded: why the device was idle cannot be said (unrecorded)"
    elif share < 1 - _NOTABLE:
        yield f"{_percent(1 - share)} of the activities have no launch record: idle before: unknown"
    if any(part.streams > 1 for part in parts) and not any(p.has_sync_records for p in parts):
        yield "several streams, but waits between them are not recorded (enable_cuda_sync_events)"


def _percent(share: float) -> str:
    """Print a share with one decimal."""
    return f"{share * 100:.1f} %"


def _recorded_without(lacks: Sequence[str]) -> str:
    unsaid = {
        "input shapes": "why tensor cores stay unused (record_shapes=True)",
        "Python stacks": "lines of source (with_stack=True)",
    }
    return f"no {' and no '.join(lacks)}: not said are {' and '.join(unsaid[one] for one in lacks)}"


def _unsure(parts: Sequence[Evidence], account: Account) -> Iterator[str]:
    if any(part.resolution_ns >= 1000 for part in parts):  # noqa: PLR2004
        yield "timestamps are whole microseconds: every length is ± 1 µs, gaps below that are noise"
    wall = account.wall_ns or 1
    other = account.leaves.get("busy.other", 0) / wall
    if other >= _NOTABLE:
        yield f"{_percent(other)} of the time is of kernels of an unknown kind (busy.other)"
    wait = account.leaves.get("idle.device.wait", 0) / wall
    if wait >= _NOTABLE:
        yield f"{_percent(wait)} of the time the device waited for launched work (idle.device.wait)"
    syncs = sum(part.syncs for part in parts)
    if account.steps and syncs > SYNCS_TO_NOTE * account.steps:
        yield (
            f"{syncs / account.steps:.0f} synchronisations a step: above {SYNCS_TO_NOTE}, what "
            "they cost beyond their own time is underestimated"
        )
    if account.groups.get("host", 0) / wall >= _NOTABLE:
        yield "the profiler slows the host: waiting for it is an upper bound"
    if account.leaves.get("idle.data.unstaged", 0):
        yield "while the profiler starts, loaders run ahead: waiting for data is a lower bound"
    if account.steps is not None and not account.left_out:
        yield f"all {account.steps} steps are counted, the first one too, which is often slower"


def _from_rooms(parts: Sequence[Evidence], partition: Sequence[Count]) -> Iterator[str]:
    for note, count in Counter(note for part in parts for note in part.reader_notes).items():
        yield note if count == len(parts) else f"{note} ({count} of {len(parts)} files)"
    for one in partition:
        if len(parts) > 1 or not one.what.startswith(_ACROSS):
            yield f"{one.what} ({one.count:,})"
