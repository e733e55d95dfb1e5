"""What profilers saw of a run: our windows, and traces that the training's own profiler wrote."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeVar

from gapless.errors import GaplessError, UsageError
from gapless.model.recording import Recording, Window
from gapless.model.study import Site, Study
from gapless.model.tables import Line
from gapless.study.making import assemble, read_parts
from gapless.study.options import Options, Say
from gapless.study.part import Part
from gapless.study.recorded.clocks import disagreement, error_of
from gapless.study.recorded.together import alone, places
from gapless.study.recorded.training import Training, trainings
from gapless.study.rereading import Capture, captures

_NO_STACKS: Final = "no Python stacks"  # of the windows, which others make good
_SEVERAL: Final = "several files of rank"  # as windows of a run are
_OF_LINES: Final = ("calls", "host_self_ns", "host_total_ns", "device_total_ns", "idle_ns")
_OF_SITES: Final = ("ns", "calls")
_Row = TypeVar("_Row", Line, Site)


@dataclass(frozen=True)
class Profiled:
    """What the profilers' files say together, and what is to be known of that."""

    study: Study | None
    windows: int  # of ours that were read, those with stacks aside
    adopted: tuple[str, ...]  # traces of the training's own profiler, as it named them
    clock_error_ns: int | None  # of the axis that marks and our windows share
    notes: tuple[str, ...]
    captures: tuple[Capture, ...] = ()  # that can be replayed


@dataclass(frozen=True)
class _File:
    """A file of a profiler: a window of ours, or what the training's own profiler wrote."""

    path: Path
    training: Training
    window: Window | None
    source: str | None


def profiled(
    recording: Recording, every: Sequence[Training], options: Options, tell: Say
) -> Profiled:
    """Study the windows that were kept; those with stacks give lines of source only.

    For a process without a window of ours stand the traces that its own profiler wrote.
    """
    own = [one for training in every for one in _windows(recording, training)]
    others = [
        one for training in _others(recording, every) for one in _windows(recording, training)
    ]
    named = [one for training in every for one in _adopted(recording, training, own)]
    theirs = [one for one in named if one.path.is_file()]
    notes, plain, stacked = list[str](), list[_File](), list[_File]()
    notes += [
        f"{one.path.name} is not in the run folder" for one in named if not one.path.is_file()
    ]
    notes += _gone(every)
    for one in own:
        (stacked if one.window and one.window.stacks else plain).append(one)
    beside = () if theirs else [one for one in others if one.window and not one.window.stacks]
    study, parts = _study([*plain, *theirs], options, tell, notes, beside)
    lines, more = _study(stacked, options, tell, notes)
    read = {**parts, **more}
    notes += [note for one in own for note in _clock_note(one, read)]
    if not plain:
        notes += _discarded(every)
    errors = [
        error_of(one.window, read[one.path].ours) for one in own if one.window if one.path in read
    ]
    return Profiled(
        study=_with_lines(study, lines),
        windows=sum(one.path in read for one in plain),
        adopted=tuple(one.source for one in theirs if one.source and one.path in read),
        clock_error_ns=max((one for one in errors if one is not None), default=None),
        notes=tuple(notes),
        captures=captures(list(parts.values())),
    )


def _gone(every: Sequence[Training]) -> Iterator[str]:
    windows = [one for training in every for one in training.process.windows]
    count = sum(one.path is None and one.discarded is None for one in windows)
    if count:
        yield f"{count} of {len(windows)} windows are not in the run folder"


def _others(recording: Recording, every: Sequence[Training]) -> Iterator[Training]:
    """Give the training processes of ranks that were not asked for: collectives need them too."""
    chosen = {one.process.rank for one in every}
    if None not in chosen:
        yield from (one for one in trainings(recording) if one.process.rank not in chosen)


def _windows(recording: Recording, training: Training) -> Iterator[_File]:
    for one in training.process.windows:
        if one.path is not None and one.discarded is None:
            yield _File(Path(recording.path) / one.path, training, one, None)


