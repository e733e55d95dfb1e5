"""How much a recorded rank writes in a day: ``python -m benchmarks.disk``.

Trainings of several step lengths are recorded, with and without workers, from the state on in which
the first amount is spent (the option ``allowance``). What the logs grow by in one period of detail
and sums is extrapolated to a day, the first amount added. Samples of the machine come ever more
seldom: their size is measured, their number in a day known. ``run.sqlite`` follows from the logs:
its share is measured on a run in full detail, where it is largest. Windows are not in it: at most
seven, each of which holds as much as its steps.
"""

import argparse
import json
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.machine import machine, write_result
from gapless import wire
from gapless.launch.environment import RecorderSettings
from gapless.launch.run import finalize, running
from gapless.launch.run_spec import RunSpec
from gapless.launch.samplers import sampling
from gapless.model.recording import Recording
from gapless.payload.log import thinning
from gapless.store.run import recordings

TRAINING: Final = Path(__file__).parent / "trainings" / "paced.py"
DAY_S: Final = 86_400
PERIOD_S: Final = thinning.PERIOD_NS / 1e9
SETTLE_S: Final = 25.0
ALLOWANCE: Final = 30_000  # bytes: for what is told once, at the start; spent in the settling time
MAX_DAY_BYTES: Final = 200e6  # bytes of a rank and day
CASES: Final = {  # length of a step in ms, workers
    "1 ms": (1.0, 0),
    "10 ms": (10.0, 0),
    "10 ms, 2 workers": (10.0, 2),
    "100 ms, 2 workers": (100.0, 2),
}


@dataclass(frozen=True)
class RunGrowth:
    """What one run wrote."""

    case: str
    steps: int
    step_ms: float  # as it was, on the mean
    logs_bytes_a_second: float  # of the rank with its workers, in one period
    kept: float  # share of the training's marks that have records
    frames: dict[str, int]  # bytes of the whole run by kind
    sample_bytes: float


@dataclass(frozen=True)
class DayGrowth:
    """What a rank writes in a day, extrapolated: bytes."""

    case: str
    logs: float
    samples: float
    database: float
    together: float
    within: bool


def record(
    case: str, seconds: float, allowance: int | None, folder: Path
) -> tuple[Recording, float]:
    """Record a training; give what was recorded, and the logs' growth a second in one period."""
    step_ms, workers = CASES[case]
    training = [str(TRAINING), "--step-ms", str(step_ms), "--workers", str(workers)]
    settings = RecorderSettings(windows=False, allowance=allowance)
    command = (sys.executable, *training, "--seconds", str(seconds))
    sizes: list[tuple[float, int]] = []
    stop_event = threading.Event()
    watch = threading.Thread(target=_watch, args=(folder, sizes, stop_event))
    watch.start()
    outcome = running.run(RunSpec(command, out=folder, settings=settings))
    stop_event.set()
    watch.join()
    if outcome.code or outcome.sidecar is None:
        raise SystemExit(f"{case} failed: {outcome.code} {outcome.why}")
    run_folder = finalize.finalize_run(
        outcome.sidecar, finalize.CommandEnd(outcome.code, outcome.ended_ns), print
    ).folder
    return recordings.finish(run_folder), _bytes_per_second(sizes)


def _watch(folder: Path, sizes: list[tuple[float, int]], stop_event: threading.Event) -> None:
    while not stop_event.wait(0.5):
        size = sum(log.stat().st_size for log in folder.glob("*/logs/rank*.log"))
        sizes.append((time.monotonic(), size))


def _bytes_per_second(sizes: list[tuple[float, int]]) -> float:
    """Return bytes a second over one period that ends with the last look but one second."""
    last_s = sizes[-1][0] - 1.0
    period_sizes = [look for look in sizes if last_s - PERIOD_S <= look[0] <= last_s]
    (start, before), (end, after) = period_sizes[0], period_sizes[-1]
    return (after - before) / (end - start)


