"""What ``gapless runs`` does, as values to print; they are its JSON, too."""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from gapless.model.recording import Manifest, Process, Sums, Unobserved
from gapless.store.run import runs
from gapless.store.run.manifest import RUNNING
from gapless.store.run.pack import Member, pack
from gapless.store.run.recordings import DATABASE, finish, load
from gapless.store.run.unpack import unpack


class RunLine(Struct, frozen=True):
    """A run in a list; what is not known is null."""

    id: str
    path: str
    status: str
    exit_code: int | None
    started_unix_ns: int
    wall_ns: int | None
    steps: int | None
    step_ns: int | None
    command: tuple[str, ...]
    bytes: int


class ListResult(Struct, frozen=True):
    """What ``gapless runs`` prints."""

    folder: str
    bytes: int
    runs: tuple[RunLine, ...]


class ProcessLine(Struct, frozen=True):
    """A process of a run."""

    pid: int | None
    role: str
    rank: int | None
    worker: int | None
    marks: int  # summed ones included
    batches: int
    windows: int
    ended: bool  # orderly, else it was killed


class ShowResult(Struct, frozen=True):
    """What ``gapless runs show`` prints."""

    run: RunLine
    manifest: Manifest
    processes: tuple[ProcessLine, ...]
    series: tuple[str, ...]
    unseen: tuple[Unobserved, ...]


class DeleteResult(Struct, frozen=True):
    """What ``gapless runs delete`` prints."""

    deleted: Mapping[str, int]  # bytes by id


class PackResult(Struct, frozen=True):
    """What ``gapless runs pack`` prints."""

    path: str
    bytes: int
    members: tuple[Member, ...]
    left_out: tuple[str, ...]


class UnpackResult(Struct, frozen=True):
    """What ``gapless runs unpack`` prints."""

    run: RunLine


ActResult = ListResult | ShowResult | DeleteResult | PackResult | UnpackResult


def perform(arguments: Namespace, folder: Path) -> ActResult:
    """Perform the requested action on the runs of a folder. Raises ``GaplessError``."""
    match arguments.act:
        case "show":
            return _show(runs.find(folder, arguments.run))
        case "delete":
            return _delete(folder, arguments.runs, force=arguments.force)
        case "pack":
            return _pack(runs.find(folder, arguments.run), arguments.output)
        case "unpack":
            return UnpackResult(_run_line(_finish_entry(unpack(arguments.file, folder))))
        case _:
            lines = tuple(_run_line(entry) for entry in runs.list_runs(folder))
            return ListResult(str(folder), sum(line.bytes for line in lines), lines)


def _run_line(entry: runs.Entry) -> RunLine:
    manifest = entry.manifest
    return RunLine(
        id=entry.path.name,
        path=str(entry.path),
        status=manifest.status,
        exit_code=manifest.exit_code,
        started_unix_ns=manifest.started_unix_ns,
        wall_ns=None if manifest.ended is None else manifest.ended - manifest.started,
        steps=entry.steps,
        step_ns=entry.step_ns,
        command=manifest.command,
        bytes=entry.bytes,
    )


def _finish_entry(run: Path) -> runs.Entry:
    finish(run)
    return runs.run_entry(run)


def _show(run: Path) -> ShowResult:
    is_derived = (run / DATABASE).exists() or runs.current_manifest(run).status == RUNNING
    recording = load(run) if is_derived else finish(run)
    return ShowResult(
        run=_run_line(runs.run_entry(run)),
        manifest=recording.manifest,
        processes=tuple(map(_process_line, recording.processes)),
        series=tuple(sorted(recording.samples.series)),
        unseen=(
            *recording.unobserved,
            *recording.samples.unobserved,
            *(unobserved for process in recording.processes for unobserved in process.unobserved),
        ),
    )


def _process_line(process: Process) -> ProcessLine:
    return ProcessLine(
        pid=None if process.pid < 0 else process.pid,
        role=process.role,
        rank=process.rank,
        worker=process.worker,
        marks=len(process.marks) + _summed_count(process.mark_sums),
        batches=len(process.batches) + _summed_count(process.batch_sums),
        windows=sum(window.path is not None for window in process.windows),
        ended=process.end is not None,
    )


def _summed_count(sums: Sums | None) -> int:
    return 0 if sums is None else int(sums.columns["count"].sum())


def _delete(folder: Path, names: Sequence[str], *, force: bool) -> DeleteResult:
    """Delete all or, if one of them is missing or running, none."""
    run_folders = dict.fromkeys(runs.find_here(folder, name) for name in names)
    for run in run_folders:
        runs.check_deletable(run, force=force)
    return DeleteResult({run.name: runs.delete(run, force=force) for run in run_folders})


def _pack(run: Path, output: Path | None) -> PackResult:
    packed_run = pack(run, output or Path(f"{run.name}.tar.zst"))
    return PackResult(
        str(packed_run.path),
        packed_run.path.stat().st_size,
        packed_run.members,
        packed_run.left_out,
    )
