"""Work cases off in lanes: plant, measure the truth, record; each kept in a file of its own."""

import difflib
import itertools
import json
import os
import queue
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.planted import truth
from benchmarks.planted.asking import record
from benchmarks.planted.cases import Case, Kind
from benchmarks.planted.mutations.catalogue import MUTATIONS
from benchmarks.planted.mutations.plant import Site, plant
from benchmarks.planted.recorder import recorder
from benchmarks.planted.running import Lane, Live, RunError, can_pin, prepare, run_arm
from benchmarks.planted.scripts import FetchError, Script, missing_modules, scripts
from benchmarks.planted.source import parse

_STARTING_S: Final = 60.0  # that a script may take beside its counted steps
_AROUND_S: Final = 30.0  # to start and pack a recording
# To start both sides once, and to wait for the GPU, which other lanes have meanwhile.
_BEGINNING_S: Final = {"cpu": 15.0, "cuda": 30.0}
_MIN_TRUTH_S: Final = 20.0  # of a truth: a case whose turn comes late has no less
_UNTIMED: Final = ("control", "decoy")  # sound as they are written
_SLOW_FACTOR: Final = 3  # times the limit of a truth, where steps are slow


@dataclass(frozen=True)
class PlantOptions:
    """What is asked for: where sources lie, where results go, and how long things may take."""

    sources: Path | None
    out: Path
    seconds: float = 3.0  # of counted steps, to see whether a script runs
    limit_s: float = 60.0  # of the truth of a case
    gpu_limit_s: float = 60.0  # the same on a GPU, which lanes have by turns
    check_s: float = 15.0  # of a recording
    gpu_check_s: float = 28.0  # the same on a GPU, where starting takes longer
    pairs: int = 40  # of turns, at most
    starts: int = 2  # of both sides in a truth
    gpu_starts: int = 2  # the same on a GPU, where two starts differ less
    half_width: float = float("inf")  # of a gain: no more pairs and starts are measured then
    trial_s: float = 80.0  # of each proof, beside starting
    remedies: Path | None = None  # by hand, of causes that no edit is for: see proving.py
    end: float = float("inf")  # of time.monotonic(), by which cases are done
    redo: frozenset[str] = frozenset()  # failed, undecided: what is done anew; wide: goes on
    occasions: int = 1  # of a truth: kept ones of fewer go on

    def may_begin(self, kind: Kind, device: str) -> bool:
        """Return whether a case can be done in time, with its truth: at the end only sound ones."""
        truth_s = 0.0
        if kind not in _UNTIMED:
            truth_s = self._limit_s(device) + self._starts_on(device) * _BEGINNING_S[device]
        return time.monotonic() + truth_s + self.check_s_on(device) + _AROUND_S <= self.end

    def limits(self, device: str) -> truth.Limits:
        """Return the limits of a truth that begins now."""
        until = self.end - self.check_s_on(device) - _AROUND_S
        limit_s = self._limit_s(device)
        starts = self._starts_on(device)
        remaining_s = until - time.monotonic() - starts * _BEGINNING_S[device]
        remaining_s = max(_MIN_TRUTH_S, remaining_s)
        return truth.Limits(
            self.pairs,
            min(limit_s, remaining_s),
            min(_SLOW_FACTOR * limit_s, remaining_s),
            starts,
            until,
            self.half_width,
        )

    def check_s_on(self, device: str) -> float:
        """Return how long a recording takes on a device, in seconds."""
        return self.gpu_check_s if device == "cuda" else self.check_s

    def _limit_s(self, device: str) -> float:
        return self.gpu_limit_s if device == "cuda" else self.limit_s

    def _starts_on(self, device: str) -> int:
        return self.gpu_starts if device == "cuda" else self.starts


@dataclass(frozen=True)
class Planting:
    """What was planted in a file of a case, and which of its lines may be named."""

    mutation: str
    file: str
    lines: tuple[int, ...]
    around: tuple[int, ...]


def smoke_script(script: Script, lane: Lane, options: PlantOptions) -> dict[str, Any]:
    """Run a script as it is for some seconds: its step time, or why it does not run."""
    lacking_modules = missing_modules(script)
    if lacking_modules:
        return {"failed": f"needs {', '.join(lacking_modules)}"}
    try:
        root = lane.folder / "healthy" / script.name
        prepare(script, root, options.sources)
        if lane.device == "cuda":  # the GPU is held while steps are counted, not to start
            live = Live(script, root, lane, f"smoke-{script.name}")
            arm = truth.measure_step(live, lane.exclusive, options.seconds)
        else:
            arm = run_arm(script, root, lane, options.seconds, options.seconds * 3 + _STARTING_S)
    except (RunError, FetchError, OSError) as error:
        return {"failed": str(error)[-900:]}
    return {"step_s": arm.step_s, "steps": arm.steps, "kind": arm.kind}


