"""Recordings of the machines of one job as one recording, on the clock of the first."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from gapless.errors import RunFolderError
from gapless.model.options import Options, Progress
from gapless.model.ranges import format_ranges
from gapless.model.recording import (
    Manifest,
    Node,
    Process,
    Recording,
    Samples,
    Unobserved,
)
from gapless.recorded.nodes.clocks import (
    ClockOffset,
    find_offset,
    order_recordings,
    unix_offset_ns,
)
from gapless.recorded.nodes.exchanges import join_connections, local_addresses
from gapless.recorded.nodes.shift import shift_recording

_ADVICE: Final = "give the run folders of all nodes (gapless report A B …)"
_FIRST_CLOCK: Final = ClockOffset(0, 0, "the first", 0)
_GPU: Final = re.compile(r"gpu(\d+)(?=\.)")
_STATES: Final = ("running", "killed", "failed", "finished")  # the worst of any node is the job's


def join_recordings(
    recordings: Sequence[Recording], options: Options, report_progress: Progress
) -> Recording:
    """Return the recordings of one job's machines as one.

    What belongs to a machine and not to a rank (samples of processors and disks, trials, the
    source) is that of the first; GPUs are numbered on. Raises ``RunFolderError`` for recordings of
    different jobs.
    """
    ordered = order_recordings(recordings)
    _require_one_job(ordered)
    first = ordered[0]
    offsets = [_FIRST_CLOCK]
    for count, recording in enumerate(ordered[1:], 2):
        report_progress(f"aligning clocks: {count} of {len(ordered)} nodes")
        offsets.append(find_offset(first, recording, options))
    shifted = [
        shift_recording(_with_own_paths(recording), offset.ns)
        for recording, offset in zip(ordered, offsets, strict=True)
    ]
    first_gpus = _first_gpus(shifted)
    return Recording(
        path=first.path,
        manifest=_join_manifests([recording.manifest for recording in shifted]),
        processes=tuple(process for recording in shifted for process in recording.processes),
        samples=_join_samples(shifted, first_gpus),
        unobserved=tuple(
            replace(unobserved, what=f"{recording.manifest.host}: {unobserved.what}")
            for recording in shifted
            for unobserved in recording.unobserved
        ),
        nodes=tuple(
            _node(recording, offset, first_gpu)
            for recording, offset, first_gpu in zip(shifted, offsets, first_gpus, strict=True)
        ),
    )


def _require_one_job(recordings: Sequence[Recording]) -> None:
    """Refuse recordings that name different jobs, or none, or in which a rank is twice at once."""
    jobs = {
        recording.path: job_name
        for recording in recordings
        if (job_name := next(_job_names(recording), None)) is not None
    }
    if len(set(jobs.values())) > 1:
        names = ", ".join(f"{path} ({name})" for path, name in jobs.items())
        raise RunFolderError(
            f"these runs are of different jobs: {names}; give the run folders of one job"
        )
    if not jobs:
        paths = ", ".join(recording.path for recording in recordings)
        raise RunFolderError(
            f"nothing shows that these runs are of one job: {paths}; no process in them was "
            "started by torchrun, or with MASTER_ADDR and MASTER_PORT"
        )
    for recording in recordings:
        if recording.path not in jobs and _training_processes(recording):
            raise RunFolderError(
                f"nothing shows that {recording.path} is of the same job as {', '.join(jobs)}; "
                "give the run folders of one job"
            )
    _require_ranks_once(recordings)


def _training_processes(recording: Recording) -> list[Process]:
    return [process for process in recording.processes if process.role == "training"]


def _require_ranks_once(recordings: Sequence[Recording]) -> None:
    """Refuse recordings of which two have the same rank at the same time.

    An elastic job may start a rank on another machine once the first is gone.
    """
    spans: dict[int, list[tuple[int, int, Recording]]] = {}
    for recording in recordings:
        offset_ns = unix_offset_ns(recording)
        for process in _training_processes(recording):
            if process.rank is None:
                continue
            start, end = process.start + offset_ns, _last_known(process) + offset_ns
            for other_start, other_end, other in spans.setdefault(process.rank, []):
                common_ns = min(end, other_end) - max(start, other_start)
                shorter_ns = min(end - start, other_end - other_start)
                if other is not recording and common_ns > shorter_ns // 2:
                    raise RunFolderError(
                        f"rank {process.rank} is in {other.path} and in {recording.path} at the "
                        "same time; give the run folder of each machine once"
                    )
            spans[process.rank].append((start, end, recording))


def _last_known(process: Process) -> int:
    if process.end is not None:
        return process.end
    return int(process.marks.end.max()) if len(process.marks.end) else process.start


def _job_names(recording: Recording) -> Iterator[str]:
    """Yield by what the processes of a recording know their job."""
    for process in recording.processes:
        if process.job is not None and process.job.run not in {None, "none"}:
            yield f"rendezvous {process.job.run}"
        elif process.job is not None and process.job.master is not None:
            yield f"rendezvous at {process.job.master}"


def _with_own_paths(recording: Recording) -> Recording:
    """Return a recording whose files are found from anywhere."""
    folder = Path(recording.path).absolute()
    adopted = tuple(
        replace(trace, path=str(folder / trace.path)) for trace in recording.manifest.adopted
    )
    return replace(
        recording,
        manifest=replace(recording.manifest, adopted=adopted),
        processes=tuple(
            replace(
                process,
                windows=tuple(
                    replace(window, path=window.path and str(folder / window.path))
                    for window in process.windows
                ),
                end=_command_end(process, recording.manifest),
            )
            for process in recording.processes
        ),
    )


def _command_end(process: Process, manifest: Manifest) -> int | None:
    """Return when a process ended; of the command itself, its launcher saw it."""
    if process.end is None or process.pid != manifest.pid or manifest.ended is None:
        return process.end
    return max(process.end, manifest.ended)


def _join_manifests(manifests: Sequence[Manifest]) -> Manifest:
    """Return what is true of the job: it ended with its last node, as the worst of them."""
    ends = [manifest.ended for manifest in manifests if manifest.ended is not None]
    states = {manifest.status for manifest in manifests}
    codes = [manifest.exit_code for manifest in manifests if manifest.exit_code is not None]
    status = next(state for state in _STATES if state in states)
    first_start = min(manifests, key=lambda manifest: manifest.started)
    return replace(
        manifests[0],
        started=first_start.started,
        started_unix_ns=manifests[0].started_unix_ns - (manifests[0].started - first_start.started),
        ended=None if status == "running" else max(ends, default=None),
        exit_code=next((code for code in codes if code), codes[0] if codes else None),
        status=status,
        pid=None,
        adopted=tuple(trace for manifest in manifests for trace in manifest.adopted),
    )


def _join_samples(recordings: Sequence[Recording], first_gpus: Sequence[int | None]) -> Samples:
    """Return the samples of the first machine, and those of all GPUs, numbered on.

    Those of connections name the machine's address: they are kept of all.
    """
    first = recordings[0].samples
    series = {**join_connections(recordings), **first.series}
    for recording, first_gpu in zip(recordings[1:], first_gpus[1:], strict=True):
        for name, columns in recording.samples.series.items():
            match = _GPU.match(name)
            if match is not None and first_gpu is not None:
                series[f"gpu{first_gpu + int(match[1])}{name[match.end() :]}"] = columns
    unobserved = dict.fromkeys(
        sample for recording in recordings for sample in recording.samples.unobserved
    )
    known_hosts = [recording.samples.hosts for recording in recordings]
    hosts = dict.fromkeys(host for hosts in known_hosts if hosts is not None for host in hosts)
    is_known = any(hosts is not None for hosts in known_hosts)
    return Samples(series, tuple(unobserved), tuple(hosts) if is_known else None)


def _first_gpus(recordings: Sequence[Recording]) -> list[int | None]:
    """Return of each machine the number in the job of its first GPU; ``None``: it has none."""
    next_number = 0
    first_numbers: list[int | None] = []
    for recording in recordings:
        count = _count_gpus(recording)
        first_numbers.append(next_number if count else None)
        next_number += count
    return first_numbers


def _count_gpus(recording: Recording) -> int:
    matches = map(_GPU.match, recording.samples.series)
    return max((int(match[1]) + 1 for match in matches if match), default=0)


def _node(recording: Recording, offset: ClockOffset, first_gpu: int | None) -> Node:
    processes = [process for process in recording.processes if process.role == "training"]
    jobs = [process.job for process in processes if process.job is not None]
    starts = {process.job.restart for process in processes if process.job is not None}
    return Node(
        host=recording.manifest.host or next((p.host for p in processes if p.host), ""),
        path=recording.path,
        number=next((job.node for job in reversed(jobs) if job.node is not None), None),
        ranks=tuple(sorted({p.rank for p in processes if p.rank is not None})),
        status=recording.manifest.status,
        restarts=max((start for start in starts if start is not None), default=None),
        first_gpu=first_gpu,
        gpus=_count_gpus(recording),
        clock_offset_ns=offset.ns,
        clock_error_ns=offset.error_ns,
        clock_source=offset.source,
        clock_count=offset.count,
        addresses=local_addresses(recording.samples),
    )


def lacking_nodes(recording: Recording) -> Iterator[Unobserved]:
    """Yield what is not known of a job because folders of some of its machines were not given."""
    processes = [process for process in recording.processes if process.role == "training"]
    jobs = [process.job for process in processes if process.job is not None]
    expected = max((job.nodes or 0 for job in jobs), default=0)
    n_nodes = max(len(recording.nodes), 1)
    world = max((process.world or 0 for process in processes), default=0)
    ranks = sorted(set(range(world)) - {process.rank for process in processes})
    if jobs and not expected and ranks:  # a launcher that numbers no nodes
        yield Unobserved(f"rank {format_ranges(ranks)} of {world}", _ADVICE)
    if expected <= n_nodes:
        return
    numbers = {job.node for job in jobs if job.node is not None}
    missing = sorted(set(range(expected)) - numbers)
    nodes = f"node {format_ranges(missing)}" if missing else f"{expected - n_nodes} nodes"
    of_ranks = f" of rank {format_ranges(ranks)}" if ranks else ""
    yield Unobserved(
        f"{nodes} of {expected}",
        f"nothing{of_ranks} is here: {_ADVICE}",
    )
