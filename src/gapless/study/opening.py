"""From paths to a study."""

import os
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from gapless.accounting import join, partition
from gapless.errors import NotFoundError
from gapless.formats import Source, find, spool
from gapless.formats.source import STANDARD_INPUT
from gapless.model.study import RunInfo, Study
from gapless.store import cache
from gapless.study import memo
from gapless.study.capture import summarise
from gapless.study.merge import merge_accounts, merge_leaves, merge_stragglers, merge_tables
from gapless.study.notes import health
from gapless.study.options import Options
from gapless.study.part import Missing, Part
from gapless.study.ranks import Say, many, require_rank
from gapless.study.steps import step_times
from gapless.study.tasks import capture_of


def open_study(
    paths: Sequence[str | os.PathLike[str]], options: Options | None = None, say: Say | None = None
) -> Study:
    """Read the traces below some paths and give the study of them: one rank or many.

    Raises ``GaplessError`` where there is nothing to read, or none of it can be read.
    """
    asked, tell = options or Options(), say or _nothing
    names = [os.fspath(path) for path in paths]
    if not names:
        raise NotFoundError("no path is given; name a file, a folder or a pattern")
    if names != [STANDARD_INPUT]:
        return _opened(find(names), asked, tell)
    with spool(sys.stdin.buffer) as file:
        study = _opened(find([str(file)]), asked, tell)
    return replace(study, run=replace(study.run, paths=(STANDARD_INPUT,)))


def _opened(sources: Sequence[Source], asked: Options, tell: Say) -> Study:
    if not asked.cache:
        return _study(sources, asked, tell)
    with ThreadPoolExecutor() as pool:
        key = memo.content_key(list(pool.map(cache.key, [one.path for one in sources])))
    name = memo.blob_name([str(source.path) for source in sources], asked)
    study = memo.recall(key, name)
    if study is None:
        study = _study(sources, asked, tell)
        memo.keep(key, name, study)
    return study


def _study(sources: Sequence[Source], options: Options, tell: Say) -> Study:
    paths = [str(source.path) for source in sources]
    if len(paths) == 1:
        parts, missing = [_alone(paths[0], options, tell)], list[Missing]()
    else:
        parts, missing = many(paths, options, tell)
    return assemble(parts, missing, options)


def assemble(parts: Sequence[Part], missing: Sequence[Missing], options: Options) -> Study:
    """Put the summaries of ranks together."""
    evidence = [part.evidence for part in parts]
    account = merge_accounts([part.account for part in parts])
    worlds = [one.world for one in evidence if one.world is not None]
    return Study(
        run=RunInfo(
            paths=tuple(one.path for one in evidence),
            ranks=tuple(sorted({one.rank for one in evidence if one.rank is not None})),
            world=max(worlds, default=None),
            device=next((one.device for one in evidence if one.device), None),
            versions=evidence[0].versions,
        ),
        health=health(evidence, missing, account),
        steps=step_times(account, evidence[0].step_rule),
        account=account,
        tables=merge_tables([part.tables for part in parts]),
        leaf=merge_leaves([part.leaf for part in parts if part.leaf], options.pieces),
        stragglers=merge_stragglers(one for part in parts for one in part.stragglers),
    )


def _alone(path: str, options: Options, tell: Say) -> Part:
    tell("reading")
    trace = capture_of(path, cache.key(path) if options.cache else None)
    require_rank(options, [trace.rank])
    tell("accounting")
    joined = join(trace)
    return summarise(joined, partition(trace, joined=joined), options)


def _nothing(words: str) -> None:
    """Show no progress."""