def plant_case(case: Case, root: Path, step_s: float) -> list[Planting]:
    """Plant the faults of a case in the files below a folder. Raises ``RunError`` if one cannot."""
    script = scripts()[case.script]
    plantings: list[Planting] = []
    for name in case.mutations:
        for file in script.planted_in:
            path = root / file
            before = path.read_text(encoding="utf-8")
            site = Site(parse(before), step_s, case.device, script.command(case.device))
            new = plant(MUTATIONS[name], site)
            if new is not None:
                path.write_text(new.edited.text, encoding="utf-8")
                plantings = [
                    _move_lines(planting, file, before, new.edited.text) for planting in plantings
                ]
                plantings.append(Planting(name, file, new.lines, new.around))
                break
        else:
            raise RunError(f"{name} does not apply to {case.script}")
    return plantings


def _move_lines(planting: Planting, file: str, before: str, after: str) -> Planting:
    """Return what was planted with its lines as a further change to its file has moved them."""
    if planting.file != file:
        return planting
    matcher = difflib.SequenceMatcher(a=before.splitlines(), b=after.splitlines(), autojunk=False)
    line_map = {
        block.a + offset + 1: block.b + offset + 1
        for block in matcher.get_matching_blocks()
        for offset in range(block.size)
    }
    lines = tuple(line_map.get(line, line) for line in planting.lines)
    return Planting(
        planting.mutation, file, lines, tuple(line_map.get(row, row) for row in planting.around)
    )


def work_case(case: Case, lane: Lane, options: PlantOptions, step_s: float) -> dict[str, Any]:
    """Do what is not done yet of a case, and keep it; give what is kept of it."""
    path = options.out / case.half / f"{case.name}.json"
    kept_record = _read_record(case, options)
    case_record = drop_outdated(kept_record, options)
    if "failed" in case_record or (case_record.get("recorded") and "truth" in case_record):
        return case_record
    # Amounts of what is planted go by the step: those of the truth hold for the recording, too.
    lane = lane.of_record(case_record)
    case_record |= {"step_s": case_record.get("step_s", step_s), "recorder": recorder(lane)}
    root = lane.folder / "planted" / case.name
    try:
        prepare(scripts()[case.script], root, options.sources)
        _work_steps(case, lane, options, (root, case_record))
    except (RunError, FetchError, OSError, SyntaxError) as error:
        if time.monotonic() > options.end - options.limit_s:
            return case_record  # perhaps for want of time: it is done when the run is resumed
        if "earlier" in case_record:
            return kept_record  # as wide as it was
        case_record["failed"] = f"{type(error).__name__}: {str(error)[-900:]}"
    finally:
        shutil.rmtree(root, ignore_errors=True)
    write_record(path, case_record)
    return case_record


def drop_outdated(case_record: dict[str, Any], options: PlantOptions) -> dict[str, Any]:
    """Return what is kept of a case without what is to be done anew.

    A truth of too few occasions, or, where wide ones go on, one wider than the half-width, is
    called earlier: what is measured next is added to it.
    """
    kept_truth, redo = case_record.get("truth"), options.redo
    if "failed" in case_record and "failed" not in redo:
        return case_record
    outdated_keys = {"failed", "recorded"} if "failed" in case_record else set[str]()
    remaining = {name: value for name, value in case_record.items() if name not in outdated_keys}
    if not kept_truth:
        return remaining
    is_wide = "wide" in redo and truth.half_width(kept_truth) > options.half_width
    without_truth = {name: value for name, value in remaining.items() if name != "truth"}
    if is_wide or truth.count_occasions(kept_truth) < options.occasions:
        return without_truth | {"earlier": kept_truth}
    is_undecided = kept_truth["verdict"] == "undecided" and not outdated_keys
    return without_truth if is_undecided and "undecided" in redo else remaining


def alternate(order: Sequence[Case], options: PlantOptions) -> list[Case]:
    """Return cases in an order in which those that go on and the others take turns."""
    going_on: list[Case] = []
    others: list[Case] = []
    for case in order:
        kept_record = _read_record(case, options)
        goes_on = "earlier" in drop_outdated(kept_record, options)
        (going_on if goes_on else others).append(case)
    turns = itertools.zip_longest(going_on, others)
    return [case for turn in turns for case in turn if case is not None]


