"""Summaries of ranks, read and put together as one study."""

from collections.abc import Sequence
from typing import Final

from gapless.accounting import join_trace, partition
from gapless.capture.merge import (
    merge_accounts,
    merge_every_leaf,
    merge_leaves,
    merge_sites,
    merge_stragglers,
    merge_work,
    sum_rank_work,
)
from gapless.capture.notes import build_health
from gapless.capture.ranks.ranks import WindowPositions, require_rank, summarise_files
from gapless.capture.ranks.summary import CaptureSummary, UnreadableFile
from gapless.capture.ranks.tasks import load_trace
from gapless.capture.summarize import summarise_capture
from gapless.capture.tables import merge_tables
from gapless.errors import NotATraceError, mask_secrets
from gapless.model.account import Account, RowAccount
from gapless.model.options import Options, Progress
from gapless.model.study import RunInfo, Steps, Study
from gapless.store import cache

N_SLOWEST: Final = 3
_MIN_SAID_ENTRIES: Final = 200_000  # fewer are read at once: their number is not shown


def read_summaries(
    files: Sequence[str],
    options: Options,
    report_progress: Progress,
    positions: WindowPositions | None = None,
) -> tuple[list[CaptureSummary], list[UnreadableFile]]:
    """Read traces; return their summaries, and what could not be read. Raises ``GaplessError``."""
    if len(files) == 1:
        return [_summarise_file(files[0], options, report_progress)], []
    return summarise_files(files, options, report_progress, positions)


def assemble_study(
    summaries: Sequence[CaptureSummary], unreadable: Sequence[UnreadableFile], options: Options
) -> Study:
    """Put the summaries of ranks together."""
    capture_facts = [summary.facts for summary in summaries]
    account = merge_accounts([summary.account for summary in summaries])
    if not account.rows and not account.left_out:
        names = ", ".join(facts.path for facts in capture_facts)
        raise NotATraceError(f"{names}: nothing in it takes time: no operator, no call, no kernel")
    worlds = [facts.world for facts in capture_facts if facts.world is not None]
    return Study(
        run=RunInfo(
            paths=tuple(mask_secrets(facts.path) for facts in capture_facts),
            ranks=tuple(sorted({facts.rank for facts in capture_facts if facts.rank is not None})),
            world=max(worlds, default=None),
            device=next((facts.device for facts in capture_facts if facts.device), None),
            versions=capture_facts[0].versions,
            capability=next(
                (facts.capability for facts in capture_facts if facts.capability), None
            ),
        ),
        health=build_health(capture_facts, unreadable, account),
        steps=step_times(account, capture_facts[0].step_rule),
        account=account,
        tables=merge_tables([summary.tables for summary in summaries]),
        leaf=merge_leaves([summary.leaf for summary in summaries if summary.leaf], options.pieces),
        stragglers=merge_stragglers(
            straggler for summary in summaries for straggler in summary.stragglers
        ),
        backlog_ns=_lower_median(
            [summary.backlog_ns for summary in summaries if summary.backlog_ns is not None]
        ),
        sites=merge_sites([summary.sites for summary in summaries]),
        work=merge_work([summary.work for summary in summaries]),
        rank_work=sum_rank_work(summaries),
        picture=next((summary.picture for summary in summaries if summary.picture), None),
        leaves=merge_every_leaf([summary.leaves for summary in summaries]),
    )


def _lower_median(values: Sequence[int]) -> int | None:
    return sorted(values)[(len(values) - 1) // 2] if values else None


def _summarise_file(path: str, options: Options, report_progress: Progress) -> CaptureSummary:
    report_progress("reading")

    def report_entries(count: int) -> None:
        if count > _MIN_SAID_ENTRIES:
            report_progress(f"reading: {count / 1e6:.1f} million events")

    key = cache.content_key(path) if options.cache else None
    trace = load_trace(path, key, report_entries=report_entries, step=options.step)
    require_rank(options, [trace.rank])
    report_progress("accounting")
    joined = join_trace(trace)
    return summarise_capture(joined, partition(trace, joined_trace=joined), options)


def step_times(account: Account, rule: str) -> Steps | None:
    """Return median, spread and slowest rows; ``None`` where the capture has no steps."""
    if account.steps is None or not account.rows:
        return None
    rows = sorted(account.rows, key=lambda row: row.row.end - row.row.start)
    counted_steps = {row.row.step for row in rows}
    lengths = [row.row.end - row.row.start for row in rows]
    return Steps(
        count=len(counted_steps),
        left_out=len({row.row.step for row in account.left_out} - counted_steps),
        median_ns=quantile(lengths, 0.5),
        p10_ns=quantile(lengths, 0.1),
        p90_ns=quantile(lengths, 0.9),
        rule=rule,
        slowest=_slowest_rows(rows),
        typical=rows[(len(rows) - 1) // 2],
    )


def _slowest_rows(rows: Sequence[RowAccount]) -> tuple[RowAccount, ...]:
    """Return the longest row of each of the slowest steps: a step is slow on all ranks at once."""
    longest = {row.row.step: row for row in rows}  # ascending: the last one wins
    order = sorted(longest.values(), key=lambda row: row.row.start - row.row.end)
    return tuple(order[:N_SLOWEST])


def quantile(ordered: list[int], share: float) -> int:
    """Interpolate linearly between the two nearest values, as NumPy does by default."""
    position = share * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + round((ordered[high] - ordered[low]) * (position - low))
