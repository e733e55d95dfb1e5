"""What ``gapless runs`` does, as values to print; they are its JSON, too."""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gapless.model.recording import Manifest, Process, Sums, Unseen
from gapless.store import runs
from gapless.store.manifest import RUNNING
from gapless.store.pack import Member, pack
from gapless.store.recordings import DATABASE, finish, load
from gapless.store.unpack import unpack


@dataclass(frozen=True)
class RunLine:
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


@dataclass(frozen=True)
class Listed:
    """What ``gapless runs`` prints."""

    folder: str
    bytes: int
    runs: tuple[RunLine, ...]


@dataclass(frozen=True)
class ProcessLine:
    """A process of a run."""

    pid: int | None
    role: str
    rank: int | None
    worker: int | None
    marks: int  # those that were added up, too
    batches: int
    windows: int
    ended: bool  # in good order, else it was killed


@dataclass(frozen=True)
class Shown:
    """What ``gapless runs show`` prints."""

    run: RunLine
    manifest: Manifest
    processes: tuple[ProcessLine, ...]
    series: tuple[str, ...]
    unseen: tuple[Unseen, ...]


@dataclass(frozen=True)
class Deleted:
    """What ``gapless runs delete`` prints."""

    deleted: Mapping[str, int]  # bytes by id


@dataclass(frozen=True)
class Packed:
    """What ``gapless runs pack`` prints."""

    path: str
    bytes: int
    members: tuple[Member, ...]
    left_out: tuple[str, ...]


@dataclass(frozen=True)
class Unpacked:
    """What ``gapless runs unpack`` prints."""

    run: RunLine


Done = Listed | Shown | Deleted | Packed | Unpacked


def do(arguments: Namespace, place: Path) -> Done:
    """Do what the arguments ask for with the runs of a folder. Raises ``GaplessError``."""
    match arguments.act:
        case "show":
            return _show(runs.find(place, arguments.run))
        case "delete":
            return _delete(place, arguments.runs, force=arguments.force)
        case "pack":
            return _pack(runs.find(place, arguments.run), arguments.output)
        case "unpack":
            return Unpacked(_line(_finished(unpack(arguments.file, place))))
        case _:
            lines = tuple(_line(entry) for entry in runs.listed(place))
            return Listed(str(place), sum(line.bytes for line in lines), lines)


def _line(entry: runs.Entry) -> RunLine:
    found = entry.manifest
    return RunLine(
        id=entry.path.name,
        path=str(entry.path),
        status=found.status,
        exit_code=found.exit_code,
        started_unix_ns=found.started_unix_ns,
        wall_ns=None if found.ended is None else found.ended - found.started,
        steps=entry.steps,
        step_ns=entry.step_ns,
        command=found.command,
        bytes=entry.bytes,
    )


def _finished(run: Path) -> runs.Entry:
    finish(run)
    return runs.entry(run)


def _show(run: Path) -> Shown:
    whole = (run / DATABASE).exists() or runs.state(run).status == RUNNING
    recording = load(run) if whole else finish(run)
    return Shown(
        run=_line(runs.entry(run)),
        manifest=recording.manifest,
        processes=tuple(map(_process, recording.processes)),
        series=tuple(sorted(recording.samples.series)),
        unseen=(
            *recording.unseen,
            *recording.samples.unseen,
            *(unseen for process in recording.processes for unseen in process.unseen),
        ),
    )


def _process(process: Process) -> ProcessLine:
    return ProcessLine(
        pid=None if process.pid < 0 else process.pid,
        role=process.role,
        rank=process.rank,
        worker=process.worker,
        marks=len(process.marks) + _added_up(process.mark_sums),
        batches=len(process.batches) + _added_up(process.batch_sums),
        windows=sum(window.path is not None for window in process.windows),
        ended=process.end is not None,
    )


def _added_up(sums: Sums | None) -> int:
    return 0 if sums is None else int(sums.columns["count"].sum())


def _delete(place: Path, names: Sequence[str], *, force: bool) -> Deleted:
    """Delete all or, where one of them is not there or goes on, none."""
    found = dict.fromkeys(runs.find_here(place, name) for name in names)
    for run in found:
        runs.check_deletable(run, force=force)
    return Deleted({run.name: runs.delete(run, force=force) for run in found})


def _pack(run: Path, output: Path | None) -> Packed:
    done = pack(run, output or Path(f"{run.name}.tar.zst"))
    return Packed(str(done.path), done.path.stat().st_size, done.members, done.left_out)
