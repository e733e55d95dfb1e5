"""Measure what-ifs: how long the study of a run takes, and each what-if within it.

``python -m benchmarks.replaying`` studies records of ``tests/zoo`` in turn, several rounds, past
every cache: the whole command, from the run's folder to what it prints, and within a process its
parts and each what-if that is played. The window with the most events (``LONG``: 109,000) is also
played together with the loader of another record (``LOADER``): what a loader's queue costs in a
window so long, not what it would give there.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from benchmarks import watch
from benchmarks.machine import machine, write_result
from gapless.model.account import Account
from gapless.model.change import Change, HostChange, LoaderChange, Prediction
from gapless.model.estimate import Estimate
from gapless.model.finding import ReplayFidelity
from gapless.model.trace import Trace
from gapless.pricing.conclude import conclude
from gapless.pricing.price import Prices
from gapless.pricing.simulators.protocol import Simulator
from gapless.pricing.simulators.simulator import RunSimulator, WindowSimulator
from gapless.replay.predict.predict import PredictionInputs, predict
from gapless.store.run.recordings import load
from gapless.store.run.unpack import unpack
from gapless.study import Options
from gapless.study.build_run import account_run, prices_of_run

FOLDER = Path(__file__).parent
RESULT = FOLDER / "results" / "replaying.json"
RECORDS = FOLDER.parent / "tests" / "zoo" / "records"
GAPLESS = str(Path(sys.executable).with_name("gapless"))
LONG = "control-launches-g"
LOADER = "speech-padded-g"
Figures = dict[str, Any]
NAMES = (
    LONG,
    "language-naive-checkpointed-g",
    LOADER,
    "clicks-pageable-g",
    "pictures-slow-storage-c",
)


@dataclass(frozen=True)
class WhatIfTime:
    """A what-if: what was changed, how long it took, and what of that on a processor."""

    changes: str
    seconds: float
    cpu: float


@dataclass(frozen=True)
class TimedSimulator:
    """Plays what another plays, and keeps how long that took."""

    simulator: Simulator
    times: list[WhatIfTime] = field(default_factory=list[WhatIfTime])

    @property
    def fidelity(self) -> ReplayFidelity | None:
        """Return how well the unchanged windows are played."""
        return self.simulator.fidelity

    def play(self, changes: Sequence[Change]) -> Prediction:
        """Predict what changes together give, and keep how long that took."""
        start_s, cpu_s = time.perf_counter(), time.process_time()
        prediction = self.simulator.play(changes)
        spent = time.perf_counter() - start_s, time.process_time() - cpu_s
        kinds = " + ".join(type(change).__name__ for change in changes)
        self.times.append(WhatIfTime(kinds, *spent))
        return prediction

    def account(self, changes: Sequence[Change]) -> Account | None:
        """Return the account of a window with changes made, and keep how long that took."""
        start_s, cpu_s = time.perf_counter(), time.process_time()
        account = self.simulator.account(changes)
        spent = time.perf_counter() - start_s, time.process_time() - cpu_s
        kinds = " + ".join(type(change).__name__ for change in changes)
        self.times.append(WhatIfTime(f"{kinds}, its account", *spent))
        return account

    def draw(self, changes: Sequence[Change]) -> Trace | None:
        """Return a window with changes made, as a trace."""
        return self.simulator.draw(changes)


@dataclass(frozen=True)
class TimedStudy:
    """One study: events of its windows, its parts in seconds, what was played, and with what."""

    events: int
    account_s: float
    graphs_s: float
    causes_s: float
    what_ifs: list[WhatIfTime]
    prices: Prices


def study_run(folder: Path) -> TimedStudy:
    """Study a run past every cache."""
    start_s = time.perf_counter()
    account = account_run(load(folder), Options(cache=False), lambda _: None)
    accounted_s = time.perf_counter()
    run_prices = prices_of_run(account, cached=False)
    ready_s = time.perf_counter()
    timed_simulator = TimedSimulator(run_prices.simulator)
    study = conclude(replace(run_prices, simulator=timed_simulator))
    return TimedStudy(
        study.health.events,
        accounted_s - start_s,
        ready_s - accounted_s,
        time.perf_counter() - ready_s,
        timed_simulator.times,
        run_prices,
    )


def play_with_loader(long_prices: Prices, loader_prices: Prices) -> list[WhatIfTime]:
    """Play a long window with another run's loader: as it is, then with changes beside."""
    (windows, loaders) = (_windows(long_prices.simulator), loader_prices.simulator)
    if windows is None or not isinstance(loaders, RunSimulator) or not loaders.loaders:
        return []
    inputs = loaders.loaders[0]
    extra = PredictionInputs(loaders={inputs.loader.id: inputs})
    deeper = LoaderChange(inputs.loader.id, prefetch_factor=8)
    more_workers = LoaderChange(inputs.loader.id, num_workers=8)
    less_host = HostChange(("idle.host.",), Estimate(0.4, 0.5, 0.6))
    times: list[WhatIfTime] = []
    for changes in ((deeper,), (more_workers,), (less_host, more_workers)):
        start_s, cpu_s = time.perf_counter(), time.process_time()
        predict(windows.scenes, changes, extra)
        spent = time.perf_counter() - start_s, time.process_time() - cpu_s
        kinds = " + ".join(type(change).__name__ for change in changes)
        times.append(WhatIfTime(f"{kinds}, in one replay", *spent))
    return times


