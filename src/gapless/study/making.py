"""A study made anew: what opening does where the cache has none."""

from collections.abc import Sequence
from pathlib import Path

from gapless.accounting import join, partition
from gapless.catalogue.traced import traced
from gapless.errors import NotATraceError
from gapless.model.seen import Seen
from gapless.model.study import RunInfo, Study
from gapless.store import cache
from gapless.study.capture import summarise
from gapless.study.concluding import conclude, prices_of
from gapless.study.merge import (
    merge_accounts,
    merge_leaves,
    merge_sites,
    merge_stragglers,
    merge_tables,
    merge_work,
)
from gapless.study.notes import health
from gapless.study.options import Options, Say
from gapless.study.part import Missing, Part
from gapless.study.playing import player_of
from gapless.study.ranks import Places, many, require_rank
from gapless.study.rereading import captures
from gapless.study.steps import step_times
from gapless.study.tasks import capture_of


def make_study(files: Sequence[Path], options: Options, tell: Say) -> Study:
    """Read traces and give the study of them: one rank or many. Raises ``GaplessError``."""
    parts, missing = read_parts(files, options, tell)
    study = assemble(parts, missing, options)
    if not options.concludes:
        return study
    tell("looking for causes")
    seen = Seen(study, traced(study))
    return conclude(prices_of(seen, player_of(captures(parts), seen, cached=options.cache)))


def read_parts(
    files: Sequence[Path], options: Options, tell: Say, places: Places | None = None
) -> tuple[list[Part], list[Missing]]:
    """Read traces; give their summaries, and what cannot be read. Raises ``GaplessError``."""
    paths = list(map(str, files))
    if len(paths) == 1:
        return [_alone(paths[0], options, tell)], []
    return many(paths, options, tell, places)


def assemble(parts: Sequence[Part], missing: Sequence[Missing], options: Options) -> Study:
    """Put the summaries of ranks together."""
    evidence = [part.evidence for part in parts]
    account = merge_accounts([part.account for part in parts])
    if not account.rows and not account.left_out:
        names = ", ".join(one.path for one in evidence)
        raise NotATraceError(f"{names}: nothing in it takes time: no operator, no call, no kernel")
    worlds = [one.world for one in evidence if one.world is not None]
    return Study(
        run=RunInfo(
            paths=tuple(one.path for one in evidence),
            ranks=tuple(sorted({one.rank for one in evidence if one.rank is not None})),
            world=max(worlds, default=None),
            device=next((one.device for one in evidence if one.device), None),
            versions=evidence[0].versions,
            capability=next((one.capability for one in evidence if one.capability), None),
        ),
        health=health(evidence, missing, account),
        steps=step_times(account, evidence[0].step_rule),
        account=account,
        tables=merge_tables([part.tables for part in parts]),
        leaf=merge_leaves([part.leaf for part in parts if part.leaf], options.pieces),
        stragglers=merge_stragglers(one for part in parts for one in part.stragglers),
        backlog_ns=_middle([part.backlog_ns for part in parts if part.backlog_ns is not None]),
        sites=merge_sites([part.sites for part in parts]),
        work=merge_work([part.work for part in parts]),
    )


def _middle(values: Sequence[int]) -> int | None:
    return sorted(values)[(len(values) - 1) // 2] if values else None


def _alone(path: str, options: Options, tell: Say) -> Part:
    tell("reading")
    trace = capture_of(path, cache.key(path) if options.cache else None)
    require_rank(options, [trace.rank])
    tell("accounting")
    joined = join(trace)
    return summarise(joined, partition(trace, joined=joined), options)
