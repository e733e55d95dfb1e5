"""Who makes a loader's batches: how busy its workers were, what a sample costs, and where."""

from collections.abc import Sequence

import numpy as np

from gapless import wire
from gapless.model.recording import Process
from gapless.model.run import StageUse, WorkerUse
from gapless.model.trace import Int64
from gapless.recorded.loaders.batches import Columns, fetch_table
from gapless.recorded.training.edges import Bool
from gapless.recorded.values import as_int

_Maker = tuple[Process, int]  # a process, and the number of the loader that it fetched for


def worker_use(
    own_makers: Sequence[_Maker], workers: Sequence[_Maker], n_handed: int
) -> WorkerUse | None:
    """Describe who fetched for a loader: workers, else the training process; ``None``: nobody.

    The number of batches handed over is given: workers do not record every one that they fetch.
    """
    makers = [maker for maker in workers if len(fetch_table(*maker)["start"])]
    columns = [fetch_table(*maker) for maker in makers or own_makers]
    columns = [table for table in columns if len(table["start"])]
    if not columns:
        return None
    fetches = {name: np.concatenate([table[name] for table in columns]) for name in columns[0]}
    life_ns = sum(int(table["end"].max() - table["start"].min()) for table in columns)
    single_ns = fetches["wall"][fetches["count"] == 1]
    samples = _known_sum(fetches["samples"])
    shares = _life_shares(
        fetches, None if not makers or not life_ns else _busy_share(fetches, n_handed, life_ns)
    )
    return WorkerUse(
        processes=len(makers),
        fetches=int(fetches["count"].sum()),
        samples=samples,
        fetch_median_ns=int(np.median(single_ns)) if len(single_ns) else None,
        lifetime_ns=life_ns,
        busy=shares["busy"],
        on_cpu=shares["on_cpu"],
        run_queue=shares["run_queue"],
        blocked=shares["blocked"],
        cpu_per_sample_ns=_per_sample(fetches, "cpu"),
        bytes_per_sample=_per_sample(fetches, "bytes_read"),
        from_disk_per_sample=_per_sample(fetches, "bytes_from_disk"),
        faults_per_sample=_per_sample(fetches, "minor_faults"),
        random=bool(fetches["random"].any()) if fetches["looked"].any() else None,
        stages=_stage_uses(fetches),
        staged=int(fetches["detailed"].sum()),
        slots=len({(process.rank, process.worker) for process, _ in makers}) or None,
        threads=max(
            (n_threads for process, _ in makers if (n_threads := _worker_threads(process))),
            default=None,
        ),
    )


def _worker_threads(process: Process) -> int | None:
    """Return how many threads operators use in a worker, as reported after its first batch."""
    counts = (
        fact.values.get("intra_op_threads") for fact in process.facts if fact.noun == "threads"
    )
    return next(map(as_int, counts), None)


def _known_sum(column: Int64) -> int | None:
    observed = column[column >= 0]
    return int(observed.sum()) if len(observed) else None


def _per_sample(fetches: Columns, name: str) -> float | None:
    """Return a quantity per sample, over the fetches in which both were observed."""
    rows = (fetches[name] >= 0) & (fetches["samples"] > 0)
    samples = int(fetches["samples"][rows].sum())
    return float(fetches[name][rows].sum()) / samples if samples else None


def _busy_share(fetches: Columns, n_handed: int, life_ns: int) -> float:
    """Return the share of their life in which workers fetched, unrecorded fetches included."""
    recorded = int(fetches["count"].sum())
    return min(1.0, float(fetches["wall"].sum()) * max(1.0, n_handed / recorded) / life_ns)


def _life_shares(fetches: Columns, busy: float | None) -> dict[str, float | None]:
    """Split the wall time of workers' fetches: what ran, waited to run, and was blocked."""
    wall_ns, has_cpu = fetches["wall"], fetches["cpu"] >= 0
    has_queue = has_cpu & (fetches["run_queue"] >= 0)
    scale = 1.0 if busy is None else busy
    on_cpu = _share(fetches["cpu"], wall_ns, has_cpu)
    queue = _share(fetches["run_queue"], wall_ns, has_queue)
    blocked = None
    if on_cpu is not None and queue is not None:
        total_share = max(1.0, on_cpu + queue)  # the clocks are read one after the other
        on_cpu, queue = on_cpu / total_share, queue / total_share
        blocked = 1.0 - on_cpu - queue
    return {
        "busy": busy,
        "on_cpu": None if on_cpu is None else on_cpu * scale,
        "run_queue": None if queue is None else queue * scale,
        "blocked": None if blocked is None else blocked * scale,
    }


def _share(part_ns: Int64, wall_ns: Int64, rows: Bool) -> float | None:
    total_ns = int(wall_ns[rows].sum())
    return float(part_ns[rows].sum()) / total_ns if total_ns else None


def _stage_uses(fetches: Columns) -> tuple[StageUse, ...]:
    """Rank the stages by what they cost without waiting for a processor.

    How long a stage waited for one is not known, only how long the whole fetch did: its time off
    the processor is scaled by the share of that which was blocked. Without run queues it is the
    wall time.
    """
    rows = fetches["detailed"] > 0
    samples = int(fetches["detailed_samples"][rows].clip(0).sum())
    walls_ns = {stage: int(fetches[f"{stage}_wall"][rows].clip(0).sum()) for stage in wire.STAGES}
    spent_ns = {stage: int(fetches[f"{stage}_cpu"][rows].clip(0).sum()) for stage in wire.STAGES}
    total_wall_ns = int(fetches["detailed_wall"][rows].sum())
    walls_ns["other"] += max(0, total_wall_ns - sum(walls_ns.values()))
    blocked = _blocked_share(fetches)
    cost_ns = {
        stage: spent_ns[stage] + max(0, walls_ns[stage] - spent_ns[stage]) * blocked
        for stage in wire.STAGES
    }
    total_ns = sum(cost_ns.values())
    if not total_ns or not samples:
        return ()
    ranked = sorted(
        (stage for stage in wire.STAGES if cost_ns[stage]), key=lambda stage: -cost_ns[stage]
    )
    return tuple(
        StageUse(
            stage, walls_ns[stage] / samples, spent_ns[stage] / samples, cost_ns[stage] / total_ns
        )
        for stage in ranked
    )


def _blocked_share(fetches: Columns) -> float:
    rows = (fetches["detailed"] > 0) & (fetches["cpu"] >= 0) & (fetches["run_queue"] >= 0)
    off_ns = (fetches["wall"] - fetches["cpu"])[rows].clip(0)
    total_off_ns = int(off_ns.sum())
    return (
        1.0 - min(1.0, float(fetches["run_queue"][rows].sum()) / total_off_ns)
        if total_off_ns
        else 1.0
    )
