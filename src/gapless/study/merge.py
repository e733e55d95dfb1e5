"""Many ranks as one: accounts are added, and rows of tables that mean the same thing."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from gapless.accounting import total
from gapless.model.account import Account
from gapless.model.study import Leaf, Site, Straggler
from gapless.model.tables import (
    CollectiveRow,
    Copy,
    Kernel,
    Line,
    Memory,
    Operator,
    Range,
    Tables,
)
from gapless.model.work import Work

_Row = TypeVar("_Row")
_Number = TypeVar("_Number", int, float)


def merge_tables(parts: Sequence[Tables]) -> Tables:
    """Add up the tables of several ranks, each sorted again."""
    return Tables(
        operators=_merged(
            (part.operators for part in parts),
            lambda row: (row.name, row.shapes),
            _operators,
            lambda row: (-row.host_self_ns, row.name, row.shapes or ""),
        ),
        kernels=_merged(
            (part.kernels for part in parts),
            lambda row: (row.name, row.geometry),
            _kernels,
            lambda row: (-row.device_ns, row.name),
        ),
        copies=_merged(
            (part.copies for part in parts),
            lambda row: (row.direction, row.memory),
            _copies,
            lambda row: (-row.device_ns, row.direction),
        ),
        collectives=_merged(
            (part.collectives for part in parts),
            lambda row: (row.name, row.dtype, row.group_size, row.bytes),
            _collectives,
            lambda row: (-row.device_ns, row.name),
        ),
        ranges=_merged(
            (part.ranges for part in parts),
            lambda row: row.name,
            _ranges,
            lambda row: (-row.host_ns, row.name),
        ),
        memory=_merged(
            (part.memory for part in parts),
            lambda row: row.device,
            _memory,
            lambda row: (-(row.peak_allocated or 0), row.device),
        ),
        lines=_merged(
            (part.lines for part in parts),
            lambda row: (row.file, row.line, row.function),
            _lines,
            lambda row: (-row.idle_ns, -row.host_self_ns, row.file),
        ),
    )


def merge_accounts(parts: Sequence[Account]) -> Account:
    """Put the rows of several ranks into one account."""
    below: dict[str, Counter[str]] = {}
    for part in parts:
        for group, leaves in part.parts.items():
            below.setdefault(group, Counter()).update(leaves)
    return total(
        [row for part in parts for row in part.rows],
        [row for part in parts for row in part.left_out],
        {group: dict(leaves) for group, leaves in below.items()},
    )


def merge_leaves(leaves: Sequence[Leaf], pieces: int) -> Leaf | None:
    """Give the longest pieces of all ranks; the median of several ranks is left open."""
    if not leaves:
        return None
    longest = sorted((piece for leaf in leaves for piece in leaf.longest), key=lambda p: -p.ns)
    return Leaf(
        prefix=leaves[0].prefix,
        count=sum(leaf.count for leaf in leaves),
        ns=sum(leaf.ns for leaf in leaves),
        median_ns=leaves[0].median_ns if len(leaves) == 1 else None,
        longest=tuple(longest[:pieces]),
    )


def merge_stragglers(stragglers: Iterable[Straggler]) -> tuple[Straggler, ...]:
    """Add up how long each rank was waited for, the longest first."""
    ns, waits = Counter[int](), Counter[int]()
    for one in stragglers:
        ns[one.rank] += one.ns
        waits[one.rank] += one.waits
    return tuple(Straggler(rank, time, waits[rank]) for rank, time in ns.most_common())


def merge_sites(parts: Sequence[Sequence[Site]]) -> tuple[Site, ...]:
    """Add up what functions caused on several ranks, most time first."""
    return _merged(
        parts,
        lambda row: (row.name, row.file, row.line, row.function),
        lambda one, other: replace(one, ns=one.ns + other.ns, calls=one.calls + other.calls),
        lambda row: (-row.ns, row.name, row.file),
    )


def merge_work(parts: Sequence[Sequence[Work]]) -> tuple[Work, ...]:
    """Add up what operators of several ranks computed and moved, most time first."""
    return _merged(
        parts,
        lambda row: (row.operator, row.inputs, row.dtype, row.leaf, *_kind(row)),
        lambda one, other: replace(
            one,
            calls=one.calls + other.calls,
            launches=one.launches + other.launches,
            ns=one.ns + other.ns,
            host_ns=one.host_ns + other.host_ns,
            flops=_sum(one.flops, other.flops),
            bytes=_sum(one.bytes, other.bytes),
        ),
        lambda row: (-row.ns, row.operator, row.inputs or "", row.leaf),
    )


def _kind(row: Work) -> tuple[bool | None, bool, bool]:
    return row.channels_first, row.backward, row.again


def _merged(
    tables: Iterable[Sequence[_Row]],
    key: Callable[[_Row], Hashable],
    add: Callable[[_Row, _Row], _Row],
    order: Callable[[_Row], tuple[object, ...]],
) -> tuple[_Row, ...]:
    found: dict[Hashable, _Row] = {}
    for table in tables:
        for row in table:
            name = key(row)
            found[name] = add(found[name], row) if name in found else row
    return tuple(sorted(found.values(), key=order))


def _sum(one: _Number | None, other: _Number | None) -> _Number | None:
    return None if one is None or other is None else one + other


def _operators(one: Operator, other: Operator) -> Operator:
    return replace(
        one,
        calls=one.calls + other.calls,
        host_self_ns=one.host_self_ns + other.host_self_ns,
        host_total_ns=one.host_total_ns + other.host_total_ns,
        device_self_ns=_sum(one.device_self_ns, other.device_self_ns),
        device_total_ns=_sum(one.device_total_ns, other.device_total_ns),
    )


def _kernels(one: Kernel, other: Kernel) -> Kernel:
    """Add two ranks' kernels; leaf and operator are those of the one with more time."""
    longer = one if one.device_ns >= other.device_ns else other
    calls, ns = one.calls + other.calls, one.device_ns + other.device_ns
    return replace(longer, calls=calls, device_ns=ns, mean_ns=ns / calls)


