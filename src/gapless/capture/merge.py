"""Many ranks as one: accounts are added, and what means the same thing on several."""

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from gapless.accounting import sum_row_accounts
from gapless.capture.ranks.summary import CaptureSummary
from gapless.capture.tables.kind import add_known, merge_rows
from gapless.model.account import Account
from gapless.model.study import Leaf, Site, Straggler
from gapless.model.work import RankWork, Work


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
    return merge_rows(
        rank_sites,
        lambda row: (row.name, row.file, row.line, row.function),
        lambda site, addend: replace(site, ns=site.ns + addend.ns, calls=site.calls + addend.calls),
        lambda row: (-row.ns, row.name, row.file),
    )


def merge_work(rank_work: Sequence[Sequence[Work]]) -> tuple[Work, ...]:
    """Add up what operators of several ranks computed and moved, most time first."""
    return merge_rows(
        rank_work,
        lambda row: (row.operator, row.inputs, row.dtype, row.leaf, *_direction_key(row)),
        lambda work, addend: replace(
            work,
            calls=work.calls + addend.calls,
            launches=work.launches + addend.launches,
            ns=work.ns + addend.ns,
            host_ns=work.host_ns + addend.host_ns,
            flops=add_known(work.flops, addend.flops),
            bytes=add_known(work.bytes, addend.bytes),
        ),
        lambda row: (-row.ns, row.operator, row.inputs or "", row.leaf),
    )


def sum_rank_work(summaries: Sequence[CaptureSummary]) -> tuple[RankWork, ...]:
    """Return what each rank computed in a step of its windows; nothing where it is but one."""
    windows_by_rank: dict[int, list[CaptureSummary]] = {}
    for summary in summaries:
        if summary.facts.rank is not None and summary.account.steps:
            windows_by_rank.setdefault(summary.facts.rank, []).append(summary)
    if len(windows_by_rank) < 2:  # noqa: PLR2004 - no other rank
        return ()
    return tuple(
        RankWork(rank, sum(flops) / len(flops), is_steady and max(flops) <= min(flops) + 1)
        for rank, windows in sorted(windows_by_rank.items())
        for flops, is_steady in [_flops_by_window(windows)]
    )


def _flops_by_window(windows: Sequence[CaptureSummary]) -> tuple[list[float], bool]:
    """Return what a step of each window computes, and whether its calls fit steps all alike.

    One step shows no other, and calls without inputs show none.
    """
    row_lists = [[row for row in window.work if row.flops is not None] for window in windows]
    counts = [window.account.steps or 1 for window in windows]
    flops = [
        sum(row.flops or 0.0 for row in rows) / count
        for rows, count in zip(row_lists, counts, strict=True)
    ]
    is_steady = (
        sum(counts) > 1
        and all(row_lists)
        and all(
            row.calls % count == 0
            for rows, count in zip(row_lists, counts, strict=True)
            for row in rows
        )
    )
    return flops, is_steady


def _direction_key(row: Work) -> tuple[bool | None, bool, bool]:
    return row.channels_first, row.backward, row.again
