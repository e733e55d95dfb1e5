"""Many ranks as one: accounts are added, and rows of tables that mean the same thing."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from msgspec.structs import replace

from gapless.accounting import sum_row_accounts
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


def merge_tables(rank_tables: Sequence[Tables]) -> Tables:
    """Add up the tables of several ranks, each sorted again."""
    return Tables(
        operators=_merge_rows(
            (tables.operators for tables in rank_tables),
            lambda row: (row.name, row.shapes),
            _add_operators,
            lambda row: (-row.host_self_ns, row.name, row.shapes or ""),
        ),
        kernels=_merge_rows(
            (tables.kernels for tables in rank_tables),
            lambda row: (row.name, row.geometry),
            _add_kernels,
            lambda row: (-row.device_ns, row.name),
        ),
        copies=_merge_rows(
            (tables.copies for tables in rank_tables),
            lambda row: (row.direction, row.memory),
            _add_copies,
            lambda row: (-row.device_ns, row.direction),
        ),
        collectives=_merge_rows(
            (tables.collectives for tables in rank_tables),
            lambda row: (row.name, row.dtype, row.group_size, row.bytes),
            _add_collectives,
            lambda row: (-row.device_ns, row.name),
        ),
        ranges=_merge_rows(
            (tables.ranges for tables in rank_tables),
            lambda row: row.name,
            _add_ranges,
            lambda row: (-row.host_ns, row.name),
        ),
        memory=_merge_rows(
            (tables.memory for tables in rank_tables),
            lambda row: row.device,
            _join_memory,
            lambda row: (-(row.peak_allocated or 0), row.device),
        ),
        lines=_merge_rows(
            (tables.lines for tables in rank_tables),
            lambda row: (row.file, row.line, row.function),
            _add_lines,
            lambda row: (-row.idle_ns, -row.host_self_ns, row.file),
        ),
    )


def merge_accounts(accounts: Sequence[Account]) -> Account:
    """Put the rows of several ranks into one account."""
    leaves_by_group: dict[str, Counter[str]] = {}
    for account in accounts:
        for group, leaves in account.parts.items():
            leaves_by_group.setdefault(group, Counter()).update(leaves)
    return sum_row_accounts(
        [row for account in accounts for row in account.rows],
        [row for account in accounts for row in account.left_out],
        {group: dict(leaves) for group, leaves in leaves_by_group.items()},
    )


def merge_leaves(leaves: Sequence[Leaf], pieces: int) -> Leaf | None:
    """Return the longest pieces of all ranks; the median of several ranks is left open."""
    if not leaves:
        return None
    longest = sorted(
        (piece for leaf in leaves for piece in leaf.longest), key=lambda piece: -piece.ns
    )
    return Leaf(
        prefix=leaves[0].prefix,
        count=sum(leaf.count for leaf in leaves),
        ns=sum(leaf.ns for leaf in leaves),
        median_ns=leaves[0].median_ns if len(leaves) == 1 else None,
        longest=tuple(longest[:pieces]),
    )


def merge_every_leaf(rank_leaves: Sequence[Sequence[Leaf]]) -> tuple[Leaf, ...]:
    """Merge the leaves of several ranks, each with its namesakes; most time first."""
    by_name: dict[str, list[Leaf]] = {}
    for leaf in (leaf for leaves in rank_leaves for leaf in leaves):
        by_name.setdefault(leaf.prefix, []).append(leaf)
    merged = (
        merge_leaves(leaves, max(len(leaf.longest) for leaf in leaves))
        for leaves in by_name.values()
    )
    return tuple(sorted(filter(None, merged), key=lambda leaf: -leaf.ns))


def merge_stragglers(stragglers: Iterable[Straggler]) -> tuple[Straggler, ...]:
    """Add up how long each rank was waited for, the longest first."""
    ns, waits = Counter[int](), Counter[int]()
    for straggler in stragglers:
        ns[straggler.rank] += straggler.ns
        waits[straggler.rank] += straggler.waits
    return tuple(Straggler(rank, time, waits[rank]) for rank, time in ns.most_common())


def merge_sites(rank_sites: Sequence[Sequence[Site]]) -> tuple[Site, ...]:
    """Add up what functions caused on several ranks, most time first."""
    return _merge_rows(
        rank_sites,
        lambda row: (row.name, row.file, row.line, row.function),
        lambda site, addend: replace(site, ns=site.ns + addend.ns, calls=site.calls + addend.calls),
        lambda row: (-row.ns, row.name, row.file),
    )


def merge_work(rank_work: Sequence[Sequence[Work]]) -> tuple[Work, ...]:
    """Add up what operators of several ranks computed and moved, most time first."""
    return _merge_rows(
        rank_work,
        lambda row: (row.operator, row.inputs, row.dtype, row.leaf, *_direction_key(row)),
        lambda work, addend: replace(
            work,
            calls=work.calls + addend.calls,
            launches=work.launches + addend.launches,
            ns=work.ns + addend.ns,
            host_ns=work.host_ns + addend.host_ns,
            flops=_add_known(work.flops, addend.flops),
            bytes=_add_known(work.bytes, addend.bytes),
        ),
        lambda row: (-row.ns, row.operator, row.inputs or "", row.leaf),
    )


def _direction_key(row: Work) -> tuple[bool | None, bool, bool]:
    return row.channels_first, row.backward, row.again


def _merge_rows(
    tables: Iterable[Sequence[_Row]],
    key: Callable[[_Row], Hashable],
    add: Callable[[_Row, _Row], _Row],
    order: Callable[[_Row], tuple[object, ...]],
) -> tuple[_Row, ...]:
    merged_rows: dict[Hashable, _Row] = {}
    for table in tables:
        for row in table:
            row_key = key(row)
            merged_rows[row_key] = add(merged_rows[row_key], row) if row_key in merged_rows else row
    return tuple(sorted(merged_rows.values(), key=order))


def _add_known(a: _Number | None, b: _Number | None) -> _Number | None:
    return None if a is None or b is None else a + b


def _add_operators(operator: Operator, addend: Operator) -> Operator:
    return replace(
        operator,
        calls=operator.calls + addend.calls,
        host_self_ns=operator.host_self_ns + addend.host_self_ns,
        host_total_ns=operator.host_total_ns + addend.host_total_ns,
        device_self_ns=_add_known(operator.device_self_ns, addend.device_self_ns),
        device_total_ns=_add_known(operator.device_total_ns, addend.device_total_ns),
    )


def _add_kernels(kernel: Kernel, addend: Kernel) -> Kernel:
    """Add two ranks' kernels; leaf and operator are those of the one with more time."""
    longer = kernel if kernel.device_ns >= addend.device_ns else addend
    calls, ns = kernel.calls + addend.calls, kernel.device_ns + addend.device_ns
    return replace(longer, calls=calls, device_ns=ns, mean_ns=ns / calls)


