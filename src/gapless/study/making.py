"""A study made anew: what opening does where the cache has none."""

from collections.abc import Sequence
from pathlib import Path

from gapless.accounting import join_trace, partition
from gapless.catalogue.traced import infer_facts
from gapless.errors import NotATraceError
from gapless.model.seen import Evidence
from gapless.model.study import RunInfo, Study
from gapless.store import cache
from gapless.study.capture import summarise_capture
from gapless.study.concluding import conclude, prices_of
from gapless.study.merge import (
    merge_accounts,
    merge_leaves,
    merge_sites,
    merge_stragglers,
    merge_tables,
    merge_work,
)
from gapless.study.notes import build_health
from gapless.study.options import Options, Progress
from gapless.study.part import UnreadableFile, CaptureSummary
from gapless.study.playing import build_simulator
from gapless.study.ranks import WindowPositions, summarise_files, require_rank
from gapless.study.rereading import captures
from gapless.study.steps import step_times
from gapless.study.tasks import load_trace


def make_study(files: Sequence[Path], options: Options, report_progress: Progress) -> Study:
    """Read traces and give the study of them: one rank or many. Raises ``GaplessError``."""
    summaries, unreadable = read_summaries(files, options, report_progress)
    study = assemble_study(summaries, unreadable, options)
    if not options.concludes:
        return study
    report_progress("looking for causes")
    evidence = Evidence(study, infer_facts(study))
    return conclude(prices_of(evidence, build_simulator(captures(summaries), evidence, cached=options.cache)))


def read_summaries(
    files: Sequence[Path], options: Options, report_progress: Progress, positions: WindowPositions | None = None
) -> tuple[list[CaptureSummary], list[UnreadableFile]]:
    """Read traces; give their summaries, and what cannot be read. Raises ``GaplessError``."""
    paths = list(map(str, files))
    if len(paths) == 1:
        return [_summarise_file(paths[0], options, report_progress)], []
    return summarise_files(paths, options, report_progress, positions)


def assemble_study(summaries: Sequence[CaptureSummary], unreadable: Sequence[UnreadableFile], options: Options) -> Study:
    """Put the summaries of ranks together."""
    capture_facts = [summary.facts for summary in summaries]
    account = merge_accounts([summary.account for summary in summaries])
    if not account.rows and not account.left_out:
        names = ", ".join(facts.path for facts in capture_facts)
        raise NotATraceError(f"{names}: nothing in it takes time: no operator, no call, no kernel")
    worlds = [facts.world for facts in capture_facts if facts.world is not None]
    return Study(
        run=RunInfo(
            paths=tuple(facts.path for facts in capture_facts),
            ranks=tuple(sorted({facts.rank for facts in capture_facts if facts.rank is not None})),
            world=max(worlds, default=None),
            device=next((facts.device for facts in capture_facts if facts.device), None),
            versions=capture_facts[0].versions,
            capability=next((facts.capability for facts in capture_facts if facts.capability), None),
        ),
        health=build_health(capture_facts, unreadable, account),
        steps=step_times(account, capture_facts[0].step_rule),
        account=account,
        tables=merge_tables([summary.tables for summary in summaries]),
        leaf=merge_leaves([summary.leaf for summary in summaries if summary.leaf], options.pieces),
        stragglers=merge_stragglers(straggler for summary in summaries for straggler in summary.stragglers),
        backlog_ns=_lower_median([summary.backlog_ns for summary in summaries if summary.backlog_ns is not None]),
        sites=merge_sites([summary.sites for summary in summaries]),
        work=merge_work([summary.work for summary in summaries]),
    )


def _lower_median(values: Sequence[int]) -> int | None:
    return sorted(values)[(len(values) - 1) // 2] if values else None


def _summarise_file(path: str, options: Options, report_progress: Progress) -> CaptureSummary:
    report_progress("reading")
    trace = load_trace(path, cache.content_key(path) if options.cache else None)
    require_rank(options, [trace.rank])
    report_progress("accounting")
    joined = join_trace(trace)
    return summarise_capture(joined, partition(trace, joined_trace=joined), options)
