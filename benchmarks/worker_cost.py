"""Measure what looking at fetches costs: each component, and a sample of each kind of data set.

``python -m benchmarks.worker_cost --out benchmarks/results/worker_cost.json`` runs fetches of
torch's own fetcher in turns without and with the hooks (A B B A …), in one process and one thread,
and compares the processor time of the thread. A/A is the difference between the turns without.
Rows are written to a spool as in a worker. Components are timed hot (called in a loop) and cold
(after 20 ms of other work, as in a training).
"""

from __future__ import annotations

import argparse
import io
import os
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.machine import keep, machine

if TYPE_CHECKING:
    from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")
SPOOL = tempfile.TemporaryDirectory(prefix="gapless-benchmark-")
os.environ["GAPLESS_SPOOL"] = SPOOL.name

from gapless import wire  # noqa: E402 - the spool comes first
from gapless.payload import (  # noqa: E402
    imports,
    measure,
    pacing,
    patching,
    randomness,
    reading,
    recorder,
    stopwatch,
)
from gapless.payload.hooks import fetch, files, stages  # noqa: E402

CHOOSE = pacing.Pace.choose
BLOCK_NS = 1_500_000_000  # of fetches, for one round
COLD_S = 0.02


@dataclass(frozen=True)
class Component:
    """What one act costs, in ns of processor time; medians."""

    name: str
    hot: float
    cold: float | None


@dataclass(frozen=True)
class Difference:
    """Processor time of a sample with the hooks against without, medians over rounds."""

    name: str
    batch: int
    plain_us: float
    added_us: float
    added_share: float
    same_against_same_us: float
    same_against_same_share: float
    rounds: int
    rows: float  # of the fetches, how many were recorded
    detailed: float


class Jpegs:
    """Decode, crop and resize a JPEG of 100 KB."""

    def __init__(self, folder: Path) -> None:
        from PIL import Image

        self.path = str(folder / "picture.jpg")
        Image.effect_noise((500, 375), 60).convert("RGB").save(self.path, quality=93)

    def __getitem__(self, index: int) -> Any:  # noqa: ANN401 - a tensor
        import numpy as np
        import torch
        from PIL import Image

        with open(self.path, "rb") as file:  # noqa: PTH123 - what data sets do
            picture = Image.open(file).convert("RGB")
        picture = picture.crop((9, 9, 350, 350)).resize((224, 224))
        return torch.from_numpy(np.asarray(picture).copy())


class Spin:
    """Keep the processor busy for so long."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __getitem__(self, index: int) -> int:
        spin(self.seconds)
        return index


def spin(seconds: float) -> None:
    """Keep the processor busy."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def on() -> None:
    """Put the hooks in place."""
    for hook in (fetch, files, stages):
        hook.install()


def off() -> None:
    """Take them out again."""
    patching.restore_all()
    imports.forget_all()


def turn(fetch_batch: Callable[..., Any], fetcher: Any, indices: list[int]) -> int:  # noqa: ANN401
    """Give the processor time of a fetch, in ns."""
    start = time.thread_time_ns()
    fetch_batch(fetcher, indices)
    return time.thread_time_ns() - start