def _add_copies(copy: Copy, addend: Copy) -> Copy:
    size, ns = _add_known(copy.bytes, addend.bytes), copy.device_ns + addend.device_ns
    return replace(
        copy,
        calls=copy.calls + addend.calls,
        bytes=size,
        device_ns=ns,
        bytes_per_s=None if size is None else size / ns * 1e9,
    )


def _add_collectives(collective: CollectiveRow, addend: CollectiveRow) -> CollectiveRow:
    ns = collective.device_ns + addend.device_ns
    rates = (collective.bus_bytes_per_s, addend.bus_bytes_per_s)
    bus_rate = None
    if rates[0] is not None and rates[1] is not None:
        bus_rate = (rates[0] * collective.device_ns + rates[1] * addend.device_ns) / ns
    return replace(
        collective,
        calls=collective.calls + addend.calls,
        device_ns=ns,
        bus_bytes_per_s=bus_rate,
        exposed_ns=collective.exposed_ns + addend.exposed_ns,
        hidden_ns=collective.hidden_ns + addend.hidden_ns,
    )


def _add_ranges(span: Range, addend: Range) -> Range:
    return replace(
        span,
        calls=span.calls + addend.calls,
        host_ns=span.host_ns + addend.host_ns,
        device_ns=_add_known(span.device_ns, addend.device_ns),
    )


def _join_memory(memory: Memory, other_memory: Memory) -> Memory:
    """Take the higher of two ranks' peaks: they are different memories of the same number."""
    return replace(
        memory,
        peak_allocated=_max_known(memory.peak_allocated, other_memory.peak_allocated),
        peak_reserved=_max_known(memory.peak_reserved, other_memory.peak_reserved),
        allocations=memory.allocations + other_memory.allocations,
        frees=memory.frees + other_memory.frees,
        allocated_bytes=memory.allocated_bytes + other_memory.allocated_bytes,
    )


def _max_known(a: int | None, b: int | None) -> int | None:
    return max((value for value in (a, b) if value is not None), default=None)


def _add_lines(line: Line, addend: Line) -> Line:
    return replace(
        line,
        calls=line.calls + addend.calls,
        host_self_ns=line.host_self_ns + addend.host_self_ns,
        host_total_ns=line.host_total_ns + addend.host_total_ns,
        device_total_ns=_add_known(line.device_total_ns, addend.device_total_ns),
        idle_ns=line.idle_ns + addend.idle_ns,
    )
