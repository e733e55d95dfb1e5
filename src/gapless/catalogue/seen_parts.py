"""Parts of what a rule sees, for ``seen_examples.seen``: loaders' uses, rows of tables, lives.

Times are given in milliseconds of one step, sizes in MiB of one.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from gapless.model.facts import Loader
from gapless.model.footprint import AllocatorUse, SyncUse
from gapless.model.run import LoaderUse, ProcessTime, Series, StageUse, WorkerUse
from gapless.model.tables import Copy, Kernel, Line, Operator

MS: Final = 1_000_000
SECOND: Final = 1_000_000_000
COUNT: Final = 100  # un-profiled steps
STEPS: Final = 10  # of the windows


def used(
    of: Loader,
    stages: Mapping[str, float],
    workers: WorkerUse | None = None,
    **changes: Any,  # noqa: ANN401 - any field of LoaderUse
) -> LoaderUse:
    """Give how a loader was waited for: one batch a step, in ms of a wait by stage.

    ``stages``: "read", "decode", …, "hand-over" as ``model.leaf.DATA_STAGES`` names them. Its
    share of the steps is filled in by ``seen``. ``queueing_ms`` and ``hol_ms`` give the facets.
    """
    facets = {
        f"{name}_ns": round(changes.pop(f"{name}_ms") * COUNT * MS)
        for name in ("known", "queueing", "hol")
        if f"{name}_ms" in changes
    }
    spent = {f"data.{name}": round(ms * COUNT * MS) for name, ms in stages.items()}
    wait = sum(spent.values())
    where = of.where
    settings: dict[str, object] = {
        "batch_size": of.batch_size,
        "num_workers": of.num_workers,
        "prefetch_factor": of.prefetch_factor,
        "persistent_workers": of.persistent_workers,
    }
    made = LoaderUse(
        id=of.id,
        file=where.file if where else None,
        line=where.line if where else None,
        function=where.function if where else None,
        settings=settings,
        waits=COUNT,
        wait_ns=wait,
        share=None,
        mean_ns=wait // COUNT,
        p95_ns=wait // COUNT,
        longest_ns=wait // COUNT,
        first_ns=wait // COUNT,
        hand_over_ns=spent.get("data.hand-over", 0) + spent.get("data.pin", 0),
        stages=spent,
        iterations=of.iterations,
        restart_ns=0,
        workers=workers,
        known_ns=wait if workers is not None and workers.processes else None,
        queueing_ns=0 if workers is not None and workers.processes else None,
        hol_ns=0 if workers is not None and workers.processes else None,
    )
    return replace(made, **facets, **changes)


def made_by(
    processes: int,
    stages: Mapping[str, float | tuple[float, float]],
    *,
    batch: int = 64,
    **changes: Any,  # noqa: ANN401 - any field of WorkerUse
) -> WorkerUse:
    """Give what makes a loader's batches: that many workers (0: the training process).

    ``stages``: ms of a sample; a pair where the time on a processor is less than the whole.
    """
    pairs = {
        name: one if isinstance(one, tuple) else (one, one)
        for name, one in sorted(stages.items(), key=lambda item: -_wall(item[1]))
    }
    wall = sum(one for one, _ in pairs.values()) or 1.0
    cpu = sum(one for _, one in pairs.values())
    made = WorkerUse(
        processes=processes,
        fetches=COUNT,
        samples=COUNT * batch,
        fetch_median_ns=round(wall * batch * MS),
        lifetime_ns=round(wall * batch * MS) * COUNT,
        busy=1.0 if processes else None,
        on_cpu=cpu / wall,
        run_queue=0.0,
        blocked=1.0 - cpu / wall,
        cpu_per_sample_ns=cpu * MS,
        bytes_per_sample=None,
        from_disk_per_sample=None,
        faults_per_sample=None,
        random=True,
        stages=tuple(
            StageUse(name, one * MS, on * MS, one / wall) for name, (one, on) in pairs.items()
        ),
        staged=COUNT,
        slots=processes or None,
    )
    return replace(made, **changes)


def operator(
    name: str,
    calls: float,
    host_ms: float,
    device_ms: float | None = None,
    shapes: str | None = None,
) -> Operator:
    """Give an operator of a step; its own time is all its time."""
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
    """Give a kernel of a step: its calls, and how long they take together."""
    many, whole = round(calls * STEPS), round(ms * STEPS * MS)
    made = Kernel(name, whole, many, whole / many, None, None, leaf, None)
    return replace(made, **changes)


def copied(
    direction: str, memory: str | None, calls: float, ms: float, mib: float | None = None
) -> Copy:
    """Give copies of a step ("HtoD", "pageable"): calls, time and MiB of all of them."""
    whole = round(ms * STEPS * MS)
    size = None if mib is None else round(mib * STEPS) << 20
    rate = None if size is None or not whole else size * SECOND / whole
    return Copy(direction, memory, round(calls * STEPS), size, whole, rate)


def source(
    file: str,
    line: int,
    function: str,
    calls: float = 1,
    **ms: float,
) -> Line:
    """Give a line of the user's in a step: ``host``, ``total``, ``device`` and ``idle`` in ms."""
    times = {name: round(one * STEPS * MS) for name, one in ms.items()}
    host = times.get("host", 0)
    return Line(
        file,
        line,
        function,
        round(calls * STEPS),
        host,
        times.get("total", host),
        times.get("device"),
        times.get("idle", 0),
    )


def waited_at(
    file: str, line: int, function: str, per_step: float = 1.0, step_ms: float = 0.0
) -> SyncUse:
    """Give a line that waits for the device by a call that Python sees, as the footprint has it."""
    return SyncUse(
        file,
        line,
        function,
        round(per_step * COUNT),
        round(step_ms * MS * COUNT),
        per_step,
        step_ms * MS,
    )


def allocator(**changes: int | None) -> AllocatorUse:
    """Give the allocator of one device, with nothing odd about it, changed."""
    usual = AllocatorUse(0, 0, 20 << 30, 24 << 30, 0, 0, 120, 0)
    return replace(usual, **changes)


def gauge(name: str, mean: float, low: float, high: float, unit: str = "") -> Series:
    """Give a sampled quantity ("gpu0.utilisation"), as the report has it."""
    return Series(name, name, unit, mean, low, high, (low, mean, high), None)


def lived(seconds: Mapping[str, float], steps: int = COUNT) -> ProcessTime:
    """Give the life of the training process, in seconds by run leaf ("set-up", "evaluation" …)."""
    leaves = {name: round(one * SECOND) for name, one in seconds.items()}
    step = leaves.get("step", 0) // steps if steps else None
    return ProcessTime(
        rank=0,
        pid=1,
        wall_ns=sum(leaves.values()),
        leaves=leaves,
        steps=steps,
        stepping={"step": leaves.get("step", 0)},
        mean_ns=step,
        median_ns=step,
        first_step_ns=None,
        first_batch_ns=None,
        to_first_batch_ns=None,
        killed=False,
    )


def _wall(one: float | tuple[float, float]) -> float:
    return one[0] if isinstance(one, tuple) else one