def describe_growth(case: str, recording: Recording, rate: float) -> RunGrowth:
    """Describe a run."""
    (training,) = (process for process in recording.processes if process.role == "training")
    marks, sums = training.marks, training.mark_sums
    n_kept, n_summed = len(marks), 0 if sums is None else int(sums.columns["count"].sum())
    steps = int((marks.kind == wire.STEP).sum())
    if sums is not None:
        steps += int(sums.columns["count"][sums.columns["kind"] == wire.STEP].sum())
    ends = marks.end if sums is None else np.append(marks.end, sums.columns["end"])
    span = int(ends.max() - marks.start.min())
    return RunGrowth(
        case=case,
        steps=steps,
        step_ms=span / steps / 1e6,
        logs_bytes_a_second=rate,
        kept=n_kept / (n_kept + n_summed),
        frames=_frames(Path(recording.path)),
        sample_bytes=_sample_bytes(recording),
    )


def _frames(folder: Path) -> dict[str, int]:
    """Return the bytes of the whole run by kind of frame."""
    sizes = Counter[str]()
    for log in folder.glob("logs/rank*.log"):
        for frame in wire.frames(log.read_bytes())[0]:
            sizes[wire.FRAMES[frame.kind]] += len(frame.body) + wire.HEADER.size
    return dict(sizes)


def _sample_bytes(recording: Recording) -> float:
    log = (Path(recording.path) / "logs" / "samples.log").read_bytes()
    samples = [frame for frame in wire.frames(log)[0] if frame.kind == wire.SAMPLE]
    return sum(len(frame.body) + wire.HEADER.size for frame in samples) / len(samples)


def count_daily_samples() -> int:
    """Count the looks of a day."""
    count, now_s = 0, 0.0
    while now_s < DAY_S:
        now_s += sampling.period_s(now_s, 0.0)
        count += 1
    return count


def database_share(recording: Recording) -> float:
    """Return how many bytes of ``run.sqlite`` follow from one byte of logs, samples included."""
    folder = Path(recording.path)
    logs = sum(log.stat().st_size for log in folder.glob("logs/*.log"))
    return (folder / "run.sqlite").stat().st_size / logs


def extrapolate_day(growth: RunGrowth, share: float) -> DayGrowth:
    """Extrapolate to a day."""
    workers = CASES[growth.case][1] > 0
    first_bytes = thinning.FIRST_BYTES + (thinning.WORKERS_FIRST_BYTES if workers else 0)
    logs = first_bytes + growth.logs_bytes_a_second * DAY_S
    samples = growth.sample_bytes * count_daily_samples()
    together = (logs + samples) * (1 + share)
    return DayGrowth(
        growth.case, logs, samples, (logs + samples) * share, together, together <= MAX_DAY_BYTES
    )


def main() -> None:
    """Record all cases and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="+", default=list(CASES))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    growths: list[RunGrowth] = []
    with tempfile.TemporaryDirectory() as folder:
        full, _ = record("1 ms", 12.0, None, Path(folder) / "full")
        share = database_share(full)
        for index, case in enumerate(options.cases):
            recording, rate = record(
                case, SETTLE_S + PERIOD_S, ALLOWANCE, Path(folder) / str(index)
            )
            growths.append(describe_growth(case, recording, rate))
            print(growths[-1], flush=True)
    allowances = {
        "first_bytes": [thinning.FIRST_BYTES, thinning.WORKERS_FIRST_BYTES],
        "bytes_a_second": [thinning.BYTES_PER_S, thinning.WORKERS_BYTES_PER_S],
    }
    days = [asdict(extrapolate_day(growth, share)) for growth in growths]
    result = {
        "machine": machine(),
        "extrapolated": f"measured over {PERIOD_S:.0f} s after the first amount, scaled to a day",
        "room": allowances,
        "samples_a_day": count_daily_samples(),
        "database_bytes_a_log_byte": share,
        "measured": [asdict(growth) for growth in growths],
        "days": days,
    }
    write_result(result, options.out)
    for day in days:
        print(json.dumps(day))


if __name__ == "__main__":
    main()