def _copies(one: Copy, other: Copy) -> Copy:
    size, ns = _sum(one.bytes, other.bytes), one.device_ns + other.device_ns
    return replace(
        one,
        calls=one.calls + other.calls,
        bytes=size,
        device_ns=ns,
        bytes_per_s=None if size is None else size / ns * 1e9,
    )


def _collectives(one: CollectiveRow, other: CollectiveRow) -> CollectiveRow:
    ns = one.device_ns + other.device_ns
    rates = (one.bus_bytes_per_s, other.bus_bytes_per_s)
    bus = None
    if rates[0] is not None and rates[1] is not None:
        bus = (rates[0] * one.device_ns + rates[1] * other.device_ns) / ns
    return replace(
        one,
        calls=one.calls + other.calls,
        device_ns=ns,
        bus_bytes_per_s=bus,
        exposed_ns=one.exposed_ns + other.exposed_ns,
        hidden_ns=one.hidden_ns + other.hidden_ns,
    )


def _ranges(one: Range, other: Range) -> Range:
    return replace(
        one,
        calls=one.calls + other.calls,
        host_ns=one.host_ns + other.host_ns,
        device_ns=_sum(one.device_ns, other.device_ns),
    )


def _memory(one: Memory, other: Memory) -> Memory:
    """Take the higher of two ranks' peaks: they are different memories of the same number."""
    return replace(
        one,
        peak_allocated=_highest(one.peak_allocated, other.peak_allocated),
        peak_reserved=_highest(one.peak_reserved, other.peak_reserved),
        allocations=one.allocations + other.allocations,
        frees=one.frees + other.frees,
        allocated_bytes=one.allocated_bytes + other.allocated_bytes,
    )


def _highest(one: int | None, other: int | None) -> int | None:
    return max((value for value in (one, other) if value is not None), default=None)


def _lines(one: Line, other: Line) -> Line:
    return replace(
        one,
        calls=one.calls + other.calls,
        host_self_ns=one.host_self_ns + other.host_self_ns,
        host_total_ns=one.host_total_ns + other.host_total_ns,
        device_total_ns=_sum(one.device_total_ns, other.device_total_ns),
        idle_ns=one.idle_ns + other.idle_ns,
    )
