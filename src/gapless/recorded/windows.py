"""What profilers saw of a run: our windows, and traces that the training's own profiler wrote."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from gapless.capture.assemble import assemble_study, read_summaries
from gapless.capture.ranks.ranks import WindowPosition
from gapless.capture.ranks.summary import CaptureSummary
from gapless.capture.reread import StudiedCapture, captures
from gapless.errors import GaplessError, UsageError
from gapless.model.options import Options, Progress
from gapless.model.recording import Recording, Window
from gapless.model.study import Site, Study
from gapless.model.tables import Line
from gapless.recorded.clocks import clock_disagreement, clock_error_ns
from gapless.recorded.loaders.strips import WindowClock, add_loading
from gapless.recorded.shared_windows import RankedWindow, group_windows, lacking_rank_notes
from gapless.recorded.training.processes import Training, trainings

_NO_STACKS: Final = "no Python stacks"  # of the windows, which others make up for
_SEVERAL_FILES: Final = "several files of rank"  # as windows of a run are
_LINE_FIELDS: Final = ("calls", "host_self_ns", "host_total_ns", "device_total_ns", "idle_ns")
_SITE_FIELDS: Final = ("ns", "calls")
_TableRow = TypeVar("_TableRow", Line, Site)


class WindowReport(Struct, frozen=True):
    """What the profilers' files show together, with notes on it."""

    study: Study | None
    n_windows: int  # of ours that were read, except those with stacks
    adopted: tuple[str, ...]  # traces of the training's own profiler, as it named them
    clock_error_ns: int | None  # of the axis that marks and our windows share
    notes: tuple[str, ...]
    captures: tuple[StudiedCapture, ...] = ()  # that can be replayed


class _ProfilerFile(Struct, frozen=True):
    """A file of a profiler: a window of ours, or what the training's own profiler wrote."""

    path: Path
    training: Training
    window: Window | None
    source: str | None


def study_windows(
    recording: Recording,
    rank_trainings: Sequence[Training],
    options: Options,
    report_progress: Progress,
) -> WindowReport:
    """Study the windows that were kept; those with stacks give lines of source only.

    A process without a window of ours is represented by the traces that its own profiler wrote.
    """
    own_files = [file for training in rank_trainings for file in _window_files(recording, training)]
    other_files = [
        file
        for training in _unselected_trainings(recording, rank_trainings)
        for file in _window_files(recording, training)
    ]
    named_files = [
        file
        for training in rank_trainings
        for file in _adopted_files(recording, training, own_files)
    ]
    adopted_files = [file for file in named_files if file.path.is_file()]
    notes, plain_files, stacked_files = list[str](), list[_ProfilerFile](), list[_ProfilerFile]()
    notes += [
        f"{file.path.name} is not in the run folder"
        for file in named_files
        if not file.path.is_file()
    ]
    notes += _lost_window_notes(rank_trainings)
    for file in own_files:
        (stacked_files if file.window and file.window.stacks else plain_files).append(file)
    peer_files = (
        ()
        if adopted_files
        else [file for file in other_files if file.window and not file.window.stacks]
    )
    replayed_files = [*plain_files, *adopted_files]
    study, summaries = _study_files(replayed_files, options, report_progress, notes, peer_files)
    lines_study, stacked_summaries = _study_files(stacked_files, options, report_progress, notes)
    summary_by_path = {**summaries, **stacked_summaries}
    notes += [note for file in own_files for note in _clock_notes(file, summary_by_path)]
    if not plain_files:
        notes += _discard_notes(rank_trainings)
    errors_ns = [
        clock_error_ns(file.window, summary_by_path[file.path].own_ranges)
        for file in own_files
        if file.window
        if file.path in summary_by_path
    ]
    return WindowReport(
        study=_add_loading(_add_lines(study, lines_study), own_files, summary_by_path, recording),
        n_windows=sum(file.path in summary_by_path for file in plain_files),
        adopted=tuple(
            file.source for file in adopted_files if file.source and file.path in summary_by_path
        ),
        clock_error_ns=max(
            (error_ns for error_ns in errors_ns if error_ns is not None), default=None
        ),
        notes=tuple(notes),
        captures=captures(list(summaries.values()), _place_windows(replayed_files)),
    )


def _lost_window_notes(rank_trainings: Sequence[Training]) -> Iterator[str]:
    windows = [window for training in rank_trainings for window in training.process.windows]
    count = sum(window.path is None and window.discarded is None for window in windows)
    if count:
        yield f"{count} of {len(windows)} windows are not in the run folder"


def _unselected_trainings(
    recording: Recording, rank_trainings: Sequence[Training]
) -> Iterator[Training]:
    """Return the training processes of unselected ranks: collectives need them too."""
    ranks = {training.process.rank for training in rank_trainings}
    if None not in ranks:
        yield from (
            training for training in trainings(recording) if training.process.rank not in ranks
        )


def _window_files(recording: Recording, training: Training) -> Iterator[_ProfilerFile]:
    for window in training.process.windows:
        if window.path is not None and window.discarded is None:
            yield _ProfilerFile(Path(recording.path) / window.path, training, window, None)


def _adopted_files(
    recording: Recording, training: Training, own_files: Sequence[_ProfilerFile]
) -> Iterator[_ProfilerFile]:
    """Return the traces of a process's own profiler, if there is no window of ours."""
    if any(file.training is training for file in own_files):
        return
    for trace in recording.manifest.adopted:
        if trace.source in training.process.exported:
            yield _ProfilerFile(Path(recording.path) / trace.path, training, None, trace.source)


