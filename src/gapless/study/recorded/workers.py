"""What makes a loader's batches: how busy its workers were, what a sample costs, and where."""

from collections.abc import Sequence

import numpy as np

from gapless import wire
from gapless.model.recording import Process
from gapless.model.run import StageUse, WorkerUse
from gapless.model.trace import Int64
from gapless.study.recorded.batches import Columns, fetched
from gapless.study.recorded.edges import Bool
from gapless.study.recorded.values import whole

_Maker = tuple[Process, int]  # a process, and the number of the loader that it fetched for


def worker_use(own: Sequence[_Maker], workers: Sequence[_Maker], handed: int) -> WorkerUse | None:
    """Describe who fetched for a loader: workers, else the training process; ``None``: nobody.

    ``handed``: the batches that were handed over; workers record not every one that they fetch.
    """
    made = [one for one in workers if len(fetched(*one)["start"])]
    columns = [fetched(*one) for one in made or own]
    columns = [one for one in columns if len(one["start"])]
    if not columns:
        return None
    every = {name: np.concatenate([one[name] for one in columns]) for name in columns[0]}
    life = sum(int(one["end"].max() - one["start"].min()) for one in columns)
    single = every["wall"][every["count"] == 1]
    samples = _known_sum(every["samples"])
    shares = _shares(every, None if not made or not life else _busy(every, handed, life))
    return WorkerUse(
        processes=len(made),
        fetches=int(every["count"].sum()),
        samples=samples,
        fetch_median_ns=int(np.median(single)) if len(single) else None,
        lifetime_ns=life,
        busy=shares["busy"],
        on_cpu=shares["on_cpu"],
        run_queue=shares["run_queue"],
        blocked=shares["blocked"],
        cpu_per_sample_ns=_per(every, "cpu"),
        bytes_per_sample=_per(every, "bytes_read"),
        from_disk_per_sample=_per(every, "bytes_from_disk"),
        faults_per_sample=_per(every, "minor_faults"),
        random=bool(every["random"].any()) if every["looked"].any() else None,
        stages=_stages(every),
        staged=int(every["detailed"].sum()),
        slots=len({(one.rank, one.worker) for one, _ in made}) or None,
        threads=max((many for one, _ in made if (many := _threads(one))), default=None),
    )


def _threads(process: Process) -> int | None:
    """Give how many threads operators use in a worker, as it told after its first batch."""
    told = (one.values.get("intra_op_threads") for one in process.facts if one.noun == "threads")
    return next(map(whole, told), None)


def _known_sum(column: Int64) -> int | None:
    known = column[column >= 0]
    return int(known.sum()) if len(known) else None


def _per(every: Columns, name: str) -> float | None:
    """Give a quantity a sample, over the fetches in which both were observed."""
    rows = (every[name] >= 0) & (every["samples"] > 0)
    samples = int(every["samples"][rows].sum())
    return float(every[name][rows].sum()) / samples if samples else None


def _busy(every: Columns, handed: int, life: int) -> float:
    """Give the share of their life in which workers fetched, fetches that passed unrecorded too."""
    recorded = int(every["count"].sum())
    return min(1.0, float(every["wall"].sum()) * max(1.0, handed / recorded) / life)


def _shares(every: Columns, busy: float | None) -> dict[str, float | None]:
    """Part the workers' life: of the wall time of fetches what ran, waited to run, was blocked."""
    wall, known = every["wall"], every["cpu"] >= 0
    waited = known & (every["run_queue"] >= 0)
    scale = 1.0 if busy is None else busy
    on_cpu = _share(every["cpu"], wall, known)
    queue = _share(every["run_queue"], wall, waited)
    off = None
    if on_cpu is not None and queue is not None:
        above = max(1.0, on_cpu + queue)  # the clocks are read one after the other
        on_cpu, queue = on_cpu / above, queue / above
        off = 1.0 - on_cpu - queue
    return {
        "busy": busy,
        "on_cpu": None if on_cpu is None else on_cpu * scale,
        "run_queue": None if queue is None else queue * scale,
        "blocked": None if off is None else off * scale,
    }


def _share(part: Int64, wall: Int64, rows: Bool) -> float | None:
    whole = int(wall[rows].sum())
    return float(part[rows].sum()) / whole if whole else None


def _stages(every: Columns) -> tuple[StageUse, ...]:
    """Rank the stages by what they cost without waiting for a processor.

    How long a stage waited for one is not known, only the whole fetch: its time off the processor
    is scaled by the share of that which was blocked. Without run queues it is the wall time.
    """
    rows = every["detailed"] > 0
    samples = int(every["detailed_samples"][rows].clip(0).sum())
    walls = {stage: int(every[f"{stage}_wall"][rows].clip(0).sum()) for stage in wire.STAGES}
    spent = {stage: int(every[f"{stage}_cpu"][rows].clip(0).sum()) for stage in wire.STAGES}
    whole = int(every["detailed_wall"][rows].sum())
    walls["other"] += max(0, whole - sum(walls.values()))
    blocked = _blocked(every)
    cost = {
        stage: spent[stage] + max(0, walls[stage] - spent[stage]) * blocked for stage in wire.STAGES
    }
    total = sum(cost.values())
    if not total or not samples:
        return ()
    ranked = sorted((stage for stage in wire.STAGES if cost[stage]), key=lambda one: -cost[one])
    return tuple(
        StageUse(one, walls[one] / samples, spent[one] / samples, cost[one] / total)
        for one in ranked
    )


def _blocked(every: Columns) -> float:
    rows = (every["detailed"] > 0) & (every["cpu"] >= 0) & (every["run_queue"] >= 0)
    off = (every["wall"] - every["cpu"])[rows].clip(0)
    whole = int(off.sum())
    return 1.0 - min(1.0, float(every["run_queue"][rows].sum()) / whole) if whole else 1.0
