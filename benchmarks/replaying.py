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
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks import watch
from benchmarks.machine import keep, machine
from gapless.model.account import Account
from gapless.model.change import Change, Feed, Hosted, Predicted
from gapless.model.finding import Rehearsal
from gapless.model.interval import Interval
from gapless.replay.predict import Extra, predict
from gapless.store.recordings import load
from gapless.store.unpack import unpack
from gapless.study import Options
from gapless.study.concluding import conclude
from gapless.study.playing import Loaders, Windows
from gapless.study.price import Prices
from gapless.study.recorded.making import accounted, prices
from gapless.study.replaying import Player

HERE = Path(__file__).parent
RESULT = HERE / "results" / "replaying.json"
RECORDS = HERE.parent / "tests" / "zoo" / "records"
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
class Played:
    """A what-if: what was changed, how long it took, and what of that on a processor."""

    changes: str
    seconds: float
    cpu: float


@dataclass(frozen=True)
class Timed:
    """Plays what another plays, and keeps how long that took."""

    player: Player
    found: list[Played] = field(default_factory=list[Played])

    @property
    def rehearsal(self) -> Rehearsal | None:
        """Give how well the unchanged windows are played."""
        return self.player.rehearsal

    def play(self, changes: Sequence[Change]) -> Predicted:
        """Predict what changes together give, and keep how long that took."""
        begun, ran = time.perf_counter(), time.process_time()
        predicted = self.player.play(changes)
        took = time.perf_counter() - begun, time.process_time() - ran
        kinds = " + ".join(type(one).__name__ for one in changes)
        self.found.append(Played(kinds, *took))
        return predicted

    def account(self, changes: Sequence[Change]) -> Account | None:
        """Give the account of a window with changes made, and keep how long that took."""
        begun, ran = time.perf_counter(), time.process_time()
        account = self.player.account(changes)
        took = time.perf_counter() - begun, time.process_time() - ran
        kinds = " + ".join(type(one).__name__ for one in changes)
        self.found.append(Played(f"{kinds}, its account", *took))
        return account


@dataclass(frozen=True)
class Studied:
    """One study: events of its windows, its parts in seconds, what was played, and with what."""

    events: int
    account_s: float
    graphs_s: float
    causes_s: float
    played: list[Played]
    prices: Prices


def studied(folder: Path) -> Studied:
    """Study a run past every cache."""
    begun = time.perf_counter()
    made = accounted(load(folder), Options(cache=False), lambda _: None)
    accounted_at = time.perf_counter()
    priced = prices(made, cached=False)
    ready = time.perf_counter()
    timed = Timed(priced.player)
    study = conclude(replace(priced, player=timed))
    return Studied(
        study.health.events,
        accounted_at - begun,
        ready - accounted_at,
        time.perf_counter() - ready,
        timed.found,
        priced,
    )


def fed(long: Prices, other: Prices) -> list[Played]:
    """Play a long window with another run's loader: as it is, then with changes beside."""
    (windows, loaders) = (_windows(long.player), other.player)
    if windows is None or not isinstance(loaders, Loaders) or not loaders.inputs:
        return []
    inputs = loaders.inputs[0]
    extra = Extra(loaders={inputs.loader.id: inputs})
    deeper = Feed(inputs.loader.id, prefetch_factor=8)
    more = Feed(inputs.loader.id, num_workers=8)
    less = Hosted(("idle.host.",), Interval(0.4, 0.5, 0.6))
    found: list[Played] = []
    for changes in ((deeper,), (more,), (less, more)):
        begun, ran = time.perf_counter(), time.process_time()
        predict(windows.scenes, changes, extra)
        took = time.perf_counter() - begun, time.process_time() - ran
        kinds = " + ".join(type(one).__name__ for one in changes)
        found.append(Played(f"{kinds}, in one replay", *took))
    return found


def _windows(player: Player) -> Windows | None:
    found = player.windows if isinstance(player, Loaders) else player
    return found if isinstance(found, Windows) else None


def spread(values: Iterable[float]) -> dict[str, float]:
    """Give median and extremes, in seconds."""
    every = sorted(values)
    named = {"median": statistics.median(every), "min": every[0], "max": every[-1]}
    return {name: round(value, 3) for name, value in named.items()}


def figures(one: Played) -> Figures:
    """Give a what-if as JSON."""
    return {"changes": one.changes, "s": round(one.seconds, 3), "cpu_s": round(one.cpu, 3)}


def told(name: str, whole: list[watch.Run], rounds: list[Studied], more: list[Played]) -> Figures:
    """Give the figures of a record; of each what-if its median of the rounds, the dearest first."""
    each = [
        Played(
            one[0].changes,
            statistics.median(two.seconds for two in one),
            statistics.median(two.cpu for two in one),
        )
        for one in zip(*(one.played for one in rounds), strict=True)
    ]
    each.sort(key=lambda one: -one.seconds)
    found: Figures = {
        "record": name,
        "events": rounds[0].events,
        "command_s": spread(one.wall_s for one in whole),
        "command_cpu_s": spread(one.cpu_s for one in whole),
        "study_s": spread(one.account_s + one.graphs_s + one.causes_s for one in rounds),
        "account_s": spread(one.account_s for one in rounds),
        "graphs_s": spread(one.graphs_s for one in rounds),
        "causes_s": spread(one.causes_s for one in rounds),
        "what_ifs": [figures(one) for one in each],
    }
    if more:
        found["with_a_loader"] = [figures(one) for one in more]
    return found


def measured(folders: dict[str, Path], rounds: int) -> list[Figures]:
    """Study all records in turn, so many rounds."""
    whole: dict[str, list[watch.Run]] = {name: [] for name in folders}
    inside: dict[str, list[Studied]] = {name: [] for name in folders}
    for number in range(rounds):
        for name, folder in folders.items():
            command = [GAPLESS, "open", str(folder), "--no-cache"]
            whole[name].append(watch.run(command))
            inside[name].append(studied(folder))
            dearest = max((one.seconds for one in inside[name][-1].played), default=0.0)
            print(
                number, name, f"{whole[name][-1].wall_s:.2f} s, {dearest:.3f} s a what-if at most"
            )
    long, other = inside[LONG][-1].prices, inside[LOADER][-1].prices
    return [
        told(name, whole[name], inside[name], fed(long, other) if name == LONG else [])
        for name in folders
    ]


def main() -> None:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    load_before = round(os.getloadavg()[0], 2)
    with tempfile.TemporaryDirectory(prefix="gapless-replaying-") as place:
        folders = {
            name: unpack(RECORDS / name / "run.tar.zst", Path(place) / name) for name in NAMES
        }
        found = measured(folders, options.rounds)
    about = {
        "machine": machine(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "load_before": load_before,
        "load_after": round(os.getloadavg()[0], 2),
        "rounds": options.rounds,
    }
    print(keep({**about, "records": found}, options.out))


if __name__ == "__main__":
    main()