def _study_files(
    files: Sequence[_ProfilerFile],
    options: Options,
    report_progress: Progress,
    notes: list[str],
    peer_files: Sequence[_ProfilerFile] = (),
) -> tuple[Study | None, dict[Path, CaptureSummary]]:
    """Study some files; what cannot be read is noted. ``peer_files``: for their collectives."""
    if not files:
        return None, {}
    paths = list(dict.fromkeys(file.path for file in (*files, *peer_files)))
    file_options = options if peer_files else replace(options, rank=None)
    try:
        rank_windows = _rank_windows((*files, *peer_files))
        window_places = group_windows(rank_windows)
        summaries, failures = read_summaries(
            list(map(str, paths)), file_options, report_progress, window_places
        )
        notes += [
            f"a window cannot be read: {failure.path}: {failure.reason}" for failure in failures
        ]
        summaries = _drop_idle_windows(summaries, files, notes)
        if not summaries:
            return None, {}
        notes += lacking_rank_notes(
            rank_windows, window_places, {summary.facts.path: summary for summary in summaries}
        )
        study = assemble_study(summaries, (), file_options)
    except UsageError:
        raise
    except GaplessError as error:
        notes.append(f"a window cannot be read: {error}")
        return None, {}
    health_notes = tuple(note for note in study.health.notes if not note.startswith(_SEVERAL_FILES))
    study = replace(study, health=replace(study.health, notes=health_notes))
    return study, {Path(summary.facts.path): summary for summary in summaries}


def _rank_windows(files: Sequence[_ProfilerFile]) -> list[RankedWindow]:
    return [
        (str(file.path), file.training.process.rank, file.window) for file in files if file.window
    ]


def _place_windows(files: Sequence[_ProfilerFile]) -> dict[str, WindowPosition]:
    """Return which windows are of the same steps."""
    return group_windows(_rank_windows(files))


def _drop_idle_windows(
    summaries: Sequence[CaptureSummary], files: Sequence[_ProfilerFile], notes: list[str]
) -> list[CaptureSummary]:
    """Leave out windows that closed before the device reached what their steps launched.

    What they show of the training thread is not part of the step: the device determines that. Lines
    of those with stacks are valid nevertheless.
    """
    plain_paths = {str(file.path) for file in files if file.window and not file.window.stacks}
    plain_summaries = [summary for summary in summaries if summary.facts.path in plain_paths]
    idle = [
        summary
        for summary in plain_summaries
        if not summary.facts.activities and summary.facts.launches
    ]
    if idle:
        notes.append(
            f"{len(idle)} of {len(plain_summaries)} windows left out: the device was so far behind "
            f"that none of what {sum(summary.facts.launches for summary in idle):,} calls launched "
            "was done by their end"
        )
    return [
        summary
        for summary in summaries
        if not any(summary is idle_summary for idle_summary in idle)
    ]


def _add_lines(study: Study | None, stacked_study: Study | None) -> Study | None:
    """Add to a study the lines of source of another that was made with stacks."""
    if study is None or stacked_study is None:
        return study
    n_rows = len(study.account.rows), len(stacked_study.account.rows)
    lines = tuple(_scale_row(line, _LINE_FIELDS, *n_rows) for line in stacked_study.tables.lines)
    health_notes = tuple(note for note in study.health.notes if not note.startswith(_NO_STACKS))
    return replace(
        study,
        tables=replace(study.tables, lines=lines),
        health=replace(study.health, notes=health_notes),
        sites=tuple(_scale_row(site, _SITE_FIELDS, *n_rows) for site in stacked_study.sites),
    )


def _add_loading(
    study: Study | None,
    files: Sequence[_ProfilerFile],
    summary_by_path: dict[Path, CaptureSummary],
    recording: Recording,
) -> Study | None:
    """Add what workers did meanwhile to the picture of a window, if there is one."""
    if study is None or study.picture is None:
        return study
    for file in files:
        if file.window is not None and str(file.path) == study.picture.path:
            ranges = summary_by_path[file.path].own_ranges
            clock = WindowClock(file.window, ranges, recording.manifest.started)
            picture = add_loading(study.picture, file.training, clock)
            return replace(study, picture=picture)
    return study


def _scale_row(row: _TableRow, names: Sequence[str], n_rows: int, n_source_rows: int) -> _TableRow:
    """Scale a row of some steps to other steps: tables are divided by the latter."""

    def scale(number: int | None) -> int | None:
        return None if number is None else round(number * n_rows / max(1, n_source_rows))

    return replace(row, **{name: scale(getattr(row, name)) for name in names})


def _discard_notes(rank_trainings: Sequence[Training]) -> Iterator[str]:
    """Describe why windows were not kept."""
    reasons = Counter(
        window.discarded
        for training in rank_trainings
        for window in training.process.windows
        if window.discarded is not None and not window.stacks
    )
    for reason, count in reasons.items():
        yield f"windows: none was kept, {count} cut short or lost: {reason}"


def _clock_notes(file: _ProfilerFile, summary_by_path: dict[Path, CaptureSummary]) -> Iterator[str]:
    if file.window is None or file.path not in summary_by_path:
        return
    oddity = clock_disagreement(file.training, file.window, summary_by_path[file.path].own_ranges)
    if oddity is not None:
        yield f"window {file.path.name}: {oddity}"
