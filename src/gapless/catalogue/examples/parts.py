"""Parts of evidence, for ``examples.evidence``: uses of loaders, rows of tables, lifetimes.

Times are in milliseconds of one step, sizes in MiB of one step.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from gapless.model.facts import Loader
from gapless.model.footprint import AllocatorUse, SyncUse
from gapless.model.run import LoaderUse, ProcessTime, Series, StageUse, WorkerUse
from gapless.model.tables import Copy, Kernel, Line, Operator

MS: Final = 1_000_000
SECOND: Final = 1_000_000_000
COUNT: Final = 100  # un-profiled steps
STEPS: Final = 10  # of the windows


def example_use(
    loader: Loader,
    stages: Mapping[str, float],
    workers: WorkerUse | None = None,
    **changes: Any,  # noqa: ANN401 - any field of LoaderUse
) -> LoaderUse:
    """Return how a loader was waited for: one batch a step, in ms of a wait by stage.

    ``stages``: "read", "decode", …, "hand-over" as in ``model.leaf.DATA_STAGES``. Its share of
    the steps is filled in by ``evidence_of``. ``known_ms``, ``queueing_ms`` and ``hol_ms`` set the
    facets.
    """
    facets = {
        f"{name}_ns": round(changes.pop(f"{name}_ms") * COUNT * MS)
        for name in ("known", "queueing", "hol")
        if f"{name}_ms" in changes
    }
    ns_by_stage = {f"data.{name}": round(ms * COUNT * MS) for name, ms in stages.items()}
    wait_ns = sum(ns_by_stage.values())
    location = loader.location
    settings: dict[str, object] = {
        "batch_size": loader.batch_size,
        "num_workers": loader.num_workers,
        "prefetch_factor": loader.prefetch_factor,
        "persistent_workers": loader.persistent_workers,
    }
    use = LoaderUse(
        id=loader.id,
        file=location.file if location else None,
        line=location.line if location else None,
        function=location.function if location else None,
        settings=settings,
        waits=COUNT,
        wait_ns=wait_ns,
        share=None,
        mean_ns=wait_ns // COUNT,
        p95_ns=wait_ns // COUNT,
        longest_ns=wait_ns // COUNT,
        first_ns=wait_ns // COUNT,
        hand_over_ns=ns_by_stage.get("data.hand-over", 0) + ns_by_stage.get("data.pin", 0),
        stages=ns_by_stage,
        iterations=loader.iterations,
        restart_ns=0,
        workers=workers,
        known_ns=wait_ns if workers is not None and workers.processes else None,
        queueing_ns=0 if workers is not None and workers.processes else None,
        hol_ns=0 if workers is not None and workers.processes else None,
    )
    return replace(use, **facets, **changes)


def example_workers(
    processes: int,
    stages: Mapping[str, float | tuple[float, float]],
    *,
    batch: int = 64,
    **changes: Any,  # noqa: ANN401 - any field of WorkerUse
) -> WorkerUse:
    """Return what makes a loader's batches: so many workers (0: the training process).

    ``stages``: ms of a sample; a pair if the time on a processor is less than the wall time.
    """
    pairs = {
        name: times if isinstance(times, tuple) else (times, times)
        for name, times in sorted(stages.items(), key=lambda pair: -_wall_ms(pair[1]))
    }
    total_wall_ms = sum(wall_ms for wall_ms, _ in pairs.values()) or 1.0
    total_cpu_ms = sum(cpu_ms for _, cpu_ms in pairs.values())
    use = WorkerUse(
        processes=processes,
        fetches=COUNT,
        samples=COUNT * batch,
        fetch_median_ns=round(total_wall_ms * batch * MS),
        lifetime_ns=round(total_wall_ms * batch * MS) * COUNT,
        busy=1.0 if processes else None,
        on_cpu=total_cpu_ms / total_wall_ms,
        run_queue=0.0,
        blocked=1.0 - total_cpu_ms / total_wall_ms,
        cpu_per_sample_ns=total_cpu_ms * MS,
        bytes_per_sample=None,
        from_disk_per_sample=None,
        faults_per_sample=None,
        random=True,
        stages=tuple(
            StageUse(name, wall_ms * MS, cpu_ms * MS, wall_ms / total_wall_ms)
            for name, (wall_ms, cpu_ms) in pairs.items()
        ),
        staged=COUNT,
        slots=processes or None,
    )
    return replace(use, **changes)


def operator(
    name: str,
    calls: float,
    host_ms: float,
    device_ms: float | None = None,
    shapes: str | None = None,
) -> Operator:
    """Return an operator of a step; all of its time is its own."""
    host = round(host_ms * STEPS * MS)
    device = None if device_ms is None else round(device_ms * STEPS * MS)
    return Operator(name, shapes, round(calls * STEPS), host, host, device, device)


def kernel(
    name: str,
    calls: float,
    ms: float,
    leaf: str = "busy.math",
    **changes: Any,  # noqa: ANN401 - any field of Kernel
) -> Kernel:
    """Return a kernel of a step: its calls, and their total time."""
    n_calls, total_ns = round(calls * STEPS), round(ms * STEPS * MS)
    row = Kernel(name, total_ns, n_calls, total_ns / n_calls, None, None, leaf, None)
    return replace(row, **changes)


def example_copies(
    direction: str, memory: str | None, calls: float, ms: float, mib: float | None = None
) -> Copy:
    """Return the copies of a step ("HtoD", "pageable"): calls, total time and MiB."""
    total_ns = round(ms * STEPS * MS)
    size = None if mib is None else round(mib * STEPS) << 20
    rate = None if size is None or not total_ns else size * SECOND / total_ns
    return Copy(direction, memory, round(calls * STEPS), size, total_ns, rate)


def source_line(file: str, line: int, function: str, calls: float = 1, **ms: float) -> Line:
    """Return a source line in a step: ``host``, ``total``, ``device`` and ``idle`` in ms."""
    ns_by_kind = {name: round(duration_ms * STEPS * MS) for name, duration_ms in ms.items()}
    host = ns_by_kind.get("host", 0)
    return Line(
        file,
        line,
        function,
        round(calls * STEPS),
        host,
        ns_by_kind.get("total", host),
        ns_by_kind.get("device"),
        ns_by_kind.get("idle", 0),
    )


def example_sync(
    file: str, line: int, function: str, per_step: float = 1.0, step_ms: float = 0.0
) -> SyncUse:
    """Return a line with a synchronising call, as the footprint holds it."""
    return SyncUse(
        file,
        line,
        function,
        round(per_step * COUNT),
        round(step_ms * MS * COUNT),
        per_step,
        step_ms * MS,
    )


def example_allocator(**changes: int | None) -> AllocatorUse:
    """Return the allocator of one device without anything unusual, with changes."""
    defaults = AllocatorUse(0, 0, 20 << 30, 24 << 30, 0, 0, 120, 0)
    return replace(defaults, **changes)


def gauge(name: str, mean: float, low: float, high: float, unit: str = "") -> Series:
    """Return a sampled quantity ("gpu0.utilisation"), as the report holds it."""
    return Series(name, name, unit, mean, low, high, (low, mean, high), None)


def example_life(seconds: Mapping[str, float]) -> ProcessTime:
    """Return the lifetime of the training process, in seconds by run leaf ("set-up", …)."""
    leaves = {name: round(duration_s * SECOND) for name, duration_s in seconds.items()}
    step_ns = leaves.get("step", 0) // COUNT
    return ProcessTime(
        rank=0,
        pid=1,
        wall_ns=sum(leaves.values()),
        leaves=leaves,
        steps=COUNT,
        stepping={"step": leaves.get("step", 0)},
        mean_ns=step_ns,
        median_ns=step_ns,
        first_step_ns=None,
        first_batch_ns=None,
        to_first_batch_ns=None,
        killed=False,
    )


def _wall_ms(times: float | tuple[float, float]) -> float:
    return times[0] if isinstance(times, tuple) else times