def compare(name: str, data: Any, batch: int, rounds: int) -> Difference:  # noqa: ANN401
    """Measure fetches of a data set in turns without and with the hooks, fetch by fetch."""
    from torch.utils.data._utils.collate import default_collate
    from torch.utils.data._utils.fetch import _MapDatasetFetcher

    fetcher = _MapDatasetFetcher(data, True, default_collate, False)  # noqa: FBT003 - torch's form
    indices = list(range(batch))
    fetch.forget()
    original = vars(_MapDatasetFetcher)["fetch"]
    once = min(turn(original, fetcher, indices) for _ in range(5))
    times = max(1, BLOCK_NS // (4 * max(once, 1)))
    counts = {pacing.LIGHT: 0, pacing.DETAILED: 0}
    watch_choices(counts)
    on()
    hooked = vars(_MapDatasetFetcher)["fetch"]
    blocks = [block((original, hooked), fetcher, indices, times) for _ in range(rounds + 1)][1:]
    off()
    plain, added, same = (statistics.median(one) for one in zip(*blocks, strict=True))
    per = batch * 1e3
    return Difference(
        name,
        batch,
        round(plain / per, 2),
        round(added / per, 3),
        round(added / plain, 5),
        round(same / per, 3),
        round(same / plain, 5),
        rounds,
        round(sum(counts.values()) / (2 * times * (rounds + 1)), 4),
        round(counts[pacing.DETAILED] / (2 * times * (rounds + 1)), 4),
    )


def block(
    calls: tuple[Callable[..., Any], Callable[..., Any]],
    fetcher: Any,  # noqa: ANN401 - torch's
    indices: list[int],
    times: int,
) -> tuple[float, float, float]:
    """Fetch A B B A so many times; give the mean of A, what B takes more, and A against A."""
    original, hooked = calls
    first, second, watched = 0, 0, 0
    for _ in range(times):
        first += turn(original, fetcher, indices)
        watched += turn(hooked, fetcher, indices) + turn(hooked, fetcher, indices)
        second += turn(original, fetcher, indices)
    plain = (first + second) / (2 * times)
    return plain, watched / (2 * times) - plain, abs(second - first) / times


def watch_choices(counts: dict[int, int]) -> None:
    """Count what the pace chooses, from here on."""

    def counting(self: pacing.Pace) -> int:
        kind = CHOOSE(self)
        counts[kind] += 1
        return kind

    pacing.Pace.choose = counting


def component(name: str, act: Callable[[], object], *, cold: bool = True) -> Component:
    """Time one act, hot and cold."""
    empty = statistics.median(clock(nothing, 500) for _ in range(9))
    hot = statistics.median(clock(act, 500) for _ in range(9)) - empty
    if not cold:
        return Component(name, round(hot), None)
    found: list[float] = []
    for _ in range(25):
        spin(COLD_S)
        before = clock(nothing, 1)
        found.append(clock(act, 1) - before)
    return Component(name, round(hot), round(statistics.median(found)))


def nothing() -> None:
    """Do nothing."""


def clock(act: Callable[[], object], times: int) -> float:
    """Give the processor time of an act in ns."""
    start = time.thread_time_ns()
    for _ in range(times):
        act()
    return (time.thread_time_ns() - start) / times


def components() -> list[Component]:
    """Time the parts of what a fetch pays for."""
    gauge = measure.gauge()
    row = (0,) * len(wire.BATCH_FIELDS)
    watch = stopwatch.Stopwatch()
    path = __file__

    wrapped = stopwatch.timed(nothing, stopwatch.DECODE)

    def detail() -> None:
        reading.begin(watch)
        reading.finish()

    def read() -> None:
        with io.open(path, "rb") as file:  # noqa: UP020 - as pathlib does
            file.read()

    found = [
        component("counters of the kernel, before", gauge.start),
        component("counters of the kernel, after", gauge.stop),
        component("note a row", lambda: recorder.batch(row)),
        component("states of the generators", randomness.states),
        component("begin and end looking in detail", detail),
        component("function of a stage, outside", wrapped, cold=False),
        component("the same, not wrapped", nothing, cold=False),
        component("file opened and read", read, cold=False),
    ]
    reading.begin(watch)
    found += [
        component("function of a stage, looked at", wrapped, cold=False),
        component("file opened and read, looked at", read, cold=False),
    ]
    reading.finish()
    return found


def main() -> None:
    """Measure, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    parts = components()
    with tempfile.TemporaryDirectory() as folder:
        cases = [
            ("JPEG", Jpegs(Path(folder)), 64),
            ("JPEG", Jpegs(Path(folder)), 8),
            ("spinning 1 ms", Spin(0.001), 16),
            ("spinning 0.1 ms", Spin(0.0001), 64),
            ("spinning 0.1 ms", Spin(0.0001), 1),
            ("numbers", range(1024), 64),
        ]
        rows = [compare(name, data, batch, options.rounds) for name, data, batch in cases]
    result = {
        "machine": machine(),
        "components_ns": [asdict(one) for one in parts],
        "samples": [asdict(one) for one in rows],
    }
    print(keep(result, options.out))


if __name__ == "__main__":
    main()
    SPOOL.cleanup()
