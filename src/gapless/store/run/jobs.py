"""Which runs of a folder are of one job: each of its machines recorded one."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from gapless import wire
from gapless.model.recording import JobPlace, Manifest
from gapless.store.logs.fields import integer, parse
from gapless.store.logs.framing import read_frames
from gapless.store.logs.logs import job_place
from gapless.store.run import manifest, recovery
from gapless.store.run.recordings import is_run

_HEAD_BYTES: Final = 1 << 16  # of a log: its first frame says who writes
_CLOCK_SLACK_NS: Final = 120 * 10**9  # by which the clocks of two machines may differ
_NO_RUN_ID: Final = "none"  # torchrun's, where the user gave none


class _Job(Struct, frozen=True):
    """A run as a part of a job: by what that is known, which ranks are here, from when to when."""

    names: frozenset[str]
    ranks: frozenset[int]
    world: int
    span: tuple[int, int]


class _LoggedProcess(Struct, frozen=True):
    """What the first frame of a log says of its process."""

    job: JobPlace | None
    rank: int | None
    world: int | None


def find_job_runs(run: Path) -> tuple[Path, ...]:
    """Return the runs beside a run that are of the same job, with it; only itself without any.

    They are known by the id, or the address, at which their ranks met, at the same time: both are
    used again by the next job.
    """
    job = _read_job(run)
    if job is None or len(job.ranks) >= job.world:
        return (run,)
    other_runs = (path for path in run.parent.iterdir() if path.name != run.name and is_run(path))
    return (run, *sorted(path for path in other_runs if _is_same_job(job, _read_job(path))))


def _is_same_job(job: _Job, candidate: _Job | None) -> bool:
    return (
        candidate is not None
        and bool(job.names & candidate.names)
        and max(job.span[0], candidate.span[0])
        < min(job.span[1], candidate.span[1]) + _CLOCK_SLACK_NS
    )


def _read_job(run: Path) -> _Job | None:
    """Return which job a run is a part of; ``None``: no process in it says so."""
    document = manifest.peek(run)
    logs = [log for log in recovery.find_logs(run, document.spool) if "-worker" not in log.name]
    logged_processes = [
        logged_process for log in logs if (logged_process := _read_head(log)) is not None
    ]
    names = {
        name
        for logged_process in logged_processes
        if (name := _job_name(logged_process.job)) is not None
    }
    if not names:
        return None
    return _Job(
        frozenset(names),
        frozenset(
            logged_process.rank
            for logged_process in logged_processes
            if logged_process.rank is not None
        ),
        max((logged_process.world or 1 for logged_process in logged_processes), default=1),
        _unix_span(document.manifest, logs),
    )


def _job_name(job: JobPlace | None) -> str | None:
    if job is None:
        return None
    return job.master if job.run in {None, _NO_RUN_ID} else job.run


def _read_head(log: Path) -> _LoggedProcess | None:
    try:
        with log.open("rb") as file:
            frames = read_frames(file.read(_HEAD_BYTES)).frames
    except (OSError, wire.NewerError):  # of which reading it will speak
        return None
    heads = [head for kind, body in frames if kind == wire.PROCESS if (head := parse(body))]
    if not heads:
        return None
    return _LoggedProcess(
        job_place(heads[0]), integer(heads[0].get("rank")), integer(heads[0].get("world"))
    )


def _unix_span(run_manifest: Manifest, logs: Sequence[Path]) -> tuple[int, int]:
    """Return from when to when a run lasted, as its machine knows the time of day."""
    start_ns = run_manifest.started_unix_ns
    if run_manifest.ended is not None:
        return start_ns, start_ns + run_manifest.ended - run_manifest.started
    return start_ns, max((log.stat().st_mtime_ns for log in logs), default=start_ns)
