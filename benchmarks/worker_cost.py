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

from benchmarks.machine import machine, write_result

if TYPE_CHECKING:
    from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")
SPOOL = tempfile.TemporaryDirectory(prefix="gapless-benchmark-")
os.environ["GAPLESS_SPOOL"] = SPOOL.name

from gapless import wire  # noqa: E402 - the spool comes first
from gapless.payload import declare, imports, patching, randomness, recorder  # noqa: E402
from gapless.payload.hooks import fetch, files, stages  # noqa: E402
from gapless.payload.loading import measure, pacing, reads, stopwatch  # noqa: E402
from gapless.payload.process_state import STATE  # noqa: E402

CHOOSE = pacing.FetchPace.choose
BLOCK_NS = 1_500_000_000  # of fetches, for one round
COLD_S = 0.02


@dataclass(frozen=True)
class ComponentCost:
    """What one act costs, in ns of processor time; medians."""

    name: str
    hot: float
    cold: float | None


@dataclass(frozen=True)
class HookCost:
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


def install_hooks() -> None:
    """Put the hooks in place."""
    for hook in (fetch, files, stages):
        declare.install(hook, recorder)


def remove_hooks() -> None:
    """Take them out again."""
    patching.restore_all()
    imports.forget_all()


def fetch_ns(fetch_batch: Callable[..., Any], fetcher: Any, indices: list[int]) -> int:  # noqa: ANN401
    """Return the processor time of a fetch, in ns."""
    start = time.thread_time_ns()
    fetch_batch(fetcher, indices)
    return time.thread_time_ns() - start


def compare_fetches(name: str, data: Any, batch: int, rounds: int) -> HookCost:  # noqa: ANN401
    """Measure fetches of a data set in turns without and with the hooks, fetch by fetch."""
    from torch.utils.data._utils.collate import default_collate
    from torch.utils.data._utils.fetch import _MapDatasetFetcher

    fetcher = _MapDatasetFetcher(data, True, default_collate, False)  # noqa: FBT003 - torch's form
    indices = list(range(batch))
    STATE.fork()  # what threads and fetchers were known is forgotten
    original = vars(_MapDatasetFetcher)["fetch"]
    once_ns = min(fetch_ns(original, fetcher, indices) for _ in range(5))
    times = max(1, BLOCK_NS // (4 * max(once_ns, 1)))
    counts = {pacing.LIGHT: 0, pacing.DETAILED: 0}
    watch_choices(counts)
    install_hooks()
    hooked = vars(_MapDatasetFetcher)["fetch"]
    blocks = [
        measure_block((original, hooked), fetcher, indices, times) for _ in range(rounds + 1)
    ][1:]
    remove_hooks()
    plain_ns, added_ns, same_ns = (
        statistics.median(values) for values in zip(*blocks, strict=True)
    )
    scale = batch * 1e3
    return HookCost(
        name,
        batch,
        round(plain_ns / scale, 2),
        round(added_ns / scale, 3),
        round(added_ns / plain_ns, 5),
        round(same_ns / scale, 3),
        round(same_ns / plain_ns, 5),
        rounds,
        round(sum(counts.values()) / (2 * times * (rounds + 1)), 4),
        round(counts[pacing.DETAILED] / (2 * times * (rounds + 1)), 4),
    )


def measure_block(
    calls: tuple[Callable[..., Any], Callable[..., Any]],
    fetcher: Any,  # noqa: ANN401 - torch's
    indices: list[int],
    times: int,
) -> tuple[float, float, float]:
    """Fetch A B B A so many times; give the mean of A, what B takes more, and A against A."""
    original, hooked = calls
    first_ns, second_ns, watched_ns = 0, 0, 0
    for _ in range(times):
        first_ns += fetch_ns(original, fetcher, indices)
        watched_ns += fetch_ns(hooked, fetcher, indices) + fetch_ns(hooked, fetcher, indices)
        second_ns += fetch_ns(original, fetcher, indices)
    plain = (first_ns + second_ns) / (2 * times)
    return plain, watched_ns / (2 * times) - plain, abs(second_ns - first_ns) / times


def watch_choices(counts: dict[int, int]) -> None:
    """Count what the pace chooses, from here on."""

    def choose_counted(self: pacing.FetchPace) -> int:
        kind = CHOOSE(self)
        counts[kind] += 1
        return kind

    pacing.FetchPace.choose = choose_counted


def time_component(name: str, act: Callable[[], object], *, cold: bool = True) -> ComponentCost:
    """Time one act, hot and cold."""
    empty = statistics.median(time_act(do_nothing, 500) for _ in range(9))
    hot = statistics.median(time_act(act, 500) for _ in range(9)) - empty
    if not cold:
        return ComponentCost(name, round(hot), None)
    cold_ns: list[float] = []
    for _ in range(25):
        spin(COLD_S)
        before = time_act(do_nothing, 1)
        cold_ns.append(time_act(act, 1) - before)
    return ComponentCost(name, round(hot), round(statistics.median(cold_ns)))


def do_nothing() -> None:
    """Do nothing."""


def time_act(act: Callable[[], object], times: int) -> float:
    """Return the processor time of an act in ns."""
    start = time.thread_time_ns()
    for _ in range(times):
        act()
    return (time.thread_time_ns() - start) / times


def time_components() -> list[ComponentCost]:
    """Time the parts of what a fetch pays for."""
    gauge = measure.gauge()
    row = (0,) * len(wire.BATCH_FIELDS)
    watch = stopwatch.Stopwatch()
    path = __file__

    wrapped = stopwatch.time_function(do_nothing, stopwatch.DECODE)

    def detail() -> None:
        reads.begin(watch)
        reads.finish()

    def read() -> None:
        with io.open(path, "rb") as file:  # noqa: UP020 - as pathlib does
            file.read()

    costs = [
        time_component("counters of the kernel, before", gauge.start),
        time_component("counters of the kernel, after", gauge.stop),
        time_component("note a row", lambda: recorder.batch(row)),
        time_component("states of the generators", randomness.states),
        time_component("begin and end looking in detail", detail),
        time_component("function of a stage, outside", wrapped, cold=False),
        time_component("the same, not wrapped", do_nothing, cold=False),
        time_component("file opened and read", read, cold=False),
    ]
    reads.begin(watch)
    costs += [
        time_component("function of a stage, looked at", wrapped, cold=False),
        time_component("file opened and read, looked at", read, cold=False),
    ]
    reads.finish()
    return costs


def main() -> None:
    """Measure, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    parts = time_components()
    with tempfile.TemporaryDirectory() as folder:
        cases = [
            ("JPEG", Jpegs(Path(folder)), 64),
            ("JPEG", Jpegs(Path(folder)), 8),
            ("spinning 1 ms", Spin(0.001), 16),
            ("spinning 0.1 ms", Spin(0.0001), 64),
            ("spinning 0.1 ms", Spin(0.0001), 1),
            ("numbers", range(1024), 64),
        ]
        rows = [compare_fetches(name, data, batch, options.rounds) for name, data, batch in cases]
    result = {
        "machine": machine(),
        "components_ns": [asdict(cost) for cost in parts],
        "samples": [asdict(difference) for difference in rows],
    }
    print(write_result(result, options.out))


if __name__ == "__main__":
    main()
    SPOOL.cleanup()