def _read_record(case: Case, options: PlantOptions) -> dict[str, Any]:
    path = options.out / case.half / f"{case.name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def _work_steps(
    case: Case, lane: Lane, options: PlantOptions, root_and_record: tuple[Path, dict[str, Any]]
) -> None:
    root, case_record = root_and_record
    path = options.out / case.half / f"{case.name}.json"
    plantings = [asdict(planting) for planting in plant_case(case, root, case_record["step_s"])]
    case_record |= {"case": asdict(case) | {"kind": case.kind}, "planted": plantings}
    if "truth" not in case_record:
        measured = None if case.kind in _UNTIMED else _measure_case_truth(case, lane, options, root)
        earlier = case_record.pop("earlier", None)
        case_record["truth"] = measured and truth.joined(earlier, measured)
        write_record(path, case_record)
    if not case_record.get("recorded"):
        recording = path.parent / "recordings" / f"{case.name}.tar.zst"
        limits = options.check_s_on(lane.device), options.end
        case_record["recording"] = record(scripts()[case.script], root, lane, recording, limits)
        case_record["recorded"] = True


def _measure_case_truth(case: Case, lane: Lane, options: PlantOptions, root: Path) -> truth.Truth:
    script = scripts()[case.script]
    healthy = lane.folder / "healthy" / case.script
    prepare(script, healthy, options.sources)
    return measure_side_by_side(script, (healthy, root), lane, options.limits(lane.device))


def compare_with_itself(script: Script, lane: Lane, options: PlantOptions) -> truth.Truth:
    """Measure a script against itself, laid out twice. Raises ``RunError``, ``FetchError``."""
    roots = (lane.folder / "same-a" / script.name, lane.folder / "same-b" / script.name)
    for root in roots:
        prepare(script, root, options.sources)
    return measure_side_by_side(script, roots, lane, options.limits(lane.device))


def measure_side_by_side(
    script: Script, roots: tuple[Path, Path], lane: Lane, limits: truth.Limits
) -> truth.Truth:
    """Measure a script in one folder beside that in another one. Raises ``RunError``."""

    def start(root: Path, name: str) -> Callable[[], Live]:
        return lambda: Live(script, root, lane, f"{name}-{root.name}")

    healthy, planted_root = roots
    return truth.measure_truth(
        start(healthy, "a"), start(planted_root, "b"), (lane.device, lane.exclusive), limits
    )


def write_record(path: Path, case_record: Mapping[str, Any]) -> None:
    """Keep what is known of a case, whole or as it was before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".part")
    partial.write_text(json.dumps(case_record, indent=1) + "\n", encoding="utf-8")
    partial.replace(path)


def run_in_lanes(
    lanes: Sequence[Lane], tasks: Sequence[tuple[str, Callable[[Lane], str]]], end: float
) -> None:
    """Do tasks (device and act), each in the next free lane of its device, until ``end``.

    What works for a lane here, beside its trainings, stays off the processors of other lanes.
    """
    queues: dict[str, queue.SimpleQueue[Callable[[Lane], str]]] = {}
    for device, act in tasks:
        queues.setdefault(device, queue.SimpleQueue()).put(act)

    def keep_on(lane: Lane) -> None:
        settle(driver_processors(lane, lanes))
        lane_queue = queues.get(lane.device)
        while lane_queue is not None and time.monotonic() < end:
            try:
                act = lane_queue.get_nowait()
            except queue.Empty:
                return
            outcome = act(lane)
            if outcome:
                print(f"{lane.device} {lane.number}: {outcome}", flush=True)

    threads = [threading.Thread(target=keep_on, args=(lane,)) for lane in lanes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def driver_processors(lane: Lane, lanes: Sequence[Lane]) -> set[int]:
    """Return the processors for what is done for a lane here: those of no lane, else its own.

    A lane without processors of its own, or one whose trainings cannot be bound to them, has none.
    """
    if not lane.cores or not can_pin():
        return set()
    return os.sched_getaffinity(0) - {core for row in lanes for core in row.cores} or set(
        lane.cores
    )


def settle(processors: set[int]) -> None:
    """Let this thread, and those that it starts, work on some processors only; none: on any."""
    if processors:
        os.sched_setaffinity(0, processors)
