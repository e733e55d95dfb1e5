"""From paths to a study."""

import os
import sys
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from msgspec.structs import replace

from gapless import wire
from gapless.capture import memo
from gapless.errors import GaplessError, NotFoundError, RemoteError, UsageError
from gapless.model.options import STANDARD_INPUT, Options, Progress
from gapless.model.recording import Recording
from gapless.model.study import Study
from gapless.remote.files import find_urls, is_url, strip_file_url
from gapless.store import cache
from gapless.store.run.ended_runs import ended_run_key


def open_study(
    paths: Sequence[str | os.PathLike[str]],
    options: Options | None = None,
    progress: Progress | None = None,
) -> Study:
    """Read the traces below some paths and return their study: one rank or many.

    The folder of a recorded run gives the study of the run, those of several machines that of
    their job. Raises ``GaplessError`` where there is
    nothing to read, or none of it can be read.
    """
    study_options, report_progress = options or Options(), progress or _ignore_progress
    names = [strip_file_url(os.fspath(path)) for path in paths]
    if not names:
        raise NotFoundError("no path is given; name a file, a folder or a pattern")
    if len(names) == 1 and _may_be_run(Path(names[0])):
        return open_run(names[0], study_options, report_progress)
    if len(names) > 1 and all(_may_be_run(Path(name)) for name in names):
        return open_job(names, study_options, report_progress)
    from gapless.formats import spool  # not needed for a run
    from gapless.formats.text.source import is_stream

    if len(names) > 1 or not is_stream(names[0]):
        report_progress("looking for traces")
        return _open_files(_find_files(names), study_options, report_progress)
    with _stream(names[0]) as stream, spool(stream) as file:
        try:
            study = _open_files([str(file)], study_options, report_progress)
        except GaplessError as error:  # which names the file that will be gone
            shown_name = "standard input" if names[0] == STANDARD_INPUT else names[0]
            raise type(error)(str(error).replace(str(file), shown_name)) from error
    return replace(study, run=replace(study.run, paths=(names[0],)))


def open_run(
    folder: str | os.PathLike[str], options: Options | None = None, progress: Progress | None = None
) -> Study:
    """Read the folder of a recorded run, also of a running one, and return its study.

    Raises ``GaplessError`` for a folder that is not a run's.
    """
    run_options, report_progress = options or Options(), progress or _ignore_progress
    path = Path(folder)
    key = ended_run_key(path) if run_options.cache else None
    study = None if key is None else memo.recall(key, memo.blob_name((str(path),), run_options))
    if study is not None:
        return study
    from gapless.store.run.recordings import load  # not needed where the cache has the study

    report_progress("reading the run")
    return study_ended_run(load(folder), run_options, report_progress)


def open_job(
    folders: Sequence[str | os.PathLike[str]],
    options: Options | None = None,
    progress: Progress | None = None,
) -> Study:
    """Read the folders that the machines of one job recorded; return the study of the job.

    Raises ``GaplessError`` for folders that are not of one job.
    """
    run_options, report_progress = options or Options(), progress or _ignore_progress
    paths = [Path(name) for name in dict.fromkeys(os.fspath(folder) for folder in folders)]
    if len(paths) == 1:
        return open_run(paths[0], run_options, report_progress)
    key, name = _job_key(paths, run_options), memo.blob_name(list(map(str, paths)), run_options)
    study = None if key is None else memo.recall(key, name)
    if study is not None:
        return study
    from gapless.recorded.nodes.join import join_recordings  # not needed where the cache has it
    from gapless.store.run.recordings import load

    recordings: list[Recording] = []
    for count, path in enumerate(paths, 1):
        report_progress(f"reading nodes: {count} of {len(paths)}")
        recordings.append(load(path))
    recording = join_recordings(recordings, run_options, report_progress)
    study = study_recording(recording, run_options, report_progress)
    key = _job_key(paths, run_options)
    if key is not None:
        memo.remember(key, name, study)
    return study


def _job_key(folders: Sequence[Path], options: Options) -> str | None:
    """Return by what a job is known in the cache; ``None`` where a part of it goes on."""
    if not options.cache:
        return None
    keys = [key for folder in folders if (key := ended_run_key(folder)) is not None]
    return memo.content_key(keys) if len(keys) == len(folders) else None


def study_ended_run(recording: Recording, options: Options, progress: Progress) -> Study:
    """Return the study of a recorded run, and keep it in the cache unless the run goes on."""
    study = study_recording(recording, options, progress)
    key = ended_run_key(Path(recording.path)) if options.cache else None
    if key is not None:
        memo.remember(key, memo.blob_name((recording.path,), options), study)
    return study


def study_recording(
    recording: Recording, options: Options | None = None, progress: Progress | None = None
) -> Study:
    """Return the study of a recorded run: its light marks joined with its windows."""
    from gapless.study.build_run import make_run_study

    return make_run_study(recording, options or Options(), progress or _ignore_progress)


def _may_be_run(folder: Path) -> bool:
    """Return whether a path is the folder of a run: it has a manifest, or logs."""
    try:
        return (folder / wire.MANIFEST).is_file() or any((folder / "logs").glob("*.log"))
    except OSError:
        return False


@contextmanager
def _stream(name: str) -> Generator[BinaryIO]:
    if name != STANDARD_INPUT:
        with _pipe(name) as pipe:
            yield pipe
    elif (stdin := sys.stdin) is None:  # pyright: ignore[reportUnnecessaryComparison]
        raise UsageError("standard input is closed; name a file")
    else:
        yield stdin.buffer


def _pipe(name: str) -> BinaryIO:
    try:
        return Path(name).open("rb")
    except OSError as error:
        raise NotFoundError(f"{name}: {error.strerror or error}") from error


def _find_files(names: Sequence[str]) -> list[str]:
    from gapless.formats import find
    from gapless.formats.text.source import is_named_like_a_trace

    local_names = [name for name in names if not is_url(name)]
    files = list(map(str, find(local_names))) if local_names else []
    urls = (find_urls(name, is_named_like_a_trace) for name in names if is_url(name))
    return list(dict.fromkeys([*files, *chain.from_iterable(urls)]))


def _open_files(files: Sequence[str], options: Options, report_progress: Progress) -> Study:
    if not options.cache or options.on is not None:  # a cluster reads what need not be here
        return _make_uncached(files, options, report_progress)
    try:
        with ThreadPoolExecutor() as pool:
            key = memo.content_key(list(pool.map(cache.content_key, files)))
    except (
        NotFoundError,
        RemoteError,
    ):  # one that cannot be read: of many it is left out, with a note
        return _make_uncached(files, options, report_progress)
    name = memo.blob_name(files, options)
    study = memo.recall(key, name)
    if study is None:
        study = _make_uncached(files, options, report_progress)
        memo.remember(key, name, study)
    return study


def _make_uncached(files: Sequence[str], options: Options, report_progress: Progress) -> Study:
    from gapless.study.build_trace import make_study  # not needed where the cache has the study

    return make_study(files, options, report_progress)


def _ignore_progress(words: str) -> None:
    """Show no progress."""
