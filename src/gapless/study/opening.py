"""From paths to a study."""

import os
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from gapless.errors import NotFoundError
from gapless.formats import Source, find, spool
from gapless.formats.source import STANDARD_INPUT
from gapless.model.study import Study
from gapless.store import cache
from gapless.study import memo
from gapless.study.options import Options, Say


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
        return _made(sources, asked, tell)
    with ThreadPoolExecutor() as pool:
        key = memo.content_key(list(pool.map(cache.key, [one.path for one in sources])))
    name = memo.blob_name([str(source.path) for source in sources], asked)
    study = memo.recall(key, name)
    if study is None:
        study = _made(sources, asked, tell)
        memo.keep(key, name, study)
    return study


def _made(sources: Sequence[Source], asked: Options, tell: Say) -> Study:
    from gapless.study.making import make_study  # not needed where the cache has the study

    return make_study(sources, asked, tell)


def _nothing(words: str) -> None:
    """Show no progress."""