def _windows(simulator: Simulator) -> WindowSimulator | None:
    return simulator.windows if isinstance(simulator, RunSimulator) else None


def spread(values: Iterable[float]) -> dict[str, float]:
    """Return median and extremes, in seconds."""
    ordered = sorted(values)
    figures = {"median": statistics.median(ordered), "min": ordered[0], "max": ordered[-1]}
    return {name: round(value, 3) for name, value in figures.items()}


def what_if_to_json(what_if: WhatIfTime) -> Figures:
    """Return a what-if as JSON."""
    return {
        "changes": what_if.changes,
        "s": round(what_if.seconds, 3),
        "cpu_s": round(what_if.cpu, 3),
    }


def record_figures(
    name: str,
    commands: list[watch.CommandRun],
    rounds: list[TimedStudy],
    loader_what_ifs: list[WhatIfTime],
) -> Figures:
    """Return the figures of a record; the median of each what-if, the dearest first."""
    what_ifs = [
        WhatIfTime(
            study[0].changes,
            statistics.median(two.seconds for two in study),
            statistics.median(two.cpu for two in study),
        )
        for study in zip(*(same_change.what_ifs for same_change in rounds), strict=True)
    ]
    what_ifs.sort(key=lambda what_if: -what_if.seconds)
    document: Figures = {
        "record": name,
        "events": rounds[0].events,
        "command_s": spread(command.wall_s for command in commands),
        "command_cpu_s": spread(command.cpu_s for command in commands),
        "study_s": spread(study.account_s + study.graphs_s + study.causes_s for study in rounds),
        "account_s": spread(study.account_s for study in rounds),
        "graphs_s": spread(study.graphs_s for study in rounds),
        "causes_s": spread(study.causes_s for study in rounds),
        "what_ifs": [what_if_to_json(what_if) for what_if in what_ifs],
    }
    if loader_what_ifs:
        document["with_a_loader"] = [what_if_to_json(what_if) for what_if in loader_what_ifs]
    return document


def measure_records(folders: dict[str, Path], rounds: int) -> list[Figures]:
    """Study all records in turn, so many rounds."""
    commands: dict[str, list[watch.CommandRun]] = {name: [] for name in folders}
    studies: dict[str, list[TimedStudy]] = {name: [] for name in folders}
    for number in range(rounds):
        for name, folder in folders.items():
            command = [GAPLESS, "open", str(folder), "--no-cache"]
            commands[name].append(watch.run(command))
            studies[name].append(study_run(folder))
            dearest = max((what_if.seconds for what_if in studies[name][-1].what_ifs), default=0.0)
            print(
                number,
                name,
                f"{commands[name][-1].wall_s:.2f} s, {dearest:.3f} s a what-if at most",
            )
    long_prices, loader_prices = studies[LONG][-1].prices, studies[LOADER][-1].prices
    return [
        record_figures(
            name,
            commands[name],
            studies[name],
            play_with_loader(long_prices, loader_prices) if name == LONG else [],
        )
        for name in folders
    ]


def main() -> None:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    load_before = round(os.getloadavg()[0], 2)
    with tempfile.TemporaryDirectory(prefix="gapless-replaying-") as folder:
        folders = {
            name: unpack(RECORDS / name / "run.tar.zst", Path(folder) / name) for name in NAMES
        }
        rows = measure_records(folders, options.rounds)
    conditions = {
        "machine": machine(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "load_before": load_before,
        "load_after": round(os.getloadavg()[0], 2),
        "rounds": options.rounds,
    }
    print(write_result({**conditions, "records": rows}, options.out))


if __name__ == "__main__":
    main()