def _adopted(recording: Recording, training: Training, own: Sequence[_File]) -> Iterator[_File]:
    """Give the traces of a process's own profiler, if there is no window of ours."""
    if any(one.training is training for one in own):
        return
    for one in recording.manifest.adopted:
        if one.source in training.process.exported:
            yield _File(Path(recording.path) / one.path, training, None, one.source)


def _study(
    files: Sequence[_File],
    options: Options,
    tell: Say,
    notes: list[str],
    beside: Sequence[_File] = (),
) -> tuple[Study | None, dict[Path, Part]]:
    """Study some files; what cannot be read is noted. ``beside``: read for their collectives."""
    if not files:
        return None, {}
    paths = list(dict.fromkeys(one.path for one in (*files, *beside)))
    alike = options if beside else replace(options, rank=None)
    try:
        ranked = [
            (str(one.path), one.training.process.rank, one.window)
            for one in (*files, *beside)
            if one.window
        ]
        placed = places(ranked)
        parts, missing = read_parts(paths, alike, tell, placed)
        notes += [f"a window cannot be read: {one.path}: {one.reason}" for one in missing]
        parts = _with_work(parts, files, notes)
        if not parts:
            return None, {}
        notes += alone(ranked, placed, {part.evidence.path: part for part in parts})
        study = assemble(parts, (), alike)
    except UsageError:
        raise
    except GaplessError as error:
        notes.append(f"a window cannot be read: {error}")
        return None, {}
    kept = tuple(one for one in study.health.notes if not one.startswith(_SEVERAL))
    study = replace(study, health=replace(study.health, notes=kept))
    return study, {Path(one.evidence.path): one for one in parts}


def _with_work(parts: Sequence[Part], files: Sequence[_File], notes: list[str]) -> list[Part]:
    """Leave out windows that closed before the device came to what their steps launched.

    What they show of the training thread is no part of the step: the device makes that. Lines of
    those with stacks are lines all the same.
    """
    plain = {str(one.path) for one in files if one.window and not one.window.stacks}
    ours = [one for one in parts if one.evidence.path in plain]
    late = [one for one in ours if not one.evidence.activities and one.evidence.launches]
    if late:
        notes.append(
            f"{len(late)} of {len(ours)} windows left out: the device was so far behind that none "
            f"of what {sum(one.evidence.launches for one in late):,} calls launched was done by "
            "their end"
        )
    return [one for one in parts if not any(one is other for other in late)]


def _with_lines(study: Study | None, stacked: Study | None) -> Study | None:
    """Give a study the lines of source of another that was made with stacks."""
    if study is None or stacked is None:
        return study
    steps = len(study.account.rows), len(stacked.account.rows)
    lines = tuple(_scaled(one, _OF_LINES, *steps) for one in stacked.tables.lines)
    kept = tuple(one for one in study.health.notes if not one.startswith(_NO_STACKS))
    return replace(
        study,
        tables=replace(study.tables, lines=lines),
        health=replace(study.health, notes=kept),
        sites=tuple(_scaled(one, _OF_SITES, *steps) for one in stacked.sites),
    )


def _scaled(one: _Row, names: Sequence[str], rows: int, of: int) -> _Row:
    """Give a row of some steps as that of other steps: tables are divided by the latter."""

    def scale(number: int | None) -> int | None:
        return None if number is None else round(number * rows / max(1, of))

    return replace(one, **{name: scale(getattr(one, name)) for name in names})


def _discarded(every: Sequence[Training]) -> Iterator[str]:
    """Say why windows were not kept."""
    why = Counter(
        one.discarded
        for training in every
        for one in training.process.windows
        if one.discarded is not None and not one.stacks
    )
    for reason, count in why.items():
        yield f"windows: none was kept, {count} cut short or lost: {reason}"


def _clock_note(one: _File, read: dict[Path, Part]) -> Iterator[str]:
    if one.window is None or one.path not in read:
        return
    odd = disagreement(one.training, one.window, read[one.path].ours)
    if odd is not None:
        yield f"window {one.path.name}: {odd}"
