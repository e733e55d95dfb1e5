"""The times of a recording moved to the clock of another machine."""

from collections.abc import Mapping

from msgspec.structs import replace

from gapless.model.recording import Batches, Process, Recording, Samples, Sums, Window
from gapless.model.trace import Int64

_TIMES = frozenset({"start", "end"})  # columns that hold instants; the others hold amounts


def shift_recording(recording: Recording, offset_ns: int) -> Recording:
    """Return a recording as a clock would have shown it that is behind by so much."""
    manifest, samples = recording.manifest, recording.samples
    return replace(
        recording,
        manifest=replace(
            manifest,
            started=manifest.started - offset_ns,
            ended=None if manifest.ended is None else manifest.ended - offset_ns,
        ),
        processes=tuple(_shift_process(process, offset_ns) for process in recording.processes),
        samples=Samples(
            {name: (times - offset_ns, values) for name, (times, values) in samples.series.items()},
            samples.unobserved,
            samples.hosts,
        ),
    )


def _shift_process(process: Process, offset_ns: int) -> Process:
    marks, unix_offset_ns = process.marks, process.unix_offset_ns
    return replace(
        process,
        start=process.start - offset_ns,
        end=None if process.end is None else process.end - offset_ns,
        marks=replace(marks, start=marks.start - offset_ns, end=marks.end - offset_ns),
        batches=Batches(_shift_columns(process.batches.columns, offset_ns)),
        mark_sums=_shift_sums(process.mark_sums, offset_ns),
        batch_sums=_shift_sums(process.batch_sums, offset_ns),
        windows=tuple(_shift_window(window, offset_ns) for window in process.windows),
        unix_offset_ns=None if unix_offset_ns is None else unix_offset_ns + offset_ns,
    )


def _shift_sums(sums: Sums | None, offset_ns: int) -> Sums | None:
    return None if sums is None else Sums(_shift_columns(sums.columns, offset_ns))


def _shift_columns(columns: Mapping[str, Int64], offset_ns: int) -> dict[str, Int64]:
    return {
        name: column - offset_ns if name in _TIMES else column for name, column in columns.items()
    }


def _shift_window(window: Window, offset_ns: int) -> Window:
    return replace(
        window,
        start=window.start - offset_ns,
        end=window.end - offset_ns,
        readings=tuple(
            tuple((before - offset_ns, after - offset_ns) for before, after in edge)
            for edge in window.readings
        ),
    )
