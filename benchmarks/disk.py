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

from benchmarks.machine import keep, machine
from gapless import wire
from gapless.launch import homecoming, running, sampling
from gapless.launch.environment import Settings
from gapless.launch.order import Order
from gapless.model.recording import Recording
from gapless.payload import thinning
from gapless.store import recordings

TRAINING: Final = Path(__file__).parent / "trainings" / "paced.py"
DAY_S: Final = 86_400
PERIOD_S: Final = thinning.PERIOD_NS / 1e9
SETTLING_S: Final = 25.0
ALLOWANCE: Final = 30_000  # bytes: for what is told once, at the start; spent in the settling time
LIMIT: Final = 200e6  # bytes of a rank and day
CASES: Final = {  # length of a step in ms, workers
    "1 ms": (1.0, 0),
    "10 ms": (10.0, 0),
    "10 ms, 2 workers": (10.0, 2),
    "100 ms, 2 workers": (100.0, 2),
}


@dataclass(frozen=True)
class Grown:
    """What one run wrote."""

    case: str
    steps: int
    step_ms: float  # as it was, on the mean
    logs_bytes_a_second: float  # of the rank with its workers, in one period
    kept: float  # share of the training's marks that have records
    frames: dict[str, int]  # bytes of the whole run by kind
    sample_bytes: float


@dataclass(frozen=True)
class Day:
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
    settings = Settings(windows=False, allowance=allowance)
    command = (sys.executable, *training, "--seconds", str(seconds))
    sizes: list[tuple[float, int]] = []
    over = threading.Event()
    watch = threading.Thread(target=_watch, args=(folder, sizes, over))
    watch.start()
    ended = running.run(Order(command, out=folder, settings=settings))
    over.set()
    watch.join()
    if ended.code or ended.beside is None:
        raise SystemExit(f"{case} failed: {ended.code} {ended.why}")
    home = homecoming.bring_home(ended.beside, homecoming.End(ended.code, ended.at), print).folder
    return recordings.finish(home), _rate(sizes)


def _watch(folder: Path, sizes: list[tuple[float, int]], over: threading.Event) -> None:
    while not over.wait(0.5):
        grown = sum(log.stat().st_size for log in folder.glob("*/logs/rank*.log"))
        sizes.append((time.monotonic(), grown))


def _rate(sizes: list[tuple[float, int]]) -> float:
    """Give bytes a second over one period that ends with the last look but one second."""
    last = sizes[-1][0] - 1.0
    inside = [one for one in sizes if last - PERIOD_S <= one[0] <= last]
    (start, before), (end, after) = inside[0], inside[-1]
    return (after - before) / (end - start)


def grown(case: str, recording: Recording, rate: float) -> Grown:
    """Describe a run."""
    (training,) = (one for one in recording.processes if one.role == "training")
    marks, sums = training.marks, training.mark_sums
    kept, summed = len(marks), 0 if sums is None else int(sums.columns["count"].sum())
    steps = int((marks.kind == wire.STEP).sum())
    if sums is not None:
        steps += int(sums.columns["count"][sums.columns["kind"] == wire.STEP].sum())
    ends = marks.end if sums is None else np.append(marks.end, sums.columns["end"])
    span = int(ends.max() - marks.start.min())
    return Grown(
        case=case,
        steps=steps,
        step_ms=span / steps / 1e6,
        logs_bytes_a_second=rate,
        kept=kept / (kept + summed),
        frames=_frames(Path(recording.path)),
        sample_bytes=_sample_bytes(recording),
    )


def _frames(folder: Path) -> dict[str, int]:
    """Give the bytes of the whole run by kind of frame."""
    sizes = Counter[str]()
    for log in folder.glob("logs/rank*.log"):
        for one in wire.frames(log.read_bytes())[0]:
            sizes[wire.FRAMES[one.kind]] += len(one.body) + wire.HEADER.size
    return dict(sizes)


def _sample_bytes(recording: Recording) -> float:
    log = (Path(recording.path) / "logs" / "samples.log").read_bytes()
    samples = [one for one in wire.frames(log)[0] if one.kind == wire.SAMPLE]
    return sum(len(one.body) + wire.HEADER.size for one in samples) / len(samples)


def samples_a_day() -> int:
    """Count the looks of a day."""
    count, at = 0, 0.0
    while at < DAY_S:
        at += sampling.period_s(at, 0.0)
        count += 1
    return count


def database_share(recording: Recording) -> float:
    """Give how many bytes of ``run.sqlite`` follow from one byte of logs, samples included."""
    folder = Path(recording.path)
    logs = sum(log.stat().st_size for log in folder.glob("logs/*.log"))
    return (folder / "run.sqlite").stat().st_size / logs


def day(one: Grown, share: float) -> Day:
    """Extrapolate to a day."""
    workers = CASES[one.case][1] > 0
    first = thinning.FIRST + (thinning.FIRST_OF_WORKERS if workers else 0)
    logs = first + one.logs_bytes_a_second * DAY_S
    samples = one.sample_bytes * samples_a_day()
    together = (logs + samples) * (1 + share)
    return Day(one.case, logs, samples, (logs + samples) * share, together, together <= LIMIT)


def main() -> None:
    """Record all cases and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="+", default=list(CASES))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found: list[Grown] = []
    with tempfile.TemporaryDirectory() as folder:
        full, _ = record("1 ms", 12.0, None, Path(folder) / "full")
        share = database_share(full)
        for at, case in enumerate(options.cases):
            recording, rate = record(case, SETTLING_S + PERIOD_S, ALLOWANCE, Path(folder) / str(at))
            found.append(grown(case, recording, rate))
            print(found[-1], flush=True)
    room = {
        "first_bytes": [thinning.FIRST, thinning.FIRST_OF_WORKERS],
        "bytes_a_second": [thinning.RATE, thinning.RATE_OF_WORKERS],
    }
    days = [asdict(day(one, share)) for one in found]
    result = {
        "machine": machine(),
        "extrapolated": f"measured over {PERIOD_S:.0f} s after the first amount, scaled to a day",
        "room": room,
        "samples_a_day": samples_a_day(),
        "database_bytes_a_log_byte": share,
        "measured": [asdict(one) for one in found],
        "days": days,
    }
    keep(result, options.out)
    for one in days:
        print(json.dumps(one))


if __name__ == "__main__":
    main()
